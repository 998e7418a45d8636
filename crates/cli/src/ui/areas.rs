//! The division of the screen. Pure.

use ratatui::layout::Rect;

use super::state::Focus;

/// The width from which the kinds are shown next to the table.
const TWO_PARTS: u16 = 60;
/// The maximal width of the kinds, and of the title in lines.
const KINDS_WIDTH: u16 = 30;
const TITLE_HEIGHT: u16 = 3;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Areas {
    /// The watched kinds, on one line.
    pub(super) tabs: Rect,
    pub(super) title: Rect,
    /// The whole width below the title, for a page.
    pub(super) body: Rect,
    /// The kinds; empty if there is no room for them.
    pub(super) kinds: Rect,
    /// The table; empty if only the kinds fit and have the focus.
    pub(super) table: Rect,
    /// The keys, the filter that is being typed, or a message.
    pub(super) hint: Rect,
}

/// Divides the screen. `title` is the number of lines that the title needs.
pub(super) fn divide(screen: Rect, title: usize, focus: Focus) -> Areas {
    let Rect { x, y, width, height } = screen;
    let tabs = height.min(1);
    let hint = height.saturating_sub(tabs).min(1);
    let left = height.saturating_sub(tabs).saturating_sub(hint);
    // At least two lines of the table: its headings and a row.
    let title = u16::try_from(title).unwrap_or(u16::MAX).min(TITLE_HEIGHT).min(left.saturating_sub(2));
    let body = left.saturating_sub(title);
    let below = |lines: u16| y.saturating_add(lines);
    let whole = Rect { x, y: below(tabs.saturating_add(title)), width, height: body };
    let none = Rect { width: 0, ..whole };
    let (kinds, table) = match focus {
        _ if width >= TWO_PARTS => {
            let part = (width / 3).min(KINDS_WIDTH);
            let right =
                Rect { x: x.saturating_add(part).saturating_add(1), width: width - part - 1, ..whole };
            (Rect { width: part, ..whole }, right)
        }
        Focus::Kinds => (whole, none),
        Focus::Table => (none, whole),
    };
    Areas {
        tabs: Rect { x, y, width, height: tabs },
        title: Rect { x, y: below(tabs), width, height: title },
        body: whole,
        kinds,
        table,
        hint: Rect { x, y: below(height.saturating_sub(hint)), width, height: hint },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_within_the_screen_and_none_overlap() {
        for (width, height) in [(0, 0), (1, 1), (5, 2), (40, 10), (59, 3), (60, 4), (80, 24), (300, 100)] {
            for (title, focus) in [(1, Focus::Table), (9, Focus::Kinds), (0, Focus::Table)] {
                let screen = Rect::new(0, 0, width, height);
                let areas = divide(screen, title, focus);
                let parts = [areas.tabs, areas.title, areas.kinds, areas.table, areas.hint];
                for (at, part) in parts.iter().enumerate() {
                    assert_eq!(part.intersection(screen).area(), part.area(), "{width}x{height} {part:?}");
                    let others = parts.iter().skip(at + 1).filter(|it| it.area() > 0 && part.area() > 0);
                    assert!(others.clone().all(|it| !it.intersects(*part)), "{width}x{height} {areas:?}");
                }
            }
        }
    }

    #[test]
    fn a_narrow_screen_shows_the_part_with_the_focus() {
        let screen = Rect::new(0, 0, 40, 10);
        let table = divide(screen, 1, Focus::Table);
        assert_eq!((table.kinds.width, table.table), (0, Rect::new(0, 2, 40, 7)));
        let kinds = divide(screen, 9, Focus::Kinds);
        assert_eq!((kinds.table.width, kinds.kinds), (0, Rect::new(0, 4, 40, 5)));
        let wide = divide(Rect::new(0, 0, 80, 24), 1, Focus::Table);
        assert_eq!((wide.kinds, wide.table), (Rect::new(0, 2, 26, 21), Rect::new(27, 2, 53, 21)));
    }
}
