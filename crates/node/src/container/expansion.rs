//! `$(NAME)` in env values, commands, arguments, paths and probe commands (L-903).
//!
//! Pure. What a name means is the caller's: it differs from place to place.

/// Replaces each `$(NAME)` that the lookup knows; `$$` is a dollar sign, all else stays as it is.
pub fn expand(input: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(input.len());
    let mut rest = input;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            after
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|reference| reference.split_once(')')) {
            match lookup(name) {
                Some(value) => expanded.push_str(&value),
                None => expanded.extend(["$(", name, ")"]),
            }
            after
        } else {
            expanded.push('$');
            after
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".to_owned()),
            "REFERENCE" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_as_kubernetes_does_it() {
        let cases = [
            ("", ""),
            ("text", "text"),
            ("$(A)", "one"),
            ("<$(A)-$(A)>", "<one-one>"),
            ("$(EMPTY)", ""),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$one"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("$", "$"),
            ("a$", "a$"),
            ("$$", "$"),
            ("$(A", "$(A"),
            ("$(A $(A)", "$(A $(A)"),
            ("$()", "$()"),
            ("$(REFERENCE)", "$(A)"),
            ("ü$(A)ü$ü", "üoneü$ü"),
        ];
        for (input, expected) in cases {
            assert_eq!(expand(input, &lookup), expected, "{input}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_a_dollar_stays(input in "[^$]*") {
            prop_assert_eq!(expand(&input, &lookup), input);
        }

        #[test]
        fn any_text_is_taken(input in ".*") {
            prop_assert!(expand(&input, &|_| None).len() <= input.len());
        }
    }
}
