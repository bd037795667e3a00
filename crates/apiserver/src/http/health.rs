//! `/healthz`, `/livez`, `/readyz`.

use axum::body::Body;
use http::{Response, StatusCode};

use super::front::Front;
use super::query::Query;
use super::respond;

/// The checks behind each of the three; `ready` only behind `/readyz`.
const CHECKS: [&str; 3] = ["ping", "etcd", "ready"];

/// Answers a health path; `None` for any other.
pub(super) fn answer(front: &Front, path: &str, query: &Query) -> Option<Response<Body>> {
    let (name, check) = match path.trim_start_matches('/').split_once('/') {
        Some((name, check)) => (name, Some(check)),
        None => (path.trim_start_matches('/'), None),
    };
    if !matches!(name, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks: Vec<&str> = CHECKS.into_iter().filter(|check| *check != "ready" || name == "readyz").collect();
    if let Some(check) = check {
        if !checks.contains(&check) {
            return Some(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
        }
        return Some(result(passes(front, check), "ok".to_owned()));
    }
    let good = checks.iter().all(|check| passes(front, check));
    if good && !query.flag("verbose") {
        return Some(result(true, "ok".to_owned()));
    }
    let lines = checks.iter().map(|check| {
        if passes(front, check) { format!("[+]{check} ok\n") } else { format!("[-]{check} failed: not yet\n") }
    });
    let end = if good { format!("{name} check passed\n") } else { format!("{name} check failed\n") };
    Some(result(good, lines.chain([end]).collect()))
}

/// The store answers from memory, so that a server that answers at all has it.
fn passes(front: &Front, check: &str) -> bool {
    check != "ready" || front.is_ready()
}

fn result(good: bool, text: String) -> Response<Body> {
    respond::text(if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text)
}
