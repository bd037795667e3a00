//! The share of one container in the pod's termination messages (L-740).

/// All messages of a pod together.
const POD_BUDGET_BYTES: usize = 12_288;

/// What one message may have, in a pod of so many containers of every role.
pub(crate) fn budget(containers: usize) -> usize {
    POD_BUDGET_BYTES / containers.max(1)
}

/// The first bytes of `message` that the budget has room for; no character is cut in two.
pub(crate) fn cut(message: &str, budget_bytes: usize) -> &str {
    let end = (0..=budget_bytes.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l740_messages_share_twelve_kilobytes() {
        assert_eq!(budget(1), 12_288);
        assert_eq!(budget(3), 4_096);
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("abc", 4), "abc");
        assert_eq!(cut("aé", 2), "a");
    }
}
