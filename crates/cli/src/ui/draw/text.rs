//! Lines of text on a buffer: cut, scrolled sideways, and wrapped by their display width.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthChar;

/// Writes a line of an area; the part that does not fit is cut.
pub(super) fn line(buffer: &mut Buffer, area: Rect, at: usize, text: &str, style: Style) {
    let Some(y) = u16::try_from(at).ok().filter(|it| *it < area.height) else { return };
    let row = Rect { y: area.y.saturating_add(y), height: 1, ..area };
    if row.is_empty() || !buffer.area.contains(row.as_position()) {
        return;
    }
    buffer.set_style(row, style);
    buffer.set_stringn(row.x, row.y, text, usize::from(row.width), style);
}

/// Returns the text without its first columns.
pub(super) fn skip(text: &str, columns: usize) -> &str {
    let mut skipped = 0;
    let first = text.char_indices().find(|(_, it)| {
        let shown = skipped >= columns;
        skipped += it.width().unwrap_or(0);
        shown
    });
    first.map_or("", |(at, _)| &text[at..])
}

/// Wraps a text into lines of at most `width` columns, preferably between words.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let mut used = 0;
        let over = rest.char_indices().find(|(_, it)| {
            used += it.width().unwrap_or(0);
            used > width
        });
        let Some((end, _)) = over else {
            lines.push(rest.to_owned());
            break;
        };
        let space = rest[..end].rfind(' ').filter(|it| *it > 0);
        // At least one character, however narrow the screen is.
        let end = space.unwrap_or(end).max(rest.chars().next().map_or(0, char::len_utf8));
        lines.push(rest[..end].to_owned());
        rest = rest[end..].trim_start_matches(' ');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_between_words_if_possible() {
        for (text, width, expected) in [
            ("", 5, &[][..]),
            ("one two", 9, &["one two"]),
            ("one two three", 8, &["one two", "three"]),
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
    fn lines_outside_of_the_area_are_not_written() {
        let area = Rect::new(0, 0, 3, 2);
        let mut buffer = Buffer::empty(area);
        for (at, text) in ["abcdef", "日本", "x"].into_iter().enumerate() {
            line(&mut buffer, area, at, text, Style::default());
        }
        line(&mut buffer, Rect::new(9, 9, 3, 3), 0, "x", Style::default());
        assert_eq!(buffer, Buffer::with_lines(["abc", "日 "]));
    }
}
