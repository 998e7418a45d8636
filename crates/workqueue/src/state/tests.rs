//! Tests of the state machine: stages, delays, priorities and the times of held keys.

use super::*;

impl QueueState<u64> {
    fn add(&mut self, key: u64, request: AddRequest) -> Added<u64> {
        self.add_noted(key, &mut (), request)
    }

    fn delay(&mut self, key: u64, request: AddRequest, at: u64, replace: bool) -> Option<u64> {
        self.delay_noted(key, &mut (), request, at, replace)
    }
}

fn state(earliest_wins: bool) -> QueueState<u64> {
    QueueState::new(Ready::new(false, Some(15)), earliest_wins, true)
}

fn request(key: u64, priority: i32) -> AddRequest {
    AddRequest { hash: key, group: None, priority, now: 0 }
}

fn add(state: &mut QueueState<u64>, key: u64) -> Added<u64> {
    state.add(key, request(key, 0))
}

#[test]
fn a_key_that_is_added_while_held_becomes_ready_when_it_is_finished() {
    let mut state = state(false);
    assert!(add(&mut state, 1).readied);
    let taken = state.take(0).unwrap();
    let again = add(&mut state, 1);
    assert!(again.is_new && !again.readied);
    assert!(!add(&mut state, 1).is_new);
    assert!(state.take(0).is_none());
    assert!(state.finish(taken.id).readied);
    let taken = state.take(0).unwrap();
    assert_eq!(state.finish(taken.id).unused, Some(1));
    assert_eq!(state.entries.len(), 0);
}

#[test]
fn an_entry_with_a_delay_outlives_its_worker_and_is_removed_with_the_delay() {
    let mut state = state(false);
    add(&mut state, 1);
    let taken = state.take(0).unwrap();
    assert_eq!(state.delay(1, request(1, 0), 50, false), Some(1));
    assert!(state.finish(taken.id).unused.is_none());
    assert_eq!(state.advance(49), (0, 0));
    assert_eq!(state.cancel(1, &1), (true, Some(1)));
    assert_eq!(state.cancel(1, &1), (false, None));
    assert_eq!(state.entries.len(), 0);
}

#[test]
fn cancelling_does_not_affect_outstanding_work() {
    let mut state = state(false);
    add(&mut state, 1);
    state.delay(1, request(1, 0), 50, false);
    assert_eq!(state.cancel(1, &1), (true, None));
    assert_eq!(state.ready(), 1);
}

#[test]
fn with_earliest_wins_a_key_has_one_outstanding_add() {
    let mut state = state(true);
    state.delay(1, request(1, 7), 50, false);
    add(&mut state, 1);
    assert!(!state.has_delays());
    assert_eq!(state.delay(1, request(1, 0), 10, false), Some(1));
    assert!(!state.has_delays());
    let taken = state.take(0).unwrap();
    assert_eq!(taken.priority, 7, "the higher of the two priorities applies");
    state.delay(1, request(1, 0), 10, false);
    assert!(state.has_delays(), "a key that is only held has no outstanding add");
}

#[test]
fn stopping_drops_delays_but_no_ready_or_held_keys() {
    let mut state = state(false);
    add(&mut state, 1);
    add(&mut state, 2);
    let taken = state.take(0).unwrap();
    for key in 1..=3 {
        state.delay(key, request(key, 0), 5, false);
    }
    assert_eq!(state.stop(), [3]);
    assert_eq!(add(&mut state, 4).unused, Some(4));
    assert_eq!(state.delay(4, request(4, 0), 5, false), Some(4));
    assert_eq!(state.advance(100), (0, 0));
    assert!(!state.is_drained());
    assert_eq!(state.finish(taken.id).unused, Some(1));
    let taken = state.take(0).unwrap();
    assert_eq!(taken.key, 2);
    state.finish(taken.id);
    assert!(state.is_drained());
    assert_eq!(state.entries.len(), 0);
}

#[test]
fn the_depth_of_a_priority_includes_dirty_keys_that_a_worker_holds() {
    let mut state = state(false);
    for key in 1..=3 {
        add(&mut state, key);
    }
    assert_eq!(state.depth_changes(), [(0, 3)]);
    state.add(2, request(2, 9));
    assert_eq!(state.depth_changes(), [(0, -1), (9, 1)]);
    assert_eq!(state.take(0).unwrap().key, 2);
    add(&mut state, 2);
    state.add(2, request(2, 5));
    state.add(2, request(2, 4));
    assert_eq!(state.depth_changes(), [(9, -1), (0, 0), (5, 1)]);
    assert_eq!(state.depth_changes(), []);
}

#[test]
fn unfinished_work_is_the_sum_and_the_maximum_of_the_held_times() {
    let mut state = state(false);
    add(&mut state, 1);
    add(&mut state, 2);
    let first = state.take(10).unwrap();
    state.take(25).unwrap();
    assert_eq!(state.unfinished(30), (25, 20));
    state.finish(first.id);
    assert_eq!(state.unfinished(30), (5, 5));
}
