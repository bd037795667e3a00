//! From a field path in the API server's words to a place in the manifest.

use super::node::{Node, Span};

/// A step of a path as text has it.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Name(&'a str),
    Bracket(&'a str),
}

/// The place of a field, or of the nearest thing around it that is there: its key if it has one.
pub(super) fn locate(root: &Node, field_path: &str) -> Span {
    let mut node = root;
    let mut span = root.span.start_only();
    for step in steps(field_path) {
        let next = match step {
            Step::Name(name) | Step::Bracket(name) if !node.entries().is_empty() => {
                node.entry(name).map(|entry| (&entry.value, entry.key_span))
            }
            Step::Bracket(index) => {
                let element = index.parse().ok().and_then(|index: usize| node.elements().get(index));
                element.map(|element| (element, element.span.start_only()))
            }
            Step::Name(_) => None,
        };
        let Some((value, at)) = next else { return span };
        // A scalar is shown itself; of a list or map, what it is called by.
        span = if value.entries().is_empty() && value.elements().is_empty() { value.span } else { at };
        node = value;
    }
    span
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
