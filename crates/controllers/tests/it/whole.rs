//! All controllers together, with a node that runs pods in virtual time.

use controllers::{Config, Kind, Object, Propagation};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};

use crate::dice::{Dice, with_seeds};
use crate::world::{World, condition_texts, phase, uid};

/// A world with one node and the namespace `n`, and everything switched on.
fn world() -> World {
    let mut world = World::with(Config { ca_bundle: Some("PEM".into()), ..Config::default() });
    let node: Node = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "node"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}},
    }))
    .unwrap();
    world.store.create(node.into(), world.now).unwrap();
    let namespace: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}})).unwrap();
    world.store.create(namespace.into(), world.now).unwrap();
    world.settle();
    world
}

/// Lets the node do a second's work: start what is bound, end what is being deleted, end the rest with the code that is said.
fn second_of_node(world: &mut World, exit: impl Fn(&Pod) -> Option<i32>) {
    world.advance(1);
    for pod in world.pods() {
        let is_bound = pod.spec.as_ref().unwrap().node_name.is_some();
        let is_deleting = pod.metadata.deletion_timestamp.is_some();
        match phase(&pod).as_str() {
            "Pending" if is_bound && !is_deleting => world.start(&pod),
            "Pending" | "Running" if is_bound && is_deleting => world.end(&pod, 143),
            "Running" => {
                if let Some(code) = exit(&pod) {
                    world.end(&pod, code);
                }
            }
            _ if is_deleting && pod.metadata.deletion_grace_period_seconds != Some(0) => world.finish_deletion(&pod),
            _ => {}
        }
    }
    world.settle();
}

fn job_history(world: &World) -> Vec<String> {
    let mut history: Vec<String> = Vec::new();
    for job in &world.store.job_history {
        let Some(status) = &job.status else { continue };
        let counts = [
            ("active", status.active),
            ("ready", status.ready),
            ("terminating", status.terminating),
            ("succeeded", status.succeeded),
            ("failed", status.failed),
        ];
        let counts = counts.iter().filter(|(_, count)| count.unwrap_or(0) > 0);
        let mut words: Vec<String> = counts.map(|(name, count)| format!("{name} {}", count.unwrap())).collect();
        words.extend(status.completed_indexes.iter().map(|text| format!("completed {text}")));
        words.extend(condition_texts(status));
        words.extend(job.metadata.deletion_timestamp.as_ref().map(|_| "deleting".to_owned()));
        history.push(words.join(", "));
    }
    history.dedup();
    history
}

/// As recorded of Kubernetes 1.36.2, case `job-ttl`: the Job goes in the foreground, its pod before it.
#[test]
fn recorded_job_with_a_time_to_live_takes_its_pod_along() {
    let mut world = world();
    world.create_job(r#"{"ttlSecondsAfterFinished": 3}"#);
    for _ in 0..3 {
        second_of_node(&mut world, |_| Some(0));
    }
    assert_eq!(world.pods().len(), 1);
    for _ in 0..3 {
        second_of_node(&mut world, |_| None);
    }
    assert!(world.pods().is_empty());
    assert!(world.store.find(&Kind::JOB, "n", "j").is_none());
    assert_eq!(
        job_history(&world),
        [
            "active 1",
            "active 1, ready 1",
            "SuccessCriteriaMet=True CompletionsReached",
            "succeeded 1, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached",
            "succeeded 1, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached, deleting",
        ]
    );
}

/// As recorded of Kubernetes 1.36.2, case `job-indexed-sidecar`.
#[test]
fn recorded_indexed_job_runs_two_at_a_time() {
    let mut world = world();
    world.create_job(r#"{"completionMode": "Indexed", "completions": 3, "parallelism": 2}"#);
    for _ in 0..6 {
        second_of_node(&mut world, |_| Some(0));
    }
    assert_eq!(
        job_history(&world),
        [
            "active 2",
            "active 2, ready 1",
            "active 2, ready 2",
            "active 1, succeeded 2, completed 0,1",
            "active 1, ready 1, succeeded 2, completed 0,1",
            "succeeded 3, completed 0-2, SuccessCriteriaMet=True CompletionsReached",
            "succeeded 3, completed 0-2, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached",
        ]
    );
    let told = world.events().into_iter().filter(|event| !event.contains("Scheduled"));
    let told: Vec<&str> = told.map(|event| event.split(" pod:").next().unwrap()).collect();
    assert_eq!(
        told,
        [
            "Normal SuccessfulCreate Created",
            "Normal SuccessfulCreate Created",
            "Normal SuccessfulCreate Created",
            "Normal Completed Job completed"
        ]
    );
}

#[test]
fn j121_j124_a_running_job_that_is_deleted_leaves_no_pod_behind() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let mut world = world();
        let job = world.create_job(r#"{"parallelism": 3, "completions": 3}"#);
        second_of_node(&mut world, |_| None);
        world.store.delete(&job, propagation, None, world.now);
        for _ in 0..4 {
            second_of_node(&mut world, |_| None);
        }
        assert!(world.pods().is_empty(), "{propagation:?}");
        assert!(world.store.find(&Kind::JOB, "n", "j").is_none(), "{propagation:?}");
        assert_eq!(world.store.created_pods.len(), 3);
    }
}

#[test]
fn j123_the_pods_of_an_orphaning_job_run_on() {
    let mut world = world();
    let job = world.create_job(r#"{"parallelism": 2, "completions": 2}"#);
    second_of_node(&mut world, |_| None);
    world.store.delete(&job, Propagation::Orphan, None, world.now);
    for _ in 0..3 {
        second_of_node(&mut world, |_| None);
    }
    assert!(world.store.find(&Kind::JOB, "n", "j").is_none());
    for pod in world.pods() {
        assert_eq!(phase(&pod), "Running");
        assert_eq!((pod.metadata.owner_references, pod.metadata.finalizers), (None, None));
    }
    assert_eq!(world.pods().len(), 2);
}

/// Upstream's e2e `job should run pods over capacity`: ninety pods of a fifth of the node each, none may fail.
#[test]
fn e2e_pods_over_capacity_wait_instead_of_failing() {
    let mut world = world();
    let job = world.create_job(
        r#"{"parallelism": 90, "completions": 90, "backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "400m"}}}]}}}"#,
    );
    for _ in 0..60 {
        let bound = world.active().iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some()).count();
        assert!(bound <= 5, "more than fits");
        second_of_node(&mut world, |_| Some(0));
    }
    assert_eq!(world.status(&job).succeeded, Some(90));
    assert_eq!(world.status(&job).failed, None);
}

#[test]
fn a187_a_namespace_full_of_work_goes() {
    let mut world = world();
    world.create_job(r#"{"parallelism": 2, "completions": 5}"#);
    create_cron_job(&mut world);
    world.advance(61);
    second_of_node(&mut world, |_| None);
    let namespace = world.store.find(&Kind::NAMESPACE, "", "n").unwrap().uid().to_owned();
    world.store.delete(&namespace, Propagation::Background, None, world.now);
    for _ in 0..10 {
        second_of_node(&mut world, |_| None);
    }
    let left: Vec<String> = world.store.objects.values().map(|object| object.target().to_string()).collect();
    assert_eq!(left, ["Node node"]);
}

fn create_cron_job(world: &mut World) -> String {
    let cron_job: CronJob = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 6,
            "manualSelector": true, "selector": {"matchLabels": {"app": "c"}},
            "template": {"metadata": {"labels": {"app": "c"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}}}},
    }))
    .unwrap();
    world.store.create(cron_job.into(), world.now).unwrap().uid().to_owned()
}

#[test]
fn random_clusters_come_to_rest_and_go_without_a_trace() {
    with_seeds("random_clusters", 150, |seed| {
        let mut dice = Dice::new(seed);
        let mut world = world();
        for _ in 0..25 {
            disturb(&mut world, &mut dice);
            let codes = dice.next();
            second_of_node(&mut world, |pod| match (codes ^ uid(pod).len() as u64) % 5 {
                0 => Some(0),
                1 => Some(1),
                _ => None,
            });
        }
        let namespace = world.store.find(&Kind::NAMESPACE, "", "n").unwrap().uid().to_owned();
        world.store.delete(&namespace, Propagation::Background, None, world.now);
        for _ in 0..12 {
            second_of_node(&mut world, |_| None);
        }
        let left: Vec<String> = world.store.objects.values().map(|object| object.target().to_string()).collect();
        assert_eq!(left, ["Node node"]);
    });
}

/// A user does something, or the controllers are started anew.
fn disturb(world: &mut World, dice: &mut Dice) {
    match dice.below(9) {
        0 if world.store.find(&Kind::JOB, "n", "j").is_none() => {
            let spec = serde_json::json!({
                "parallelism": 1 + dice.below(3), "completions": 1 + dice.below(5), "backoffLimit": dice.below(4),
                "ttlSecondsAfterFinished": dice.below(10),
                "completionMode": if dice.percent(50) { "Indexed" } else { "NonIndexed" },
            });
            world.create_job(&spec.to_string());
        }
        1 if world.store.find(&Kind::CRON_JOB, "n", "c").is_none() => {
            create_cron_job(world);
        }
        2 if world.store.find(&Kind::SERVICE, "n", "s").is_none() => {
            let service: Service = serde_json::from_value(serde_json::json!({
                "metadata": {"name": "s", "namespace": "n"},
                "spec": {"selector": {"app": "c"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
            }))
            .unwrap();
            world.store.create(service.into(), world.now).unwrap();
        }
        3 | 4 => {
            let uids = world.store.objects.values();
            let uids: Vec<String> = uids.filter(|one| one.namespace() == "n").map(|one| one.uid().to_owned()).collect();
            let policies = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
            if let Some(victim) = dice.pick(&uids).cloned() {
                world.store.delete(&victim, policies[dice.below(3)], None, world.now);
            }
        }
        5 => world.restart(),
        6 => world.now = world.now.checked_add(SignedDuration::from_secs(60)).unwrap(),
        7 => {
            let jobs = world.store.objects.values().filter(|one| matches!(one, Object::Job(_)));
            let jobs: Vec<String> = jobs.map(|one| one.uid().to_owned()).collect();
            if let Some(job) = dice.pick(&jobs) {
                world.store.change_job(job, |job| {
                    let spec = job.spec.as_mut().unwrap();
                    spec.suspend = Some(spec.suspend != Some(true));
                });
            }
        }
        _ => {}
    }
    world.settle();
}
