//! The columns of role bindings.

use jiff::Timestamp;
pub(super) use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::table::{Column, Tabular, age, name};
use crate::absent::{items, text};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role"),
    Column::AGE,
    Column::wide("Users"),
    Column::wide("Groups"),
    Column::wide("ServiceAccounts"),
];

impl Tabular for RoleBinding {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        cells(&self.metadata, &self.role_ref, items(&self.subjects), now)
    }
}

impl Tabular for ClusterRoleBinding {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        cells(&self.metadata, &self.role_ref, items(&self.subjects), now)
    }
}

fn cells(metadata: &ObjectMeta, role: &RoleRef, subjects: &[Subject], now: Timestamp) -> Vec<Value> {
    let of_kind = |kind: &str, word: fn(&Subject) -> String| {
        let words: Vec<String> = subjects.iter().filter(|subject| subject.kind == kind).map(word).collect();
        words.join(", ")
    };
    vec![
        name(metadata),
        format!("{}/{}", role.kind, role.name).into(),
        age(metadata, now),
        of_kind("User", |subject| subject.name.clone()).into(),
        of_kind("Group", |subject| subject.name.clone()).into(),
        of_kind("ServiceAccount", |subject| format!("{}/{}", text(&subject.namespace), subject.name)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check_group;

    #[test]
    fn the_cells_of_role_bindings() {
        let binding = json!({
            "metadata": {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "u1"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "Group", "name": "g"}, {"kind": "User", "name": "u2"},
            ],
        });
        let wanted = json!(["b", "ClusterRole/view", "5m", "u1, u2", "g", "n/s"]);
        check_group("rbac.authorization.k8s.io", "RoleBinding", binding.clone(), wanted.clone());
        check_group("rbac.authorization.k8s.io", "ClusterRoleBinding", binding, wanted);
    }
}
