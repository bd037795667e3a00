//! Tables of the rules for environments.

use serde_json::{Value, json};

use super::*;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn sources() -> serde_json::Result<Sources> {
    let config: ConfigMap = serde_json::from_value(json!({"data": {"COLOR": "red", "SIZE": "big"}}))?;
    let secret: Secret = serde_json::from_value(json!({"data": {"COLOR": "Ymx1ZQ==", "KEY": "czNjcjN0"}}))?;
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 5432}]},
    }))?;
    let file = |text: std::result::Result<&str, &str>| EnvFile {
        path: "/data/env".into(),
        text: text.map(str::to_owned).map_err(str::to_owned),
    };
    Ok(Sources {
        config_maps: [
            ("config".to_owned(), Ok(Some(Arc::new(config)))),
            ("broken".to_owned(), Err("API says no".into())),
        ]
        .into(),
        secrets: [("secret".to_owned(), Ok(Some(Arc::new(secret)))), ("gone".to_owned(), Ok(None))].into(),
        services: Some(vec![Arc::new(service)]),
        env_files: [
            (("work".to_owned(), "env".to_owned()), file(Ok("KEY='from file'\nEMPTY=''"))),
            (("work".to_owned(), "missing".to_owned()), file(Err("no such file"))),
            (("work".to_owned(), "garbage".to_owned()), file(Ok("KEY"))),
        ]
        .into(),
    })
}

fn environment(container: Value) -> Result<std::result::Result<BTreeMap<String, String>, String>> {
    let mut container = container;
    container.as_object_mut().ok_or("no object")?.insert("name".to_owned(), json!("c"));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "shop"}, "spec": {"containers": [container]},
    }))?;
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first()).ok_or("no container")?;
    let node = NodeConfig::new("node");
    let of = EnvironmentOf { pod: &pod, container, node: &node, pod_ips: &[] };
    Ok(declared_environment(&of, &sources()?).map_err(|error| error.to_string()))
}

/// Compares all variables but those of Services.
fn check(container: Value, expected: &[(&str, &str)]) -> Result {
    let variables = environment(container)??;
    let own: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| !name.starts_with("DB_"))
        .collect();
    assert_eq!(own, expected);
    Ok(())
}

fn refused(container: Value, expected: &str) -> Result {
    assert_eq!(environment(container)?.err().as_deref(), Some(expected));
    Ok(())
}

#[test]
fn env_goes_before_env_from_and_later_sources_before_earlier_ones() -> Result {
    check(
        json!({"envFrom": [{"configMapRef": {"name": "config"}}, {"secretRef": {"name": "secret"}}],
               "env": [{"name": "SIZE", "value": "small"}]}),
        &[("COLOR", "blue"), ("KEY", "s3cr3t"), ("SIZE", "small")],
    )
}

#[test]
fn a_prefix_is_put_before_all_keys_of_a_source() -> Result {
    check(
        json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "config"}}]}),
        &[("P_COLOR", "red"), ("P_SIZE", "big")],
    )
}

#[test]
fn values_are_expanded_from_what_stands_before_them_and_from_services() -> Result {
    check(
        json!({"envFrom": [{"configMapRef": {"name": "config"}}], "env": [
            {"name": "A", "value": "$(COLOR) $(B) $(DB_PORT) $$(COLOR)"},
            {"name": "B", "value": "b"},
            {"name": "C", "value": "$(B)$(A)"},
        ]}),
        &[
            ("A", "red $(B) tcp://10.0.0.7:5432 $(COLOR)"),
            ("B", "b"),
            ("C", "bred $(B) tcp://10.0.0.7:5432 $(COLOR)"),
            ("COLOR", "red"),
            ("SIZE", "big"),
        ],
    )
}

#[test]
fn a_variable_without_value_and_source_is_empty() -> Result {
    check(json!({"env": [{"name": "A"}, {"name": "B", "value": "", "valueFrom": {}}]}), &[("A", ""), ("B", "")])
}

#[test]
fn each_kind_of_source_gives_its_value() -> Result {
    check(
        json!({"env": [
            {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "SIZE"}}},
            {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "FILE", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "env", "key": "KEY"}}},
            {"name": "RESOURCE", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "KEY"}}},
        ]}),
        &[("CONFIG", "big"), ("FIELD", "p"), ("FILE", "from file"), ("RESOURCE", "0"), ("SECRET", "s3cr3t")],
    )
}

#[test]
fn what_is_missing_has_kubernetes_words() -> Result {
    let key_ref =
        |kind: &str, name: &str| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": "NONE"}}}]});
    refused(json!({"envFrom": [{"configMapRef": {"name": "gone"}}]}), "configmap \"gone\" not found")?;
    refused(json!({"envFrom": [{"secretRef": {"name": "gone"}}]}), "secret \"gone\" not found")?;
    refused(key_ref("configMapKeyRef", "gone"), "configmap \"gone\" not found")?;
    refused(key_ref("secretKeyRef", "gone"), "secret \"gone\" not found")?;
    refused(key_ref("configMapKeyRef", "config"), "couldn't find key NONE in ConfigMap shop/config")?;
    refused(key_ref("secretKeyRef", "secret"), "couldn't find key NONE in Secret shop/secret")?;
    refused(key_ref("configMapKeyRef", "broken"), "API says no")
}

#[test]
fn what_is_optional_and_missing_is_left_out() -> Result {
    check(
        json!({"envFrom": [{"configMapRef": {"name": "gone", "optional": true}}, {"secretRef": {"name": "gone", "optional": true}},
                           {"configMapRef": {"name": "config"}}],
               "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k", "optional": true}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "k", "optional": true}}},
            {"name": "C", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "env", "key": "k", "optional": true}}},
            {"name": "D", "valueFrom": {"fileKeyRef": {"volumeName": "work", "path": "missing", "key": "k", "optional": true}}},
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "k", "optional": true}}},
        ]}),
        &[("COLOR", "red"), ("SIZE", "big")],
    )
}

#[test]
fn faults_of_env_files_have_kubernetes_words() -> Result {
    let file = |volume: &str, path: &str, key: &str| json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": volume, "path": path, "key": key}}}]});
    refused(file("none", "env", "KEY"), "cannot find the volume \"none\" referenced by FileKeyRef")?;
    refused(file("work", "missing", "KEY"), "couldn't parse env file")?;
    refused(file("work", "garbage", "KEY"), "couldn't parse env file")?;
    refused(file("work", "env", "NONE"), "environment variable key \"NONE\" not found in file \"/data/env\"")?;
    refused(file("work", "env", "EMPTY"), "environment variable key \"EMPTY\" not found in file \"/data/env\"")
}

#[test]
fn services_are_told_unless_declared() -> Result {
    let variables = environment(json!({"env": [{"name": "DB_PORT", "value": "mine"}]}))??;
    let value = |name: &str| variables.get(name).map(String::as_str);
    assert_eq!([value("DB_PORT"), value("DB_SERVICE_HOST")], [Some("mine"), Some("10.0.0.7")]);
    Ok(())
}

#[test]
fn without_a_list_of_services_there_is_no_environment() -> Result {
    let (pod, container, node) = (Pod::default(), Container::default(), NodeConfig::new("node"));
    let of = EnvironmentOf { pod: &pod, container: &container, node: &node, pod_ips: &[] };
    let error = declared_environment(&of, &Sources::default()).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("services have not yet been read at least once, cannot construct envvars"));
    Ok(())
}

#[test]
fn all_that_is_referred_to_is_named() -> Result {
    let container: Container = serde_json::from_value(json!({"name": "c",
        "envFrom": [{"configMapRef": {"name": "m1"}}, {"secretRef": {"name": "s1"}}],
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m2", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                {"name": "C", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}))?;
    let set = |names: [&str; 2]| names.map(str::to_owned).into();
    let expected = References {
        config_maps: set(["m1", "m2"]),
        secrets: set(["s1", "s2"]),
        env_files: [("v".to_owned(), "p".to_owned())].into(),
    };
    assert_eq!(References::of(&container), expected);
    Ok(())
}

#[test]
fn declared_variables_go_before_the_images_and_those_before_the_runtimes() {
    let image = ["PATH=/opt/bin".to_owned(), "LANG=C".to_owned(), "ODD".to_owned()];
    let runtime = RuntimeEnvironment { image: &image, hostname: "web", home: "/root", tty: true };
    let declared = [("LANG".to_owned(), "de".to_owned()), ("NEW".to_owned(), "a=b".to_owned())].into();
    let whole: Vec<String> =
        whole_environment(&runtime, &declared).iter().map(|it| format!("{}={}", it.name, it.value)).collect();
    assert_eq!(whole, ["PATH=/opt/bin", "HOSTNAME=web", "HOME=/root", "TERM=xterm", "LANG=de", "ODD=", "NEW=a=b"]);
}

#[test]
fn an_image_without_path_gets_the_default_one() {
    let runtime = RuntimeEnvironment { image: &[], hostname: "web", home: "/", tty: false };
    let whole = whole_environment(&runtime, &BTreeMap::new());
    assert_eq!(whole.first().map(|it| it.value.as_str()), Some(DEFAULT_PATH));
}
