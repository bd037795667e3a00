//! Warnings of ports that several containers of a pod declare.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

use crate::absent::{items, text};
use crate::containers;
use crate::field::{FieldPath, quote};

/// A declared port and where.
struct Declared {
    at: FieldPath,
    port: ContainerPort,
}

impl Declared {
    fn key(&self) -> (i32, &str) {
        (self.port.container_port, text(&self.port.protocol))
    }

    fn host(&self) -> (&str, i32) {
        (text(&self.port.host_ip), self.port.host_port.unwrap_or(0))
    }
}

/// Warns of a port number that is declared more than once, then of a port name that is.
pub(super) fn warn_of_ports(spec: &PodSpec, at: &FieldPath, warnings: &mut Vec<String>) {
    let declared = declared(spec, at);
    for (count, one) in declared.iter().enumerate() {
        let (ip, number) = one.host();
        if !ip.is_empty() && number == 0 {
            warnings.push(format!("{}: hostIP set without hostPort: {}", one.at, show(&one.port)));
        }
        for other in declared.iter().take(count).filter(|other| other.key() == one.key()) {
            if let Some(kind) = conflict(one.host(), other.host()) {
                warnings.push(format!("{}: {kind} port definition with {}", one.at, other.at));
            }
        }
    }
    warn_of_names(&declared, warnings);
}

fn conflict(one: (&str, i32), other: (&str, i32)) -> Option<&'static str> {
    if one == other {
        return Some("duplicate");
    }
    if one.1 == 0 || other.1 == 0 {
        return Some("overlapping");
    }
    let is_ambiguous = one.1 == other.1 && one.0.is_empty() != other.0.is_empty();
    is_ambiguous.then_some("dangerously ambiguous")
}

fn warn_of_names(declared: &[Declared], warnings: &mut Vec<String>) {
    let mut first: BTreeMap<&str, &FieldPath> = BTreeMap::new();
    for one in declared {
        let name = text(&one.port.name);
        if name.is_empty() {
            continue;
        }
        match first.get(name) {
            Some(other) => warnings.push(format!(
                "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                one.at,
                quote(name)
            )),
            None => {
                first.insert(name, &one.at);
            }
        }
    }
}

fn declared(spec: &PodSpec, at: &FieldPath) -> Vec<Declared> {
    let mut declared = Vec::new();
    for (list, index, container) in containers::all(spec) {
        let at = at.child(list.field()).index(index).child("ports");
        for (index, port) in items(&container.ports).iter().enumerate() {
            declared.push(Declared { at: at.index(index), port: port.clone() });
        }
    }
    declared
}

/// The port as Go shows a structure.
fn show(port: &ContainerPort) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        text(&port.name),
        port.host_port.unwrap_or(0),
        port.container_port,
        text(&port.protocol),
        text(&port.host_ip)
    )
}
