//! The variables that tell of Services (L-909).
//!
//! Pure: Services in, variables out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// The variables for a pod of the given namespace.
///
/// The Services of its own namespace are told where `service_links` says so, the API server's own always.
pub fn service_variables<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    namespace: &str,
    service_links: bool,
) -> BTreeMap<String, String> {
    let mut chosen: BTreeMap<&str, (&str, &Service)> = BTreeMap::new();
    for service in services {
        let (Some(name), Some(address)) = (service.metadata.name.as_deref(), cluster_ip(service)) else { continue };
        let of = service.metadata.namespace.as_deref().unwrap_or_default();
        if of == "default" && name == "kubernetes" {
            // A Service of that name in the pod's own namespace goes before.
            chosen.entry(name).or_insert((address, service));
        } else if of == namespace && service_links {
            chosen.insert(name, (address, service));
        }
    }
    chosen.into_iter().flat_map(|(name, (address, service))| variables(name, address, ports(service))).collect()
}

/// `None` for headless Services and those that have no address yet.
fn cluster_ip(service: &Service) -> Option<&str> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!address.is_empty() && address != "None").then_some(address)
}

fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

fn variables(name: &str, address: &str, ports: &[ServicePort]) -> Vec<(String, String)> {
    let prefix = variable_name(name);
    let mut variables = vec![(format!("{prefix}_SERVICE_HOST"), address.to_owned())];
    if let Some(first) = ports.first() {
        variables.push((format!("{prefix}_SERVICE_PORT"), first.port.to_string()));
        variables.push((format!("{prefix}_PORT"), url(address, first)));
    }
    for port in ports {
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(port_name)), port.port.to_string()));
        }
        let of_port = format!("{prefix}_PORT_{}_{}", port.port, protocol(port).to_uppercase());
        variables.push((of_port.clone(), url(address, port)));
        variables.push((format!("{of_port}_PROTO"), protocol(port).to_lowercase()));
        variables.push((format!("{of_port}_PORT"), port.port.to_string()));
        variables.push((format!("{of_port}_ADDR"), address.to_owned()));
    }
    variables
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP")
}

fn url(address: &str, port: &ServicePort) -> String {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    format!("{}://{host}:{}", protocol(port).to_lowercase(), port.port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn service(namespace: &str, name: &str, address: &str, ports: Value) -> serde_json::Result<Service> {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"clusterIP": address, "ports": ports},
        }))
    }

    fn check(services: &[Service], service_links: bool, expected: &[(&str, &str)]) {
        let variables = service_variables(services, "shop", service_links);
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(variables, expected);
    }

    #[test]
    fn a_service_is_told_with_all_its_ports() -> Result {
        let ports = json!([{"name": "sql", "port": 5432}, {"name": "a-b", "port": 53, "protocol": "UDP"}]);
        let expected = [
            ("MY_DB_PORT", "tcp://10.0.0.7:5432"),
            ("MY_DB_PORT_53_UDP", "udp://10.0.0.7:53"),
            ("MY_DB_PORT_53_UDP_ADDR", "10.0.0.7"),
            ("MY_DB_PORT_53_UDP_PORT", "53"),
            ("MY_DB_PORT_53_UDP_PROTO", "udp"),
            ("MY_DB_PORT_5432_TCP", "tcp://10.0.0.7:5432"),
            ("MY_DB_PORT_5432_TCP_ADDR", "10.0.0.7"),
            ("MY_DB_PORT_5432_TCP_PORT", "5432"),
            ("MY_DB_PORT_5432_TCP_PROTO", "tcp"),
            ("MY_DB_SERVICE_HOST", "10.0.0.7"),
            ("MY_DB_SERVICE_PORT", "5432"),
            ("MY_DB_SERVICE_PORT_A_B", "53"),
            ("MY_DB_SERVICE_PORT_SQL", "5432"),
        ];
        check(&[service("shop", "my-db", "10.0.0.7", ports)?], true, &expected);
        Ok(())
    }

    #[test]
    fn an_address_of_version_6_stands_in_brackets() -> Result {
        let variables = service_variables(&[service("shop", "db", "fd00::1", json!([{"port": 1}]))?], "shop", true);
        assert_eq!(variables.get("DB_PORT").map(String::as_str), Some("tcp://[fd00::1]:1"));
        Ok(())
    }

    #[test]
    fn headless_and_foreign_services_are_not_told() -> Result {
        let ports = json!([{"port": 1}]);
        let services = [
            service("shop", "headless", "None", ports.clone())?,
            service("shop", "pending", "", ports.clone())?,
            service("other", "db", "10.0.0.1", ports)?,
        ];
        check(&services, true, &[]);
        Ok(())
    }

    #[test]
    fn without_service_links_the_api_server_is_told_alone() -> Result {
        let services = [
            service("shop", "db", "10.0.0.2", json!([{"port": 1}]))?,
            service("default", "kubernetes", "10.0.0.1", json!([]))?,
        ];
        check(&services, false, &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        Ok(())
    }
}
