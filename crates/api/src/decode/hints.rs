//! What to do with a field that does not fit.

/// The likely cure for a field that a type does not have: a known name like it, or the object around it that has such a field.
pub(super) fn unknown_field(name: &str, known: &[&str], outer: Option<String>) -> Option<String> {
    if let Some(same) = known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        return Some(format!("write `{same}`: names of fields are case-sensitive"));
    }
    // A name that is right one level up is more likely misplaced than misspelt.
    if let Some(outer) = outer {
        return Some(match outer.as_str() {
            "" => format!("`{name}` is a field of the object itself: indent it less"),
            outer => format!("`{name}` is a field of `{outer}`: indent it less"),
        });
    }
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

/// The known word that is most like a word, if one is like it at all.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = word.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&lower, &known.to_lowercase());
    let best = known.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(best) > 0.8).then_some(*best)
}

/// The likely cure for a value of the wrong type.
pub(super) fn wrong_type(expected: &str, found: &str) -> Option<String> {
    let hint = match (expected, found) {
        ("a string", "a number" | "a boolean") => "put it in quotes: without them YAML reads it as something else",
        ("a number" | "a boolean", "a string") => "write it without quotes, and without a unit",
        ("a list", "an object" | "a string" | "a number" | "a boolean") => "put `- ` before each element",
        ("an object", "a list") => "remove the `- `: one object is due here, not a list",
        _ => return None,
    };
    Some(hint.to_owned())
}
