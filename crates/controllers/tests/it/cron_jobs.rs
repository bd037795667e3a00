//! CronJobs: when Jobs are made, what is recorded, what is cleared away. And Jobs with a time to live.

use controllers::{Config, ControllerName, Kind, Object, Propagation};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};

use crate::world::World;

const EVERY_MINUTE: &str = "*/1 * * * ?";

fn world() -> World {
    World::with(Config::only(&[ControllerName::CronJob, ControllerName::TtlAfterFinished]))
}

fn create(world: &mut World, mut spec: serde_json::Value) -> String {
    if spec.get("jobTemplate").is_none() {
        spec["jobTemplate"] = serde_json::json!({
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"template": {"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}},
        });
    }
    let cron_job: CronJob = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "c", "namespace": "n"}, "spec": spec,
    }))
    .unwrap();
    let uid = world.store.create(cron_job.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    uid
}

fn change(world: &mut World, uid: &str, change: impl FnOnce(&mut CronJob)) {
    world.store.change(uid, |object| match object {
        Object::CronJob(cron_job) => change(std::sync::Arc::make_mut(cron_job)),
        other => panic!("{other:?}"),
    });
    world.settle();
}

fn status(world: &World, uid: &str) -> CronJobStatus {
    match &world.store.objects[uid] {
        Object::CronJob(cron_job) => cron_job.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn jobs(world: &World) -> Vec<Job> {
    let jobs = world.store.objects.values().filter_map(|object| match object {
        Object::Job(job) => Some(job.as_ref().clone()),
        _ => None,
    });
    jobs.collect()
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> = jobs(world).into_iter().map(|job| job.metadata.name.unwrap()).collect();
    names.sort();
    names
}

fn active(world: &World, uid: &str) -> Vec<String> {
    let active = status(world, uid).active.unwrap_or_default();
    active.into_iter().map(|one| one.name.unwrap()).collect()
}

/// The Job's own controller ends it.
fn finish(world: &mut World, name: &str, type_: &str) {
    let uid = world.store.find(&Kind::JOB, "n", name).unwrap().uid().to_owned();
    let now = crate::store::second(world.now);
    world.store.change_job(&uid, |job| {
        let status = job.status.get_or_insert_default();
        let created = job.metadata.creation_timestamp.clone();
        status.start_time = created;
        status.completion_time = (type_ == "Complete").then(|| now.clone());
        status.conditions = Some(vec![k8s_openapi::api::batch::v1::JobCondition {
            type_: type_.into(),
            status: "True".into(),
            last_transition_time: Some(now),
            ..Default::default()
        }]);
    });
    world.settle();
}

#[test]
fn j131_j134_a_job_is_made_when_due_and_recorded() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "timeZone": "Europe/Berlin"}));
    world.advance(59);
    assert!(jobs(&world).is_empty());
    world.advance(2);
    // 2026-03-01T12:01:00Z is minute 29539441 of the epoch.
    assert_eq!(names(&world), ["c-29539441"]);
    let job = jobs(&world)[0].clone();
    assert_eq!(
        serde_json::to_value(&job.metadata.annotations).unwrap(),
        serde_json::json!({"c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T13:01:00+01:00"})
    );
    assert_eq!(serde_json::to_value(&job.metadata.labels).unwrap(), serde_json::json!({"a": "b"}));
    assert_eq!(
        serde_json::to_value(&job.metadata.owner_references).unwrap(),
        serde_json::json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": uid, "controller": true, "blockOwnerDeletion": true}])
    );
    let status = status(&world, &uid);
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-03-01T12:01:00Z");
    assert_eq!(active(&world, &uid), ["c-29539441"]);
    assert_eq!(world.events(), ["Normal SuccessfulCreate Created job c-29539441"]);
}

#[test]
fn j133_allow_runs_jobs_side_by_side() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "concurrencyPolicy": "Allow"}));
    world.advance(121);
    assert_eq!(active(&world, &uid), ["c-29539441", "c-29539442"]);
}

#[test]
fn j133_forbid_skips_until_the_running_job_ends() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "concurrencyPolicy": "Forbid"}));
    world.advance(190);
    assert_eq!(active(&world, &uid), ["c-29539441"]);
    let skips = world.events().iter().filter(|event| event.contains("JobAlreadyActive")).count();
    assert_eq!(skips, 2);
    finish(&mut world, "c-29539441", "Complete");
    // The newest missed time is made up for.
    assert_eq!(active(&world, &uid), ["c-29539443"]);
}

#[test]
fn j133_replace_deletes_the_running_job_first() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "concurrencyPolicy": "Replace"}));
    world.advance(61);
    assert_eq!(names(&world), ["c-29539441"]);
    world.advance(60);
    assert_eq!(names(&world), ["c-29539442"]);
    assert_eq!(active(&world, &uid), ["c-29539442"]);
    assert_eq!(
        world.events(),
        [
            "Normal SuccessfulCreate Created job c-29539441",
            "Normal SuccessfulDelete Deleted job c-29539441",
            "Normal SuccessfulCreate Created job c-29539442",
        ]
    );
}

#[test]
fn j133_replace_does_not_wait_for_a_job_that_goes_slowly() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "concurrencyPolicy": "Replace"}));
    world.advance(61);
    let job = jobs(&world)[0].metadata.uid.clone().unwrap();
    world.store.change_job(&job, |job| job.metadata.finalizers = Some(vec!["x/y".into()]));
    world.advance(60);
    assert_eq!(active(&world, &uid), ["c-29539442"]);
    world.store.change_job(&job, |job| job.metadata.finalizers = None);
    world.settle();
    assert!(!world.events().iter().any(|event| event.contains("MissingJob") || event.contains("UnexpectedJob")));
}

#[test]
fn j133_a_suspended_cron_job_makes_nothing_and_makes_up_for_one_when_it_goes_on() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "suspend": true}));
    world.advance(400);
    assert!(jobs(&world).is_empty());
    change(&mut world, &uid, |cron_job| cron_job.spec.suspend = Some(false));
    assert_eq!(names(&world), ["c-29539446"]);
}

#[test]
fn j132_past_its_deadline_a_time_is_missed() {
    let mut world = world();
    let uid = create(
        &mut world,
        serde_json::json!({"schedule": "0 * * * *", "suspend": true, "startingDeadlineSeconds": 60}),
    );
    world.advance(3600 + 61);
    change(&mut world, &uid, |cron_job| cron_job.spec.suspend = Some(false));
    assert!(jobs(&world).is_empty());
    change(&mut world, &uid, |cron_job| cron_job.spec.starting_deadline_seconds = Some(62));
    assert_eq!(names(&world).len(), 1);
}

#[test]
fn j132_more_than_a_hundred_missed_times_are_told_and_the_newest_still_runs() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE, "suspend": true}));
    world.advance(102 * 60);
    change(&mut world, &uid, |cron_job| cron_job.spec.suspend = Some(false));
    assert_eq!(names(&world).len(), 1);
    assert_eq!(
        world.events()[0],
        "Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    );
}

#[test]
fn j134_a_finished_child_leaves_active_and_counts_as_the_last_success() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE}));
    world.advance(70);
    finish(&mut world, "c-29539441", "Complete");
    let status = status(&world, &uid);
    assert_eq!(status.active, None);
    assert_eq!(status.last_successful_time.unwrap().0.to_string(), "2026-03-01T12:01:10Z");
    assert_eq!(
        world.events().last(),
        Some(&"Normal SawCompletedJob Saw completed job: c-29539441, condition: Complete")
    );
}

#[test]
fn j134_a_vanished_child_leaves_active_and_is_told() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE}));
    world.advance(70);
    let job = jobs(&world)[0].metadata.uid.clone().unwrap();
    world.store.delete(&job, Propagation::Background, None, world.now);
    world.settle();
    assert_eq!(active(&world, &uid), [""; 0]);
    assert_eq!(world.events().last(), Some(&"Normal MissingJob Active job went missing: c-29539441"));
    assert_eq!(names(&world), [""; 0], "the time is not made up for");
}

#[test]
fn j134_an_unfinished_child_of_other_making_is_told_once() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": "@yearly"}));
    let job: Job = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "x", "namespace": "n", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": uid, "controller": true}]},
        "spec": {"template": {"spec": {"containers": []}}},
    }))
    .unwrap();
    let job = world.store.create(job.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    world.store.change_job(&job, |job| job.spec.as_mut().unwrap().parallelism = Some(2));
    world.settle();
    assert_eq!(world.events(), ["Warning UnexpectedJob Saw a job that the controller did not create or forgot: x"]);
    assert_eq!(active(&world, &uid), [""; 0]);
}

#[test]
fn j135_the_oldest_finished_children_beyond_the_limits_go() {
    let mut world = world();
    let uid = create(
        &mut world,
        serde_json::json!({"schedule": EVERY_MINUTE, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}),
    );
    for (minute, type_) in [(1, "Complete"), (2, "Failed"), (3, "Complete")] {
        world.advance(60);
        world.advance(1);
        finish(&mut world, &format!("c-{}", 29_539_440 + minute), type_);
    }
    assert_eq!(names(&world), ["c-29539443"]);
    assert!(!world.events().iter().any(|event| event.contains("MissingJob")));
    change(&mut world, &uid, |cron_job| cron_job.spec.successful_jobs_history_limit = Some(0));
    assert_eq!(names(&world), [""; 0]);
}

#[test]
fn j132_a_crash_between_creation_and_status_makes_no_second_job() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE}));
    world.now = world.now.checked_add(jiff::SignedDuration::from_secs(61)).unwrap();
    world.controllers.handle_timeout(world.now);
    let write = world.controllers.poll_write().unwrap();
    world.store.carry_out(&write.action, world.now);
    world.restart();
    world.settle();
    assert_eq!(names(&world), ["c-29539441"]);
    assert_eq!(active(&world, &uid), ["c-29539441"]);
    assert!(!world.events().iter().any(|event| event.contains("UnexpectedJob")));
}

#[test]
fn j132_a_deleted_cron_job_makes_nothing() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": EVERY_MINUTE}));
    world.store.delete(&uid, Propagation::Foreground, None, world.now);
    world.advance(600);
    assert!(jobs(&world).is_empty());
}

#[test]
fn j136_what_cannot_run_is_told_once() {
    for (spec, told) in [
        (
            serde_json::json!({"schedule": "x"}),
            "Warning UnparseableSchedule unparseable schedule: \"x\" : expected exactly 5 fields, found 1: [x]",
        ),
        (
            serde_json::json!({"schedule": "* * * * *", "timeZone": "Moon/Base"}),
            "Warning UnknownTimeZone invalid timeZone: \"Moon/Base\": unknown time zone Moon/Base",
        ),
        (
            serde_json::json!({"schedule": "0 0 30 2 *"}),
            "Warning InvalidSchedule invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second",
        ),
    ] {
        let mut world = world();
        let uid = create(&mut world, spec);
        change(&mut world, &uid, |cron_job| cron_job.spec.failed_jobs_history_limit = Some(7));
        world.advance(600);
        assert_eq!(world.events(), [told]);
    }
}

#[test]
fn j137_a_job_that_kubectl_made_of_the_cron_job_is_its_child() {
    let mut world = world();
    let uid = create(&mut world, serde_json::json!({"schedule": "@yearly"}));
    let job: Job = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "manual", "namespace": "n", "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": uid, "controller": true}]},
        "spec": {"template": {"spec": {"containers": []}}},
    }))
    .unwrap();
    world.store.create(job.into(), world.now).unwrap();
    finish(&mut world, "manual", "Complete");
    assert!(status(&world, &uid).last_successful_time.is_some());
}

fn job_with_ttl(world: &mut World, seconds: i32) -> String {
    let job: Job = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"ttlSecondsAfterFinished": seconds, "template": {"spec": {"containers": []}}},
    }))
    .unwrap();
    world.store.create(job.into(), world.now).unwrap().uid().to_owned()
}

#[test]
fn j105_a_finished_job_is_deleted_in_the_foreground_when_its_time_has_passed() {
    let mut world = world();
    let uid = job_with_ttl(&mut world, 10);
    world.advance(100);
    finish(&mut world, "j", "Failed");
    world.advance(9);
    assert!(jobs(&world)[0].metadata.deletion_timestamp.is_none());
    world.advance(1);
    let job = jobs(&world)[0].clone();
    assert_eq!(job.metadata.uid.as_deref(), Some(uid.as_str()));
    assert_eq!(job.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
}

#[test]
fn j105_an_edited_time_to_live_is_honoured() {
    let mut world = world();
    let uid = job_with_ttl(&mut world, 10);
    finish(&mut world, "j", "Complete");
    world.store.change_job(&uid, |job| job.spec.as_mut().unwrap().ttl_seconds_after_finished = Some(50));
    world.advance(49);
    assert!(jobs(&world)[0].metadata.deletion_timestamp.is_none());
    world.store.change_job(&uid, |job| job.spec.as_mut().unwrap().ttl_seconds_after_finished = Some(0));
    world.settle();
    assert!(jobs(&world)[0].metadata.deletion_timestamp.is_some());
}
