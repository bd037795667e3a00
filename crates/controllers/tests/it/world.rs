//! Drives the controllers against the store, with a clock that moves only when told.

use controllers::{Config, ControllerName, Controllers, Input, Object, Outcome, Write};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition};

use crate::store::{Store, Told, second};

pub struct World {
    pub now: Timestamp,
    pub store: Store,
    pub controllers: Controllers,
    pub config: Config,
}

impl World {
    /// An empty store at a fixed moment, and the Job controller alone.
    pub fn new() -> World {
        World::with(Config::only(&[ControllerName::Job]))
    }

    pub fn with(config: Config) -> World {
        let mut world = World {
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            store: Store::default(),
            controllers: Controllers::new(config.clone()),
            config,
        };
        world.controllers.handle(world.now, Input::Synced).unwrap();
        world
    }

    /// Ends the controllers and starts new ones from what is stored.
    pub fn restart(&mut self) {
        self.controllers = Controllers::new(self.config.clone());
        self.store.told.clear();
        for object in self.store.objects.values() {
            let input = Input::Applied(object.clone());
            self.controllers.handle(self.now, input).unwrap();
        }
        self.controllers.handle(self.now, Input::Synced).unwrap();
        assert!(self.controllers.poll_timeout().is_none_or(|at| at > self.now));
    }

    /// Tells and writes until nothing is left to do at this moment.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if let Some(told) = self.store.told.pop_front() {
                self.tell(told);
            } else if let Some(write) = self.controllers.poll_write() {
                let outcome = self.store.carry_out(&write.action, self.now);
                self.answer(&write, outcome);
            } else {
                return;
            }
        }
        panic!("the controllers do not come to rest");
    }

    pub fn tell(&mut self, told: Told) {
        let input = match told {
            Told::Applied(object) => Input::Applied(object),
            Told::Deleted(target) => Input::Deleted(target),
        };
        self.controllers.handle(self.now, input).unwrap();
    }

    pub fn answer(&mut self, write: &Write, outcome: Outcome) {
        let input = Input::Answered { write: write.id, outcome };
        self.controllers.handle(self.now, input).unwrap();
    }

    /// Lets time pass, waking the controllers whenever they asked for it.
    pub fn advance(&mut self, seconds: i64) {
        let end = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self.controllers.handle_timeout(self.now);
        self.settle();
        while let Some(at) = self.controllers.poll_timeout().filter(|at| *at <= end) {
            assert!(at > self.now, "the timeout lies ahead");
            self.now = at;
            self.controllers.handle_timeout(at);
            self.settle();
        }
        self.now = end;
    }

    pub fn create_job(&mut self, yaml: &str) -> String {
        let job = job(yaml);
        let uid = self.store.create(job.into(), self.now).unwrap().uid().to_owned();
        self.default_job(&uid);
        self.settle();
        uid
    }

    /// J-16: what the server generates.
    pub fn default_job(&mut self, uid: &str) {
        let uid_value = uid.to_owned();
        self.store.told.pop_back();
        self.store.change_job(uid, |job| {
            let name = job.metadata.name.clone().unwrap();
            let spec = job.spec.as_mut().unwrap();
            if spec.manual_selector != Some(true) {
                let template = spec.template.metadata.get_or_insert_default();
                let labels = template.labels.get_or_insert_default();
                for key in ["job-name", "batch.kubernetes.io/job-name"] {
                    labels.insert(key.into(), name.clone());
                }
                for key in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
                    labels.insert(key.into(), uid_value.clone());
                }
                let selector = spec.selector.get_or_insert_default();
                let labels = selector.match_labels.get_or_insert_default();
                labels.insert("batch.kubernetes.io/controller-uid".into(), uid_value.clone());
            }
            if spec.completions.is_none() && spec.parallelism.is_none() {
                spec.completions = Some(1);
            }
            spec.parallelism.get_or_insert(1);
            let limit = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
            spec.backoff_limit.get_or_insert(limit);
        });
        self.store.job_history.clear();
    }

    pub fn job(&self, uid: &str) -> Job {
        match &self.store.objects[uid] {
            Object::Job(job) => job.as_ref().clone(),
            other => panic!("not a job: {other:?}"),
        }
    }

    pub fn status(&self, uid: &str) -> JobStatus {
        self.job(uid).status.unwrap_or_default()
    }

    /// `Type=Status Reason` of every condition.
    pub fn conditions(&self, uid: &str) -> Vec<String> {
        condition_texts(&self.status(uid))
    }

    /// Every pod that is stored, oldest first.
    pub fn pods(&self) -> Vec<Pod> {
        let mut pods = self.store.pods();
        pods.sort_by_key(|pod| {
            let uid = pod.metadata.uid.clone().unwrap();
            uid.trim_start_matches("uid-").parse::<u64>().unwrap()
        });
        pods
    }

    /// The pods that run or are to run.
    pub fn active(&self) -> Vec<Pod> {
        let pods = self.pods().into_iter();
        pods.filter(|pod| {
            let phase = phase(pod);
            phase != "Succeeded" && phase != "Failed" && pod.metadata.deletion_timestamp.is_none()
        })
        .collect()
    }

    pub fn start(&mut self, pod: &Pod) {
        let now = second(self.now);
        self.store.change_pod(uid(pod), |pod| {
            pod.spec.as_mut().unwrap().node_name = Some("node".into());
            let status = pod.status.as_mut().unwrap();
            status.phase = Some("Running".into());
            status.conditions = Some(vec![PodCondition {
                type_: "Ready".into(),
                status: "True".into(),
                last_transition_time: Some(now),
                ..Default::default()
            }]);
        });
    }

    /// The pod's containers end with these codes; its phase follows.
    pub fn end(&mut self, pod: &Pod, exit_code: i32) {
        let now = second(self.now);
        let is_being_deleted = self.store.objects[uid(pod)].metadata().deletion_timestamp.is_some();
        self.store.change_pod(uid(pod), |pod| {
            let container = pod.spec.as_ref().unwrap().containers[0].name.clone();
            let status = pod.status.as_mut().unwrap();
            let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
            status.phase = Some(phase.into());
            for condition in status.conditions.iter_mut().flatten() {
                if condition.type_ == "Ready" {
                    condition.status = "False".into();
                    condition.last_transition_time = Some(now.clone());
                }
            }
            status.container_statuses = Some(vec![ContainerStatus {
                name: container,
                state: Some(ContainerState {
                    terminated: Some(ContainerStateTerminated {
                        exit_code,
                        finished_at: Some(now),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }]);
        });
        if is_being_deleted {
            self.finish_deletion(pod);
        }
    }

    /// The node's last word: DELETE with grace 0.
    pub fn finish_deletion(&mut self, pod: &Pod) {
        if self.store.objects.contains_key(uid(pod)) {
            let propagation = controllers::Propagation::Background;
            self.store.delete(uid(pod), propagation, Some(0), self.now);
        }
    }

    /// Starts and ends every active pod with the code given, and settles.
    pub fn end_all(&mut self, exit_code: i32) {
        for pod in self.active() {
            self.start(&pod);
            self.end(&pod, exit_code);
        }
        self.settle();
    }

    /// Ends the pods that are being deleted, as the node does after SIGTERM.
    pub fn end_terminating(&mut self, exit_code: i32) {
        for pod in self.pods() {
            if pod.metadata.deletion_timestamp.is_some() && phase(&pod) != "Failed" && phase(&pod) != "Succeeded" {
                self.end(&pod, exit_code);
            }
        }
        self.settle();
    }

    pub fn events(&self) -> Vec<&str> {
        self.store.events.iter().map(String::as_str).collect()
    }
}

pub fn condition_texts(status: &JobStatus) -> Vec<String> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .map(|one| format!("{}={} {}", one.type_, one.status, one.reason.as_deref().unwrap_or_default()))
        .collect()
}

pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap()
}

pub fn phase(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

/// A Job named `j` in namespace `n` whose spec is the JSON given, with a template of one container unless it says otherwise.
pub fn job(spec: &str) -> Job {
    let mut spec: serde_json::Value = serde_json::from_str(spec).unwrap();
    if spec.get("template").is_none() {
        spec["template"] = serde_json::json!({
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36"}]}
        });
    }
    serde_json::from_value(serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": spec,
    }))
    .unwrap()
}

pub fn annotation(pod: &Pod, key: &str) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(key).cloned()
}

pub fn index(pod: &Pod) -> u32 {
    let key = "batch.kubernetes.io/job-completion-index";
    annotation(pod, key).unwrap().parse().unwrap()
}
