//! Label selectors in a query.

use std::collections::BTreeSet;

use kube_core::Expression;

use crate::error::ApiError;

/// Reads `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, joined by commas. Fails with 400.
pub(super) fn parse(text: &str) -> Result<kube_core::Selector, ApiError> {
    let malformed = |term: &str| {
        ApiError::bad_request(format!(
            "unable to parse requirement: couldn't parse the selector string \"{text}\": found '{term}'"
        ))
    };
    let mut expressions = Vec::new();
    for term in split(text).into_iter().map(str::trim).filter(|term| !term.is_empty()) {
        expressions.push(expression(term).ok_or_else(|| malformed(term))?);
    }
    Ok(expressions.into_iter().collect())
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(move |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .collect()
}

fn expression(term: &str) -> Option<Expression> {
    if let Some(key) = term.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key_of(key)?));
    }
    if let Some(list) = term.strip_suffix(')') {
        let (head, values) = list.split_once('(')?;
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        let values: BTreeSet<String> = values.split(',').map(value_of).collect::<Option<_>>()?;
        return match operator {
            "in" => Some(Expression::In(key_of(key)?, values)),
            "notin" => Some(Expression::NotIn(key_of(key)?, values)),
            _ => None,
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Some(Expression::NotEqual(key_of(key)?, value_of(value)?));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Expression::Equal(key_of(key)?, value_of(value)?));
    }
    Some(Expression::Exists(key_of(term)?))
}

/// `[prefix/]name`.
fn key_of(text: &str) -> Option<String> {
    let key = text.trim();
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let good = !name.is_empty() && name.len() <= 63 && key.chars().all(|c| is_plain(c) || c == '/');
    good.then(|| key.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let value = text.trim();
    (value.len() <= 63 && value.chars().all(is_plain)).then(|| value.to_owned())
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_core::SelectorExt as _;

    fn check(selector: &str, labels: &[(&str, &str)]) -> Result<bool, u16> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        parse(selector).map(|selector| selector.matches(&labels)).map_err(|error| error.code())
    }

    #[test]
    fn a_90_every_form_is_read() {
        let labels = [("app", "web"), ("example.com/tier", "1")];
        for selector in
            ["app=web", "app==web", "app", "app in (web, db)", "!gone", "app!=db", "gone!=x", "gone notin (a)"]
        {
            assert_eq!(check(selector, &labels), Ok(true), "{selector}");
        }
        for selector in ["app=db", "!app", "app notin (web)", "app=web,gone"] {
            assert_eq!(check(selector, &labels), Ok(false), "{selector}");
        }
        assert_eq!(check("example.com/tier=1,app in (web)", &labels), Ok(true));
    }

    #[test]
    fn a_90_malformed_selectors_are_refused() {
        for selector in ["=a", "a in b)", "a=b=c", "a within (b)", "a b"] {
            assert_eq!(check(selector, &[]), Err(400), "{selector}");
        }
    }
}
