//! Env files that `fileKeyRef` takes keys from (L-908).
//!
//! Pure. The format is a strict part of the shell's: `NAME='value'`, a line each, everything between the quotes as it stands.

/// Why a file is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct EnvFileError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The value of a key; `None` if the file does not set it before its first fault.
pub fn value_in_env_file(text: &str, key: &str) -> Result<Option<String>, EnvFileError> {
    let mut lines = (1..).zip(text.lines());
    while let Some((line, content)) = lines.next() {
        let content = content.trim_start_matches([' ', '\t']);
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let (name, value) = assignment(content).map_err(|problem| EnvFileError { line, problem })?;
        // As in a shell, `NAME= 'value'` sets nothing.
        if value.starts_with([' ', '\t']) {
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let opened = value
            .strip_prefix('\'')
            .ok_or(EnvFileError { line, problem: "a value must be enclosed in single quotes" })?;
        let value = quoted(opened, line, &mut lines)?;
        if name == key {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn assignment(line: &str) -> Result<(&str, &str), &'static str> {
    let (name, value) = line.split_once('=').ok_or("`=` is missing")?;
    match name.trim_end_matches([' ', '\t']) {
        "" => Err("the name is empty"),
        trimmed if trimmed != name => Err("space before `=` is not allowed"),
        _ => Ok((name, value)),
    }
}

/// What stands between the quotes, which may go on over several lines.
fn quoted<'a>(
    opened: &'a str,
    first_line: usize,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, EnvFileError> {
    let mut value = String::new();
    let (mut line, mut rest) = (first_line, opened);
    loop {
        if let Some((last, after)) = rest.split_once('\'') {
            value.push_str(last);
            let after = after.trim_start_matches([' ', '\t']);
            if after.is_empty() || after.starts_with('#') {
                return Ok(value);
            }
            return Err(EnvFileError { line, problem: "something follows the closing quote" });
        }
        value.extend([rest, "\n"]);
        (line, rest) =
            lines.next().ok_or(EnvFileError { line: first_line, problem: "the single quote is not closed" })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Option<&str>, (usize, &'static str)>) {
        let expected =
            expected.map(|value| value.map(str::to_owned)).map_err(|(line, problem)| EnvFileError { line, problem });
        assert_eq!(value_in_env_file(text, "KEY"), expected, "{text}");
    }

    #[test]
    fn values_are_taken_as_they_stand_between_the_quotes() {
        check("KEY='value'", Ok(Some("value")));
        check("# comment\n\n \t\n  KEY='a=b # c \"d\" $E \\n' # comment\n", Ok(Some("a=b # c \"d\" $E \\n")));
        check("OTHER='x'\nKEY=''\n", Ok(Some("")));
        check("KEY='one\n  two \n\nfour'\nOTHER='x'", Ok(Some("one\n  two \n\nfour")));
        check("OTHER='x'", Ok(None));
        check("", Ok(None));
    }

    #[test]
    fn a_space_before_the_quote_sets_nothing() {
        check("KEY= 'value'\nKEY='other'", Ok(None));
        check("OTHER= 'value'\nKEY='other'", Ok(Some("other")));
    }

    #[test]
    fn faults_are_named_with_their_line() {
        check("\nKEY", Err((2, "`=` is missing")));
        check("='x'", Err((1, "the name is empty")));
        check("OTHER ='x'", Err((1, "space before `=` is not allowed")));
        check("KEY=x", Err((1, "a value must be enclosed in single quotes")));
        check("KEY=\"x\"", Err((1, "a value must be enclosed in single quotes")));
        check("KEY='x''y'", Err((1, "something follows the closing quote")));
        check("KEY='x\ny'z", Err((2, "something follows the closing quote")));
        check("\nKEY='x\ny", Err((2, "the single quote is not closed")));
    }

    #[test]
    fn faults_behind_the_key_do_not_matter() {
        check("KEY='x'\nnonsense", Ok(Some("x")));
    }
}
