//! The core's dependency list holds no runtime, clock, socket or source of chance.
//!
//! What the standard library would offer is forbidden in `clippy.toml`.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "the test reads the workspace's own manifests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that do I/O, keep time, run tasks or draw lots; a trailing `*` stands for any ending.
const FORBIDDEN: [&str; 26] = [
    "tokio*",
    "mio",
    "async-*",
    "smol",
    "futures",
    "futures-*",
    "hyper*",
    "reqwest",
    "axum*",
    "rustls*",
    "socket2",
    "rustix",
    "nix",
    "libc",
    "rand",
    "rand_*",
    "getrandom",
    "fastrand",
    "chrono",
    "time",
    "tempfile",
    "notify",
    "crossbeam*",
    "rayon*",
    "parking_lot*",
    "tracing-subscriber",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names under `[dependencies]` of one of the workspace's crates.
fn direct_dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(workspace().join("crates").join(name).join("Cargo.toml")).unwrap();
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['=', '.']).next())
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty() && !word.starts_with('#'))
        .collect()
}

/// What each locked package depends on.
fn locked() -> BTreeMap<String, Vec<String>> {
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    lock.split("[[package]]")
        .filter_map(|block| {
            let name = block.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"').to_owned();
            let list = block.split_once("dependencies = [").and_then(|(_, rest)| rest.split_once(']'));
            let dependencies = list.map_or("", |(list, _)| list).lines().filter_map(|line| {
                let word = line.trim().trim_matches(['"', ',']);
                word.split(' ').next().filter(|word| !word.is_empty()).map(str::to_owned)
            });
            Some((name, dependencies.collect()))
        })
        .collect()
}

/// Everything that is built into the crate, its own tests apart.
fn closure(name: &str) -> BTreeSet<String> {
    let locked = locked();
    let mut found = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        let is_ours = workspace().join("crates").join(&name).is_dir();
        let dependencies =
            if is_ours { direct_dependencies(&name) } else { locked.get(&name).cloned().unwrap_or_default() };
        for dependency in dependencies {
            if found.insert(dependency.clone()) {
                open.push(dependency);
            }
        }
    }
    found
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    })
}

#[test]
fn the_core_depends_on_nothing_impure() {
    let closure = closure("lifecycle");
    assert!(closure.contains("k8s-openapi") && closure.contains("serde_json"), "the list is read: {closure:?}");
    let impure: Vec<&String> = closure.iter().filter(|name| is_forbidden(name)).collect();
    assert!(impure.is_empty(), "the core must not depend on {impure:?}");
}

#[test]
fn the_core_knows_no_other_crate_of_the_house_but_api() {
    let ours: Vec<String> = direct_dependencies("lifecycle")
        .into_iter()
        .filter(|name| workspace().join("crates").join(name).is_dir())
        .collect();
    assert_eq!(ours, ["api"]);
}

#[test]
fn what_is_forbidden_would_be_found() {
    assert!(is_forbidden("tokio") && is_forbidden("tokio-util") && is_forbidden("rand_core"));
    assert!(!is_forbidden("serde") && !is_forbidden("jiff"));
}

#[test]
fn no_source_file_names_what_is_forbidden() {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut read = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        read += 1;
        let text = fs::read_to_string(&path).unwrap();
        for word in [
            "std::fs",
            "std::net::Tcp",
            "std::net::Udp",
            "std::thread",
            "std::process",
            "::now()",
            "async fn",
            "unsafe",
        ] {
            assert!(!text.contains(word), "{} names `{word}`", path.display());
        }
    }
    assert!(read > 20, "the sources are read");
}
