//! Texts in error messages: excerpts of what was written, and the nearest valid name.

const MAX_LINE_CHARS: usize = 1000;
const MAX_EXCERPT_CHARS: usize = 60;

/// The text as one line that is safe for a terminal and a log: control characters escaped, length limited.
pub fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(MAX_LINE_CHARS) {
        if c.is_control() { line.extend(c.escape_debug()) } else { line.push(c) }
    }
    if text.chars().nth(MAX_LINE_CHARS).is_some() {
        line.push('…');
    }
    line
}

/// A value as an error message quotes it: escaped, and cut when it is long.
pub fn excerpt(text: &str) -> String {
    let mut start: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

/// An unknown key, with the nearest known one, or all of them if none is near.
pub fn unknown_key(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown key; did you mean {near}?"),
        None => format!("unknown key; known keys are {}", known.join(", ")),
    }
}

/// The known name with the fewest edits, if those are at most a third of its length.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.len() > 80 {
        return None;
    }
    let name = name.to_lowercase().replace('-', "_");
    let distance = |candidate: &&str| {
        let edits = edit_distance(&name, &candidate.replace('-', "_"));
        (edits <= candidate.len().max(name.len()).div_ceil(3)).then_some(edits)
    };
    let near = known.iter().filter_map(|candidate| Some((distance(candidate)?, *candidate)));
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// The Damerau-Levenshtein distance (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
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
    fn nearest_name_has_the_fewest_edits() {
        let known = ["window", "memory", "error", "lateness", "seen"];
        for (name, near) in [
            ("windw", Some("window")),
            ("Window", Some("window")),
            ("wnidow", Some("window")),
            ("eror", Some("error")),
            ("sene", Some("seen")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), near, "{name}");
        }
    }
}
