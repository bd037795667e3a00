//! Texts as Go prints them: Kubernetes' messages hold them, and people and programs match on those.
//!
//! Pure.

use std::io;

/// A text in quotes, as `%q` and `strconv.Quote` write it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if control.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(control))),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Bytes in quotes: what is no UTF-8 stands as `\xff`.
pub(crate) fn quoted_bytes(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        let part = quoted(chunk.valid());
        text.push_str(part.get(1..part.len().saturating_sub(1)).unwrap_or_default());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text.push('"');
    text
}

/// Whole seconds as `time.Duration` prints them: `1s`, `1m30s`, `1h0m0s`.
pub(crate) fn seconds(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// What the kernel says, in the words of Go's `syscall.Errno`.
pub(crate) fn io_error(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

/// Host and port as one word; an address of IP version 6 stands in brackets.
pub(crate) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_in_go() {
        assert_eq!(quoted("a\"b\\c\n\t\u{1}\u{85}ü"), "\"a\\\"b\\\\c\\n\\t\\x01\\u0085ü\"");
        assert_eq!(quoted_bytes(b"a\xff\x00\"\xc3\xbc"), "\"a\\xff\\x00\\\"ü\"");
    }

    #[test]
    fn seconds_are_durations() {
        assert_eq!([0, 1, 90, 3600].map(seconds), ["0s", "1s", "1m30s", "1h0m0s"]);
    }

    #[test]
    fn errors_of_the_kernel_have_gos_words() {
        let text = |number| io_error(&io::Error::from_raw_os_error(number));
        assert_eq!(text(libc::ECONNREFUSED), "connection refused");
        assert_eq!(text(libc::EHOSTUNREACH), "no route to host");
    }

    #[test]
    fn a_port_follows_its_host() {
        assert_eq!(host_port("10.0.0.1", 80), "10.0.0.1:80");
        assert_eq!(host_port("fd00::1", 80), "[fd00::1]:80");
    }
}
