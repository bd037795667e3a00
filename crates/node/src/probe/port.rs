//! Ports that a probe or hook names (L-414).
//!
//! Pure.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::wording::quoted;

/// Why there is no such port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Neither a port of the container nor a number.
    #[error("strconv.Atoi: parsing {}: invalid syntax", quoted(name))]
    Name {
        /// As the probe has it.
        name: String,
    },
    /// A number that is no port.
    #[error("invalid port number: {number}")]
    Number {
        /// As the probe has it.
        number: i64,
    },
}

/// The port's number: by name from the container's own ports, else the text as a number.
pub fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, PortError> {
    let number = match port {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| i64::from(port.container_port)).or_else(|| name.parse().ok());
            number.ok_or_else(|| PortError::Name { name: name.clone() })?
        }
    };
    match u16::try_from(number) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(PortError::Number { number }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_is_found_by_name_else_read_as_a_number() -> Result<(), serde_json::Error> {
        let container: Container = serde_json::from_value(json!({"name": "c",
            "ports": [{"containerPort": 1}, {"name": "http", "containerPort": 8080}, {"name": "90", "containerPort": 91}]}))?;
        let resolve = |port: IntOrString| resolve_port(&port, &container).map_err(|error| error.to_string());
        let text = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(resolve(IntOrString::Int(80)), Ok(80));
        assert_eq!(resolve(text("http")), Ok(8080));
        assert_eq!(resolve(text("90")), Ok(91));
        assert_eq!(resolve(text("81")), Ok(81));
        assert_eq!(resolve(text("https")), Err("strconv.Atoi: parsing \"https\": invalid syntax".into()));
        assert_eq!(resolve(IntOrString::Int(0)), Err("invalid port number: 0".into()));
        assert_eq!(resolve(text("65536")), Err("invalid port number: 65536".into()));
        Ok(())
    }
}
