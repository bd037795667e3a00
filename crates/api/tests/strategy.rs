//! What the server sets and clears itself that needs more than a table's row: gates, and Jobs' and Services' own rules.

use api::strategy::gates::Gates;
use api::{defaults, strategy};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const OFF: Gates = Gates { container_stop_signals: false };
const ON: Gates = Gates { container_stop_signals: true };

fn read<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value)
}

fn field<T: Serialize>(object: &T, pointer: &str) -> serde_json::Result<Value> {
    Ok(serde_json::to_value(object)?.pointer(pointer).cloned().unwrap_or_default())
}

fn stopping_pod() -> serde_json::Result<Pod> {
    read(json!({"spec": {"os": {"name": "linux"}, "containers": [
        {"name": "a", "image": "i", "lifecycle": {"stopSignal": "SIGUSR1"}}]}}))
}

#[test]
fn a_stop_signal_is_dropped_while_its_gate_is_off_and_kept_where_it_was() -> Outcome {
    let signal = "/spec/containers/0/lifecycle/stopSignal";
    let created = |gates: Gates| -> serde_json::Result<Pod> {
        let mut pod = stopping_pod()?;
        strategy::pod::prepare_for_create(&mut pod, Timestamp::UNIX_EPOCH, gates);
        Ok(pod)
    };
    let (with, without) = (created(ON)?, created(OFF)?);
    assert_eq!(field(&with, signal)?, json!("SIGUSR1"));
    assert_eq!(field(&without, signal)?, Value::Null);
    for (old, kept) in [(&with, json!("SIGUSR1")), (&without, Value::Null)] {
        let mut new = stopping_pod()?;
        strategy::pod::prepare_for_update(&mut new, old, OFF);
        assert_eq!(field(&new, signal)?, kept);
    }
    Ok(())
}

#[test]
fn a_services_node_ports_stay_with_their_names_when_it_is_sent_again() -> Outcome {
    let service = |ports: Value| -> serde_json::Result<Service> {
        let mut service = read(json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}))?;
        defaults::service(&mut service);
        Ok(service)
    };
    let old = service(json!([
        {"name": "a", "port": 80, "nodePort": 30001},
        {"name": "b", "port": 81, "nodePort": 30002},
    ]))?;
    let mut new = service(json!([
        {"name": "a", "port": 8080},
        {"name": "c", "port": 82, "nodePort": 30002},
        {"name": "b", "port": 81},
    ]))?;
    strategy::service::prepare_for_update(&mut new, &old);
    let numbers: Vec<Value> =
        (0..3).map(|index| field(&new, &format!("/spec/ports/{index}/nodePort"))).collect::<Result<_, _>>()?;
    assert_eq!(numbers, [json!(30001), json!(30002), Value::Null]);
    Ok(())
}

#[test]
fn a_services_type_changes_and_takes_its_fields_with_it() -> Outcome {
    let mut old: Service = read(json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009,
        "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "x.example.com/y",
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30001}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}))?;
    defaults::service(&mut old);
    let mut new = old.clone();
    new.spec.get_or_insert_default().type_ = Some("ClusterIP".to_owned());
    strategy::service::prepare_for_update(&mut new, &old);
    let wanted = json!({
        "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
    });
    assert_eq!(field(&new, "/spec")?, wanted);
    assert_eq!(field(&new, "/status")?, json!({"loadBalancer": {}}));
    Ok(())
}
