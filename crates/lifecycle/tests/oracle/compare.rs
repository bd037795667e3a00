//! Compares as the recorder does, as far as the engine decides.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::run::Trace;

/// Events that hang on chance, or that others than the node tell.
const SKIPPED: [&str; 8] = [
    "Scheduled",
    "FailedScheduling",
    "FailedMount",
    "SandboxChanged",
    "NodeNotReady",
    "TaintManagerEviction",
    "BackOff",
    "Pulling",
];

/// Every difference between what was recorded and what came of the same case here.
pub(crate) fn compare(golden: &Value, mine: &Trace) -> Vec<String> {
    let mut found = Vec::new();
    let is_cut = golden["until"].as_str().unwrap_or_default().starts_with("seconds");
    for pod in pods(golden) {
        let snapshots: Vec<&Value> = snapshots(golden, &pod);
        let want = snapshots.last().unwrap();
        let got = mine.snapshots.last().unwrap();
        compare_pod(want, got, is_cut, &mut found);
        let mut names: Vec<&String> = want["containers"].as_object().unwrap().keys().collect();
        names.sort();
        for name in names {
            compare_container(want, got, name, is_cut, &mut found);
            let want = history(&snapshots, name);
            let got = history(&mine.snapshots.iter().collect::<Vec<_>>(), name);
            let length = if is_cut { want.len().min(got.len()) } else { want.len().max(got.len()) };
            let prefix = |list: &[Value]| list.iter().take(length).cloned().collect::<Vec<_>>();
            check(&format!("{name} history"), &prefix(&want), &prefix(&got), &mut found);
        }
        compare_order(want, got, &mut found);
        compare_table(golden, &pod, mine, &mut found);
    }
    compare_events(golden, mine, &mut found);
    found
}

fn check<T: PartialEq + std::fmt::Debug>(place: &str, want: &T, got: &T, found: &mut Vec<String>) {
    if want != got {
        found.push(format!("{place}: want {want:?}, got {got:?}"));
    }
}

fn pods(golden: &Value) -> BTreeSet<String> {
    let changes = golden["changes"].as_array().unwrap();
    changes
        .iter()
        .filter(|change| change["kind"] == "pod")
        .map(|change| change["name"].as_str().unwrap().to_owned())
        .collect()
}

fn snapshots<'a>(golden: &'a Value, pod: &str) -> Vec<&'a Value> {
    let changes = golden["changes"].as_array().unwrap();
    changes
        .iter()
        .filter(|change| change["kind"] == "pod" && change["name"] == pod && change["type"] != "DELETED")
        .map(|change| &change["object"])
        .collect()
}

fn compare_pod(want: &Value, got: &Value, is_cut: bool, found: &mut Vec<String>) {
    for key in ["phase", "reason", "qos"] {
        check(key, &want[key], &got[key], found);
    }
    // In a recording that was cut the moment of the cut is chance.
    let is_restarting = is_cut
        && want["containers"].as_object().unwrap().values().any(|container| container["restarts"].as_i64() > Some(0));
    let steady = |object: &Value| -> BTreeMap<String, (Value, Value)> {
        let conditions = object["conditions"].as_object().unwrap().iter();
        conditions
            .filter(|(type_, _)| !(is_restarting && (*type_ == "Ready" || *type_ == "ContainersReady")))
            .map(|(type_, claim)| (type_.clone(), (claim[0].clone(), claim[1].clone())))
            .collect()
    };
    check("conditions", &steady(want), &steady(got), found);
}

fn compare_container(want: &Value, got: &Value, name: &str, is_cut: bool, found: &mut Vec<String>) {
    let (want, got) = (&want["containers"][name], &got["containers"][name]);
    if is_cut {
        return check(&format!("{name} is there"), &want.is_null(), &got.is_null(), found);
    }
    for key in ["state", "ready", "started", "restarts", "message"] {
        check(&format!("{name} {key}"), &want[key], &got[key], found);
    }
}

/// The states that a container was seen in, without the passing ones and without repeats.
fn history(snapshots: &[&Value], name: &str) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    for snapshot in snapshots {
        let container = &snapshot["containers"][name];
        if container.is_null() {
            continue;
        }
        for state in [&container["last"], &container["state"]] {
            let is_passing = state[0] == "none"
                || state[0] == "running"
                || state[1] == "ContainerCreating"
                || state[1] == "PodInitializing";
            let recent = seen.iter().rev().take(3);
            let is_known =
                seen.last() == Some(state) || (state[0] == "terminated" && recent.into_iter().any(|it| it == state));
            if !is_passing && !is_known {
                seen.push(state.clone());
            }
        }
    }
    seen
}

/// What lay a second or more apart must not stand the other way round.
fn compare_order(want: &Value, got: &Value, found: &mut Vec<String>) {
    let (want, got) = (moments(want), moments(got));
    for (one, want_one) in &want {
        for (other, want_other) in &want {
            let (Some(got_one), Some(got_other)) = (got.get(one), got.get(other)) else { continue };
            if want_one < want_other && got_one > got_other {
                found.push(format!("{one} comes before {other}: got {got_one} s and {got_other} s"));
            }
        }
    }
}

fn moments(object: &Value) -> BTreeMap<String, i64> {
    let mut moments = BTreeMap::new();
    for (name, container) in object["containers"].as_object().unwrap() {
        for edge in ["startedAt", "finishedAt"] {
            if let Some(moment) = container[edge].as_i64() {
                moments.insert(format!("{name}.{edge}"), moment);
            }
        }
    }
    moments
}

/// Each row that was seen is seen here, in the same order; here may be more.
fn compare_table(golden: &Value, pod: &str, mine: &Trace, found: &mut Vec<String>) {
    let rows = golden["table"].as_array().unwrap().iter().filter(|row| row[0] == pod);
    let text = |row: &Value, index: usize| row[index].as_str().unwrap_or_default().to_owned();
    let mut wanted: Vec<[String; 3]> = rows.map(|row| [text(row, 1), text(row, 2), text(row, 3)]).collect();
    // Rows of several pods stand between each other in a recording, and with them repeats.
    wanted.dedup();
    let mut rest = mine.table.iter();
    for want in wanted {
        if !rest.any(|row| *row == want) {
            found.push(format!("row {want:?} is not shown, or not in its order: {:?}", mine.table));
            return;
        }
    }
}

fn compare_events(golden: &Value, mine: &Trace, found: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_told = |event: &[String; 4]| !SKIPPED.contains(&event[2].as_str());
    let want: BTreeSet<[String; 4]> = golden["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event[0] == "Pod")
        .map(|event| [text(&event[1]), text(&event[2]), text(&event[3]), text(&event[4])])
        .filter(is_told)
        .collect();
    let got: BTreeSet<[String; 4]> = mine.events.iter().filter(|event| is_told(event)).cloned().collect();
    found.extend(want.difference(&got).map(|event| format!("event missing: {}", event.join(" "))));
    found.extend(got.difference(&want).map(|event| format!("event not expected: {}", event.join(" "))));
}
