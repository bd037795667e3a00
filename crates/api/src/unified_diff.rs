//! The difference of two texts, line by line, as Kubernetes appends it to errors about immutable specs.

use std::fmt::Write;

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

/// The hunks of a unified diff, without the lines that name the files. Equal texts give the empty text.
pub(crate) fn unified_diff(old: &str, new: &str) -> String {
    let edits = edits(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let is_change = |index: usize| edits.get(index).is_some_and(|(edit, _)| *edit != Edit::Keep);
    let is_near = |index: usize| (index.saturating_sub(CONTEXT_LINES)..=index + CONTEXT_LINES).any(is_change);
    let mut text = String::new();
    let (mut old_line, mut new_line, mut index) = (1, 1, 0);
    while index < edits.len() {
        if !is_near(index) {
            (old_line, new_line, index) = (old_line + 1, new_line + 1, index + 1);
            continue;
        }
        let end = (index..edits.len()).find(|index| !is_near(*index)).unwrap_or(edits.len());
        let hunk = edits.get(index..end).unwrap_or(&[]);
        let count = |edit: Edit| hunk.iter().filter(|(it, _)| *it == Edit::Keep || *it == edit).count();
        let (removed, added) = (count(Edit::Remove), count(Edit::Add));
        let _infallible = writeln!(text, "@@ -{} +{} @@", range(old_line, removed), range(new_line, added));
        for (edit, line) in hunk {
            let mark = match edit {
                Edit::Keep => ' ',
                Edit::Remove => '-',
                Edit::Add => '+',
            };
            let _infallible = writeln!(text, "{mark}{line}");
        }
        (old_line, new_line, index) = (old_line + removed, new_line + added, end);
    }
    text
}

fn range(start: usize, count: usize) -> String {
    match count {
        1 => format!("{start}"),
        0 => format!("{},0", start - 1),
        _ => format!("{start},{count}"),
    }
}

/// The shortest way from one list of lines to the other. Lines that both begin or end with are not compared twice.
fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Edit, &'a str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or(&[]), new.get(head..).unwrap_or(&[]));
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_middle = old_rest.get(..old_rest.len() - tail).unwrap_or(&[]);
    let new_middle = new_rest.get(..new_rest.len() - tail).unwrap_or(&[]);
    let keep = |lines: &[&'a str]| lines.iter().map(|line| (Edit::Keep, *line)).collect::<Vec<_>>();
    let mut all = keep(old.get(..head).unwrap_or(&[]));
    all.extend(middle_edits(old_middle, new_middle));
    all.extend(keep(old_rest.get(old_rest.len() - tail..).unwrap_or(&[])));
    all
}

/// Walks the table of the longest common subsequences of all endings.
fn middle_edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Edit, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0_usize; (old.len() + 1) * width];
    let at = |table: &[usize], i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let longest = if old.get(i) == new.get(j) {
                at(&common, i + 1, j + 1) + 1
            } else {
                at(&common, i + 1, j).max(at(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = longest;
            }
        }
    }
    let (mut i, mut j, mut edits) = (0, 0, Vec::new());
    while let Some(line) = old.get(i) {
        match new.get(j) {
            Some(other) if other == line => {
                edits.push((Edit::Keep, *line));
                (i, j) = (i + 1, j + 1);
            }
            Some(other) if at(&common, i, j + 1) > at(&common, i + 1, j) => {
                edits.push((Edit::Add, *other));
                j += 1;
            }
            _ => {
                edits.push((Edit::Remove, *line));
                i += 1;
            }
        }
    }
    edits.extend(new.get(j..).unwrap_or(&[]).iter().map(|line| (Edit::Add, *line)));
    edits
}

#[cfg(test)]
mod tests {
    use super::unified_diff;

    #[test]
    fn changes_are_shown_with_three_lines_around_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni\nj\nk\nl\nm\nn\no";
        let expected = "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n@@ -12,3 +12,4 @@\n l\n m\n n\n+o\n";
        assert_eq!(unified_diff(old, new), expected);
        assert_eq!(unified_diff(old, old), "");
        assert_eq!(unified_diff("", "x"), "@@ -0,0 +1 @@\n+x\n");
    }
}
