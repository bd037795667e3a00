//! Lists of indexes such as `1,3-5,7` (J-59).

use thiserror::Error;

/// What is wrong with a list of indexes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexListError {
    /// An interval with more than two ends.
    #[error(
        "the fragment {0:?} violates the requirement that an index interval can have at most two parts separated by '-'"
    )]
    TooManyParts(String),
    /// Something that is no number.
    #[error("cannot convert string to integer for index: {0:?}")]
    NotANumber(String),
    /// An index that the Job does not have.
    #[error("too large index: {0:?}")]
    TooLarge(String),
    /// Indexes that don't rise.
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    NotIncreasing {
        /// The index before.
        previous: i64,
        /// The index that is not greater.
        current: i64,
    },
}

/// The number of indexes in a list for a Job with so many completions.
pub fn count_indexes(list: &str, completions: i32) -> Result<i64, IndexListError> {
    if list.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for interval in list.split(',') {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(previous) = last.filter(|last| *last >= first) {
            return Err(IndexListError::NotIncreasing { previous, current: first });
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that stands in both lists; what can't be read is passed over.
pub(super) fn first_overlap(completed: &str, failed: &str, completions: i32) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let intervals = |list: &str| -> Vec<(i64, i64)> {
        list.split(',').filter_map(|interval| parse_interval(interval, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.into_iter().peekable(), failed.into_iter().peekable());
    while let (Some((first, end)), Some((other_first, other_end))) = (completed.peek(), failed.peek()) {
        if first <= other_end && other_first <= end {
            return Some(*first.max(other_first));
        }
        if first <= other_first {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

fn parse_interval(interval: &str, completions: i32) -> Result<(i64, i64), IndexListError> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(IndexListError::NotANumber(text.to_owned())),
        Ok(index) if index >= i64::from(completions) => Err(IndexListError::TooLarge(text.to_owned())),
        Ok(index) => Ok(index),
    };
    match interval.split('-').collect::<Vec<_>>().as_slice() {
        [only] => index(only).map(|index| (index, index)),
        [first, end] => {
            let (previous, current) = (index(first)?, index(end)?);
            if previous >= current {
                return Err(IndexListError::NotIncreasing { previous, current });
            }
            Ok((previous, current))
        }
        _ => Err(IndexListError::TooManyParts(interval.to_owned())),
    }
}
