//! The division of a screen's height between stacked tables. Pure.

/// Divides `room` lines: a table gets the lines that it needs, or an equal part of what those that
/// need less leave over. Earlier tables get the lines that cannot be divided.
pub(super) fn divide(room: usize, needs: &[usize]) -> Vec<usize> {
    let mut rooms = vec![0; needs.len()];
    let mut order: Vec<_> = (0..needs.len()).collect();
    order.sort_by_key(|at| (needs[*at], std::cmp::Reverse(*at)));
    let mut left = room;
    for (done, at) in order.iter().enumerate() {
        // The smallest ones first: what they leave over is for the others.
        let part = left / (needs.len() - done);
        rooms[*at] = needs[*at].min(part);
        left -= rooms[*at];
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_need_less_leave_their_lines_to_the_others() {
        for (room, needs, expected) in [
            (24, &[3, 4][..], &[3, 4][..]),
            (10, &[3, 40], &[3, 7]),
            (10, &[40, 3], &[7, 3]),
            (11, &[40, 40], &[6, 5]),
            (12, &[2, 40, 40], &[2, 5, 5]),
            (1, &[5, 5], &[1, 0]),
            (0, &[5], &[0]),
            (5, &[], &[]),
        ] {
            assert_eq!(divide(room, needs), expected, "{room} {needs:?}");
        }
    }
}
