//! Manifests: YAML and JSON as people write them, with the place of every value kept.
//!
//! [`read`] gives the objects of a file, and what is wrong with it as [`Diagnostic`]s; nothing here opens a file.
//! Scalars, keys and merge keys are read as kubectl reads them (YAML 1.1: `010` is 8, `yes` is true), but keys that stand twice are errors, and so are unknown fields.
//! Values keep their byte ranges and styles, and objects their comments, so that an edit can touch one value and leave the rest of the text as it is.
//!
//! - `yaml`, `json`, `build`, `scalar`: text to [`Node`]s
//! - `kinds`: which kinds are known; their types are checked by [`crate::decode`]
//! - `locate`: from field paths to places
//! - [`diagnostic`]: errors as data, and as text for people

pub mod diagnostic;
pub mod node;

mod build;
mod json;
mod kinds;
mod locate;
mod scalar;
mod yaml;

use serde_json::Value;

use crate::decode::UnfitField;
pub use diagnostic::{Diagnostic, Note, Severity};
use kinds::{Known, Lookup};
pub use node::{Entry, Node, NodeKind, Position, Span, Style};
use yaml::{Document, Read};

/// A larger text is no manifest; the API server takes 3 MiB.
const BYTES_MAX: usize = 64 << 20;

/// An object of a manifest.
#[derive(Clone, Debug)]
pub struct ManifestObject {
    /// The file's name, as it is shown to people.
    pub file: String,
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// True if the kind is one of Kubernetes' whose fields have been checked; false for a custom resource.
    pub is_known: bool,
    /// The object as it was written, with places.
    pub node: Node,
    /// The object as JSON, with all that the user wrote.
    pub value: Value,
    /// The comments above and in it; for an object of a list, those in it.
    pub comments: Vec<Comment>,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Where it stands, from its `#` to the end of its line.
    pub span: Span,
    /// What it says, without the `#`.
    pub text: String,
    /// How it stands.
    pub place: CommentPlace,
}

/// How a comment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentPlace {
    /// On a line of its own.
    OwnLine,
    /// Behind something else.
    Right,
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

    /// The value of a field given as the API server writes it (`spec.containers[0].image`), if it is there.
    pub fn find(&self, field_path: &str) -> Option<&Node> {
        locate::find(&self.node, field_path)
    }

    /// The place of a field given as the API server writes it, or of the nearest thing around it.
    pub fn locate(&self, field_path: &str) -> Span {
        locate::locate(&self.node, field_path)
    }

    /// An error at a field of this object.
    pub fn error(&self, field_path: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(&self.file, message).at(self.locate(field_path)).field(field_path)
    }

    /// A warning at a field of this object.
    pub fn warning(&self, field_path: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..self.error(field_path, message) }
    }
}

/// Reads all objects of a text; lists are taken apart.
///
/// What is wrong comes as diagnostics, in the order of the text; objects that can be read are given all the same.
pub fn read(file: &str, text: &str) -> (Vec<ManifestObject>, Vec<Diagnostic>) {
    let read = parse(file, text);
    let mut reader = Reader { file, objects: Vec::new(), diagnostics: read.diagnostics };
    for document in read.documents {
        reader.take(document);
    }
    let Reader { objects, mut diagnostics, .. } = reader;
    if objects.is_empty() && diagnostics.is_empty() {
        diagnostics.push(
            Diagnostic::error(file, "there is no object in it")
                .hint("write a manifest that begins with `apiVersion:` and `kind:`"),
        );
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.map(|span| span.start));
    (objects, diagnostics)
}

fn parse(file: &str, text: &str) -> Read {
    if text.len() > BYTES_MAX {
        let message = format!("the file has {} bytes, and at most {BYTES_MAX} are read", text.len());
        let diagnostic = Diagnostic::error(file, message).hint("split it into several files");
        return Read { diagnostics: vec![diagnostic], ..Read::default() };
    }
    json::parse(file, text).unwrap_or_else(|| yaml::parse(file, text))
}

struct Reader<'a> {
    file: &'a str,
    objects: Vec<ManifestObject>,
    diagnostics: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn take(&mut self, document: Document) {
        let node = &document.node;
        let (Some(api_version), Some(kind)) = (node.text_at("apiVersion"), node.text_at("kind")) else {
            self.diagnostics.push(self.untyped(node));
            return;
        };
        if api_version == "v1" && kind == "List" {
            return self.take_items(&document, None);
        }
        if let Some(item_kind) = kinds::listed(api_version, kind) {
            return self.take_items(&document, Some((api_version, item_kind)));
        }
        match kinds::find(self.file, node, api_version, kind) {
            Lookup::Known(known) => self.take_known(known, document),
            Lookup::Other => self.objects.push(self.object(document, false)),
            Lookup::Unknown(diagnostic) => self.diagnostics.push(*diagnostic),
        }
    }

    /// The objects of a list; those of a typed list need not say what they are.
    fn take_items(&mut self, list: &Document, of: Option<(&str, &str)>) {
        for item in list.node.get("items").map(Node::elements).unwrap_or_default() {
            let within =
                |comment: &&Comment| item.span.start <= comment.span.start && comment.span.start <= item.span.end;
            let comments = list.comments.iter().filter(within).cloned().collect();
            let mut node = item.clone();
            if let (Some((api_version, kind)), NodeKind::Map(entries)) = (of, &mut node.kind) {
                for (key, text) in [("apiVersion", api_version), ("kind", kind)] {
                    if !entries.iter().any(|entry| entry.key == key) {
                        entries.push(Entry::implied(key, text, item.span.start_only()));
                    }
                }
            }
            self.take(Document { node, comments });
        }
    }

    fn take_known(&mut self, known: Known, document: Document) {
        let unfit = (known.check)(&document.node);
        let is_usable = unfit.iter().all(|field| field.is_unknown);
        self.diagnostics.extend(unfit.into_iter().map(|field| diagnostic_of(self.file, &document.node, field)));
        if is_usable {
            self.objects.push(self.object(document, true));
        }
    }

    fn object(&self, document: Document, is_known: bool) -> ManifestObject {
        let Document { node, comments } = document;
        let text = |field| node.text_at(field).unwrap_or_default().to_owned();
        let (api_version, kind, value) = (text("apiVersion"), text("kind"), node.to_json());
        ManifestObject { file: self.file.to_owned(), api_version, kind, is_known, node, value, comments }
    }

    fn untyped(&self, node: &Node) -> Diagnostic {
        if !matches!(node.kind, NodeKind::Map(_)) {
            return Diagnostic::error(self.file, format!("expected an object, found {}", node.describe()))
                .at(node.span)
                .hint("a manifest is a map that begins with `apiVersion:` and `kind:`");
        }
        let field = if node.text_at("apiVersion").is_none() { "apiVersion" } else { "kind" };
        Diagnostic::error(self.file, format!("`{field}` is missing, or is no text"))
            .at(node.get(field).map_or(node.span.start_only(), |value| value.span))
            .field(field)
            .hint(match field {
                "apiVersion" => "add `apiVersion: v1` for a Pod, `apiVersion: batch/v1` for a Job",
                _ => "add `kind: Pod` or `kind: Job`",
            })
    }
}

fn diagnostic_of(file: &str, node: &Node, field: UnfitField) -> Diagnostic {
    let (key, value) = locate::locate_both(node, &field.path);
    let span = if field.is_unknown { key } else { value };
    let diagnostic = Diagnostic::error(file, field.message).at(span).field(field.path.to_string());
    match field.hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

#[cfg(test)]
mod tests;
