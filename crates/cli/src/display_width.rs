//! Text by its width on a terminal: cut, wrapped, and without its first columns. Pure.
//!
//! A column is that of `unicode-width`: a CJK character takes two, a combining mark none.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// The mark at the place where a text was cut.
pub(crate) const CUT: char = '…';

/// Returns the text in at most `width` columns. The last one of a text that is longer is a mark.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if fitting(text, width) == text.len() {
        return Cow::Borrowed(text);
    }
    let mut kept = text[..fitting(text, width.saturating_sub(1))].to_owned();
    if width > 0 {
        kept.push(CUT);
    }
    Cow::Owned(kept)
}

/// Returns the text without its first columns.
pub(crate) fn skip(text: &str, columns: usize) -> &str {
    let mut skipped = 0;
    let first = text.char_indices().find(|(_, it)| {
        let shown = skipped >= columns;
        skipped += it.width().unwrap_or(0);
        shown
    });
    first.map_or("", |(at, _)| &text[at..])
}

/// Wraps a text into lines of at most `width` columns, preferably between words.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = fitting(rest, width);
        if end == rest.len() {
            lines.push(rest.to_owned());
            break;
        }
        // The word that ends where the line ends is complete if a space follows.
        let space = match rest[end..].starts_with(' ') {
            true => Some(end),
            false => rest[..end].rfind(' '),
        };
        // At least one character, however narrow the screen is.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = space.filter(|it| *it > 0).unwrap_or(end).max(first);
        lines.push(rest[..end].trim_end_matches(' ').to_owned());
        rest = rest[end..].trim_start_matches(' ');
    }
    lines
}

/// Returns the items that fit into `width` columns, in their order and with two spaces between
/// them.
pub(crate) fn items(items: &[&str], width: usize) -> String {
    let mut line = String::new();
    for item in items {
        let gap = if line.is_empty() { "" } else { "  " };
        let longer = format!("{line}{gap}{item}");
        if fitting(&longer, width) < longer.len() {
            break;
        }
        line = longer;
    }
    line
}

/// Returns the number of bytes of a text that fit into `width` columns.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let too_wide = text.char_indices().find(|(_, it)| {
        used += it.width().unwrap_or(0);
        used > width
    });
    too_wide.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_ends_with_a_mark() {
        for (text, width, expected) in [
            ("abc", 5, "abc"),
            ("abc", 3, "abc"),
            ("abcdefg", 3, "ab…"),
            ("日本語", 4, "日…"),
            ("日", 1, "…"),
            ("abc", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(cut(text, width), expected, "{text:?} {width}");
        }
    }

    #[test]
    fn texts_are_wrapped_between_words_if_possible() {
        for (text, width, expected) in [
            ("", 5, &[][..]),
            ("one two", 9, &["one two"]),
            ("one two three", 8, &["one two", "three"]),
            ("one two three", 7, &["one two", "three"]),
            ("abcdefgh", 3, &["abc", "def", "gh"]),
            ("日本", 1, &["日", "本"]),
        ] {
            assert_eq!(wrap(text, width), expected, "{text:?}");
        }
    }

    #[test]
    fn columns_are_skipped_by_their_width() {
        for (text, columns, expected) in
            [("abc", 0, "abc"), ("abc", 2, "c"), ("日本語", 2, "本語"), ("a", 9, "")]
        {
            assert_eq!(skip(text, columns), expected);
        }
    }

    #[test]
    fn items_are_shown_whole_or_not_at_all() {
        for (width, expected) in [(20, "q quit  ? help  Tab"), (18, "q quit  ? help"), (6, "q quit"), (3, "")]
        {
            assert_eq!(items(&["q quit", "? help", "Tab"], width), expected);
        }
    }
}
