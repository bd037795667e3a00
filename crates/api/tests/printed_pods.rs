//! Pods of a real Kubernetes 1.36.2, as it stored them and as `kubectl get pods --watch` printed them.
//!
//! `printed-pods.json` has, for each pod, its containers, every status it went through, and the lines that were printed.

use std::error::Error;

use api::printers::pod_row;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Recorded {
    case: String,
    pod: String,
    spec: Value,
    states: Vec<State>,
    /// READY, STATUS, RESTARTS.
    lines: Vec<[String; 3]>,
}

#[derive(Deserialize)]
struct State {
    status: Value,
    #[serde(default)]
    deleting: bool,
}

/// The lines that a pod's states give, each new one once.
fn printed(recorded: &Recorded) -> Result<Vec<[String; 3]>, Box<dyn Error>> {
    let mut lines = Vec::new();
    for state in &recorded.states {
        let deleted = state.deleting.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"name": recorded.pod, "deletionTimestamp": deleted});
        let pod = json!({"metadata": metadata, "spec": recorded.spec, "status": state.status});
        let row = pod_row(&serde_json::from_value(pod)?, Timestamp::UNIX_EPOCH);
        let line = [row.ready, row.status, row.restarts];
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    Ok(lines)
}

#[test]
fn l_1101_to_1110_pods_are_printed_as_a_real_cluster_prints_them() -> Result<(), Box<dyn Error>> {
    let all: Vec<Recorded> = serde_json::from_str(include_str!("printed-pods.json"))?;
    assert!(all.len() > 20, "{}", all.len());
    for recorded in all {
        let mut printed = printed(&recorded)?;
        // Of some pods of Jobs the first line was printed before their name was known.
        if printed.len() > recorded.lines.len() && printed.first().is_some_and(|line| line[1] == "Pending") {
            printed.remove(0);
        }
        assert_eq!(printed, recorded.lines, "{} {}", recorded.case, recorded.pod);
    }
    Ok(())
}
