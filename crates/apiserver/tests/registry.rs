//! The registry's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use apiserver::registry::FieldValidation;
use apiserver::{
    ApiError, DeleteOptions, ListOptions, Part, Propagation, Registry, ResourceType, Selection, Store, WatchEvent,
    WatchOptions, WriteOptions,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A registry whose clock stands at 2026-01-01 plus the seconds set.
struct World {
    registry: Registry,
    seconds: Arc<AtomicI64>,
}

impl World {
    async fn new() -> Result<Self, ApiError> {
        let seconds = Arc::new(AtomicI64::new(0));
        let shared = Arc::clone(&seconds);
        let clock = move || {
            let start = Timestamp::constant(1_767_225_600, 0);
            start + jiff::SignedDuration::from_secs(shared.load(Ordering::SeqCst))
        };
        let registry = Registry::new(Store::in_memory(), Arc::new(clock));
        registry.bootstrap().await?;
        Ok(Self { registry, seconds })
    }

    async fn create(&self, resource: &ResourceType, object: Value) -> Result<Value, ApiError> {
        let answer = self.registry.create(resource, "default", object, &WriteOptions::default()).await?;
        Ok(Arc::unwrap_or_clone(answer.object))
    }

    async fn patch(
        &self,
        name: &str,
        part: Part,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<Value, ApiError> {
        let answer = self
            .registry
            .patch_with(pods(), "default", name, part, &WriteOptions::default(), |old| {
                let mut new = old.clone();
                change(&mut new);
                Ok(new)
            })
            .await?;
        Ok(Arc::unwrap_or_clone(answer.object))
    }
}

fn resource(api_version: &str, kind: &str) -> &'static ResourceType {
    ResourceType::find_kind(api_version, kind).expect("the kind is served")
}

fn pods() -> &'static ResourceType {
    resource("v1", "Pod")
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
}

fn at(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_96_the_server_sets_identity() -> TestResult {
    let world = World::new().await?;
    let mut given = pod("p");
    apiserver::value::set(&mut given, &["metadata", "uid"], json!("mine"));
    let created = world.create(pods(), given).await?;
    assert_eq!(at(&created, "/metadata/creationTimestamp"), json!("2026-01-01T00:00:00Z"));
    assert_eq!(at(&created, "/metadata/generation"), json!(1));
    assert_eq!(at(&created, "/metadata/namespace"), json!("default"));
    assert_eq!(at(&created, "/metadata/uid").as_str().map(str::len), Some(36));
    assert_eq!(at(&created, "/kind"), json!("Pod"));
    Ok(())
}

#[tokio::test]
async fn a_94_a_name_is_generated() -> TestResult {
    let world = World::new().await?;
    let config = json!({"metadata": {"generateName": "x-"}});
    let created = world.create(resource("v1", "ConfigMap"), config).await?;
    let name = at(&created, "/metadata/name");
    assert_eq!(name.as_str().map(|name| (name.len(), name.starts_with("x-"))), Some((7, true)));
    Ok(())
}

#[tokio::test]
async fn a_95_what_has_no_name_and_no_namespace_is_refused() -> TestResult {
    let world = World::new().await?;
    let config_maps = resource("v1", "ConfigMap");
    let unnamed = world.create(config_maps, json!({})).await;
    let text = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    assert_eq!(unnamed.map_err(|error| (error.code(), error.to_string())), Err((422, text.to_owned())));
    let homeless = world
        .registry
        .create(config_maps, "nowhere", json!({"metadata": {"name": "a"}}), &WriteOptions::default())
        .await;
    let text = "namespaces \"nowhere\" not found";
    assert_eq!(homeless.map_err(|error| (error.code(), error.to_string())), Err((404, text.to_owned())));
    Ok(())
}

#[tokio::test]
async fn a_145_a_dry_run_stores_nothing() -> TestResult {
    let world = World::new().await?;
    let before = world.registry.revision();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let answer = world.registry.create(pods(), "default", pod("p"), &options).await?;
    assert_eq!((at(&answer.object, "/metadata/name"), world.registry.revision()), (json!("p"), before));
    Ok(())
}

#[tokio::test]
async fn a_147_unknown_fields_are_refused_warned_of_or_dropped() -> TestResult {
    let world = World::new().await?;
    let mut typo = pod("p");
    apiserver::value::set(&mut typo, &["spec", "foo"], json!(1));
    let with = |field_validation| WriteOptions { dry_run: true, field_validation, ..WriteOptions::default() };
    let create = |validation| {
        let (registry, typo) = (&world.registry, typo.clone());
        async move { registry.create(pods(), "default", typo, &with(validation)).await }
    };
    let strict = create(FieldValidation::Strict).await.map_err(|error| (error.code(), error.to_string()));
    let text = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.foo\"";
    assert_eq!(strict, Err((400, text.to_owned())));
    assert_eq!(create(FieldValidation::Warn).await?.warnings, ["unknown field \"spec.foo\""]);
    assert_eq!(create(FieldValidation::Ignore).await?.warnings, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_100_a_stale_version_conflicts_and_none_overwrites() -> TestResult {
    let world = World::new().await?;
    let secrets = resource("v1", "Secret");
    let first = world.create(secrets, json!({"metadata": {"name": "s"}})).await?;
    let update = |object: Value| {
        let registry = &world.registry;
        async move { registry.update(secrets, "default", Part::Main, object, &WriteOptions::default()).await }
    };
    update(json!({"metadata": {"name": "s", "labels": {"a": "1"}}})).await?;
    let stale = update(first).await.map_err(|error| error.to_string());
    let text = "Operation cannot be fulfilled on secrets \"s\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(stale.map(|_| ()), Err(text.to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_102_status_and_main_do_not_touch_each_other() -> TestResult {
    let world = World::new().await?;
    world.create(pods(), pod("p")).await?;
    let change = |object: &mut Value| {
        apiserver::value::set(object, &["status", "phase"], json!("Running"));
        apiserver::value::set(object, &["spec", "activeDeadlineSeconds"], json!(7));
    };
    let status = world.patch("p", Part::Status, change).await?;
    assert_eq!(
        (at(&status, "/status/phase"), at(&status, "/spec/activeDeadlineSeconds")),
        (json!("Running"), Value::Null)
    );
    assert_eq!(at(&status, "/metadata/generation"), json!(1));
    let main = world
        .patch("p", Part::Main, |object| {
            apiserver::value::set(object, &["status", "phase"], json!("Failed"));
            apiserver::value::set(object, &["spec", "activeDeadlineSeconds"], json!(7));
        })
        .await?;
    assert_eq!((at(&main, "/status/phase"), at(&main, "/spec/activeDeadlineSeconds")), (json!("Running"), json!(7)));
    assert_eq!(at(&main, "/metadata/generation"), json!(2));
    Ok(())
}

#[tokio::test]
async fn a_166_binding_sets_the_node_and_pod_scheduled_once() -> TestResult {
    let world = World::new().await?;
    world.create(pods(), pod("p")).await?;
    let bound = world.registry.bind("default", "p", None, "here").await?.object;
    assert_eq!(at(&bound, "/spec/nodeName"), json!("here"));
    let scheduled = at(&bound, "/status/conditions/0");
    assert_eq!((at(&scheduled, "/type"), at(&scheduled, "/status")), (json!("PodScheduled"), json!("True")));
    let again = world.registry.bind("default", "p", None, "there").await;
    assert_eq!(again.map_err(|error| error.code()).map(|_| ()), Err(409));
    Ok(())
}

#[tokio::test]
async fn l_601_a_bound_pod_is_marked_shortened_and_removed() -> TestResult {
    let world = World::new().await?;
    world.create(pods(), pod("p")).await?;
    world.registry.bind("default", "p", None, "here").await?;
    let delete = |grace| {
        let registry = &world.registry;
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        async move { registry.delete(pods(), "default", "p", &options).await }
    };
    let marked = delete(None).await?;
    let marks = |object: &Value| {
        (at(object, "/metadata/deletionTimestamp"), at(object, "/metadata/deletionGracePeriodSeconds"))
    };
    assert_eq!((marked.gone, marks(&marked.object)), (false, (json!("2026-01-01T00:00:30Z"), json!(30))));
    assert_eq!(at(&marked.object, "/metadata/generation"), json!(2));
    world.seconds.store(5, Ordering::SeqCst);
    assert_eq!(marks(&delete(Some(60)).await?.object), (json!("2026-01-01T00:00:30Z"), json!(30)));
    assert_eq!(marks(&delete(Some(-3)).await?.object), (json!("2026-01-01T00:00:01Z"), json!(1)));
    assert!(delete(Some(0)).await?.gone);
    assert!(world.registry.get_typed::<Pod>("default", "p")?.is_none());
    Ok(())
}

#[tokio::test]
async fn l_601_an_unbound_pod_goes_at_once() -> TestResult {
    let world = World::new().await?;
    world.create(pods(), pod("p")).await?;
    assert!(world.registry.delete(pods(), "default", "p", &DeleteOptions::default()).await?.gone);
    Ok(())
}

#[tokio::test]
async fn a_125_an_object_with_finalizers_goes_with_the_last_of_them() -> TestResult {
    let world = World::new().await?;
    let mut kept = pod("p");
    apiserver::value::set(&mut kept, &["metadata", "finalizers"], json!(["a/b"]));
    world.create(pods(), kept).await?;
    assert!(!world.registry.delete(pods(), "default", "p", &DeleteOptions::default()).await?.gone);
    let add = world
        .patch("p", Part::Main, |object| {
            apiserver::value::set(object, &["metadata", "finalizers"], json!(["a/b", "c/d"]))
        })
        .await;
    assert_eq!(add.map_err(|error| error.code()).map(|_| ()), Err(422));
    let remove = |object: &mut Value| {
        apiserver::value::remove(object, &["metadata", "finalizers"]);
    };
    world.patch("p", Part::Main, remove).await?;
    assert!(world.registry.get_typed::<Pod>("default", "p")?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_129_propagation_becomes_a_finalizer() -> TestResult {
    let world = World::new().await?;
    let config_maps = resource("v1", "ConfigMap");
    for (policy, finalizer) in [(Propagation::Foreground, "foregroundDeletion"), (Propagation::Orphan, "orphan")] {
        world.create(config_maps, json!({"metadata": {"name": finalizer.to_lowercase()}})).await?;
        let options = DeleteOptions::with(policy);
        let deleted = world.registry.delete(config_maps, "default", &finalizer.to_lowercase(), &options).await?;
        assert_eq!((deleted.gone, at(&deleted.object, "/metadata/finalizers")), (false, json!([finalizer])));
    }
    Ok(())
}

#[tokio::test]
async fn a_186_a_namespace_stays_until_it_is_finalized() -> TestResult {
    let world = World::new().await?;
    let namespaces = resource("v1", "Namespace");
    world.create(namespaces, json!({"metadata": {"name": "n"}})).await?;
    let deleted = world.registry.delete(namespaces, "", "n", &DeleteOptions::default()).await?;
    assert_eq!((deleted.gone, at(&deleted.object, "/status/phase")), (false, json!("Terminating")));
    let refused = world.registry.create(pods(), "n", pod("p"), &WriteOptions::default()).await;
    let causes = refused.err().and_then(|error| error.status().details.clone()?.causes).unwrap_or_default();
    assert_eq!(causes.first().and_then(|cause| cause.reason.clone()), Some("NamespaceTerminating".to_owned()));
    let finalize = |object: &Value| {
        let mut object = object.clone();
        apiserver::value::set(&mut object, &["spec", "finalizers"], json!([]));
        Ok(object)
    };
    world.registry.patch_with(namespaces, "", "n", Part::Finalize, &WriteOptions::default(), finalize).await?;
    assert_eq!(world.registry.get(namespaces, "", "n").map_err(|error| error.code()).map(|_| ()), Err(404));
    Ok(())
}

#[tokio::test]
async fn a_185_the_first_namespaces_cannot_be_deleted() -> TestResult {
    let world = World::new().await?;
    let refused = world.registry.delete(resource("v1", "Namespace"), "", "default", &DeleteOptions::default()).await;
    let text = "namespaces \"default\" is forbidden: this namespace may not be deleted";
    assert_eq!(refused.map_err(|error| error.to_string()).map(|_| ()), Err(text.to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_195_the_default_service_account_comes_back() -> TestResult {
    let world = World::new().await?;
    let accounts = resource("v1", "ServiceAccount");
    let first = world.registry.get(accounts, "default", "default")?;
    world.registry.delete(accounts, "default", "default", &DeleteOptions::default()).await?;
    let second = world.registry.get(accounts, "default", "default")?;
    assert_ne!(at(&first, "/metadata/uid"), at(&second, "/metadata/uid"));
    Ok(())
}

#[tokio::test]
async fn a_79_a_watch_tells_when_an_object_begins_and_ceases_to_match() -> TestResult {
    let world = World::new().await?;
    let selection = Selection::parse(pods(), "", "status.phase=Running")?;
    let options =
        WatchOptions { selection, resource_version: Some(world.registry.revision()), ..WatchOptions::default() };
    let mut watch = world.registry.watch(pods(), Some("default"), options)?;
    world.create(pods(), pod("p")).await?;
    for phase in ["Running", "Succeeded"] {
        world
            .patch("p", Part::Status, |object| apiserver::value::set(object, &["status", "phase"], json!(phase)))
            .await?;
    }
    let (added, deleted) = (watch.next().await?, watch.next().await?);
    let WatchEvent::Added(added) = added else { return Err(format!("{added:?}").into()) };
    let WatchEvent::Deleted(deleted) = deleted else { return Err(format!("{deleted:?}").into()) };
    assert_eq!((at(&added, "/status/phase"), at(&deleted, "/status/phase")), (json!("Running"), json!("Running")));
    assert_eq!(at(&deleted, "/metadata/resourceVersion"), json!(world.registry.revision().to_string()));
    Ok(())
}

#[tokio::test]
async fn a_85_initial_events_end_with_a_mark_even_when_there_are_none() -> TestResult {
    let world = World::new().await?;
    let options = WatchOptions { send_initial_events: true, ..WatchOptions::default() };
    let mut watch = world.registry.watch(pods(), None, options)?;
    assert_eq!(watch.next().await?, WatchEvent::InitialEnd(world.registry.revision()));
    Ok(())
}

#[tokio::test]
async fn a_74_pages_show_one_state_whatever_is_written_between() -> TestResult {
    let world = World::new().await?;
    let config_maps = resource("v1", "ConfigMap");
    for name in ["a", "b", "c"] {
        world.create(config_maps, json!({"metadata": {"name": name}})).await?;
    }
    let page = |continue_token: Option<String>| {
        let options = ListOptions { limit: Some(2), continue_token, ..ListOptions::default() };
        world.registry.list(config_maps, Some("default"), &options)
    };
    let names = |objects: &[Arc<Value>]| objects.iter().map(|object| at(object, "/metadata/name")).collect::<Vec<_>>();
    let first = page(None)?;
    assert_eq!((names(&first.objects), first.remaining), (vec![json!("a"), json!("b")], Some(1)));
    world.registry.delete(config_maps, "default", "c", &DeleteOptions::default()).await?;
    let second = page(first.continue_token)?;
    assert_eq!((names(&second.objects), second.continue_token), (vec![json!("c")], None));
    assert_eq!(second.revision, first.revision);
    Ok(())
}

#[tokio::test]
async fn a_265_an_event_of_the_new_group_is_listed_in_the_old() -> TestResult {
    let world = World::new().await?;
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello", "reason": "Started", "type": "Normal", "action": "x", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "me", "reportingInstance": "me-1"});
    world.create(resource("events.k8s.io/v1", "Event"), event).await?;
    let found = world.registry.get(resource("v1", "Event"), "default", "e")?;
    assert_eq!((at(&found, "/message"), at(&found, "/involvedObject/name")), (json!("hello"), json!("p")));
    Ok(())
}

#[tokio::test]
async fn a_159_services_get_addresses_of_their_own() -> TestResult {
    let world = World::new().await?;
    let services = resource("v1", "Service");
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let first = world.create(services, service("a")).await?;
    let second = world.create(services, service("b")).await?;
    let kubernetes = world.create(services, service("kubernetes")).await?;
    let addresses = [first, second, kubernetes].map(|service| at(&service, "/spec/clusterIP"));
    assert_eq!(addresses, [json!("10.96.0.2"), json!("10.96.0.3"), json!("10.96.0.1")]);
    Ok(())
}

#[tokio::test]
async fn a_267_events_are_kept_for_an_hour() -> TestResult {
    let world = World::new().await?;
    let events = resource("v1", "Event");
    let event =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default"}});
    world.create(events, event("old")).await?;
    world.seconds.store(3_600, Ordering::SeqCst);
    world.create(events, event("new")).await?;
    let found = world.registry.list(events, None, &ListOptions::default())?.objects;
    let names: Vec<Value> = found.iter().map(|event| at(event, "/metadata/name")).collect();
    assert_eq!(names, [json!("new")]);
    Ok(())
}
