//! One endpoint for all calls, and the next only when it fails: gRPC's pick_first, with its order shuffled (A62).

use crate::connection::State;

/// Which endpoints should be connected, given their states in the order in which they are tried, and who is used now.
///
/// While the one in use is ready, nobody else is. Otherwise everybody is who has failed before or is `late`, since they may come back
/// first, and the first of the others.
pub(crate) fn wanted(order: &[State], late: impl Fn(usize) -> bool, used: Option<usize>) -> Vec<bool> {
    let mut wanted = vec![false; order.len()];
    if let Some(used) = used.filter(|it| order.get(*it) == Some(&State::Ready)) {
        wanted[used] = true;
        return wanted;
    }
    if let Some(ready) = order.iter().position(|it| *it == State::Ready) {
        wanted[ready] = true;
        return wanted;
    }
    for (index, state) in order.iter().enumerate() {
        wanted[index] = true;
        if *state != State::Backoff && !late(index) {
            break;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_used_until_it_fails_and_then_the_next() {
        use State::{Backoff, Connecting, Idle, Ready};
        let table: &[(&[State], Option<usize>, &[usize])] = &[
            (&[], None, &[]),
            (&[Idle, Idle, Idle], None, &[0]),
            (&[Connecting, Idle, Idle], None, &[0]),
            (&[Ready, Idle, Idle], Some(0), &[0]),
            // The first has failed: the second is tried, and the first keeps trying.
            (&[Backoff, Idle, Idle], Some(0), &[0, 1]),
            (&[Backoff, Ready, Idle], Some(0), &[1]),
            // Who is used stays, although one before it could be had again.
            (&[Idle, Ready, Idle], Some(1), &[1]),
            (&[Ready, Ready, Idle], Some(1), &[1]),
            (&[Backoff, Backoff, Backoff], None, &[0, 1, 2]),
            // Who was used is no longer in the set.
            (&[Idle], Some(4), &[0]),
        ];
        for (order, used, expected) in table {
            let wanted = wanted(order, |_| false, *used);
            let wanted: Vec<_> = (0..order.len()).filter(|it| wanted[*it]).collect();
            assert_eq!(wanted, *expected, "{order:?} {used:?}");
        }
    }

    #[test]
    fn who_is_silent_for_too_long_has_the_next_one_beside_it() {
        use State::{Connecting, Idle};
        let order = [Connecting, Connecting, Idle, Idle];
        assert_eq!(wanted(&order, |it| it == 0, None), [true, true, false, false]);
        assert_eq!(wanted(&order, |it| it < 2, None), [true, true, true, false]);
    }
}
