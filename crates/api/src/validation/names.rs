//! Checks of single texts: names, keys, paths, port names.
//!
//! Each returns what is wrong, in Kubernetes' words, and nothing if all is well.
//! Kubernetes writes these rules as regular expressions and quotes them in the messages; here they are plain code.

use std::fmt::Write;

pub(crate) const LABEL_LENGTH_MAX: usize = 63;
pub(crate) const SUBDOMAIN_LENGTH_MAX: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const UNDERSCORE_SUBDOMAIN_FORMAT: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_TEXT: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY_FORMAT: &str = "[-._a-zA-Z0-9]+";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const HTTP_HEADER_FORMAT: &str = "[-A-Za-z0-9]+";
const HTTP_HEADER_TEXT: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PATH_FORMAT: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
const ENV_NAME_TEXT: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// What a kind's names must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// An RFC 1123 label.
    Label,
    /// An RFC 1123 subdomain.
    Subdomain,
}

impl NameRule {
    /// What is wrong with a name.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            NameRule::Label => dns_label(name),
            NameRule::Subdomain => dns_subdomain(name),
        }
    }

    /// What is wrong with the beginning of a generated name, which may end with a dash.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            // Kubernetes replaces the dash and the character before it.
            Some(rest) if !rest.is_empty() => {
                let mut masked: String = rest.chars().take(rest.chars().count() - 1).collect();
                masked.push('a');
                self.check(&masked)
            }
            _ => self.check(prefix),
        }
    }
}

pub(crate) fn dns_label(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_LENGTH_MAX, "characters");
    if !is_label(value) {
        wrong.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            with_format(LABEL_TEXT, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    wrong
}

pub(crate) fn dns_subdomain(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_LENGTH_MAX, "characters");
    if !is_subdomain(value) {
        wrong.push(with_format(SUBDOMAIN_TEXT, SUBDOMAIN_FORMAT, &["example.com"]));
    }
    wrong
}

/// As [`dns_subdomain`], with underscores within labels and one before them.
pub(crate) fn dns_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_LENGTH_MAX, "characters");
    let is_valid = value.split('.').all(|label| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_framed(label, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || matches!(byte, b'-' | b'_'))
    });
    if !is_valid {
        wrong.push(with_format(UNDERSCORE_SUBDOMAIN_TEXT, UNDERSCORE_SUBDOMAIN_FORMAT, &["example.com"]));
    }
    wrong
}

/// A "qualified name": the key of a label or annotation, a condition's type, a finalizer, a resource's name.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let name = match value.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let mut prefix_wrong = too_long(prefix, SUBDOMAIN_LENGTH_MAX, "bytes");
                if !is_subdomain(prefix) {
                    prefix_wrong.push(with_format(SUBDOMAIN_TEXT, SUBDOMAIN_FORMAT, &["example.com"]));
                }
                wrong.extend(prefix_wrong.into_iter().map(|text| format!("prefix part {text}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                with_format(KEY_TEXT, KEY_FORMAT, &examples)
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH_MAX {
        wrong.push(format!("name part must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !is_key(name) {
        wrong.push(format!("name part {}", with_format(KEY_TEXT, KEY_FORMAT, &examples)));
    }
    wrong
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_LENGTH_MAX, "bytes");
    if !value.is_empty() && !is_key(value) {
        wrong.push(with_format(LABEL_VALUE_TEXT, LABEL_VALUE_FORMAT, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

/// A key of a ConfigMap or Secret, which becomes a file's name.
pub(crate) fn config_key(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, SUBDOMAIN_LENGTH_MAX, "characters");
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(is_valid) {
        wrong.push(with_format(CONFIG_KEY_TEXT, CONFIG_KEY_FORMAT, &["key.name", "KEY_NAME", "key-name"]));
    }
    if value == "." {
        wrong.push("must not be '.'".to_owned());
    } else if value == ".." {
        wrong.push("must not be '..'".to_owned());
    } else if value.starts_with("..") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

pub(crate) fn env_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        wrong.push(ENV_NAME_TEXT.to_owned());
    }
    wrong
}

pub(crate) fn http_header_name(value: &str) -> Vec<String> {
    let is_valid = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_valid { Vec::new() } else { vec![with_format(HTTP_HEADER_TEXT, HTTP_HEADER_FORMAT, &["X-Header-Name"])] }
}

pub(crate) fn port_name(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, 15, "characters");
    let is_character = |byte: u8| is_lower_alphanumeric(byte) || byte == b'-';
    if value.is_empty() || !value.bytes().all(is_character) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// Letters that a path in a URL may have.
pub(crate) fn url_path(value: &str) -> Vec<String> {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_character) {
        return Vec::new();
    }
    vec![with_format("Invalid path", PATH_FORMAT, &[])]
}

/// "must be between ..." of Kubernetes' range checks.
pub(crate) fn range_text(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Appends the regular expression that Kubernetes checks with, and examples.
pub(crate) fn with_format(text: &str, format: &str, examples: &[&str]) -> String {
    let mut all = format!("{text} (");
    for (index, example) in examples.iter().enumerate() {
        let lead = if index == 0 { "e.g. " } else { " or " };
        let _infallible = write!(all, "{lead}'{example}', ");
    }
    let _infallible = write!(all, "regex used for validation is '{format}')");
    all
}

pub(crate) fn is_label(value: &str) -> bool {
    is_framed(value, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_key(value: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_framed(value, |byte| byte.is_ascii_alphanumeric(), is_inner)
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text is not empty, begins and ends with one set of characters and has another between.
fn is_framed(value: &str, is_end: impl Fn(u8) -> bool, is_inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|byte| is_end(*byte))
        && bytes.last().is_some_and(|byte| is_end(*byte))
        && bytes.iter().all(|byte| is_inner(*byte))
}

fn too_long(value: &str, length_max: usize, unit: &str) -> Vec<String> {
    if value.len() > length_max { vec![format!("must be no more than {length_max} {unit}")] } else { Vec::new() }
}
