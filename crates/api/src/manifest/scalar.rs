//! What a scalar means, as kubectl's YAML reader has it (YAML 1.1 with Go's number syntax).
//!
//! `kubectl-scalars.txt` beside this file is what kubectl itself answered; the test reads it.

use base64::Engine as _;
use serde_json::Number;

use super::node::NodeKind;

/// How the tag of a scalar wants it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// There is no tag.
    Anything,
    /// The tag is none of YAML's own, `!!str` or `!!timestamp`: the text is taken as it is.
    Text,
    Bool,
    Int,
    Float,
    Null,
    Binary,
}

/// Why a scalar has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScalarError {
    #[error("`{0}` is a number that JSON has no word for")]
    NotFinite(String),
    #[error("`{text}` is not {wanted}, as its tag says")]
    Tag { text: String, wanted: &'static str },
}

/// The value of a scalar that is not in quotes, or that has a tag.
pub(super) fn resolve(text: &str, wanted: Wanted) -> Result<NodeKind, ScalarError> {
    let kind = match wanted {
        Wanted::Text => return Ok(NodeKind::Text(text.to_owned())),
        Wanted::Binary => return binary(text),
        _ => untagged(text)?,
    };
    let refuse = |wanted| Err(ScalarError::Tag { text: text.to_owned(), wanted });
    match (wanted, &kind) {
        (Wanted::Bool, NodeKind::Bool(_)) | (Wanted::Null, NodeKind::Null) | (Wanted::Float, NodeKind::Number(_)) => {
            Ok(kind)
        }
        (Wanted::Int, NodeKind::Number(number)) if number.is_i64() || number.is_u64() => Ok(kind),
        (Wanted::Bool, _) => refuse("a boolean"),
        (Wanted::Null, _) => refuse("nothing"),
        (Wanted::Int, _) => refuse("a whole number"),
        (Wanted::Float, _) => refuse("a number"),
        _ => Ok(kind),
    }
}

/// The bytes of a `!!binary`, as text.
fn binary(text: &str) -> Result<NodeKind, ScalarError> {
    let letters: String = text.split_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(letters);
    let bytes = bytes.map_err(|_| ScalarError::Tag { text: text.to_owned(), wanted: "base64" })?;
    Ok(NodeKind::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn untagged(text: &str) -> Result<NodeKind, ScalarError> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => NodeKind::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err(ScalarError::NotFinite(text.to_owned())),
        text => number(text).map_or_else(|| NodeKind::Text(text.to_owned()), NodeKind::Number),
    })
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) || is_date(text) {
        return None;
    }
    // Go takes no underscores in a number that begins with its point.
    let plain = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    if let Some(integer) = integer(&plain) {
        return Some(integer);
    }
    if !is_float(&plain) {
        return None;
    }
    let float: f64 = plain.parse().ok()?;
    // A float that is a whole number is written as one in JSON, and read as one again.
    if float.fract() == 0.0 && float.abs() < 9.2e18 {
        return Some(Number::from(format!("{float:.0}").parse::<i64>().ok()?));
    }
    Number::from_f64(float)
}

/// Dates begin with a year of four digits and a dash; they stay text.
fn is_date(text: &str) -> bool {
    matches!(text.as_bytes(), [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()))
}

/// Go's integer syntax with base prefixes; a leading zero means octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // The standard parser takes a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (rest, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digit = !whole.is_empty() || !fraction.is_empty();
    let exponent_is_number = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    has_digit && digits(whole) && digits(fraction) && exponent_is_number
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::manifest;

    /// What kubectl reads, in JSON, or `refused`.
    fn kubectl_scalars() -> Vec<(&'static str, &'static str)> {
        let lines = include_str!("kubectl-scalars.txt").lines();
        lines.filter(|line| !line.starts_with("# ")).filter_map(|line| line.split_once('\t')).collect()
    }

    /// Numbers are equal if they have the same value, whether written as whole ones or not.
    fn same(read: &Value, wanted: &str) -> bool {
        match (read, wanted.parse::<f64>()) {
            (Value::Number(number), Ok(wanted)) => number.as_f64() == Some(wanted),
            _ => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| *read == wanted),
        }
    }

    #[test]
    fn scalars_mean_what_kubectl_reads() {
        let scalars = kubectl_scalars();
        assert!(scalars.len() > 100, "{}", scalars.len());
        for (yaml, wanted) in scalars {
            let text = format!("apiVersion: example.com/v1\nkind: Thing\nvalue: {yaml}\n");
            let (objects, wrong) = manifest::read("scalar.yaml", &text);
            let read = objects.first().and_then(|object| object.value.get("value"));
            if wanted == "refused" {
                assert!(!wrong.is_empty(), "{yaml}: {read:?}, kubectl refuses it");
            } else {
                assert!(read.is_some_and(|read| same(read, wanted)), "{yaml}: {read:?}, kubectl: {wanted}, {wrong:?}");
            }
        }
    }
}
