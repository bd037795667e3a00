//! The garbage collector: rule by rule, then on random families of objects.

use std::collections::{BTreeMap, BTreeSet};

use controllers::{
    Action, Config, ControllerName, Kind, Object, OtherObject, Outcome, Propagation, RefusalCause, ServedKind,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::dice::{Dice, with_seeds};
use crate::store::refusal;
use crate::world::World;

fn world() -> World {
    let mut config = Config::only(&[ControllerName::GarbageCollector]);
    config.served_kinds.push(ServedKind { kind: thing(), is_namespaced: true });
    World::with(config)
}

fn thing() -> Kind {
    Kind::new("example.com/v1", "Thing")
}

fn owner(name: &str, uid: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Thing".into(),
        name: name.into(),
        uid: uid.into(),
        controller: None,
        block_owner_deletion: Some(blocks),
    }
}

fn create(world: &mut World, name: &str, owners: Vec<OwnerReference>) -> String {
    create_in(world, "n", name, owners)
}

fn create_in(world: &mut World, namespace: &str, name: &str, owners: Vec<OwnerReference>) -> String {
    let object = Object::Other(std::sync::Arc::new(OtherObject {
        kind: thing(),
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace.into()).filter(|name: &String| !name.is_empty()),
            owner_references: Some(owners).filter(|owners| !owners.is_empty()),
            ..Default::default()
        },
    }));
    world.store.create(object, world.now).unwrap().uid().to_owned()
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.store.objects.values().map(|one| one.name().to_owned()).collect();
    names.sort();
    names
}

fn owners_of(world: &World, uid: &str) -> Vec<String> {
    let owners = world.store.objects[uid].metadata().owner_references.clone().unwrap_or_default();
    owners.into_iter().map(|owner| owner.name).collect()
}

fn hold(world: &mut World, uid: &str) {
    world.store.change(uid, |object| crate::store::metadata(object).finalizers = Some(vec!["x/y".into()]));
}

fn let_go(world: &mut World, uid: &str) {
    world.store.change(uid, |object| {
        crate::store::metadata(object).finalizers.as_mut().unwrap().retain(|one| one != "x/y");
    });
    world.settle();
}

#[test]
fn j121_dependents_of_an_owner_that_is_gone_go_after_it() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let middle = create(&mut world, "middle", vec![owner("top", &top, true)]);
    create(&mut world, "leaf", vec![owner("middle", &middle, true)]);
    create(&mut world, "other", vec![]);
    world.settle();
    world.store.delete(&top, Propagation::Background, None, world.now);
    world.settle();
    assert_eq!(names(&world), ["other"]);
}

#[test]
fn j122_a_foreground_owner_goes_after_the_dependents_that_block_it() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let blocking = create(&mut world, "blocking", vec![owner("top", &top, true)]);
    let free = create(&mut world, "free", vec![owner("top", &top, false)]);
    hold(&mut world, &blocking);
    hold(&mut world, &free);
    world.store.delete(&top, Propagation::Foreground, None, world.now);
    world.settle();
    assert_eq!(names(&world), ["blocking", "free", "top"]);
    for uid in [&blocking, &free] {
        assert!(world.store.objects[uid].metadata().deletion_timestamp.is_some());
    }
    let_go(&mut world, &blocking);
    assert_eq!(names(&world), ["free"]);
}

#[test]
fn j122_foreground_deletion_goes_down_the_whole_family() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let middle = create(&mut world, "middle", vec![owner("top", &top, true)]);
    let leaf = create(&mut world, "leaf", vec![owner("middle", &middle, true)]);
    hold(&mut world, &leaf);
    world.store.delete(&top, Propagation::Foreground, None, world.now);
    world.settle();
    assert_eq!(names(&world), ["leaf", "middle", "top"]);
    let_go(&mut world, &leaf);
    assert!(names(&world).is_empty());
}

#[test]
fn j123_an_orphaning_owner_lets_its_dependents_go() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let other = create(&mut world, "other", vec![]);
    let one = create(&mut world, "one", vec![owner("top", &top, true)]);
    let two = create(&mut world, "two", vec![owner("top", &top, true), owner("other", &other, true)]);
    world.store.delete(&top, Propagation::Orphan, None, world.now);
    world.settle();
    assert_eq!(names(&world), ["one", "other", "two"]);
    assert!(owners_of(&world, &one).is_empty());
    assert_eq!(owners_of(&world, &two), ["other"]);
}

#[test]
fn a130_an_object_with_an_owner_left_only_loses_the_dead_references() {
    let mut world = world();
    let first = create(&mut world, "first", vec![]);
    let second = create(&mut world, "second", vec![]);
    let child = create(&mut world, "child", vec![owner("first", &first, true), owner("second", &second, true)]);
    world.store.delete(&first, Propagation::Foreground, None, world.now);
    world.settle();
    assert_eq!(names(&world), ["child", "second"]);
    assert_eq!(owners_of(&world, &child), ["second"]);
}

#[test]
fn a130_owners_are_known_by_uid() {
    let mut world = world();
    create(&mut world, "top", vec![]);
    create(&mut world, "child", vec![owner("top", "another-uid", true)]);
    world.settle();
    assert_eq!(names(&world), ["top"]);
}

#[test]
fn a130_an_owner_of_a_kind_that_is_not_served_is_taken_to_be_there() {
    let mut world = world();
    let mut reference = owner("d", "uid-of-d", true);
    reference.kind = "Deployment".into();
    reference.api_version = "apps/v1".into();
    let child = create(&mut world, "child", vec![reference]);
    world.settle();
    assert_eq!(owners_of(&world, &child), ["d"]);
}

#[test]
fn a130_another_version_of_the_owners_group_means_the_same_owner() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let mut reference = owner("top", &top, true);
    reference.api_version = "example.com/v1beta1".into();
    create(&mut world, "child", vec![reference]);
    world.settle();
    assert_eq!(names(&world), ["child", "top"]);
}

#[test]
fn a130_an_owner_in_another_namespace_is_none_and_is_told() {
    let mut world = world();
    let top = create_in(&mut world, "m", "top", vec![]);
    create(&mut world, "child", vec![owner("top", &top, true)]);
    world.settle();
    assert_eq!(names(&world), ["top"]);
    let told = format!(
        "Warning OwnerRefInvalidNamespace ownerRef [example.com/v1/Thing, namespace: n, name: top, uid: {top}] does not exist in namespace \"n\""
    );
    assert_eq!(world.events(), [told]);
}

#[test]
fn a130_an_object_of_the_cluster_is_not_owned_by_one_of_a_namespace() {
    let mut world = world();
    create_in(&mut world, "", "child", vec![owner("top", "gone", true)]);
    world.settle();
    assert_eq!(names(&world), ["child"]);
}

#[test]
fn a130_owners_in_a_circle_all_go() {
    let mut world = world();
    let one = create(&mut world, "one", vec![]);
    let two = create(&mut world, "two", vec![owner("one", &one, true)]);
    let reference = owner("two", &two, true);
    world.store.change(&one, |object| crate::store::metadata(object).owner_references = Some(vec![reference]));
    world.settle();
    assert_eq!(names(&world), ["one", "two"]);
    world.store.delete(&one, Propagation::Foreground, None, world.now);
    world.advance(1000);
    assert!(names(&world).is_empty());
}

#[test]
fn a130_what_gets_an_owner_at_the_last_moment_is_not_deleted() {
    let mut world = world();
    let first = create(&mut world, "first", vec![]);
    let second = create(&mut world, "second", vec![]);
    let child = create(&mut world, "child", vec![owner("first", &first, true)]);
    world.settle();
    world.store.remove(&first);
    while let Some(told) = world.store.told.pop_front() {
        world.tell(told);
    }
    // The owner is looked up, and is not there.
    let write = world.controllers.poll_write().unwrap();
    assert!(matches!(write.action, Action::Read(_)));
    let outcome = world.store.carry_out(&write.action, world.now);
    world.answer(&write, outcome);
    let write = world.controllers.poll_write().unwrap();
    let reference = owner("second", &second, true);
    world.store.change(&child, |object| crate::store::metadata(object).owner_references = Some(vec![reference]));
    let outcome = world.store.carry_out(&write.action, world.now);
    assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.cause == RefusalCause::Conflict));
    world.answer(&write, outcome);
    world.settle();
    assert_eq!(names(&world), ["child", "second"]);
}

#[test]
fn a130_an_owner_that_is_told_after_its_dependent_is_not_taken_for_gone() {
    let mut world = world();
    let top = create(&mut world, "top", vec![]);
    let told_of_top = world.store.told.pop_front().unwrap();
    create(&mut world, "child", vec![owner("top", &top, true)]);
    world.settle();
    assert_eq!(names(&world), ["child", "top"]);
    world.tell(told_of_top);
    world.settle();
    assert_eq!(names(&world), ["child", "top"]);
}

#[test]
fn random_families_end_as_their_owners_do() {
    with_seeds("random_families", 1000, |seed| Family::new(seed).run());
}

/// A random family, deleted at random.
struct Family {
    dice: Dice,
    world: World,
    /// Every object that ever was, and whom it named as owners at first.
    members: BTreeMap<String, Vec<String>>,
    /// What the user deleted.
    deleted: BTreeMap<String, Propagation>,
}

impl Family {
    fn new(seed: u64) -> Family {
        let mut dice = Dice::new(seed);
        let mut world = world();
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut uids: Vec<String> = Vec::new();
        for number in 0..3 + dice.below(9) {
            let count = dice.below(3);
            let chosen: BTreeSet<String> = (0..count).filter_map(|_| dice.pick(&uids).cloned()).collect();
            let name_of = |uid: &String| world.store.objects[uid].name().to_owned();
            let owners: Vec<OwnerReference> =
                chosen.iter().map(|uid| owner(&name_of(uid), uid, dice.percent(70))).collect();
            let uid = create(&mut world, &format!("o{number}"), owners);
            members.insert(uid.clone(), chosen.into_iter().collect());
            uids.push(uid);
        }
        Family { dice, world, members, deleted: BTreeMap::new() }
    }

    fn run(mut self) {
        for _ in 0..60 {
            self.step();
        }
        for uid in self.members.keys().cloned().collect::<Vec<_>>() {
            if self.is_held(&uid) {
                let_go(&mut self.world, &uid);
            }
        }
        self.world.advance(10_000);
        self.check();
    }

    fn step(&mut self) {
        match self.dice.below(10) {
            0 => self.delete_one(),
            1 => self.hold_one(),
            2 => self.world.restart(),
            3..6 => {
                if let Some(told) = self.world.store.take_told(&mut self.dice) {
                    self.world.tell(told);
                }
            }
            _ => self.carry_out(),
        }
    }

    fn delete_one(&mut self) {
        let uids: Vec<String> = self.world.store.objects.keys().cloned().collect();
        let Some(uid) = self.dice.pick(&uids).cloned() else { return };
        if self.deleted.contains_key(&uid) || self.world.store.objects[&uid].metadata().deletion_timestamp.is_some() {
            return;
        }
        let policies = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
        let policy = policies[self.dice.below(3)];
        self.deleted.insert(uid.clone(), policy);
        self.world.store.delete(&uid, policy, None, self.world.now);
    }

    fn hold_one(&mut self) {
        let uids: Vec<String> = self.world.store.objects.keys().cloned().collect();
        let free = uids.iter().filter(|uid| self.world.store.objects[*uid].metadata().deletion_timestamp.is_none());
        let free: Vec<String> = free.cloned().collect();
        if let Some(uid) = self.dice.pick(&free).cloned()
            && !self.is_held(&uid)
        {
            self.world.store.change(&uid, |object| {
                crate::store::metadata(object).finalizers.get_or_insert_default().push("x/y".into());
            });
        }
    }

    fn is_held(&self, uid: &str) -> bool {
        let object = self.world.store.objects.get(uid);
        let finalizers = object.and_then(|object| object.metadata().finalizers.clone());
        finalizers.is_some_and(|finalizers| finalizers.iter().any(|one| one == "x/y"))
    }

    fn carry_out(&mut self) {
        let Some(write) = self.world.controllers.poll_write() else { return };
        let outcome = if self.dice.percent(10) {
            Outcome::Refused(refusal(RefusalCause::Unavailable, "busy"))
        } else {
            self.check_write(&write.action);
            self.world.store.carry_out(&write.action, self.world.now)
        };
        self.world.answer(&write, outcome);
    }

    /// What has an owner that nobody deletes is not deleted; an owner with a blocking dependent does not go.
    fn check_write(&self, action: &Action) {
        if let Action::Delete { target, if_version, .. } = action
            && let Some(object) = self.world.store.objects.get(&target.uid)
            && object.metadata().resource_version == *if_version
        {
            let owners = object.metadata().owner_references.iter().flatten();
            let mut living = owners.filter_map(|owner| self.world.store.objects.get(&owner.uid));
            assert!(living.all(|owner| owner.metadata().deletion_timestamp.is_some()), "{target} has an owner");
        }
    }

    fn check(&self) {
        let there = |uid: &String| self.world.store.objects.contains_key(uid);
        for (uid, owners) in &self.members {
            let object = self.world.store.objects.get(uid);
            if self.deleted.contains_key(uid) {
                assert!(object.is_none(), "{uid} was deleted and is there");
                continue;
            }
            let was_orphaned = owners.iter().any(|owner| self.deleted.get(owner) == Some(&Propagation::Orphan));
            let should_live = owners.is_empty() || owners.iter().any(there);
            if should_live {
                assert!(object.is_some(), "{uid} has an owner and is gone");
            } else if !was_orphaned {
                assert!(object.is_none(), "{uid} has no owner and is there");
            }
            let left = object.and_then(|object| object.metadata().owner_references.clone()).unwrap_or_default();
            assert!(left.iter().all(|owner| there(&owner.uid)), "{uid} names an owner that is gone");
        }
    }
}
