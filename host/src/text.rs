//! Small helpers for texts that people read.

/// The most characters of somebody's input that a sentence repeats.
const EXCERPT: usize = 60;

/// The beginning of a name or value that came from outside, escaped, for a sentence about it.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT).is_some() {
        short.push('…');
    }
    short
}

/// A library's words about somebody's input as part of a sentence: on one line, control characters escaped, at most
/// about `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for (i, word) in text.split_whitespace().enumerate() {
        line.push_str(if i == 0 { "" } else { " " });
        word.chars().for_each(|c| if c.is_control() { line.extend(c.escape_debug()) } else { line.push(c) });
    }
    if let Some((end, _)) = line.char_indices().nth(max) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The known name that is nearest to a mistyped one, if any is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(name, k), k))
        .filter(|(distance, k)| *distance <= 1 + k.len() / 4)
        .min()
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_outside_is_short_and_on_one_line() {
        assert_eq!(excerpt("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(excerpt(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(one_line(" expected=[\n    0x0,\n]\u{7}\0 ", 100), "expected=[ 0x0, ]\\u{7}\\0");
        assert_eq!(one_line("éé éé", 3), "éé …");
    }
}
