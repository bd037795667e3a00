//! Section 4: probes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Behavior, World};

fn probe(period: i64, failures: i64) -> Value {
    json!({"exec": {"command": ["x"]}, "periodSeconds": period, "failureThreshold": failures})
}

fn with_kind(field: &str, probe: &Value) -> Value {
    // Two probes of one container must differ to be told apart by the world.
    let mut probe = probe.clone();
    probe["exec"] = json!({"command": [field]});
    probe
}

#[test]
fn l401_liveness_is_probed_on_the_ticks_from_when_the_workers_were_made() {
    let mut world = World::with(json!({"containers": [{"name": "a", "livenessProbe": probe(5, 3)}]}));
    world.latency = Duration::from_millis(100);
    world.run_until(16.0);
    // Volumes stood at 0; sandbox, look-up, creation and start take 0.1 s each.
    assert_eq!(
        world.trace_of(&["start", "probe"]),
        [
            "0.4 start a",
            "5.1 probe liveness a-0 passes",
            "10.1 probe liveness a-0 passes",
            "15.1 probe liveness a-0 passes"
        ]
    );
}

#[test]
fn l401_an_agent_that_starts_anew_spreads_its_probes_over_the_first_period() {
    let mut world = World::with(json!({"containers": [{"name": "a", "livenessProbe": probe(10, 3)}]}));
    world.run_until(103.0);
    world.restart_agent();
    let before = world.trace.len();
    world.run_until(125.0);
    let times: Vec<f64> = world.trace[before..].iter().map(|(time, _)| time.as_secs_f64()).collect();
    assert!(times[0] > 103.0 && times[0] < 113.0, "{times:?}");
    assert_eq!((times[1] - times[0]).round(), 10.0);
}

#[test]
fn l402_l404_the_initial_delay_counts_from_the_start_of_the_container() {
    let mut liveness = probe(2, 3);
    liveness["initialDelaySeconds"] = json!(5);
    let mut world = World::with(json!({
        "containers": [{"name": "a", "livenessProbe": liveness, "startupProbe": with_kind("s", &probe(1, 60))}],
    }));
    world.behave("a", &[Behavior::runs().starts_up(Some(3.0))]);
    world.run_until(9.0);
    let liveness: Vec<String> =
        world.trace_of(&["probe"]).into_iter().filter(|line| line.contains("liveness")).collect();
    assert_eq!(liveness, ["6 probe liveness a-0 passes", "8 probe liveness a-0 passes"]);
}

#[test]
fn l402_only_the_startup_probe_runs_until_it_has_passed_and_never_after() {
    let mut world = World::with(json!({"containers": [{"name": "a",
        "startupProbe": with_kind("s", &probe(1, 60)),
        "readinessProbe": with_kind("r", &probe(2, 3)),
        "livenessProbe": with_kind("l", &probe(2, 3))}]}));
    world.behave("a", &[Behavior::runs().starts_up(Some(2.5))]);
    world.run_until(6.5);
    assert_eq!(
        world.trace_of(&["probe"]),
        [
            // At once, beyond the ticks; this failure says nothing.
            "0 probe startup a-0 fails",
            "0 probe startup a-0 fails",
            "1 probe startup a-0 fails",
            "2 probe startup a-0 fails",
            "3 probe startup a-0 passes",
            // L-407: readiness right away, and its ticks from there.
            "3 probe readiness a-0 passes",
            "4 probe liveness a-0 passes",
            "5 probe readiness a-0 passes",
            "6 probe liveness a-0 passes",
        ]
    );
}

#[test]
fn l403_initial_values_not_ready_alive_not_started() {
    let mut world = World::with(json!({"containers": [
        {"name": "a", "readinessProbe": probe(10, 3)},
        {"name": "b", "livenessProbe": probe(10, 3)},
        {"name": "c", "startupProbe": probe(10, 3)},
    ]}));
    world.latency = Duration::from_millis(10);
    world.behave("a", &[Behavior::runs().ready(Some(1.0))]);
    world.behave("c", &[Behavior::runs().starts_up(Some(1.0))]);
    world.run_until(1.0);
    assert_eq!(world.newest(), "Running a=running+started b=running+started+ready c=running");
}

#[test]
fn l405_thresholds_count_equal_outcomes_in_a_row() {
    let mut readiness = probe(1, 2);
    readiness["successThreshold"] = json!(3);
    let mut world = World::with(json!({"containers": [{"name": "a", "readinessProbe": readiness}]}));
    world.behave("a", &[Behavior::runs().ready(Some(1.5))]);
    world.run_until(9.0);
    let ready: Vec<String> = world.story().into_iter().filter(|line| line.ends_with("+ready")).collect();
    assert_eq!(ready, ["4 Running a=running+started+ready"]);
}

#[test]
fn l405_liveness_must_fail_as_often_in_a_row_as_it_says() {
    let mut world = World::with(json!({"containers": [{"name": "a", "livenessProbe": probe(2, 3)}]}));
    world.behave("a", &[Behavior::runs().dies(3.0)]);
    world.run_until(9.0);
    assert_eq!(world.trace_of(&["signal"]), ["8 signal a"]);
}

#[test]
fn l406_after_its_verdict_a_worker_waits_for_the_next_container() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 20,
        "containers": [{"name": "a", "livenessProbe": probe(1, 1)}],
    }));
    world.behave("a", &[Behavior::stubborn().dies(1.5), Behavior::runs()]);
    world.run_until(26.0);
    assert_eq!(
        world.trace_of(&["probe", "start"])[..4],
        ["0 start a", "0 probe liveness a-0 passes", "1 probe liveness a-0 passes", "2 probe liveness a-0 fails"]
    );
    assert_eq!(world.trace_of(&["probe", "start"])[4], "22 start a");
}

#[test]
fn l407_a_started_container_becomes_ready_without_waiting_a_period() {
    let mut world = World::with(json!({"containers": [{"name": "a",
        "startupProbe": with_kind("s", &probe(1, 60)), "readinessProbe": with_kind("r", &probe(30, 3))}]}));
    world.behave("a", &[Behavior::runs().starts_up(Some(2.5))]);
    world.run_until(9.0);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Running a=running",
            "3 Running a=running+started",
            "3 Running a=running+started+ready",
        ]
    );
}

#[test]
fn l407_that_a_container_has_started_is_told_before_it_is_ready() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "startupProbe": with_kind("s", &probe(1, 60))}],
        "containers": [{"name": "a"}]}));
    world.behave("s", &[Behavior::runs().starts_up(Some(2.5))]);
    world.run_until(9.0);
    let story = world.story();
    assert_eq!(
        story.get(2..),
        Some(
            &[
                "0 Pending s=running a=PodInitializing".to_owned(),
                "3 Pending s=running+started a=PodInitializing".to_owned(),
                "3 Pending s=running+started+ready a=PodInitializing".to_owned(),
                "3 Running s=running+started+ready a=running+started+ready".to_owned(),
            ][..]
        ),
        "{story:#?}"
    );
}

#[test]
fn l408_plain_init_containers_have_no_probes_and_every_worker_is_made() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i", "readinessProbe": probe(1, 1)}],
        "containers": [{"name": "a", "livenessProbe": probe(1, 1)}],
    }));
    world.behave("i", &[Behavior::exits(3.0, 0)]);
    world.run_until(4.5);
    assert_eq!(world.trace_of(&["probe"]), ["3 probe liveness a-0 passes", "4 probe liveness a-0 passes"]);
}

#[test]
fn l409_an_attempt_that_goes_wrong_is_made_three_times_and_says_nothing() {
    let mut world = World::with(json!({"containers": [{"name": "a", "livenessProbe": probe(2, 1)}]}));
    world.run_until(1.0);
    // The world answers a fault as `Failed`, which no attempt can mean but that it went wrong.
    world.faults.insert("probe".to_owned(), vec![(String::new(), "no exec".to_owned()); 3]);
    world.run_until(5.0);
    assert_eq!(world.effects_of(&["probe", "signal"]), ["0 probe", "2 probe", "2 probe", "2 probe", "4 probe"]);
    assert_eq!(
        world.told_of(&["Unhealthy"]),
        ["2 a Warning Unhealthy Liveness probe errored and resulted in unknown state: no exec"]
    );
}

#[test]
fn l415_started_follows_the_startup_probe_and_l416_ready_needs_started() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "startupProbe": probe(1, 60)}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[Behavior::runs().starts_up(Some(1.5))]);
    world.run_until(9.0);
    assert_eq!(
        world.story()[2..],
        [
            "0 Pending i=running+started s=PodInitializing a=PodInitializing",
            "1 Pending i=Completed/0+ready s=PodInitializing a=PodInitializing",
            "1 Pending i=Completed/0+ready s=running+started+ready a=PodInitializing",
            "1 Running i=Completed/0+ready s=running+started+ready a=running",
            "3 Running i=Completed/0+ready s=running+started+ready a=running+started",
            "3 Running i=Completed/0+ready s=running+started+ready a=running+started+ready",
        ]
    );
}

#[test]
fn l417_a_sidecars_readiness_counts_for_the_pod_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = World::with(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "s", "restartPolicy": "Always", "readinessProbe": probe(1, 1)}],
            "containers": [{"name": "a"}],
        }));
        world.behave("s", &[Behavior::runs().ready(Some(5.5))]);
        world.run_until(5.0);
        assert_eq!(world.condition("Ready"), "False ContainersNotReady containers with unready status: [s]");
        world.run_until(7.0);
        assert_eq!(world.condition("Ready"), "True");
    }
}

#[test]
fn l418_the_grace_of_a_kill_by_a_probe() {
    // Own grace of the probe, else the pod's; preStop runs within it.
    for (own, killed) in [(Some(4), 6.0), (None, 12.0)] {
        for field in ["livenessProbe", "startupProbe"] {
            let mut failing = probe(1, 2);
            if let Some(own) = own {
                failing["terminationGracePeriodSeconds"] = json!(own);
            }
            let mut container = json!({"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}});
            container[field] = failing;
            let mut world =
                World::with(json!({"terminationGracePeriodSeconds": 10, "containers": [container, {"name": "b"}]}));
            let stubborn = Behavior::stubborn().dies(0.5).starts_up(None).pre_stop(1.0, None);
            world.behave("a", &[stubborn, Behavior::runs()]);
            world.run_until(20.0);
            let trace = world.trace_of(&["preStop", "signal", "kill"]);
            let begins = if field == "livenessProbe" { 2.0 } else { 1.0 };
            let number = crate::world::look::number;
            assert_eq!(
                trace,
                [
                    format!("{} preStop a", number(begins)),
                    format!("{} signal a", number(begins + 1.0)),
                    format!("{} kill a", number(begins + killed - 2.0)),
                ],
                "{own:?} {field}"
            );
        }
    }
}

#[test]
fn l418_a_pod_that_is_being_deleted_lends_its_own_grace() {
    let mut failing = probe(1, 1);
    failing["terminationGracePeriodSeconds"] = json!(50);
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "a", "livenessProbe": failing}],
    }));
    world.behave("a", &[Behavior::stubborn().dies(1.5)]);
    world.at(5.0, |world| world.delete("p", Some(3)));
    world.run_until(20.0);
    assert_eq!(world.trace_of(&["signal", "kill"]), ["2 signal a", "8 kill a"]);
}

#[test]
fn l419_a_failed_readiness_kills_nothing() {
    let mut world = World::with(json!({"containers": [{"name": "a", "readinessProbe": probe(1, 1)}]}));
    world.behave("a", &[Behavior::runs().ready(None)]);
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["signal"]), Vec::<String>::new());
    assert_eq!(world.newest(), "Running a=running+started");
}

#[test]
fn l420_while_a_pod_ends_only_readiness_is_probed_sidecars_included() {
    let probes = json!({
        "livenessProbe": with_kind("l", &probe(1, 1)), "readinessProbe": with_kind("r", &probe(1, 1)),
    });
    let mut side = probes.clone();
    side["name"] = json!("s");
    side["restartPolicy"] = json!("Always");
    let mut app = probes;
    app["name"] = json!("a");
    let mut world = World::with(json!({"initContainers": [side], "containers": [app]}));
    world.behave("a", &[Behavior::runs().stops(5.0, 0).ready(Some(0.0)).dies(4.0)]);
    world.behave("s", &[Behavior::runs().dies(4.0)]);
    world.at(3.5, |world| world.delete("p", None));
    world.run_until(60.0);
    let after: Vec<&str> = world
        .trace
        .iter()
        .filter(|(time, line)| time.as_secs_f64() > 3.5 && line.starts_with("probe"))
        .map(|(_, line)| line.as_str())
        .collect();
    assert!(after.contains(&"probe readiness a-0 passes"), "{after:?}");
    assert!(after.contains(&"probe readiness s-0 passes"), "{after:?}");
    assert!(!after.iter().any(|line| line.contains("liveness")), "{after:?}");
}

#[test]
fn l421_better_a_pod_that_the_node_ends_is_not_ready_from_that_moment() {
    let mut world = World::with(json!({"activeDeadlineSeconds": 5, "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::runs().stops(10.0, 0)]);
    world.run_until(6.0);
    assert_eq!(world.newest(), "Running a=running+started+ready");
    assert_eq!(world.condition("Ready"), "False PodFailed");
}

#[test]
fn l422_better_a_long_kill_of_one_container_does_not_hold_up_the_others() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "a", "livenessProbe": probe(1, 1)}, {"name": "b"}],
    }));
    world.behave("a", &[Behavior::stubborn().dies(1.5)]);
    world.behave("b", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start a", "0 start b", "5 start b"]);
}

#[test]
fn l423_l425_probe_events() {
    use lifecycle::input::ProbeOutcome;
    let mut world = World::with(json!({"containers": [{"name": "a", "readinessProbe": probe(1, 3)}]}));
    world.outcomes.extend([
        ProbeOutcome::Failure("HTTP probe failed with statuscode: 500".to_owned()),
        ProbeOutcome::Warning("Probe terminated redirects, Response body: x".to_owned()),
    ]);
    world.run_until(1.5);
    assert_eq!(
        world.told_of(&["Unhealthy", "ProbeWarning"]),
        [
            "0 a Warning Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 500",
            "1 a Warning ProbeWarning Readiness probe warning: Probe terminated redirects, Response body: x",
        ]
    );
    assert_eq!(world.newest(), "Running a=running+started+ready");
}

#[test]
fn a_probe_worker_never_outlives_its_container() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [
        {"name": "a", "readinessProbe": probe(1, 3)}, {"name": "b"}]}));
    world.behave("a", &[Behavior::exits(2.5, 0)]);
    world.run_until(20.0);
    assert_eq!(world.trace_of(&["probe"]).len(), 3);
}
