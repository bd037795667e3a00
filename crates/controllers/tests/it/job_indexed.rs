//! Indexed Jobs: indexes, limits for each index, success policy.

use k8s_openapi::api::core::v1::Pod;

use crate::world::{World, annotation, index, uid};

const COMPLETE: [&str; 2] = ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"];

/// Runs every active pod to its end; the code is chosen by index.
fn run(world: &mut World, exit_code: impl Fn(u32) -> i32) {
    for pod in world.active() {
        world.start(&pod);
        let code = exit_code(index(&pod));
        world.end(&pod, code);
    }
    world.settle();
}

fn indexes(pods: &[Pod]) -> Vec<u32> {
    pods.iter().map(index).collect()
}

#[test]
fn j63_pods_carry_their_index_as_label_annotation_hostname_and_environment() {
    let mut world = World::new();
    world.create_job(
        r#"{"completionMode": "Indexed", "completions": 3, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "hostname": "mine",
                "initContainers": [{"name": "init"}],
                "containers": [{"name": "main"}, {"name": "own", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]}}}"#,
    );
    let pods = world.active();
    assert_eq!(indexes(&pods), [0, 1]);
    let pod = &pods[1];
    let key = "batch.kubernetes.io/job-completion-index";
    assert_eq!(annotation(pod, key).as_deref(), Some("1"));
    assert_eq!(pod.metadata.labels.as_ref().unwrap()[key], "1");
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("j-1-"));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("j-1"));
    let env = serde_json::json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {
        "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]);
    let env_of = |container: &k8s_openapi::api::core::v1::Container| serde_json::to_value(&container.env).unwrap();
    assert_eq!(env_of(&spec.init_containers.as_ref().unwrap()[0]), env);
    assert_eq!(env_of(&spec.containers[0]), env);
    assert_eq!(env_of(&spec.containers[1]), serde_json::json!([{"name": "JOB_COMPLETION_INDEX", "value": "x"}]));
    assert_eq!(annotation(pod, "batch.kubernetes.io/job-index-failure-count"), None);
}

#[test]
fn j69_j77_the_lowest_free_index_is_taken_and_successes_are_kept_as_indexes() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completionMode": "Indexed", "completions": 4, "parallelism": 2}"#);
    let pods = world.active();
    world.start(&pods[1]);
    world.end(&pods[1], 0);
    world.settle();
    assert_eq!(world.status(&job).completed_indexes.as_deref(), Some("1"));
    assert_eq!(world.status(&job).uncounted_terminated_pods, Some(Default::default()));
    assert_eq!(indexes(&world.active()), [0, 2]);
    run(&mut world, |_| 0);
    run(&mut world, |_| 0);
    let status = world.status(&job);
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded), (Some("0-3"), Some(4)));
    assert_eq!(world.conditions(&job), COMPLETE);
}

#[test]
fn j68_duplicates_and_indexes_beyond_the_completions_go_first() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completionMode": "Indexed", "completions": 3, "parallelism": 3}"#);
    let pods = world.active();
    for pod in &pods {
        world.start(pod);
    }
    // The pod of index 2 claims to be another index 1, and a bad index appears.
    for (pod, text) in [(&pods[2], "1"), (&pods[0], "7")] {
        world.store.change_pod(uid(pod), |pod| {
            let annotations = pod.metadata.annotations.as_mut().unwrap();
            annotations.insert("batch.kubernetes.io/job-completion-index".into(), text.into());
        });
    }
    world.settle();
    world.end_terminating(143);
    assert_eq!(world.status(&job).failed, None);
    let mut left = indexes(&world.active());
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2]);
}

#[test]
fn j18_an_indexed_job_grows_and_shrinks() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completionMode": "Indexed", "completions": 3, "parallelism": 3}"#);
    let scale = |world: &mut World, number: i32| {
        world.store.change_job(&job, |job| {
            let spec = job.spec.as_mut().unwrap();
            (spec.completions, spec.parallelism) = (Some(number), Some(number));
        });
        world.settle();
    };
    scale(&mut world, 5);
    assert_eq!(indexes(&world.active()), [0, 1, 2, 3, 4]);
    run(&mut world, |index| if index == 4 { 0 } else { 1 });
    assert_eq!(world.status(&job).completed_indexes.as_deref(), Some("4"));
    scale(&mut world, 2);
    assert_eq!(world.status(&job).completed_indexes, None);
    assert_eq!(world.status(&job).succeeded, None);
    world.advance(1000);
    run(&mut world, |_| 0);
    assert_eq!(world.conditions(&job), COMPLETE);
}

#[test]
fn j89_all_indexes_are_executed_and_those_that_fail_too_often_are_listed() {
    let mut world = World::new();
    let job = world
        .create_job(r#"{"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1}"#);
    assert_eq!(world.status(&job).failed_indexes.as_deref(), Some(""));
    run(&mut world, |index| i32::try_from(index % 2).unwrap());
    // J-88: the failed pods are kept, uncounted, until their replacements are there.
    assert_eq!(world.status(&job).failed, None);
    assert_eq!(world.status(&job).completed_indexes.as_deref(), Some("0,2"));
    world.advance(9);
    assert!(world.active().is_empty());
    world.advance(1);
    let pods = world.active();
    assert_eq!(indexes(&pods), [1, 3]);
    assert_eq!(world.status(&job).failed, Some(2));
    let key = "batch.kubernetes.io/job-index-failure-count";
    assert_eq!(annotation(&pods[0], key).as_deref(), Some("1"));
    run(&mut world, |_| 1);
    let status = world.status(&job);
    assert_eq!(status.failed_indexes.as_deref(), Some("1,3"));
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(4)));
    assert_eq!(world.conditions(&job), ["FailureTarget=True FailedIndexes", "Failed=True FailedIndexes"]);
    assert_eq!(world.events().last(), Some(&"Warning FailedIndexes Job has failed indexes"));
}

#[test]
fn j64_the_first_pod_of_an_index_counts_no_failures() {
    let mut world = World::new();
    world.create_job(r#"{"completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 3}"#);
    let mut counts = Vec::new();
    for _ in 0..3 {
        let pod = world.active()[0].clone();
        counts.push(annotation(&pod, "batch.kubernetes.io/job-index-failure-count").unwrap());
        run(&mut world, |_| 1);
        world.advance(600);
    }
    assert_eq!(counts, ["0", "1", "2"]);
}

#[test]
fn j90_each_index_waits_for_itself() {
    let mut world = World::new();
    world.create_job(r#"{"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 5}"#);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let failing = world.active().into_iter().find(|pod| index(pod) == 0).unwrap();
        world.start(&failing);
        world.end(&failing, 1);
        world.settle();
        assert_eq!(indexes(&world.active()), [1]);
        let since = world.now;
        while world.active().len() < 2 {
            world.advance(1);
        }
        waits.push(world.now.as_second() - since.as_second());
    }
    assert_eq!(waits, [10, 20, 40]);
}

#[test]
fn j91_too_many_failed_indexes_end_the_job_and_its_pods() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"completionMode": "Indexed", "completions": 10, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}"#,
    );
    for pod in world.active() {
        world.start(&pod);
    }
    let first = world.active()[0].clone();
    world.end(&first, 1);
    world.settle();
    assert_eq!(world.conditions(&job), ["FailureTarget=True MaxFailedIndexesExceeded"]);
    assert_eq!(world.status(&job).terminating, Some(2));
    world.end_terminating(143);
    let status = world.status(&job);
    assert_eq!((status.failed_indexes.as_deref(), status.failed), (Some("0"), Some(3)));
    assert_eq!(world.conditions(&job).last().unwrap(), "Failed=True MaxFailedIndexesExceeded");
    assert_eq!(world.store.created_pods.len(), 3);
}

#[test]
fn j48_j93_fail_index_ends_an_index_at_once() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]}}"#,
    );
    run(&mut world, |index| i32::try_from(index).unwrap());
    let status = world.status(&job);
    assert_eq!(status.failed_indexes.as_deref(), Some("1"));
    assert_eq!(status.completed_indexes.as_deref(), Some("0"));
    assert_eq!((status.failed, status.succeeded), (Some(1), Some(1)));
    assert_eq!(world.conditions(&job).last().unwrap(), "Failed=True FailedIndexes");
}

#[test]
fn j88_an_ignored_failure_is_counted_apart_for_its_index() {
    let mut world = World::new();
    world.create_job(
        r#"{"completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 0,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}}"#,
    );
    run(&mut world, |_| 42);
    world.advance(10);
    let pod = world.active()[0].clone();
    assert_eq!(annotation(&pod, "batch.kubernetes.io/job-index-failure-count").as_deref(), Some("0"));
    assert_eq!(annotation(&pod, "batch.kubernetes.io/job-index-ignored-failure-count").as_deref(), Some("1"));
    run(&mut world, |_| 42);
    world.advance(19);
    assert!(world.active().is_empty(), "J-90: ignored failures lengthen the wait");
    world.advance(1);
    assert_eq!(world.active().len(), 1);
}

#[test]
fn j98_the_success_policy_ends_the_job_and_its_pods_uncounted() {
    for (rule, first) in [
        (r#"{"succeededIndexes": "0"}"#, 0),
        (r#"{"succeededCount": 1}"#, 0),
        (r#"{"succeededIndexes": "0,2-4", "succeededCount": 1}"#, 2),
    ] {
        let mut world = World::new();
        let job = world.create_job(&format!(
            r#"{{"completionMode": "Indexed", "completions": 5, "parallelism": 5, "successPolicy": {{"rules": [{{"succeededIndexes": "4", "succeededCount": 1}}, {rule}]}}}}"#
        ));
        for pod in world.active() {
            world.start(&pod);
        }
        let pod = world.active().into_iter().find(|pod| index(pod) == first).unwrap();
        world.end(&pod, 0);
        world.settle();
        assert_eq!(world.conditions(&job), ["SuccessCriteriaMet=True SuccessPolicy"]);
        assert_eq!(world.status(&job).terminating, Some(4));
        world.end_terminating(143);
        let status = world.status(&job);
        assert_eq!(world.conditions(&job), ["SuccessCriteriaMet=True SuccessPolicy", "Complete=True SuccessPolicy"]);
        assert_eq!(status.completed_indexes, Some(first.to_string()));
        assert_eq!((status.succeeded, status.failed, status.terminating), (Some(1), None, Some(0)));
        let message = status.conditions.unwrap()[1].message.clone();
        assert_eq!(message.as_deref(), Some("Matched rules at index 1"));
        assert!(world.pods().iter().all(|pod| pod.metadata.finalizers.is_none()));
    }
}

#[test]
fn j98_without_a_met_rule_the_completions_still_count() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"completionMode": "Indexed", "completions": 2, "parallelism": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "7"}]}}"#,
    );
    run(&mut world, |_| 0);
    assert_eq!(world.conditions(&job), COMPLETE);
}

#[test]
fn j98_success_policy_waits_for_all_listed_indexes() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"completionMode": "Indexed", "completions": 4, "parallelism": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "0-2"}]}}"#,
    );
    run(&mut world, |_| 0);
    assert_eq!(world.conditions(&job), [""; 0]);
    run(&mut world, |_| 0);
    assert_eq!(world.conditions(&job).last().unwrap(), "Complete=True SuccessPolicy");
}

#[test]
fn j99_a_terminating_index_is_not_started_again_under_policy_failed() {
    let mut world = World::new();
    world.create_job(
        r#"{"completionMode": "Indexed", "completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"}"#,
    );
    for pod in world.active() {
        world.start(&pod);
    }
    let pod = world.active()[0].clone();
    world.store.delete(uid(&pod), controllers::Propagation::Background, None, world.now);
    world.advance(1000);
    assert_eq!(indexes(&world.active()), [1]);
    world.end_terminating(143);
    world.advance(10);
    assert_eq!(indexes(&world.active()), [1, 0]);
}
