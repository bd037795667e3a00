//! Recordings of a real Kubernetes 1.36.2 against the engine in virtual time.
//!
//! `oracle/cases` holds the manifests, `oracle/kubernetes-1.36` what a real cluster made of them, and `oracle/behaviors.json` what the shell commands of the cases do.
//! Compared are the last status, each container's history, the order of starts and stops, the events, and the rows that `kubectl get pods -w` shows: what was recorded must be among what is shown here, in its order.
//! Of a Job its pod is run; what makes and deletes the pod is told in the behaviors.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a recording that cannot be read fails its test"
)]

#[expect(dead_code, reason = "the rules' tests use the rest of the world")]
mod world;

#[path = "oracle/compare.rs"]
mod compare;
#[path = "oracle/run.rs"]
mod run;

use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle")
}

/// Every difference of one case.
fn differences(case: &str) -> Vec<String> {
    let golden = run::json(&data().join("kubernetes-1.36").join(format!("{case}.json")));
    let mine = run::run(&data(), case, &golden);
    compare::compare(&golden, &mine)
}

macro_rules! cases {
    ($($name:ident: $case:literal,)*) => {
        $(
            #[test]
            fn $name() {
                let differences = differences($case);
                assert!(differences.is_empty(), "{}:\n{}", $case, differences.join("\n"));
            }
        )*

        #[test]
        fn every_recording_has_its_test() {
            let mut named = vec![$($case.to_owned()),*];
            named.sort();
            let mut recorded: Vec<String> = std::fs::read_dir(data().join("kubernetes-1.36"))
                .unwrap()
                .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
                .collect();
            recorded.sort();
            assert_eq!(named, recorded);
        }
    };
}

cases! {
    init_crashloop_always: "init-crashloop-always",
    init_fails_never: "init-fails-never",
    init_order: "init-order",
    job_backoff_limit: "job-backoff-limit",
    job_deadline: "job-deadline",
    job_indexed_sidecar: "job-indexed-sidecar",
    job_legacy_stuck: "job-legacy-stuck",
    job_native_sidecar: "job-native-sidecar",
    job_ttl: "job-ttl",
    liveness_main: "liveness-main",
    main_fails_never_sidecar: "main-fails-never-sidecar",
    missing_configmap: "missing-configmap",
    missing_image_init: "missing-image-init",
    mixed_order: "mixed-order",
    onfailure_main_restarts: "onfailure-main-restarts",
    pod_deadline_sidecar: "pod-deadline-sidecar",
    qos_sidecar: "qos-sidecar",
    readiness_sidecar: "readiness-sidecar",
    reverse_order_on_delete: "reverse-order-on-delete",
    shared_pid: "shared-pid",
    sidecar_crash_never: "sidecar-crash-never",
    sidecar_nonzero_at_stop: "sidecar-nonzero-at-stop",
    sidecar_startup_first_fails: "sidecar-startup-first-fails",
    termination_message: "termination-message",
}

#[test]
fn a_difference_is_found() {
    let golden = run::json(&data().join("kubernetes-1.36/mixed-order.json"));
    let mut mine = run::run(&data(), "mixed-order", &golden);
    mine.events.pop();
    mine.table.reverse();
    mine.snapshots.last_mut().unwrap()["phase"] = serde_json::Value::from("Failed");
    let found = compare::compare(&golden, &mine);
    assert!(found.len() >= 3, "{found:?}");
}
