//! A line of text on a buffer.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::display_width::cut;

/// Writes a line of an area. A line that does not fit is cut, and ends with a mark.
pub(super) fn line(buffer: &mut Buffer, area: Rect, at: usize, text: &str, style: Style) {
    let Some(y) = u16::try_from(at).ok().filter(|it| *it < area.height) else { return };
    let row = Rect { y: area.y.saturating_add(y), height: 1, ..area };
    if row.is_empty() || !buffer.area.contains(row.as_position()) {
        return;
    }
    buffer.set_style(row, style);
    let width = usize::from(row.width);
    buffer.set_stringn(row.x, row.y, cut(text, width), width, style);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_marked_and_those_outside_of_the_area_are_not_written() {
        let area = Rect::new(0, 0, 3, 3);
        let mut buffer = Buffer::empty(area);
        for (at, text) in ["abcdef", "日本", "abc", "x"].into_iter().enumerate() {
            line(&mut buffer, area, at, text, Style::default());
        }
        line(&mut buffer, Rect::new(9, 9, 3, 3), 0, "x", Style::default());
        assert_eq!(buffer, Buffer::with_lines(["ab…", "日…", "abc"]));
    }
}
