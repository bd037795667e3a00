//! What a plain scalar means, as kubectl's YAML reader has it (YAML 1.1 with Go's number syntax).
//!
//! The table in the tests is what kubectl itself answered.

use serde_json::Number;

use super::node::NodeKind;

/// The value of an unquoted scalar; `None` for a number that JSON can't hold.
pub(super) fn resolve(text: &str) -> Option<NodeKind> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => NodeKind::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return None,
        text => number(text)?.map_or_else(|| NodeKind::Text(text.to_owned()), NodeKind::Number),
    })
}

/// `Some(None)` if the text is no number, `None` if it is one that JSON can't hold.
fn number(text: &str) -> Option<Option<Number>> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Some(None);
    }
    let plain = text.replace('_', "");
    if let Some(integer) = integer(&plain) {
        return Some(Some(integer));
    }
    if !is_float(&plain) {
        return Some(None);
    }
    let float: f64 = plain.parse().ok()?;
    // A float that is a whole number is one in JSON too.
    if float.fract() == 0.0 && float.abs() < 9.0e15 {
        return Some(Some(Number::from(format!("{float:.0}").parse::<i64>().ok()?)));
    }
    Number::from_f64(float).map(Some)
}

/// Go's integer syntax with base prefixes; a leading zero means octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.trim_start_matches('0'))
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() {
        return (lower.len() > 1 && lower.bytes().all(|byte| byte == b'0')).then(|| Number::from(0));
    }
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..)),
        None => (rest, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digit = if whole.is_empty() { !fraction.is_empty() } else { true };
    let exponent_is_number = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    has_digit && digits(whole) && digits(fraction) && exponent_is_number
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::{Node, Span};

    fn shown(text: &str) -> Option<Value> {
        resolve(text).map(|kind| Node { span: Span::default(), kind }.to_json())
    }

    #[test]
    fn plain_scalars_mean_what_kubectl_reads() {
        let rows = [
            ("010", json!(8)),
            ("0o10", json!(8)),
            ("0x1F", json!(31)),
            ("1_000", json!(1000)),
            ("1__0", json!(10)),
            ("0b11", json!(3)),
            ("y", json!(true)),
            ("yes", json!(true)),
            ("on", json!(true)),
            ("TRUE", json!(true)),
            ("Off", json!(false)),
            ("tRUE", json!("tRUE")),
            ("1e3", json!(1000)),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            ("1.0", json!(1)),
            ("+5", json!(5)),
            ("-0", json!(0)),
            ("08", json!(8)),
            ("0o8", json!("0o8")),
            ("0.1e-7", json!(1e-8)),
            ("2001-01-01", json!("2001-01-01")),
            ("1:30", json!("1:30")),
            ("~", Value::Null),
            ("Null", Value::Null),
            ("nUll", json!("nUll")),
            ("00", json!(0)),
            ("-", json!("-")),
            (".", json!(".")),
            ("1.2.3", json!("1.2.3")),
            ("100m", json!("100m")),
        ];
        for (text, wanted) in rows {
            assert_eq!(shown(text), Some(wanted), "{text}");
        }
        assert_eq!(shown(".inf"), None);
    }
}
