//! Words in messages: what was written, and the nearest word that would be right.

const LONGEST_LINE: usize = 1000;

/// One line that a terminal or a log can take, whatever was written into a file or a variable.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST_LINE) {
        if c.is_control() { shown.extend(c.escape_debug()) } else { shown.push(c) }
    }
    if text.chars().nth(LONGEST_LINE).is_some() {
        shown.push('…');
    }
    shown
}

/// A value as a message shows it: escaped, and never long.
pub fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// "no such key", with the nearest known word, or all of them when none is near.
pub fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("there is no such {what}; did you mean {near}?"),
        None => format!("there is no such {what}; there are {}", known.join(", ")),
    }
}

/// The known word within a third of its length in edits.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > 80 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let close = |name: &&str| {
        let edits = edits(&word, &name.replace('-', "_"));
        (edits <= name.len().max(word.len()).div_ceil(3)).then_some(edits)
    };
    known.iter().filter_map(|name| Some((close(name)?, *name))).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_with_fewest_edits() {
        let known = ["window", "memory", "error", "lateness", "seen"];
        for (word, near) in [
            ("windw", Some("window")),
            ("Window", Some("window")),
            ("wnidow", Some("window")),
            ("eror", Some("error")),
            ("sene", Some("seen")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), near, "{word}");
        }
    }
}
