//! gRPC's pick_first with a shuffled order (A62): one endpoint for all calls, and the next one only
//! when it fails.

use crate::connection::ConnectionState;

/// Returns which endpoints should be connected, given their states in the order in which they are
/// tried, and the one in use.
///
/// While the one in use is ready, it is the only one. Otherwise: all that have failed before or are
/// `late`, since they may recover first, and the first of the others.
pub(crate) fn wanted(
    order: &[ConnectionState],
    late: impl Fn(usize) -> bool,
    used: Option<usize>,
) -> Vec<bool> {
    let mut wanted = vec![false; order.len()];
    if let Some(used) = used.filter(|it| order.get(*it) == Some(&ConnectionState::Ready)) {
        wanted[used] = true;
        return wanted;
    }
    if let Some(ready) = order.iter().position(|it| *it == ConnectionState::Ready) {
        wanted[ready] = true;
        return wanted;
    }
    for (index, state) in order.iter().enumerate() {
        wanted[index] = true;
        if *state != ConnectionState::Backoff && !late(index) {
            break;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_endpoint_is_used_until_it_fails_and_then_the_next() {
        use ConnectionState::{Backoff, Connecting, Idle, Ready};
        let table: &[(&[ConnectionState], Option<usize>, &[usize])] = &[
            (&[], None, &[]),
            (&[Idle, Idle, Idle], None, &[0]),
            (&[Connecting, Idle, Idle], None, &[0]),
            (&[Ready, Idle, Idle], Some(0), &[0]),
            // The first has failed: the second is tried, and the first keeps trying.
            (&[Backoff, Idle, Idle], Some(0), &[0, 1]),
            (&[Backoff, Ready, Idle], Some(0), &[1]),
            // The one in use stays, although an earlier one is available again.
            (&[Idle, Ready, Idle], Some(1), &[1]),
            (&[Ready, Ready, Idle], Some(1), &[1]),
            (&[Backoff, Backoff, Backoff], None, &[0, 1, 2]),
            // The one in use is no longer in the set.
            (&[Idle], Some(4), &[0]),
        ];
        for (order, used, expected) in table {
            let wanted = wanted(order, |_| false, *used);
            let wanted: Vec<_> = (0..order.len()).filter(|it| wanted[*it]).collect();
            assert_eq!(wanted, *expected, "{order:?} {used:?}");
        }
    }

    #[test]
    fn after_a_silent_endpoint_the_next_one_is_tried_concurrently() {
        use ConnectionState::{Connecting, Idle};
        let order = [Connecting, Connecting, Idle, Idle];
        assert_eq!(wanted(&order, |it| it == 0, None), [true, true, false, false]);
        assert_eq!(wanted(&order, |it| it < 2, None), [true, true, true, false]);
    }
}
