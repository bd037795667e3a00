//! Jobs under random interleavings: late and repeated watch events, refused writes, lost answers, crashes, pods that end anyhow.
//!
//! A ledger beside the store knows what really became of each pod, and is compared at every write and at the end.

use std::collections::{BTreeMap, BTreeSet};

use controllers::{Action, Config, ControllerName, Input, MetadataChange, Object, Outcome, RefusalCause, Write};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::dice::{Dice, with_seeds};
use crate::store::{Told, refusal};
use crate::world::{World, annotation, phase, uid};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// One Job in a hostile world.
struct Trial {
    dice: Dice,
    world: World,
    job: String,
    /// Writes that the controllers yielded and nobody has carried out.
    taken: Vec<Write>,
    /// Answers on their way back.
    answers: Vec<(Write, Outcome)>,
    /// Watch events that were told once, to be told again.
    told: Vec<Told>,
    /// Uids that were moved into a counter.
    counted: BTreeSet<String>,
    /// The largest parallelism that the Job ever had.
    parallelism_max: usize,
    /// Pods that were taken out by force, or stripped by somebody else: they may be lost (J-80).
    lost: BTreeSet<String>,
    /// Pods that were deleted before they ended well: each may have been taken for a failure before (J-78).
    deleted: BTreeSet<String>,
    /// How often each index has failed.
    failures: BTreeMap<u32, i32>,
    /// Pods that ended well while they were tracked: uid and index.
    succeeded: BTreeMap<String, Option<u32>>,
}

#[test]
fn random_jobs_lose_no_pod_and_count_none_twice() {
    with_seeds("random_jobs", 3000, |seed| {
        let mut trial = Trial::new(seed);
        let steps = 40 + trial.dice.below(260);
        for _ in 0..steps {
            trial.step();
        }
        trial.finish();
    });
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut dice = Dice::new(seed);
        let spec = random_spec(&mut dice);
        let names = [ControllerName::Job, ControllerName::PodCollector];
        let mut config = Config::only(&names);
        config.job.pods_per_step = [1, 2, 500, 500][dice.below(4)];
        let mut world = World::with(config);
        let node = serde_json::json!({"metadata": {"name": "node"}});
        let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(node).unwrap();
        world.store.create(node.into(), world.now).unwrap();
        let job = crate::world::job(&spec.to_string());
        let job = world.store.create(job.into(), world.now).unwrap().uid().to_owned();
        world.default_job(&job);
        let parallelism = world.job(&job).spec.unwrap().parallelism.unwrap();
        Trial {
            dice,
            world,
            job,
            taken: Vec::new(),
            answers: Vec::new(),
            told: Vec::new(),
            counted: BTreeSet::new(),
            parallelism_max: usize::try_from(parallelism).unwrap(),
            lost: BTreeSet::new(),
            deleted: BTreeSet::new(),
            failures: BTreeMap::new(),
            succeeded: BTreeMap::new(),
        }
    }

    /// One thing happens.
    fn step(&mut self) {
        match self.dice.below(100) {
            0..25 => self.tell(),
            25..28 => self.repeat(),
            28..45 => self.take(),
            45..60 => self.carry_out(),
            60..75 => self.answer(),
            75..90 => self.live(),
            90..94 => self.pass_time(),
            94..97 => self.edit(),
            _ => self.crash(),
        }
    }

    fn tell(&mut self) {
        if let Some(told) = self.world.store.take_told(&mut self.dice) {
            self.told.push(told.clone());
            self.world.tell(told);
        }
    }

    /// A watch that starts again tells what it told before.
    fn repeat(&mut self) {
        let old = self.dice.pick(&self.told).cloned();
        if let Some(Told::Applied(object)) = old
            && self.world.store.objects.contains_key(object.uid())
        {
            self.world.tell(Told::Applied(object));
        }
    }

    fn take(&mut self) {
        self.taken.extend(self.world.controllers.poll_write());
    }

    fn carry_out(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let write = self.taken.remove(self.dice.below(self.taken.len()));
        let outcome = if self.dice.percent(8) {
            Outcome::Refused(refusal(RefusalCause::Unavailable, "busy"))
        } else {
            let outcome = self.perform(&write.action);
            // A write may be done although its answer says otherwise; but a creation that is said to have failed has failed.
            if self.dice.percent(5) && !matches!(write.action, Action::Create(_)) {
                Outcome::Refused(refusal(RefusalCause::Unavailable, "timeout"))
            } else {
                outcome
            }
        };
        self.answers.push((write, outcome));
    }

    fn answer(&mut self) {
        if !self.answers.is_empty() {
            let at = self.dice.below(self.answers.len());
            let (write, outcome) = self.answers.remove(at);
            self.world.answer(&write, outcome);
        }
    }

    /// Something happens to a pod.
    fn live(&mut self) {
        let pods = self.world.pods();
        let Some(pod) = self.dice.pick(&pods).cloned() else {
            return;
        };
        let is_deleting = pod.metadata.deletion_timestamp.is_some();
        match (phase(&pod).as_str(), self.dice.below(10)) {
            ("Pending", 0..8) if !is_deleting => self.world.start(&pod),
            ("Pending" | "Running", 8) => self.delete(&pod),
            ("Running", 7) if !is_deleting => self.disrupt(&pod),
            ("Running", code) => self.end(&pod, [0, 0, 0, 1, 42, 3, 0][code % 7]),
            (_, 9) => self.delete(&pod),
            _ => {}
        }
    }

    fn end(&mut self, pod: &Pod, exit_code: i32) {
        if exit_code == 0 && is_tracked(pod) {
            if pod.metadata.deletion_timestamp.is_some() {
                self.deleted.insert(uid(pod).to_owned());
            }
            self.succeeded.insert(uid(pod).to_owned(), index(pod));
        }
        if let Some(index) = index(pod).filter(|_| exit_code != 0 && is_tracked(pod)) {
            let failures = self.failures.entry(index).or_default();
            *failures = (*failures).max(attempts(pod) + 1);
        }
        self.world.end(pod, exit_code);
    }

    fn delete(&mut self, pod: &Pod) {
        let background = controllers::Propagation::Background;
        self.world.store.delete(uid(pod), background, None, self.world.now);
        if !self.world.store.objects.contains_key(uid(pod)) {
            self.lost.insert(uid(pod).to_owned());
        }
    }

    fn disrupt(&mut self, pod: &Pod) {
        self.world.store.change_pod(uid(pod), |pod| {
            let conditions = pod.status.as_mut().unwrap().conditions.get_or_insert_default();
            conditions.retain(|one| one.type_ != "DisruptionTarget");
            conditions.push(PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                ..Default::default()
            });
        });
        self.delete(pod);
    }

    fn pass_time(&mut self) {
        let seconds = [1, 1, 3, 10, 30, 700][self.dice.below(6)];
        self.world.now = self.world.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self.world.controllers.handle_timeout(self.world.now);
        let next = self.world.controllers.poll_timeout();
        assert!(next.is_none_or(|at| at > self.world.now), "the timeout lies ahead");
    }

    /// Somebody changes the Job's spec.
    fn edit(&mut self) {
        let (choice, number) = (self.dice.below(4), self.dice.below(4));
        if !self.world.store.objects.contains_key(&self.job) || is_finished(&self.world.job(&self.job)) {
            return;
        }
        self.world.store.change_job(&self.job, |job| {
            let spec = job.spec.as_mut().unwrap();
            match choice {
                0 => spec.suspend = Some(true),
                1 | 2 => spec.suspend = Some(false),
                _ => spec.parallelism = Some(i32::try_from(number).unwrap()),
            }
        });
        let parallelism = self.world.job(&self.job).spec.unwrap().parallelism.unwrap();
        self.parallelism_max = self.parallelism_max.max(usize::try_from(parallelism).unwrap());
    }

    /// The controllers end, some of their writes still reach the store, and new ones start.
    fn crash(&mut self) {
        for write in std::mem::take(&mut self.taken) {
            if self.dice.percent(50) {
                self.perform(&write.action);
            }
        }
        self.answers.clear();
        self.told.clear();
        self.world.restart();
    }

    /// Carries a write out and checks it against the ledger.
    fn perform(&mut self, action: &Action) -> Outcome {
        let before = self.status();
        match action {
            Action::Create(object) => self.check_creation(object),
            Action::Delete { target, .. } => {
                let released = self.pod(&target.uid).is_none_or(|pod| !is_tracked(&pod));
                let has_succeeded = before.conditions.iter().flatten().any(|one| one.type_ == "SuccessCriteriaMet");
                assert!(released || !has_succeeded, "a pod of a successful Job is deleted while it would be counted");
            }
            Action::EditMetadata { target, changes, if_version } => {
                let pod = self.pod(&target.uid);
                let release = MetadataChange::RemoveFinalizer(TRACKING.into());
                if let Some(pod) = pod.filter(|pod| is_tracked(pod) && changes.contains(&release)) {
                    let is_meant = if_version.is_none() || *if_version == pod.metadata.resource_version;
                    if is_meant {
                        self.check_release(&pod);
                    }
                }
            }
            _ => {}
        }
        let outcome = self.world.store.carry_out(action, self.world.now);
        if let (Action::UpdateStatus(_), Outcome::Stored(_)) = (action, &outcome) {
            self.check_counting(&before, &self.status());
        }
        outcome
    }

    /// Never more active than asked for, never more than can still be needed, never an index twice.
    fn check_creation(&self, new: &Object) {
        let job = self.world.job(&self.job);
        assert!(!is_finished(&job), "a finished Job makes a pod");
        let active = self.tracked_active();
        assert!(active.len() < self.parallelism_max, "more than parallelism");
        let spec = job.spec.unwrap();
        if let Some(completions) = spec.completions {
            let sure = self.succeeded.iter().filter(|(uid, _)| !self.deleted.contains(*uid));
            let successes = match spec.completion_mode.as_deref() {
                Some("Indexed") => {
                    let indexes: BTreeSet<_> = sure.flat_map(|(_, index)| index).collect();
                    indexes.len()
                }
                _ => sure.count(),
            };
            let needed = usize::try_from(completions).unwrap();
            assert!(successes + active.len() < needed, "more than can be needed");
        }
        let indexes: Vec<u32> = active.iter().filter_map(index).collect();
        let distinct: BTreeSet<&u32> = indexes.iter().collect();
        assert_eq!(indexes.len(), distinct.len(), "an index twice");
        let Object::Pod(new) = new else { panic!("not a pod") };
        if let Some(index) = index(new).filter(|_| spec.backoff_limit_per_index.is_some()) {
            let before = self.failures.get(&index).copied().unwrap_or(0);
            assert!(attempts(new) >= before, "J-88: the failures of index {index} are forgotten");
        }
    }

    /// J-76: no pod that has ended is released before its end is stored.
    fn check_release(&mut self, pod: &Pod) {
        if let Some(index) = index(pod).filter(|_| !has_ended(pod)) {
            // A pod that is taken away uncounted takes the count of its index with it.
            self.failures.remove(&index);
        }
        let Some(Object::Job(job)) = self.world.store.objects.get(&self.job) else {
            return;
        };
        if is_finished(job) || !owned(pod) {
            return;
        }
        let status = job.status.clone().unwrap_or_default();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_noted = |list: &Option<Vec<String>>| list.iter().flatten().any(|one| one == uid(pod));
        let noted_failed = is_noted(&uncounted.failed);
        match phase(pod).as_str() {
            "Succeeded" => {
                let index_noted =
                    index(pod).is_some_and(|index| expand(status.completed_indexes.as_deref()).contains(&index));
                let noted = noted_failed || is_noted(&uncounted.succeeded) || index_noted;
                assert!(noted, "a success is released unnoted: {status:?}");
            }
            "Failed" => {
                let is_ignored = job.spec.as_ref().unwrap().pod_failure_policy.is_some() && exit_code(pod) == Some(42);
                assert!(noted_failed || is_ignored, "a failure is released unnoted: {status:?}");
            }
            _ => {}
        }
    }

    /// What leaves the list of the uncounted is counted, once, and only when the finalizer is gone.
    fn check_counting(&mut self, before: &JobStatus, after: &JobStatus) {
        let lists = |status: &JobStatus| {
            let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
            let succeeded: Vec<String> = uncounted.succeeded.unwrap_or_default();
            let failed: Vec<String> = uncounted.failed.unwrap_or_default();
            (succeeded, failed)
        };
        let ((succeeded, failed), (still_succeeded, still_failed)) = (lists(before), lists(after));
        let mut moved = [0, 0];
        let steps = [(&succeeded, &still_succeeded), (&failed, &still_failed)];
        for (count, (was, is)) in moved.iter_mut().zip(steps) {
            for one in was.iter().filter(|one| !is.contains(one)) {
                *count += 1;
                assert!(self.counted.insert(one.clone()), "{one} is counted twice");
                let pod = self.pod(one);
                assert!(!pod.is_some_and(|pod| is_tracked(&pod)), "{one} is counted early");
            }
            for one in is {
                assert!(!self.counted.contains(one), "{one} is noted after it was counted");
            }
        }
        assert!(!still_succeeded.iter().any(|one| still_failed.contains(one)), "noted as both");
        let grew = |was: Option<i32>, is: Option<i32>| is.unwrap_or(0) - was.unwrap_or(0);
        assert_eq!(grew(before.failed, after.failed), moved[1], "failed");
        if after.completed_indexes.is_none() && before.completed_indexes.is_none() {
            assert_eq!(grew(before.succeeded, after.succeeded), moved[0], "succeeded");
        }
    }

    /// The world calms down; the Job must come to its end, with every pod accounted for.
    fn finish(&mut self) {
        for _ in 0..400 {
            self.calm();
            if is_finished(&self.world.job(&self.job)) && self.world.pods().iter().all(has_ended) {
                self.calm();
                return self.check_end();
            }
            let job = self.world.job(&self.job).spec.unwrap();
            if job.suspend == Some(true) || job.parallelism == Some(0) {
                self.world.store.change_job(&self.job, |job| {
                    let spec = job.spec.as_mut().unwrap();
                    (spec.suspend, spec.parallelism) = (Some(false), Some(2));
                });
                self.parallelism_max = self.parallelism_max.max(2);
            }
            for pod in self.world.pods() {
                match phase(&pod).as_str() {
                    "Pending" if pod.metadata.deletion_timestamp.is_some() => {}
                    "Pending" => self.world.start(&pod),
                    "Running" => self.end(&pod, 0),
                    _ if pod.metadata.deletion_timestamp.is_some() => self.world.finish_deletion(&pod),
                    _ => {}
                }
            }
            self.world.now = self.world.now.checked_add(SignedDuration::from_secs(700)).unwrap();
            self.world.controllers.handle_timeout(self.world.now);
        }
        panic!("the Job does not end: {:?}", self.world.job(&self.job));
    }

    /// Everything that is on its way arrives.
    fn calm(&mut self) {
        for _ in 0..10_000 {
            while let Some(told) = self.world.store.told.pop_front() {
                self.world.tell(told);
            }
            self.take();
            if let Some(write) = self.taken.pop() {
                let outcome = self.perform(&write.action);
                self.answers.push((write, outcome));
            } else if self.answers.is_empty() {
                return;
            }
            self.answer();
        }
        panic!("the controllers do not come to rest");
    }

    fn check_end(&mut self) {
        let job = self.world.job(&self.job);
        let status = job.status.clone().unwrap();
        for pod in self.world.pods() {
            assert!(!is_tracked(&pod), "a finalizer is left behind");
        }
        let indexed = job.spec.as_ref().unwrap().completion_mode.as_deref() == Some("Indexed");
        if indexed {
            let earned: BTreeSet<u32> = self.succeeded.values().flatten().copied().collect();
            let noted = expand(status.completed_indexes.as_deref());
            assert!(noted.is_subset(&earned), "{noted:?} of {earned:?}");
            let missed: Vec<_> = earned.difference(&noted).collect();
            // A pod that was counted as failed while it was being deleted stays a failure (J-78).
            let all_failed = |index: &u32| {
                let mut pods = self.succeeded.iter().filter(|(_, of)| **of == Some(*index));
                pods.all(|(uid, _)| self.counted.contains(uid) || self.lost.contains(uid))
            };
            assert!(missed.iter().all(|index| all_failed(index)), "{missed:?} are lost");
            assert_eq!(status.succeeded.unwrap_or(0), i32::try_from(noted.len()).unwrap());
        } else {
            for uid in self.succeeded.keys().filter(|uid| !self.lost.contains(*uid)) {
                assert!(self.counted.contains(uid), "{uid} is lost");
            }
        }
        let pods_before = self.world.store.created_pods.len();
        self.world.advance(100_000);
        assert_eq!(self.world.store.created_pods.len(), pods_before, "a finished Job goes on");
    }

    fn status(&self) -> JobStatus {
        match self.world.store.objects.get(&self.job) {
            Some(Object::Job(job)) => job.status.clone().unwrap_or_default(),
            _ => JobStatus::default(),
        }
    }

    fn pod(&self, uid: &str) -> Option<Pod> {
        match self.world.store.objects.get(uid) {
            Some(Object::Pod(pod)) => Some(pod.as_ref().clone()),
            _ => None,
        }
    }

    fn tracked_active(&self) -> Vec<Pod> {
        let active = self.world.active().into_iter();
        active.filter(is_tracked).collect()
    }
}

fn random_spec(dice: &mut Dice) -> serde_json::Value {
    let mut spec = serde_json::json!({
        "parallelism": dice.below(4),
        "backoffLimit": ([0, 1, 3, 6][dice.below(4)]),
    });
    if dice.percent(75) {
        spec["completions"] = dice.below(6).into();
    }
    if spec.get("completions").is_some() && dice.percent(50) {
        spec["completionMode"] = "Indexed".into();
        if dice.percent(50) {
            spec["backoffLimitPerIndex"] = dice.below(3).into();
            spec["backoffLimit"] = i32::MAX.into();
            if dice.percent(50) {
                spec["maxFailedIndexes"] = dice.below(3).into();
            }
        }
        if dice.percent(30) {
            spec["successPolicy"] = serde_json::json!({"rules": [{"succeededCount": 1 + dice.below(3)}]});
        }
    }
    if dice.percent(30) {
        spec["podFailurePolicy"] = serde_json::json!({"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "Ignore", "onPodConditions": [{"type": "Never"}]},
        ]});
    }
    if dice.percent(30) {
        spec["podReplacementPolicy"] = "Failed".into();
    }
    if dice.percent(20) {
        spec["activeDeadlineSeconds"] = (5 + dice.below(2000)).into();
    }
    if dice.percent(15) {
        spec["suspend"] = true.into();
    }
    spec
}

fn is_finished(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| &status.conditions).flatten();
    let mut ends = conditions.filter(|one| matches!(one.type_.as_str(), "Complete" | "Failed"));
    ends.any(|one| one.status == "True")
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod).as_str(), "Succeeded" | "Failed")
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|one| one == TRACKING)
}

fn owned(pod: &Pod) -> bool {
    pod.metadata.owner_references.is_some()
}

fn index(pod: &Pod) -> Option<u32> {
    annotation(pod, "batch.kubernetes.io/job-completion-index")?.parse().ok()
}

/// The failures of the pod's index before it, ignored ones included.
fn attempts(pod: &Pod) -> i32 {
    let count = |key: &str| annotation(pod, key).map_or(0, |text| text.parse::<i32>().unwrap());
    count("batch.kubernetes.io/job-index-failure-count") + count("batch.kubernetes.io/job-index-ignored-failure-count")
}

fn exit_code(pod: &Pod) -> Option<i32> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let terminated = statuses[0].state.as_ref()?.terminated.as_ref()?;
    Some(terminated.exit_code)
}

/// The indexes of the text form, read in the plainest way.
fn expand(text: Option<&str>) -> BTreeSet<u32> {
    let parts = text.unwrap_or_default().split(',').filter(|part| !part.is_empty());
    parts
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
        })
        .collect()
}

#[test]
fn a_late_answer_does_not_bring_a_deleted_pod_back() {
    let mut world = World::new();
    world.create_job("{}");
    let pod = world.active()[0].clone();
    world.start(&pod);
    world.settle();
    let background = controllers::Propagation::Background;
    world.store.delete(uid(&pod), background, None, world.now);
    world.end(&pod, 1);
    while let Some(told) = world.store.told.pop_front() {
        world.tell(told);
    }
    // The answer that the finalizer is gone comes after the watch has told that the pod is gone.
    while let Some(write) = world.controllers.poll_write() {
        let outcome = world.store.carry_out(&write.action, world.now);
        while let Some(told) = world.store.told.pop_front() {
            world.tell(told);
        }
        let input = Input::Answered { write: write.id, outcome };
        world.controllers.handle(world.now, input).unwrap();
    }
    assert!(world.controllers.cache().pod_by_uid(uid(&pod)).is_none());
}
