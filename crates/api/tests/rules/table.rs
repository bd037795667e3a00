//! A file of rows.
//!
//! `kind` and `operation` hold for all rows. A row has
//! - `rule`: the rule's number and the case
//! - `old`: changes of the smallest object before it is created, for operations on an object that is there
//! - `set`: changes of what is sent
//! - `errors`: all error texts in order; none if it is left out and nothing else is asked for
//! - `warnings`: all warning texts in order
//! - `result`: all fields in which the outcome differs from the outcome without the changes, null for those that went
//! - `whole`: the outcome
//!
//! In errors and warnings a word in braces stands for a long text of `texts.yaml`.

use serde_json::{Map, Value};

use crate::{paths, yaml};

pub(crate) struct Table {
    pub(crate) kind: String,
    pub(crate) operation: String,
    pub(crate) base: Value,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) rule: String,
    pub(crate) old: Map<String, Value>,
    pub(crate) set: Map<String, Value>,
    pub(crate) wanted: Wanted,
}

#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) errors: Option<Vec<String>>,
    pub(crate) warnings: Option<Vec<String>>,
    pub(crate) result: Option<Vec<String>>,
    pub(crate) whole: Option<Vec<String>>,
}

impl Table {
    pub(crate) fn read(text: &str, bases: &Value, texts: &Value) -> Result<Table, String> {
        let file = yaml::read(text)?;
        let word = |key: &str| file.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = word("kind").ok_or("`kind` is missing")?;
        let base = bases.get(&kind).ok_or_else(|| format!("no base for `{kind}`"))?.clone();
        let rows = file.get("rows").and_then(Value::as_array).ok_or("`rows` is missing")?;
        let rows = rows.iter().map(|row| Row::read(row, texts)).collect::<Result<Vec<_>, _>>()?;
        Ok(Table { kind, operation: word("operation").ok_or("`operation` is missing")?, base, rows })
    }
}

impl Row {
    fn read(row: &Value, long: &Value) -> Result<Row, String> {
        let fields = row.as_object().ok_or("a row is no map")?;
        let rule = row.get("rule").and_then(Value::as_str).ok_or("a row without `rule`")?.to_owned();
        let known = ["rule", "old", "set", "errors", "warnings", "result", "whole"];
        if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("{rule}: `{unknown}` is unknown"));
        }
        let map = |key: &str| row.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let texts = |key: &str| Some(row.get(key)?.as_array()?.iter().map(|text| unfold(text, long)).collect());
        let mut wanted = Wanted {
            errors: texts("errors"),
            warnings: texts("warnings"),
            result: row.get("result").and_then(Value::as_object).map(lines),
            whole: row.get("whole").map(|whole| lines(&paths::leaves(whole))),
        };
        if wanted.warnings.is_none() && wanted.errors.is_none() {
            wanted.errors = Some(Vec::new());
        }
        Ok(Row { rule, old: map("old"), set: map("set"), wanted })
    }
}

/// One line per field, in the order of the paths.
pub(crate) fn lines<'a>(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Vec<String> {
    let mut lines: Vec<String> = fields.into_iter().map(|(path, value)| format!("{path}: {value}")).collect();
    lines.sort();
    lines
}

fn unfold(text: &Value, long: &Value) -> String {
    let mut text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    for (word, meaning) in long.as_object().into_iter().flatten() {
        text = text.replace(&format!("{{{word}}}"), meaning.as_str().unwrap_or_default());
    }
    text
}
