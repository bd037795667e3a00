//! Field selectors: `status.phase!=Failed,spec.nodeName=n`.
//!
//! Kubernetes: apimachinery, pkg/fields.

use std::fmt;
use std::str::FromStr;

/// Requirements on an object's fields, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The requirements in the order of their texts.
    pub terms: Vec<FieldTerm>,
}

/// What is asked of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field: `spec.nodeName`.
    pub field: String,
    /// The value, which may be empty.
    pub value: String,
    /// True for `=` and `==`, false for `!=`.
    pub equal: bool,
}

/// Why a text is no field selector; the texts are Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash stands before something else than a backslash, a comma or an equals sign.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or an equals sign stands in a value without a backslash; it is shown by its code, as Go does.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl FieldSelector {
    /// Reads `a=b,c==d,e!=f`; values may escape `\,`, `\=` and `\\`. The empty text selects everything.
    pub fn parse(text: &str) -> Result<FieldSelector, FieldSelectorError> {
        let mut parts = split(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| term(text, part));
        // A term of neither field nor value asks for nothing.
        let terms = terms.filter(|term| !matches!(term, Ok(term) if term.field.is_empty() && term.value.is_empty()));
        Ok(FieldSelector { terms: terms.collect::<Result<_, _>>()? })
    }

    /// True if every object is meant.
    pub fn selects_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// True if an object is meant whose fields the function gives; a field that is not set is the empty text.
    pub fn matches_with(&self, field: impl Fn(&str) -> String) -> bool {
        self.terms.iter().all(|term| (field(&term.field) == term.value) == term.equal)
    }

    /// The value that a field must have, if a term says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<FieldSelector, FieldSelectorError> {
        FieldSelector::parse(text)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, term) in self.terms.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{operator}{value}", term.field)?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(move |character: char| {
        let is_end = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        is_end
    })
    .collect()
}

fn term(selector: &str, text: &str) -> Result<FieldTerm, FieldSelectorError> {
    let not_understood = || FieldSelectorError::Term { selector: selector.to_owned(), term: text.to_owned() };
    let equals = text.find('=').ok_or_else(not_understood)?;
    let at = if text.get(..equals).is_some_and(|field| field.ends_with('!')) { equals - 1 } else { equals };
    let (field, rest) = text.split_at_checked(at).ok_or_else(not_understood)?;
    let (equal, value) = match (rest.strip_prefix("!="), rest.strip_prefix("==")) {
        (Some(value), _) => (false, value),
        (None, Some(value)) => (true, value),
        (None, None) => (true, rest.strip_prefix('=').ok_or_else(not_understood)?),
    };
    Ok(FieldTerm { field: field.to_owned(), value: unescape(value)?, equal })
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(character)),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        FieldSelector::parse(text).map_or_else(|error| error.to_string(), |selector| selector.to_string())
    }

    #[test]
    fn a_91_selectors_are_read_and_written_back_sorted() {
        let rows = [
            ("", ""),
            (",", ""),
            ("b=1,a==2", "a=2,b=1"),
            ("a!=1", "a!=1"),
            ("involvedObject.namespace=", "involvedObject.namespace="),
            ("reason=a\\,b\\=c\\\\", "reason=a\\,b\\=c\\\\"),
            ("a!b=c", "a!b=c"),
            ("=", ""),
        ];
        for (text, wanted) in rows {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_91_malformed_selectors_are_refused_in_kubernetes_words() {
        let rows = [
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("a=1,b!", "invalid selector: 'a=1,b!'; can't understand 'b!'"),
            ("a=b\\c", "invalid field selector: invalid escape sequence: \\c"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ];
        for (text, wanted) in rows {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_91_terms_are_joined_by_and() -> Result<(), FieldSelectorError> {
        let field = |name: &str| if name == "status.phase" { "Running".to_owned() } else { String::new() };
        let rows = [
            ("status.phase=Running", true),
            ("status.phase!=Running", false),
            ("status.phase=Running,spec.nodeName=", true),
            ("status.phase=Running,spec.nodeName=n", false),
            ("status.phase!=Succeeded,status.phase!=Failed", true),
        ];
        for (text, wanted) in rows {
            assert_eq!(FieldSelector::parse(text)?.matches_with(field), wanted, "{text}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text in "[a=!,\\\\ .é]{0,12}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let again = FieldSelector::parse(&selector.to_string());
                // The order of terms follows their texts, which escaping may change.
                let sorted = |selector: &FieldSelector| {
                    let mut terms: Vec<String> = selector.terms.iter().map(|term| format!("{term:?}")).collect();
                    terms.sort();
                    terms
                };
                prop_assert_eq!(again.as_ref().map(sorted), Ok(sorted(&selector)));
            }
        }
    }
}
