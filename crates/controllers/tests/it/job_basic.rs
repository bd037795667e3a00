//! Plain Jobs: parallelism, completions, backoffLimit, deadline, suspension, the order of status writes.

use controllers::{Action, Outcome, RefusalCause};

use crate::store::refusal;
use crate::world::{World, condition_texts, phase, uid};

/// `active ready terminating succeeded failed | uncounted succeeded, failed | conditions` of every version of the Job.
fn history(world: &World) -> Vec<String> {
    let statuses = world.store.job_history.iter().filter_map(|job| job.status.clone());
    let mut texts: Vec<String> = statuses
        .map(|status| {
            let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
            format!(
                "{} {} {} {} {} | {} {} | {}",
                status.active.unwrap_or(0),
                status.ready.unwrap(),
                status.terminating.unwrap(),
                status.succeeded.unwrap_or(0),
                status.failed.unwrap_or(0),
                uncounted.succeeded.map_or(0, |uids| uids.len()),
                uncounted.failed.map_or(0, |uids| uids.len()),
                condition_texts(&status).join(" ")
            )
        })
        .collect();
    texts.dedup();
    texts
}

#[test]
fn j109_j113_a_job_of_one_pod_writes_its_success_in_two_steps() {
    let mut world = World::new();
    let job = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.advance(3);
    world.end(&pod, 0);
    world.settle();
    assert_eq!(
        history(&world),
        [
            "1 0 0 0 0 | 0 0 | ",
            "1 1 0 0 0 | 0 0 | ",
            "0 0 0 0 0 | 1 0 | SuccessCriteriaMet=True CompletionsReached",
            "0 0 0 1 0 | 0 0 | SuccessCriteriaMet=True CompletionsReached Complete=True CompletionsReached",
        ]
    );
    let status = world.status(&job);
    let complete = &status.conditions.as_ref().unwrap()[1];
    assert_eq!(status.completion_time, complete.last_transition_time);
    assert_eq!(complete.message.as_deref(), Some("Reached expected number of succeeded pods"));
    assert_eq!(status.start_time.unwrap().0.to_string(), "2026-03-01T12:00:00Z");
    assert_eq!(
        world.events(),
        [
            format!("Normal SuccessfulCreate Created pod: {}", pod.metadata.name.as_deref().unwrap()),
            "Normal Completed Job completed".to_owned(),
        ]
    );
    assert_eq!(world.pods()[0].metadata.finalizers, None);
}

#[test]
fn j61_j62_a_pod_carries_name_labels_finalizer_and_owner() {
    let mut world = World::new();
    let job = world.create_job(
        r#"{"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"]},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}}"#,
    );
    let pod = world.active()[0].clone();
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("j-"));
    assert_eq!(
        serde_json::to_value(&pod.metadata.owner_references).unwrap(),
        serde_json::json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job,
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(
        serde_json::to_value(&pod.metadata.labels).unwrap(),
        serde_json::json!({
            "a": "b", "job-name": "j", "batch.kubernetes.io/job-name": "j",
            "controller-uid": job, "batch.kubernetes.io/controller-uid": job,
        })
    );
    assert_eq!(pod.metadata.annotations.unwrap()["c"], "d");
    assert_eq!(pod.metadata.finalizers.unwrap(), ["x/y", "batch.kubernetes.io/job-tracking"]);
}

#[test]
fn j66_parallelism_and_remaining_completions_bound_the_active_pods() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 3}"#);
    assert_eq!(world.active().len(), 2);
    world.end_all(0);
    assert_eq!(world.active().len(), 1);
    world.end_all(0);
    assert_eq!(world.status(&job).succeeded, Some(3));
    assert_eq!(
        world.conditions(&job),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
    assert_eq!(world.store.created_pods.len(), 3);
}

#[test]
fn j66_zero_completions_complete_at_once_without_a_pod() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completions": 0}"#);
    assert_eq!(
        world.conditions(&job),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
    assert!(world.pods().is_empty());
}

#[test]
fn j1_zero_parallelism_runs_nothing() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 0, "completions": 3}"#);
    assert!(world.pods().is_empty());
    let status = world.status(&job);
    assert_eq!((status.ready, status.terminating), (Some(0), Some(0)));
    assert!(status.start_time.is_some());
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().parallelism = Some(2));
    world.settle();
    assert_eq!(world.active().len(), 2);
}

#[test]
fn j66_a_work_queue_starts_nothing_after_its_first_success_and_waits_for_the_rest() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 3}"#);
    let pods = world.active();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        world.start(pod);
    }
    world.end(&pods[0], 0);
    world.settle();
    assert_eq!(world.active().len(), 2);
    assert_eq!(world.conditions(&job), [""; 0]);
    world.end(&pods[1], 1);
    world.advance(1000);
    assert_eq!(world.active().len(), 1);
    world.end(&pods[2], 0);
    world.settle();
    let status = world.status(&job);
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(1)));
    assert_eq!(
        world.conditions(&job),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
}

#[test]
fn j82_j85_backoff_limit_one_makes_two_pods_ten_seconds_apart_then_fails() {
    let mut world = World::new();
    let job = world.create_job(r#"{"backoffLimit": 1}"#);
    world.advance(2);
    world.end_all(1);
    assert_eq!(world.status(&job).failed, Some(1));
    world.advance(9);
    assert_eq!(world.store.created_pods.len(), 1);
    world.advance(1);
    assert_eq!(world.store.created_pods.len(), 2);
    world.end_all(1);
    assert_eq!(
        history(&world),
        [
            "1 0 0 0 0 | 0 0 | ",
            "1 1 0 0 0 | 0 0 | ",
            "0 0 0 0 0 | 0 1 | ",
            "0 0 0 0 1 | 0 0 | ",
            "1 0 0 0 1 | 0 0 | ",
            "1 1 0 0 1 | 0 0 | ",
            "0 0 0 0 1 | 0 1 | FailureTarget=True BackoffLimitExceeded",
            "0 0 0 0 2 | 0 0 | FailureTarget=True BackoffLimitExceeded Failed=True BackoffLimitExceeded",
        ]
    );
    assert_eq!(
        world.events().last(),
        Some(&"Warning BackoffLimitExceeded Job has reached the specified backoff limit")
    );
    world.advance(10_000);
    assert_eq!(world.store.created_pods.len(), 2);
    assert_eq!(world.status(&job).completion_time, None);
}

#[test]
fn j82_backoff_limit_zero_makes_one_pod() {
    let mut world = World::new();
    let job = world.create_job(r#"{"backoffLimit": 0}"#);
    world.end_all(1);
    world.advance(10_000);
    assert_eq!(world.store.created_pods.len(), 1);
    assert_eq!(world.conditions(&job), ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]);
}

#[test]
fn j85_the_waits_double_up_to_ten_minutes() {
    let mut world = World::new();
    world.create_job(r#"{"backoffLimit": 20}"#);
    let mut waits = Vec::new();
    for _ in 0..9 {
        world.end_all(1);
        let failed_at = world.now;
        while world.active().is_empty() {
            world.advance(1);
        }
        waits.push(world.now.as_second() - failed_at.as_second());
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn j85_the_wait_survives_a_restart_while_the_failed_pods_stand() {
    let mut world = World::new();
    world.create_job("{}");
    world.end_all(1);
    world.advance(10);
    world.end_all(1);
    world.restart();
    world.advance(19);
    assert_eq!(world.store.created_pods.len(), 2);
    world.advance(1);
    assert_eq!(world.store.created_pods.len(), 3);
}

#[test]
fn j87_nothing_is_created_during_the_wait_also_not_for_other_slots() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 4}"#);
    let pods = world.active();
    for pod in &pods {
        world.start(pod);
    }
    world.end(&pods[0], 1);
    world.settle();
    assert_eq!(world.status(&job).active, Some(1));
    world.advance(9);
    assert_eq!(world.store.created_pods.len(), 2);
    world.advance(1);
    assert_eq!(world.active().len(), 2);
}

#[test]
fn j102_j110_the_deadline_deletes_the_pods_counts_them_failed_and_waits_for_them() {
    let mut world = World::new();
    let job = world.create_job(r#"{"activeDeadlineSeconds": 5}"#);
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.advance(4);
    assert_eq!(world.conditions(&job), [""; 0]);
    world.advance(1);
    assert_eq!(world.conditions(&job), ["FailureTarget=True DeadlineExceeded"]);
    let status = world.status(&job);
    assert_eq!((status.active, status.terminating, status.failed), (None, Some(1), Some(1)));
    world.advance(2);
    world.end_terminating(137);
    assert!(world.pods().is_empty());
    assert_eq!(
        history(&world),
        [
            "1 0 0 0 0 | 0 0 | ",
            "1 1 0 0 0 | 0 0 | ",
            "1 1 0 0 0 | 0 0 | FailureTarget=True DeadlineExceeded",
            "0 0 1 0 0 | 0 1 | FailureTarget=True DeadlineExceeded",
            "0 0 1 0 1 | 0 0 | FailureTarget=True DeadlineExceeded",
            "0 0 0 0 1 | 0 0 | FailureTarget=True DeadlineExceeded Failed=True DeadlineExceeded",
        ]
    );
    let name = pod.metadata.name.as_deref().unwrap();
    assert_eq!(
        world.events(),
        [
            format!("Normal SuccessfulCreate Created pod: {name}"),
            format!("Normal SuccessfulDelete Deleted pod: {name}"),
            "Warning DeadlineExceeded Job was active longer than specified deadline".to_owned(),
        ]
    );
}

#[test]
fn j102_an_edited_deadline_is_kept() {
    let mut world = World::new();
    let job = world.create_job(r#"{"activeDeadlineSeconds": 5}"#);
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().active_deadline_seconds = Some(50));
    world.advance(49);
    assert_eq!(world.conditions(&job), [""; 0]);
    world.advance(1);
    assert_eq!(world.conditions(&job).first().unwrap(), "FailureTarget=True DeadlineExceeded");
}

#[test]
fn j103_j104_suspension_deletes_pods_uncounted_and_resumption_starts_the_clock_anew() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 100}"#);
    for pod in world.active() {
        world.start(&pod);
    }
    world.settle();
    world.advance(60);
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().suspend = Some(true));
    world.settle();
    let status = world.status(&job);
    assert_eq!((status.active, status.ready, status.terminating), (None, Some(0), Some(2)));
    assert_eq!((status.failed, status.start_time), (None, None));
    assert_eq!(world.conditions(&job), ["Suspended=True JobSuspended"]);
    world.end_terminating(143);
    assert_eq!(world.status(&job).failed, None);
    assert!(world.pods().is_empty());
    world.advance(1000);
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().suspend = Some(false));
    world.settle();
    assert_eq!(world.conditions(&job), ["Suspended=False JobResumed"]);
    assert_eq!(world.status(&job).start_time.unwrap().0, world.now);
    assert_eq!(world.active().len(), 2);
    world.advance(99);
    assert_eq!(world.conditions(&job), ["Suspended=False JobResumed"]);
    world.end_all(0);
    assert_eq!(world.status(&job).succeeded, Some(2));
    let told = world.events();
    assert!(told.contains(&"Normal Suspended Job suspended") && told.contains(&"Normal Resumed Job resumed"));
}

#[test]
fn j103_a_job_created_suspended_gets_no_pod_and_no_start_time() {
    let mut world = World::new();
    let job = world.create_job(r#"{"suspend": true}"#);
    let status = world.status(&job);
    assert_eq!((status.ready, status.start_time), (Some(0), None));
    assert_eq!(world.conditions(&job), ["Suspended=True JobSuspended"]);
    assert!(world.pods().is_empty());
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().suspend = Some(false));
    world.settle();
    world.end_all(0);
    assert_eq!(
        world.conditions(&job),
        [
            "Suspended=False JobResumed",
            "SuccessCriteriaMet=True CompletionsReached",
            "Complete=True CompletionsReached"
        ]
    );
}

#[test]
fn j67_j68_lowered_parallelism_deletes_the_least_useful_pods_uncounted() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 4, "completions": 10}"#);
    let pods = world.active();
    world.start(&pods[0]);
    world.advance(1);
    world.start(&pods[2]);
    world.settle();
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().parallelism = Some(1));
    world.settle();
    assert_eq!(world.active().iter().map(uid).collect::<Vec<_>>(), [uid(&pods[0])]);
    world.end_terminating(143);
    let status = world.status(&job);
    assert_eq!((status.active, status.failed), (Some(1), None));
}

#[test]
fn j78_a_deleted_running_pod_is_one_failure_and_is_replaced_after_the_wait() {
    let mut world = World::new();
    let job = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.store.delete(uid(&pod), controllers::Propagation::Background, None, world.now);
    world.settle();
    let status = world.status(&job);
    assert_eq!((status.active, status.terminating, status.failed), (None, Some(1), Some(1)));
    world.end_terminating(143);
    assert!(world.pods().is_empty());
    world.advance(10);
    assert_eq!(world.active().len(), 1);
    assert_eq!(world.status(&job).failed, Some(1));
}

#[test]
fn j99_with_policy_failed_a_terminating_pod_holds_its_place_until_it_has_failed() {
    let mut world = World::new();
    let job = world.create_job(r#"{"podReplacementPolicy": "Failed"}"#);
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.store.delete(uid(&pod), controllers::Propagation::Background, None, world.now);
    world.advance(100);
    let status = world.status(&job);
    assert_eq!((status.active, status.terminating, status.failed), (None, Some(1), None));
    assert_eq!(world.store.created_pods.len(), 1);
    world.end_terminating(143);
    world.advance(10);
    let status = world.status(&job);
    assert_eq!((status.active, status.terminating, status.failed), (Some(1), Some(0), Some(1)));
}

#[test]
fn j80_a_succeeded_pod_is_a_success_even_if_it_is_being_deleted() {
    let mut world = World::new();
    let job = world.create_job(r#"{"podReplacementPolicy": "Failed"}"#);
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.store.delete(uid(&pod), controllers::Propagation::Background, None, world.now);
    world.end(&pod, 0);
    world.settle();
    assert_eq!(world.status(&job).succeeded, Some(1));
    assert!(world.pods().is_empty());
}

#[test]
fn j83_restarts_in_place_end_an_on_failure_job() {
    for (limit, restarts, fails) in [(0, 0, false), (0, 1, true), (2, 1, false), (2, 2, true)] {
        let mut world = World::new();
        let job = world.create_job(&format!(
            r#"{{"backoffLimit": {limit}, "template": {{"spec": {{"restartPolicy": "OnFailure", "containers": [{{"name": "main"}}]}}}}}}"#
        ));
        let pod = world.active()[0].clone();
        world.start(&pod);
        world.store.change_pod(uid(&pod), |pod| {
            let status = |name: &str, restart_count| k8s_openapi::api::core::v1::ContainerStatus {
                name: name.into(),
                restart_count,
                ..Default::default()
            };
            // Sidecars count too (J-117).
            let pod_status = pod.status.as_mut().unwrap();
            pod_status.container_statuses = Some(vec![status("main", restarts / 2)]);
            pod_status.init_container_statuses = Some(vec![status("side", restarts - restarts / 2)]);
        });
        world.settle();
        let wanted: &[&str] = if fails { &["FailureTarget=True BackoffLimitExceeded"] } else { &[] };
        assert_eq!(world.conditions(&job), wanted, "{limit} {restarts}");
    }
}

#[test]
fn j101_a_job_managed_elsewhere_is_never_touched() {
    let mut world = World::new();
    let job = world.create_job(r#"{"managedBy": "example.com/other"}"#);
    world.advance(100);
    assert_eq!(world.job(&job).status, None);
    assert!(world.pods().is_empty());
    let mut world = World::new();
    world.create_job(r#"{"managedBy": "kubernetes.io/job-controller"}"#);
    assert_eq!(world.active().len(), 1);
}

#[test]
fn j74_an_unknown_completion_mode_is_reported_once_and_left_alone() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completionMode": "Sideways"}"#);
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().parallelism = Some(2));
    world.advance(100);
    assert_eq!(world.job(&job).status, None);
    assert_eq!(world.events(), ["Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown"]);
}

#[test]
fn j65_creations_come_in_batches_that_double_and_stop_at_a_refusal() {
    let mut world = World::new();
    let job = crate::world::job(r#"{"parallelism": 9, "completions": 9}"#);
    let job = world.store.create(job.into(), world.now).unwrap().uid().to_owned();
    world.default_job(&job);
    let mut batches = Vec::new();
    let mut refused = false;
    loop {
        while let Some(told) = world.store.told.pop_front() {
            world.tell(told);
        }
        let writes: Vec<_> = std::iter::from_fn(|| world.controllers.poll_write()).collect();
        if writes.is_empty() {
            break;
        }
        let creations = writes.iter().filter(|write| matches!(write.action, Action::Create(_)));
        let creations = creations.count();
        if creations > 0 {
            batches.push(creations);
        }
        for write in writes {
            let refuse = creations == 4 && !refused && matches!(write.action, Action::Create(_));
            let outcome = if refuse {
                refused = true;
                Outcome::Refused(refusal(RefusalCause::Unavailable, "quota"))
            } else {
                world.store.carry_out(&write.action, world.now)
            };
            world.answer(&write, outcome);
        }
    }
    assert_eq!(batches, [1, 2, 4]);
    assert_eq!(world.status(&job).active, Some(6));
    assert!(world.events().contains(&"Warning FailedCreate Error creating: quota"));
    world.advance(1);
    assert_eq!(world.status(&job).active, Some(9));
}

#[test]
fn j76_a_uid_is_noted_before_the_finalizer_goes_and_counted_after() {
    let mut world = World::new();
    let job = world.create_job(r#"{"completions": 2, "parallelism": 2}"#);
    let pods = world.active();
    world.start(&pods[0]);
    world.settle();
    world.end(&pods[0], 0);
    let mut steps = Vec::new();
    loop {
        while let Some(told) = world.store.told.pop_front() {
            world.tell(told);
        }
        let Some(write) = world.controllers.poll_write() else { break };
        steps.push(match &write.action {
            Action::UpdateStatus(_) => "status",
            Action::EditMetadata { .. } => "finalizer",
            other => panic!("{other:?}"),
        });
        let outcome = world.store.carry_out(&write.action, world.now);
        world.answer(&write, outcome);
    }
    assert_eq!(steps, ["status", "finalizer", "status"]);
    assert_eq!(world.status(&job).succeeded, Some(1));
}

#[test]
fn j112_a_conflict_repeats_the_sync() {
    let mut world = World::new();
    let job = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    // Somebody else writes the Job, and the controllers have not been told yet.
    let told = world.store.told.pop_front().unwrap();
    world.store.change_job(&job, |job| {
        job.metadata.labels = Some([("a".into(), "b".into())].into());
    });
    world.tell(told);
    let write = world.controllers.poll_write().unwrap();
    let outcome = world.store.carry_out(&write.action, world.now);
    assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.cause == RefusalCause::Conflict));
    world.answer(&write, outcome);
    world.settle();
    assert_eq!(world.status(&job).ready, Some(1));
}

#[test]
fn j79_a_job_that_is_deleted_counts_no_more_pods_and_frees_them() {
    let mut world = World::new();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 2}"#);
    for pod in world.active() {
        world.start(&pod);
    }
    world.settle();
    world.store.delete(&job, controllers::Propagation::Orphan, None, world.now);
    world.settle();
    // J-123: the pods keep running, without the finalizer.
    for pod in world.pods() {
        assert_eq!((pod.metadata.finalizers.as_ref(), phase(&pod).as_str()), (None, "Running"));
    }
    assert_eq!(world.active().len(), 2);
    assert_eq!(world.store.created_pods.len(), 2);
}

#[test]
fn j121_pods_of_a_job_that_is_gone_lose_the_finalizer() {
    let mut world = World::new();
    let job = world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    world.store.remove(&job);
    world.settle();
    assert_eq!(world.pods()[0].metadata.finalizers, None);
}
