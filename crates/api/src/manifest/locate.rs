//! From a field's path to a place in the manifest.

use super::node::{Entry, Node, Span};
use crate::field::{FieldPath, Segment};

/// A step of a path: a name, an index, or a key.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Name(&'a str),
    Bracket(&'a str),
}

/// What a path leads to.
struct Found<'n> {
    node: &'n Node,
    /// The entry that holds it, if a map does.
    entry: Option<&'n Entry>,
    /// False if the path goes on, and the manifest does not.
    is_whole: bool,
}

/// The value at a path in the API server's words, if it is there.
pub(super) fn find<'n>(root: &'n Node, field_path: &str) -> Option<&'n Node> {
    let found = follow(root, steps(field_path).into_iter());
    found.is_whole.then_some(found.node)
}

/// The place of a field given in the API server's words, or of the nearest thing around it that is there.
///
/// A scalar is shown itself; of a list or map, what it is called by.
pub(super) fn locate(root: &Node, field_path: &str) -> Span {
    let Found { node, entry, .. } = follow(root, steps(field_path).into_iter());
    match entry {
        _ if node.is_scalar() && node.span.start != node.span.end => node.span,
        Some(entry) => entry.key_span,
        None => node.span.start_only(),
    }
}

/// The places of the key and the value at a path; the key's is the value's for an element of a list.
pub(super) fn locate_both(root: &Node, path: &FieldPath) -> (Span, Span) {
    let indices: Vec<String> = path.segments().iter().map(index_text).collect();
    let steps = path.segments().iter().zip(&indices).map(|(segment, index)| match segment {
        Segment::Name(name) => Step::Name(name),
        Segment::Key(key) => Step::Bracket(key),
        Segment::Index(_) => Step::Bracket(index),
    });
    let found = follow(root, steps);
    let key = found.entry.map_or(found.node.span.start_only(), |entry| entry.key_span);
    // An empty value is nowhere to be seen.
    let value = if found.node.span.start == found.node.span.end { key } else { found.node.span };
    (key, value)
}

fn index_text(segment: &Segment) -> String {
    match segment {
        Segment::Index(index) => index.to_string(),
        Segment::Name(_) | Segment::Key(_) => String::new(),
    }
}

fn follow<'n, 's>(root: &'n Node, steps: impl Iterator<Item = Step<'s>>) -> Found<'n> {
    let mut found = Found { node: root, entry: None, is_whole: true };
    for step in steps {
        let entry = match step {
            Step::Name(name) | Step::Bracket(name) => found.node.entry(name),
        };
        let element = match step {
            Step::Bracket(index) => index.parse().ok().and_then(|index: usize| found.node.elements().get(index)),
            Step::Name(_) => None,
        };
        match (entry, element) {
            (Some(entry), _) => found = Found { node: &entry.value, entry: Some(entry), is_whole: true },
            (None, Some(element)) => found = Found { node: element, entry: None, is_whole: true },
            (None, None) => return Found { is_whole: false, ..found },
        }
    }
    found
}

/// `spec.containers[0].resources.limits[nvidia.com/gpu]`: names between dots, indices and keys in brackets.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').unwrap_or(inside.len());
            steps.push(Step::Bracket(inside.get(..end).unwrap_or_default()));
            rest = inside.get(end + 1..).unwrap_or_default();
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 {
                steps.push(Step::Name(rest.get(..end).unwrap_or_default()));
            } else if !rest.starts_with('[') {
                break;
            }
            rest = rest.get(end..).unwrap_or_default();
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_at_dots_and_brackets() {
        assert_eq!(
            steps("spec.containers[0].resources.limits[nvidia.com/gpu]"),
            [
                Step::Name("spec"),
                Step::Name("containers"),
                Step::Bracket("0"),
                Step::Name("resources"),
                Step::Name("limits"),
                Step::Bracket("nvidia.com/gpu"),
            ]
        );
        assert_eq!(steps(""), []);
        assert_eq!(steps("a..b"), [Step::Name("a")]);
    }
}
