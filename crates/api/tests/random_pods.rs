//! Laws that hold for every pod, whatever is in it: filling in is stable, and no check panics.

use api::strategy::gates::Gates;
use api::{defaults, strategy, validation, warnings};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Texts as they are meant, and as they are not.
fn words() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("")),
        Just(json!("a")),
        Just(json!("i:1")),
        Just(json!("Always")),
        Just(json!("Never")),
        Just(json!("../x")),
        "\\PC{0,12}".prop_map(Value::from),
    ]
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(0)), Just(json!(1)), any::<i32>().prop_map(Value::from)]
}

fn quantities() -> impl Strategy<Value = Value> {
    let quantity = prop_oneof![
        Just(json!("1")),
        Just(json!("0.5")),
        Just(json!("1024Mi")),
        Just(json!("-1")),
        Just(json!("1500m")),
        Just(json!("9223372036854775808Ei")),
        "[0-9.]{1,4}[numkKMGi]{0,2}".prop_map(Value::from),
    ];
    let name = prop_oneof![Just("cpu"), Just("memory"), Just("hugepages-2Mi"), Just("example.com/gpu"), Just("x")];
    prop::collection::btree_map(name.prop_map(str::to_owned), quantity, 0..3).prop_map(|map| json!(map))
}

/// An object with some of the fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| prop::option::of(value).prop_map(move |value| (name, value))).collect();
    fields
        .prop_map(|fields| {
            let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(there.collect::<Map<_, _>>())
        })
        .boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::vec(item, 0..3).prop_map(Value::from).boxed()
}

fn word() -> BoxedStrategy<Value> {
    words().boxed()
}

fn number() -> BoxedStrategy<Value> {
    numbers().boxed()
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.entry(field).or_insert(value);
    }
    object
}

fn handler() -> Vec<(&'static str, BoxedStrategy<Value>)> {
    let port = prop_oneof![numbers(), words()].boxed();
    vec![
        ("exec", object(vec![("command", list(word()))])),
        (
            "httpGet",
            object(vec![("path", word()), ("scheme", word())]).prop_map(|it| with(it, "port", json!(80))).boxed(),
        ),
        ("tcpSocket", port.prop_map(|port| json!({"port": port})).boxed()),
    ]
}

fn probe() -> BoxedStrategy<Value> {
    let mut fields = handler();
    fields.extend([("periodSeconds", number()), ("terminationGracePeriodSeconds", number())]);
    object(fields)
}

fn container() -> BoxedStrategy<Value> {
    let port = object(vec![("hostPort", number()), ("protocol", word()), ("hostIP", word()), ("name", word())]);
    let variable = object(vec![
        ("value", word()),
        ("valueFrom", object(vec![("fieldRef", word().prop_map(|path| json!({"fieldPath": path})).boxed())])),
    ]);
    let mount = object(vec![("subPath", word()), ("mountPropagation", word()), ("recursiveReadOnly", word())]);
    object(vec![
        ("name", word()),
        ("image", word()),
        ("restartPolicy", word()),
        ("imagePullPolicy", word()),
        ("livenessProbe", probe()),
        ("readinessProbe", probe()),
        ("lifecycle", object(vec![("preStop", object(handler()))])),
        ("resources", object(vec![("limits", quantities().boxed()), ("requests", quantities().boxed())])),
        ("ports", list(port.prop_map(|it| with(it, "containerPort", json!(80))).boxed())),
        ("env", list(variable.prop_map(|it| with(it, "name", json!("X"))).boxed())),
        (
            "volumeMounts",
            list(mount.prop_map(|it| with(with(it, "name", json!("v")), "mountPath", json!("/v"))).boxed()),
        ),
    ])
    .prop_map(|it| with(it, "name", json!("a")))
    .boxed()
}

fn volume() -> BoxedStrategy<Value> {
    let item = object(vec![("key", word()), ("path", word())])
        .prop_map(|it| with(with(it, "key", json!("k")), "path", json!("p")));
    let items = list(item.boxed());
    object(vec![
        ("name", word()),
        ("emptyDir", object(vec![("medium", word())])),
        ("secret", object(vec![("secretName", word()), ("items", items.clone())])),
        ("configMap", object(vec![("name", word()), ("defaultMode", number()), ("items", items)])),
        ("hostPath", word().prop_map(|path| json!({"path": path})).boxed()),
        ("image", object(vec![("reference", word())])),
    ])
    .prop_map(|it| with(it, "name", json!("v")))
    .boxed()
}

fn pod_spec() -> BoxedStrategy<Value> {
    let toleration = object(vec![("key", word()), ("operator", word()), ("effect", word()), ("value", word())]);
    object(vec![
        ("containers", list(container())),
        ("initContainers", list(container())),
        ("ephemeralContainers", list(container())),
        ("volumes", list(volume())),
        ("restartPolicy", word()),
        ("hostNetwork", any::<bool>().prop_map(Value::from).boxed()),
        ("terminationGracePeriodSeconds", number()),
        ("activeDeadlineSeconds", number()),
        ("nodeSelector", word().prop_map(|value| json!({"a": value})).boxed()),
        ("tolerations", list(toleration)),
        ("resources", object(vec![("limits", quantities().boxed()), ("requests", quantities().boxed())])),
        ("hostAliases", list(word().prop_map(|ip| json!({"ip": ip})).boxed())),
    ])
    .prop_map(|it| with(it, "containers", json!([])))
    .boxed()
}

/// What an object is as JSON.
fn json_of<T: serde::Serialize>(object: &T) -> Result<Value, TestCaseError> {
    serde_json::to_value(object).map_err(|error| TestCaseError::fail(error.to_string()))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, TestCaseError> {
    serde_json::from_value(value).map_err(|error| TestCaseError::fail(error.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn a_160_filling_in_a_pod_twice_is_filling_it_in_once(spec in pod_spec()) {
        let mut pod: Pod = read(json!({"metadata": {"name": "p"}, "spec": spec}))?;
        defaults::pod(&mut pod);
        let once = json_of(&pod)?;
        defaults::pod(&mut pod);
        prop_assert_eq!(json_of(&pod)?, once);
    }

    #[test]
    fn a_160_filling_in_jobs_twice_is_filling_them_in_once(spec in pod_spec()) {
        let mut job: Job = read(json!({"spec": {"template": {"spec": spec}}}))?;
        let mut cron_job: CronJob = read(json!({"spec": {"schedule": "", "jobTemplate": {"spec": job.spec}}}))?;
        defaults::job(&mut job);
        defaults::cron_job(&mut cron_job);
        let once = (json_of(&job)?, json_of(&cron_job)?);
        defaults::job(&mut job);
        defaults::cron_job(&mut cron_job);
        prop_assert_eq!((json_of(&job)?, json_of(&cron_job)?), once);
    }

    #[test]
    fn whatever_is_sent_is_answered(spec in pod_spec(), other in pod_spec()) {
        let mut pods = Vec::new();
        for spec in [spec, other] {
            let mut pod: Pod = read(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))?;
            defaults::pod(&mut pod);
            strategy::pod::prepare_for_create(&mut pod, Timestamp::UNIX_EPOCH, Gates::default());
            validation::validate_pod(&pod);
            warnings::pod(&pod);
            pods.push(pod);
        }
        if let [old, new] = pods.as_slice() {
            validation::validate_pod_update(new, old);
            validation::validate_pod_status_update(new, old);
            validation::validate_pod_resize(new, old);
            validation::validate_ephemeral_containers_update(new, old);
        }
    }

    #[test]
    fn l_1230_writing_a_pod_as_it_is_changes_nothing_and_is_no_error(spec in pod_spec()) {
        let mut pod: Pod = read(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"}, "spec": spec}))?;
        defaults::pod(&mut pod);
        strategy::pod::prepare_for_create(&mut pod, Timestamp::UNIX_EPOCH, Gates::default());
        let mut new = pod.clone();
        strategy::pod::prepare_for_update(&mut new, &pod, Gates::default());
        prop_assert_eq!(json_of(&new)?, json_of(&pod)?);
        let known = validation::validate_pod(&pod);
        let mut more = validation::validate_pod_update(&new, &pod);
        more.retain(|error| known.iter().all(|known| known.path != error.path));
        prop_assert_eq!(more, vec![]);
    }
}
