//! podFailurePolicy, and whose pods are whose.

use k8s_openapi::api::core::v1::PodCondition;

use crate::world::{World, uid};

const FAIL_ON_3: &str = r#"{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}"#;

fn policy(rules: &str) -> String {
    format!(r#"{{"backoffLimit": 2, "parallelism": 2, "completions": 2, "podFailurePolicy": {{"rules": [{rules}]}}}}"#)
}

#[test]
fn j93_j95_fail_job_ends_the_job_with_the_pods_own_story() {
    let mut world = World::new();
    let job = world.create_job(&policy(FAIL_ON_3));
    let pods = world.active();
    for pod in &pods {
        world.start(pod);
    }
    world.end(&pods[0], 3);
    world.settle();
    assert_eq!(world.conditions(&job), ["FailureTarget=True PodFailurePolicy"]);
    world.end_terminating(143);
    assert_eq!(world.conditions(&job).last().unwrap(), "Failed=True PodFailurePolicy");
    let name = pods[0].metadata.name.as_deref().unwrap();
    let message = format!("Container main for pod n/{name} failed with exit code 3 matching FailJob rule at index 0");
    for condition in world.status(&job).conditions.unwrap() {
        assert_eq!(condition.message.as_deref(), Some(message.as_str()));
    }
    assert_eq!(world.status(&job).failed, Some(2));
    assert_eq!(world.events().last().unwrap(), &format!("Warning PodFailurePolicy {message}"));
}

#[test]
fn j93_ignored_failures_are_not_counted_but_replaced_after_the_wait() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}}"#,
    );
    for wait in [10, 20, 40] {
        world.end_all(42);
        assert_eq!(world.status(&job).failed, None);
        assert!(world.pods().iter().all(|pod| pod.metadata.finalizers.is_none()));
        world.advance(wait - 1);
        assert!(world.active().is_empty(), "J-87: ignored failures delay");
        world.advance(1);
        assert_eq!(world.active().len(), 1);
    }
    world.end_all(0);
    assert_eq!(world.conditions(&job).last().unwrap(), "Complete=True CompletionsReached");
}

#[test]
fn j94_rules_match_in_order_by_container_code_and_condition() {
    let not_in = r#"{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}}"#;
    let named = r#"{"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [3]}}"#;
    let count = r#"{"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}}"#;
    let strange = r#"{"action": "Teleport", "onExitCodes": {"operator": "In", "values": [3]}}"#;
    for (rules, code, fails) in [
        (not_in.to_owned(), 3, true),
        (not_in.to_owned(), 2, false),
        (named.to_owned(), 3, false),
        (format!("{count},{FAIL_ON_3}"), 3, false),
        (format!("{strange},{FAIL_ON_3}"), 3, true),
        (FAIL_ON_3.to_owned(), 4, false),
    ] {
        let mut world = World::new();
        let job = world.create_job(&policy(&rules));
        let pod = world.active()[0].clone();
        world.start(&pod);
        world.end(&pod, code);
        world.settle();
        assert_eq!(!world.conditions(&job).is_empty(), fails, "{rules} with {code}");
    }
}

#[test]
fn j96_a_disrupted_pod_is_ignored_once_it_has_failed() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}"#,
    );
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.store.change_pod(uid(&pod), |pod| {
        let conditions = pod.status.as_mut().unwrap().conditions.get_or_insert_default();
        conditions.push(PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some("EvictionByEvictionAPI".into()),
            ..Default::default()
        });
    });
    world.store.delete(uid(&pod), controllers::Propagation::Background, None, world.now);
    world.settle();
    // A failure policy implies that a pod is replaced only when it has failed (J-99).
    assert_eq!(world.status(&job).terminating, Some(1));
    world.end_terminating(143);
    assert!(world.pods().is_empty());
    assert_eq!(world.status(&job).failed, None);
    world.advance(10);
    world.end_all(0);
    assert_eq!(world.conditions(&job).last().unwrap(), "Complete=True CompletionsReached");
}

#[test]
fn j95_a_condition_tells_its_type() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}]}}"#,
    );
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.store.change_pod(uid(&pod), |pod| {
        pod.status.as_mut().unwrap().conditions =
            Some(vec![PodCondition { type_: "ConfigIssue".into(), status: "True".into(), ..Default::default() }]);
    });
    world.settle();
    assert_eq!(world.conditions(&job), [""; 0], "only failed pods are judged");
    world.end(&pod, 1);
    world.settle();
    let name = pod.metadata.name.as_deref().unwrap();
    assert_eq!(
        world.status(&job).conditions.unwrap()[0].message.clone().unwrap(),
        format!("Pod n/{name} has condition ConfigIssue matching FailJob rule at index 0")
    );
}

#[test]
fn j75_a_recorded_success_is_never_turned_into_failure() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0, "activeDeadlineSeconds": 100,
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}"#,
    );
    let pods = world.active();
    for pod in &pods {
        world.start(pod);
    }
    world.end(&pods[0], 0);
    world.settle();
    assert_eq!(world.conditions(&job), ["SuccessCriteriaMet=True SuccessPolicy"]);
    world.advance(1000);
    world.end_terminating(1);
    assert_eq!(world.conditions(&job).last().unwrap(), "Complete=True SuccessPolicy");
    assert_eq!(world.status(&job).failed, None);
}

#[test]
fn j70_an_orphan_that_matches_is_adopted_and_one_that_no_longer_matches_is_let_go() {
    let mut world = World::new();
    let job = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.store.change_pod(uid(&pod), |pod| pod.metadata.owner_references = None);
    world.settle();
    let adopted = world.pods()[0].clone();
    assert_eq!(adopted.metadata.owner_references.as_ref().unwrap()[0].uid, job);
    assert_eq!(adopted.metadata.finalizers.as_ref().unwrap(), &["batch.kubernetes.io/job-tracking"]);
    world.store.change_pod(uid(&pod), |pod| pod.metadata.labels = None);
    world.settle();
    let released = world.pods()[0].clone();
    assert_eq!((released.metadata.owner_references, released.metadata.finalizers), (None, None));
    assert_eq!(world.pods().len(), 2, "another pod takes its place");
}

#[test]
fn j125_pods_are_matched_by_the_owners_uid() {
    let mut world = World::new();
    let old = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.store.remove(&old);
    let new = world.create_job("{}");
    world.settle();
    assert_eq!(world.status(&new).active, Some(1));
    assert_eq!(world.pods().len(), 2);
    assert_eq!(world.pods()[0].metadata.finalizers, None);
}

#[test]
fn j126_a_pod_of_another_kind_keeps_the_finalizer() {
    let mut world = World::new();
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "n", "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]},
        "spec": {"containers": []},
    }))
    .unwrap();
    world.store.create(pod.into(), world.now).unwrap();
    world.settle();
    assert!(world.pods()[0].metadata.finalizers.is_some());
}

#[test]
fn j123_an_orphan_of_no_job_loses_the_finalizer() {
    let mut world = World::new();
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "n", "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {"containers": []},
    }))
    .unwrap();
    world.store.create(pod.into(), world.now).unwrap();
    world.settle();
    assert!(world.pods()[0].metadata.finalizers.is_none());
}

#[test]
fn j17_a_manual_selector_is_used_as_it_is() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"manualSelector": true, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}}"#,
    );
    world.end_all(0);
    assert_eq!(world.conditions(&job).last().unwrap(), "Complete=True CompletionsReached");
}

#[test]
fn j108_a_finished_job_is_never_changed_again() {
    let mut world = World::new();
    let job = world.create_job("{}");
    world.end_all(0);
    let version = world.job(&job).metadata.resource_version;
    let pod = world.pods()[0].clone();
    world.store.remove(uid(&pod));
    world.restart();
    world.advance(10_000);
    assert_eq!(world.job(&job).metadata.resource_version, version);
}

#[test]
fn j76_only_so_many_pods_are_noted_at_once() {
    let mut config = controllers::Config::only(&[controllers::ControllerName::Job]);
    assert_eq!(config.job.pods_per_step, 500);
    config.job.pods_per_step = 2;
    let mut world = World::with(config);
    let job = world.create_job(r#"{"parallelism": 5, "completions": 5}"#);
    for pod in world.active() {
        world.start(&pod);
        world.end(&pod, 0);
    }
    world.settle();
    assert_eq!(world.status(&job).succeeded, Some(5));
    let noted = world.store.job_history.iter().filter_map(|job| job.status.clone()?.uncounted_terminated_pods);
    let most = noted.map(|one| one.succeeded.map_or(0, |uids| uids.len())).max();
    assert_eq!(most, Some(2));
}

#[test]
fn j114_more_successes_than_asked_for_are_told() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 4}"#);
    // The user can't lower completions; a write to the store that the server let through can.
    let pods = world.active();
    for pod in &pods {
        world.start(pod);
        world.end(pod, 0);
    }
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().completions = Some(1));
    world.settle();
    let told = world.events();
    assert_eq!(
        told[told.len() - 2..],
        [
            "Warning TooManySucceededPods Too many succeeded pods running after completion count reached",
            "Normal Completed Job completed"
        ]
    );
}

#[test]
fn j118_the_policy_can_name_an_init_container_or_a_sidecar() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"containerName": "init", "operator": "In", "values": [7]}}]}}"#,
    );
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.end(&pod, 1);
    world.store.change_pod(uid(&pod), |pod| {
        let status = pod.status.as_mut().unwrap();
        let mut init = status.container_statuses.as_ref().unwrap()[0].clone();
        init.name = "init".into();
        init.state.as_mut().unwrap().terminated.as_mut().unwrap().exit_code = 7;
        status.init_container_statuses = Some(vec![init]);
    });
    world.settle();
    assert_eq!(world.conditions(&job)[0], "FailureTarget=True PodFailurePolicy");
}

/// A server that stores something else than was asked for must not be asked without end.
#[test]
fn a_write_that_changes_nothing_is_tried_again_only_after_a_wait() {
    let mut world = World::new();
    world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    while let Some(told) = world.store.told.pop_front() {
        world.tell(told);
    }
    let mut tries = 0;
    for _ in 0..100 {
        while let Some(write) = world.controllers.poll_write() {
            tries += 1;
            let stored = world.store.objects[&write.action.target().unwrap().uid].clone();
            world.answer(&write, controllers::Outcome::Stored(stored));
        }
        world.now = world.now.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        world.controllers.handle_timeout(world.now);
    }
    assert_eq!(tries, 7, "after 0, 1, 3, 7, 15, 31 and 63 seconds");
}
