//! Runs the tables of `tests/rules/`: one row per rule, with what is sent and the whole answer.
//!
//! A file names a kind and an operation; a row changes the smallest valid object of the kind (`bases.yaml`) field by field and
//! lists all errors and warnings, or the resulting object. The rule's number stands in the row.
//! See `table` for what a row may say, `plan` for what an operation does.

#[path = "rules/paths.rs"]
mod paths;
#[path = "rules/plan.rs"]
mod plan;
#[path = "rules/table.rs"]
mod table;
#[path = "rules/yaml.rs"]
mod yaml;

use std::fmt;
use std::path::Path;

use crate::table::{Row, Table};

fn follows_its_rules(path: &Path) -> datatest_stable::Result<()> {
    let bases = yaml::read(&std::fs::read_to_string("tests/rules/bases.yaml")?)?;
    let texts = yaml::read(&std::fs::read_to_string("tests/rules/texts.yaml")?)?;
    let table = Table::read(&std::fs::read_to_string(path)?, &bases, &texts)?;
    let wrong: Vec<String> = table.rows.iter().filter_map(|row| difference(&table, row)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Box::new(Wrong(wrong))) }
}

/// All rows that went wrong.
struct Wrong(Vec<String>);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n\n"))
    }
}

/// The harness prints errors for debugging, where lines should stay lines.
impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Wrong {}

/// What a row's answer has that it should not have, or lacks.
fn difference(table: &Table, row: &Row) -> Option<String> {
    let answer = match plan::answer(table, row) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{}: {error}", row.rule)),
    };
    let wanted = &row.wanted;
    let mut lines = Vec::new();
    compare("errors", wanted.errors.as_ref(), &answer.errors, &mut lines);
    compare("warnings", wanted.warnings.as_ref(), &answer.warnings, &mut lines);
    compare("result", wanted.result.as_ref(), &answer.result, &mut lines);
    compare("whole", wanted.whole.as_ref(), &answer.whole, &mut lines);
    (!lines.is_empty()).then(|| format!("{}\n{}", row.rule, lines.join("\n")))
}

/// Lists are compared as lists, so that order counts; what a row does not ask for is not compared.
fn compare(what: &str, wanted: Option<&Vec<String>>, given: &[String], lines: &mut Vec<String>) {
    let Some(wanted) = wanted.filter(|wanted| wanted.as_slice() != given) else { return };
    lines.push(format!("  {what}, in order:"));
    lines.extend(wanted.iter().filter(|line| !given.contains(line)).map(|line| format!("    missing: {line}")));
    lines.extend(given.iter().filter(|line| !wanted.contains(line)).map(|line| format!("    unexpected: {line}")));
    if wanted.len() == given.len() && wanted.iter().all(|line| given.contains(line)) {
        lines.extend(given.iter().map(|line| format!("    given: {line}")));
    }
}

datatest_stable::harness! {
    { test = follows_its_rules, root = "tests/rules", pattern = r"^[^/]+/.+\.yaml$" },
}
