//! Columns and rows of the server's Tables, for every kind that has columns of its own (A-61, A-62, A-67).
//!
//! [`Printer::of`] finds a kind's printer; a kind without one shows name and creation time.
//! The frame of the Table, and the objects beside the cells, are the server's affair.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{batch, core, events, network, node, policy, rbac};
use crate::time;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title; `kubectl` prints it in capitals.
    pub name: &'static str,
    /// The type of its cells: `string`, `integer`, `boolean` or `date`.
    pub type_: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    /// 0 for columns that are always shown, 1 for those of `-o wide`.
    pub priority: i32,
}

/// The cells of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Value>,
    /// How the object has ended, if it has (L-1113).
    pub completion: Option<Completion>,
}

/// How a pod has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All its containers have ended well.
    Succeeded,
    /// Some container has failed, or the pod was stopped.
    Failed,
}

/// How objects of a kind are shown.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// The columns.
    pub columns: &'static [Column],
    row: fn(&Value, Timestamp) -> Result<Row, serde_json::Error>,
}

/// A kind with columns of its own.
pub(super) trait Tabular: DeserializeOwned {
    /// The columns.
    const COLUMNS: &'static [Column];

    /// The cells of an object, one for each column.
    fn cells(&self, now: Timestamp) -> Vec<Value>;

    /// How the object has ended.
    fn completion(&self) -> Option<Completion> {
        None
    }
}

impl Column {
    /// As in a Table's `columnDefinitions`.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "type": self.type_, "format": self.format, "description": "", "priority": self.priority})
    }

    /// The column that names the object.
    pub(super) const NAME: Column = Column { format: "name", ..Column::text("Name") };
    /// The column of its age.
    pub(super) const AGE: Column = Column::text("Age");

    pub(super) const fn text(name: &'static str) -> Column {
        Column { name, type_: "string", format: "", priority: 0 }
    }

    pub(super) const fn integer(name: &'static str) -> Column {
        Column { type_: "integer", ..Column::text(name) }
    }

    pub(super) const fn boolean(name: &'static str) -> Column {
        Column { type_: "boolean", ..Column::text(name) }
    }

    /// A column that only `-o wide` shows.
    pub(super) const fn wide(name: &'static str) -> Column {
        Column { priority: 1, ..Column::text(name) }
    }
}

impl Completion {
    /// As in a Table row's `conditions`.
    pub fn to_json(self) -> Value {
        let (reason, message) = match self {
            Completion::Succeeded => ("Succeeded", "The pod has completed successfully."),
            Completion::Failed => ("Failed", "The pod failed."),
        };
        json!({"type": "Completed", "status": "True", "reason": reason, "message": message})
    }
}

impl Row {
    /// As in a Table's `rows`, without the object.
    pub fn to_json(&self) -> Value {
        match self.completion {
            Some(completion) => json!({"cells": self.cells, "conditions": [completion.to_json()]}),
            None => json!({"cells": self.cells}),
        }
    }
}

impl Printer {
    /// The printer of a kind, by its group, empty for core.
    pub fn of(group: &str, kind: &str) -> Printer {
        match (group, kind) {
            ("", "Pod") => Printer::new::<core::Pod>(),
            ("", "PodTemplate") => Printer::new::<core::PodTemplate>(),
            ("", "ConfigMap") => Printer::new::<core::ConfigMap>(),
            ("", "Secret") => Printer::new::<core::Secret>(),
            ("", "Namespace") => Printer::new::<core::Namespace>(),
            ("", "ServiceAccount") => Printer::new::<core::ServiceAccount>(),
            ("", "Node") => Printer::new::<node::Node>(),
            ("", "Service") => Printer::new::<network::Service>(),
            ("", "Endpoints") => Printer::new::<network::Endpoints>(),
            ("discovery.k8s.io", "EndpointSlice") => Printer::new::<network::EndpointSlice>(),
            ("", "Event") => Printer::new::<events::CoreEvent>(),
            ("events.k8s.io", "Event") => Printer::new::<events::Event>(),
            ("batch", "Job") => Printer::new::<batch::Job>(),
            ("batch", "CronJob") => Printer::new::<batch::CronJob>(),
            ("coordination.k8s.io", "Lease") => Printer::new::<policy::Lease>(),
            ("policy", "PodDisruptionBudget") => Printer::new::<policy::PodDisruptionBudget>(),
            ("scheduling.k8s.io", "PriorityClass") => Printer::new::<policy::PriorityClass>(),
            ("node.k8s.io", "RuntimeClass") => Printer::new::<policy::RuntimeClass>(),
            ("rbac.authorization.k8s.io", "RoleBinding") => Printer::new::<rbac::RoleBinding>(),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding") => Printer::new::<rbac::ClusterRoleBinding>(),
            _ => Printer { columns: PLAIN, row: |object, _| Ok(plain_row(object)) },
        }
    }

    /// The row of an object as the API has it. Fails if it is no object of the kind.
    pub fn row(&self, object: &Value, now: Timestamp) -> Result<Row, serde_json::Error> {
        (self.row)(object, now)
    }

    fn new<K: Tabular>() -> Printer {
        Printer {
            columns: K::COLUMNS,
            row: |object, now| {
                let typed = K::deserialize(object)?;
                Ok(Row { cells: typed.cells(now), completion: typed.completion() })
            },
        }
    }
}

/// The columns of kinds that have none of their own.
const PLAIN: &[Column] = &[Column::NAME, Column { type_: "date", ..Column::text("Created At") }];

fn plain_row(object: &Value) -> Row {
    let cell = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    Row { cells: vec![cell("/metadata/name"), cell("/metadata/creationTimestamp")], completion: None }
}

pub(super) fn name(metadata: &ObjectMeta) -> Value {
    metadata.name.clone().unwrap_or_default().into()
}

pub(super) fn age(metadata: &ObjectMeta, now: Timestamp) -> Value {
    time::age(metadata.creation_timestamp.as_ref().map(|created| created.0), now).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_62_a_row_has_as_many_cells_as_there_are_columns() {
        let kinds = [
            ("", "Pod"),
            ("", "PodTemplate"),
            ("", "ConfigMap"),
            ("", "Secret"),
            ("", "Namespace"),
            ("", "ServiceAccount"),
            ("", "Node"),
            ("", "Service"),
            ("", "Endpoints"),
            ("discovery.k8s.io", "EndpointSlice"),
            ("", "Event"),
            ("events.k8s.io", "Event"),
            ("batch", "Job"),
            ("batch", "CronJob"),
            ("coordination.k8s.io", "Lease"),
            ("policy", "PodDisruptionBudget"),
            ("scheduling.k8s.io", "PriorityClass"),
            ("node.k8s.io", "RuntimeClass"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("rbac.authorization.k8s.io", "Role"),
        ];
        for (group, kind) in kinds {
            let printer = Printer::of(group, kind);
            let cells =
                printer.row(&json!({"metadata": {"name": "x"}}), Timestamp::UNIX_EPOCH).map(|row| row.cells.len());
            assert_eq!(cells.ok(), Some(printer.columns.len()), "{kind}");
            assert!(kind == "Role" || printer.columns != PLAIN, "{kind}");
        }
    }

    #[test]
    fn an_object_without_columns_of_its_own_shows_when_it_was_created() {
        let object = json!({"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let printer = Printer::of("example.com", "Thing");
        let row = printer.row(&object, Timestamp::UNIX_EPOCH).map(|row| row.to_json());
        assert_eq!(row.ok(), Some(json!({"cells": ["r", "2026-01-01T00:00:00Z"]})));
        assert_eq!(
            printer.columns.first().map(Column::to_json),
            Some(json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}))
        );
    }

    #[test]
    fn l_1113_the_row_of_a_pod_that_has_ended_says_so() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Failed"}});
        let row = Printer::of("", "Pod").row(&pod, Timestamp::UNIX_EPOCH).map(|row| row.to_json());
        let wanted = json!({
            "cells": ["p", "0/0", "Failed", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"],
            "conditions": [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
        });
        assert_eq!(row.ok(), Some(wanted));
    }
}
