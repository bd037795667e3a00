//! Manifests: YAML and JSON as people write them, with the place of every value kept.
//!
//! [`read`] gives the objects of a file, and what is wrong with it as [`Diagnostic`]s; nothing here opens a file.
//! Scalars are read as kubectl reads them (YAML 1.1: `010` is 8, `yes` is true), and unknown fields are errors that name the nearest known one.
//!
//! - `yaml`, `scalar`: text to [`Node`]s
//! - `decode`: nodes to Kubernetes' types, with the place of what does not fit
//! - `kinds`: which kinds are known
//! - [`diagnostic`]: errors as data, and as text for people

pub mod diagnostic;
pub mod node;

mod decode;
mod kinds;
mod locate;
mod scalar;
mod yaml;

use serde_json::Value;

pub use diagnostic::{Diagnostic, Severity};
pub use node::{Entry, Node, NodeKind, Position, Span};

/// An object of a manifest.
#[derive(Clone, Debug)]
pub struct ManifestObject {
    /// The file's name, as it is shown to people.
    pub file: String,
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The object as it was written, with places.
    pub node: Node,
    /// The object as JSON, with all that the user wrote.
    pub value: Value,
}

impl ManifestObject {
    /// `metadata.name`; empty if there is none.
    pub fn name(&self) -> &str {
        self.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// `metadata.namespace`; empty if there is none.
    pub fn namespace(&self) -> &str {
        self.value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default()
    }

    /// The place of a field given as the API server writes it (`spec.containers[0].image`), or of the nearest thing around it.
    pub fn locate(&self, field_path: &str) -> Span {
        locate::locate(&self.node, field_path)
    }

    /// An error at a field of this object.
    pub fn error(&self, field_path: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(&self.file, message).at(self.locate(field_path)).field(field_path)
    }
}

/// Reads all objects of a text; lists are taken apart.
///
/// What is wrong comes as diagnostics; objects that can be read are given all the same.
pub fn read(file: &str, text: &str) -> (Vec<ManifestObject>, Vec<Diagnostic>) {
    let (documents, mut diagnostics) = yaml::parse(file, text);
    let mut objects = Vec::new();
    for document in documents {
        take_document(file, document, &mut objects, &mut diagnostics);
    }
    if objects.is_empty() && diagnostics.is_empty() {
        diagnostics.push(
            Diagnostic::error(file, "there is no object in it")
                .hint("write a manifest that begins with `apiVersion:` and `kind:`"),
        );
    }
    (objects, diagnostics)
}

fn take_document(file: &str, node: Node, objects: &mut Vec<ManifestObject>, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(api_version), Some(kind)) = (node.text_at("apiVersion"), node.text_at("kind")) else {
        diagnostics.push(untyped(file, &node));
        return;
    };
    if api_version == "v1" && kind == "List" {
        for item in node.get("items").map(Node::elements).unwrap_or_default() {
            take_document(file, item.clone(), objects, diagnostics);
        }
        return;
    }
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    match kinds::find(&api_version, &kind) {
        Ok(known) => {
            let wrong = (known.check)(&node);
            let failed = wrong.iter().any(|problem| problem.fatal);
            diagnostics.extend(wrong.into_iter().map(|problem| problem.into_diagnostic(file)));
            if !failed {
                let value = node.to_json();
                objects.push(ManifestObject { file: file.to_owned(), api_version, kind, node, value });
            }
        }
        Err(unknown) => diagnostics.push(unknown.into_diagnostic(file, &node)),
    }
}

fn untyped(file: &str, node: &Node) -> Diagnostic {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return Diagnostic::error(file, format!("expected an object, found {}", node.kind.describe()))
            .at(node.span)
            .hint("a manifest is a map that begins with `apiVersion:` and `kind:`");
    }
    let field = if node.text_at("apiVersion").is_none() { "apiVersion" } else { "kind" };
    Diagnostic::error(file, format!("`{field}` is missing, or is no text"))
        .at(node.get(field).map_or(node.span.start_only(), |value| value.span))
        .field(field)
        .hint(match field {
            "apiVersion" => "add `apiVersion: v1` for a Pod, `apiVersion: batch/v1` for a Job",
            _ => "add `kind: Pod` or `kind: Job`",
        })
}

#[cfg(test)]
mod tests;
