//! Sets of completion indexes and their text form (J-59).

use std::fmt;

/// A set of indexes, kept as ordered runs that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indexes {
    runs: Vec<(u32, u32)>,
}

impl Indexes {
    /// Reads the text form, leaving out what is not below `completions` and what can't be read.
    pub(crate) fn parse(text: &str, completions: u32) -> Indexes {
        let mut indexes = Indexes::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse(), last.parse::<u32>()) else {
                continue;
            };
            if first < completions {
                indexes.insert_run(first, last.min(completions - 1));
            }
        }
        indexes
    }

    /// Adds one index.
    pub(crate) fn insert(&mut self, index: u32) {
        self.insert_run(index, index);
    }

    /// Adds all indexes of another set.
    pub(crate) fn extend(&mut self, other: &Indexes) {
        for &(first, last) in &other.runs {
            self.insert_run(first, last);
        }
    }

    /// How many indexes there are.
    pub(crate) fn len(&self) -> u32 {
        let lengths = self.runs.iter().map(|(first, last)| last - first + 1);
        lengths.fold(0, u32::saturating_add)
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// True if the index is in the set.
    pub(crate) fn contains(&self, index: u32) -> bool {
        let at = self.runs.partition_point(|&(_, last)| last < index);
        self.runs.get(at).is_some_and(|&(first, _)| first <= index)
    }

    /// How many indexes are in both sets.
    pub(crate) fn overlap(&self, other: &Indexes) -> u32 {
        let mut count: u32 = 0;
        for &(first, last) in &self.runs {
            for &(other_first, other_last) in &other.runs {
                let (from, to) = (first.max(other_first), last.min(other_last));
                if from <= to {
                    count = count.saturating_add(to - from + 1);
                }
            }
        }
        count
    }

    /// The lowest indexes below `completions` that are not in the set, at most `count`.
    pub(crate) fn first_missing(&self, count: usize, completions: u32) -> Vec<u32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        let end = (completions, completions);
        for &(first, last) in self.runs.iter().chain([&end]) {
            while candidate < first.min(completions) && missing.len() < count {
                missing.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(last.saturating_add(1));
        }
        missing
    }

    fn insert_run(&mut self, first: u32, last: u32) {
        if first > last {
            return;
        }
        // The runs that touch the new one become one with it.
        let from = self.runs.partition_point(|&(_, end)| end.saturating_add(1) < first);
        let to = self.runs.partition_point(|&(start, _)| start <= last.saturating_add(1));
        let touching = self.runs.get(from..to).unwrap_or_default();
        let first = touching.first().map_or(first, |run| run.0.min(first));
        let last = touching.last().map_or(last, |run| run.1.max(last));
        self.runs.splice(from..to.max(from), [(first, last)]);
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Indexes {
        let mut indexes = Indexes::default();
        for index in iter {
            indexes.insert(index);
        }
        indexes
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for &(first, last) in &self.runs {
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Indexes {
        Indexes::parse(text, 1000)
    }

    #[test]
    fn j59_runs_of_three_are_written_with_a_dash_and_pairs_with_a_comma() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![4], "4"),
            (vec![1, 0], "0,1"),
            (vec![2, 0, 1], "0-2"),
            (vec![1, 3, 4, 5, 7], "1,3-5,7"),
            (vec![5, 5, 4, 9], "4,5,9"),
        ] {
            let set: Indexes = indexes.into_iter().collect();
            assert_eq!(set.to_string(), text);
            assert_eq!(Indexes::parse(text, 100), set);
        }
    }

    #[test]
    fn j59_what_is_beyond_the_completions_or_unreadable_is_left_out() {
        assert_eq!(Indexes::parse("0,3-9,12", 5).to_string(), "0,3,4");
        assert_eq!(Indexes::parse("x,1-y,2,-", 5).to_string(), "2");
        assert_eq!(Indexes::parse("0-3", 0), Indexes::default());
        assert_eq!(Indexes::parse("3-1", 5), Indexes::default());
    }

    #[test]
    fn runs_that_touch_become_one() {
        let mut indexes = set("1,2,5-7,10");
        indexes.extend(&set("3,4,8"));
        assert_eq!(indexes.to_string(), "1-8,10");
        assert_eq!(indexes.len(), 9);
        assert!(indexes.contains(8) && !indexes.contains(9) && indexes.contains(10));
        assert_eq!(indexes.overlap(&set("0-2,9-20")), 3);
    }

    #[test]
    fn j69_the_lowest_missing_indexes_come_first() {
        assert_eq!(set("1,3").first_missing(3, 10), [0, 2, 4]);
        assert_eq!(set("0-3").first_missing(3, 5), [4]);
        assert_eq!(set("").first_missing(2, 1), [0]);
        assert_eq!(set("0-4").first_missing(2, 5), Vec::<u32>::new());
        assert_eq!(set("2").first_missing(0, 5), Vec::<u32>::new());
    }

    #[test]
    fn any_order_of_insertion_gives_the_same_set() {
        for seed in 0..200_u32 {
            let mut order: Vec<u32> = (0..20).filter(|i| (seed >> (i % 8)) & 1 == 0).collect();
            let sorted: Indexes = order.iter().copied().collect();
            let turn = (seed as usize) % order.len().max(1);
            order.rotate_left(turn);
            order.reverse();
            assert_eq!(order.into_iter().collect::<Indexes>(), sorted, "{seed}");
        }
    }
}
