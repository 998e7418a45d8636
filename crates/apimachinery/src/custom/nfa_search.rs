//! The search for a match of a regular expression in a text, with every step counted.
//!
//! All states that the expression can be in are followed at once, byte by byte. That takes at most
//! as many steps for each byte as the expression has states, and usually a few. The engines of
//! `regex-automata` search in the same way or faster, but cannot be interrupted, and the memory and
//! time for the automata that they build depend on the text.

use std::cell::RefCell;

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

/// The number of steps that are counted before the caller is asked for them.
const BATCH: usize = 1_024;
/// The number of transitions of a state that are compared in one step.
const TRANSITIONS_PER_STEP: usize = 8;

/// Returns true if any part of a text matches, or `None` if `afford` refuses a number of steps. It
/// is called with the steps since the last call, at least once.
pub(super) fn is_match(nfa: &NFA, text: &str, afford: impl FnMut(usize) -> bool) -> Option<bool> {
    VISITED.with_borrow_mut(|visited| search(nfa, text, visited, afford))
}

fn search(nfa: &NFA, text: &str, visited: &mut Visited, afford: impl FnMut(usize) -> bool) -> Option<bool> {
    visited.make_room(nfa.states().len());
    let mut search = Search {
        nfa,
        text: text.as_bytes(),
        visited,
        pending: Vec::new(),
        reached: Vec::new(),
        steps: 1,
        afford,
    };
    let mut found = false;
    for at in 0..=text.len() {
        search.visited.clear();
        let can_begin = at == 0 || !nfa.is_always_start_anchored();
        if can_begin && text.is_char_boundary(at) {
            search.pending.push(nfa.start_anchored());
        }
        if search.pending.is_empty() && !can_begin {
            break;
        }
        found = search.follow(at)?;
        if found {
            break;
        }
        if let Some(byte) = search.text.get(at) {
            search.advance(*byte)?;
        }
    }
    (search.afford)(search.steps).then_some(found)
}

thread_local! {
    /// Kept between searches: an expression may have hundreds of thousands of states, of which a
    /// search visits a few.
    static VISITED: RefCell<Visited> = const { RefCell::new(Visited { stamps: Vec::new(), stamp: 0 }) };
}

/// A set of states that is cleared in no time.
struct Visited {
    /// For each state, the stamp with which it was last visited.
    stamps: Vec<u32>,
    /// The stamp of the states in the set; not 0.
    stamp: u32,
}

impl Visited {
    fn make_room(&mut self, states: usize) {
        if self.stamps.len() < states {
            self.stamps.resize(states, 0);
        }
    }

    /// Removes all states.
    fn clear(&mut self) {
        self.stamp = self.stamp.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill(0);
            1
        });
    }

    /// Adds a state. Returns false if it was in the set.
    fn insert(&mut self, id: StateID) -> bool {
        std::mem::replace(&mut self.stamps[id.as_usize()], self.stamp) != self.stamp
    }
}

struct Search<'a, F> {
    nfa: &'a NFA,
    text: &'a [u8],
    /// The states that were visited at the current position.
    visited: &'a mut Visited,
    /// The states at the current position whose empty transitions have not been followed.
    pending: Vec<StateID>,
    /// The states at the current position that need a byte.
    reached: Vec<StateID>,
    /// The number of steps that `afford` was not asked for yet.
    steps: usize,
    afford: F,
}

impl<F: FnMut(usize) -> bool> Search<'_, F> {
    /// Counts steps.
    fn take(&mut self, steps: usize) -> Option<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < BATCH {
            return Some(());
        }
        (self.afford)(std::mem::take(&mut self.steps)).then_some(())
    }

    /// Follows all transitions that need no byte. Returns true if one leads to a match.
    fn follow(&mut self, at: usize) -> Option<bool> {
        let nfa = self.nfa;
        while let Some(id) = self.pending.pop() {
            self.take(1)?;
            if !self.visited.insert(id) {
                continue;
            }
            match nfa.state(id) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => self.reached.push(id),
                State::Look { look, next } => {
                    if nfa.look_matcher().matches(*look, self.text, at) {
                        self.pending.push(*next);
                    }
                }
                State::Union { alternates } => {
                    self.take(alternates.len())?;
                    self.pending.extend(alternates.iter().copied());
                }
                State::BinaryUnion { alt1, alt2 } => self.pending.extend([*alt1, *alt2]),
                State::Capture { next, .. } => self.pending.push(*next),
                State::Fail => {}
                State::Match { .. } => return Some(true),
            }
        }
        Some(false)
    }

    /// Follows the transitions for a byte.
    fn advance(&mut self, byte: u8) -> Option<()> {
        let mut reached = std::mem::take(&mut self.reached);
        for id in reached.drain(..) {
            self.take(1)?;
            let next = match self.nfa.state(id) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(sparse) => {
                    self.take(sparse.transitions.len() / TRANSITIONS_PER_STEP)?;
                    sparse.matches_byte(byte)
                }
                State::Dense(dense) => dense.matches_byte(byte),
                _ => None,
            };
            self.pending.extend(next);
        }
        // The allocation is used again.
        self.reached = reached;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;
    use regex_automata::nfa::thompson;

    use super::*;

    fn compiled(expression: &str) -> NFA {
        let config = thompson::Config::new().which_captures(thompson::WhichCaptures::None);
        thompson::Compiler::new().configure(config).build(expression).expect("it is valid")
    }

    /// Returns the result of a search and its number of steps.
    fn searched(nfa: &NFA, text: &str) -> (bool, usize) {
        let mut steps = 0;
        let found = is_match(nfa, text, |more| {
            steps += more;
            true
        });
        (found.expect("everything is afforded"), steps)
    }

    #[test]
    fn any_part_of_a_text_can_match() {
        for (expression, text, expected) in [
            ("", "", true),
            ("", "abc", true),
            ("b", "abc", true),
            ("^b", "abc", false),
            ("c$", "abc", true),
            ("^$", "abc", false),
            ("(?m)^b$", "a\nb\nc", true),
            (r"\bb\b", "a b c", true),
            (r"\bb\b", "abc", false),
            (r"(?-u:\b)b", "äb", true),
            ("^.{2}$", "äö", true),
            ("^.{4}$", "äö", false),
            (r"^\p{L}+$", "große名", true),
            ("^(a|ab)(c|bcd)$", "abcd", true),
            ("(a*)*$", "aab", true),
            ("[a&&b]", "ab", false),
        ] {
            assert_eq!(searched(&compiled(expression), text).0, expected, "{expression:?} in {text:?}");
        }
    }

    #[test]
    fn the_steps_grow_with_the_states_that_are_active_and_not_with_all_of_them() {
        let text = "große-名前_9,".repeat(1_000) + "x";
        let large = compiled(r"^[\p{L}\p{N}_.-]{1,256}(,[\p{L}\p{N}_.-]{1,256})*$");
        let (found, steps) = searched(&large, &text);
        assert!(found && steps < 60 * text.len(), "{steps} steps for {} bytes", text.len());
        let (_, steps) = searched(&compiled("(a|b)*a(a|b){300}c"), &"ab".repeat(1_000));
        assert!(steps > 100 * 2_000, "{steps}");
    }

    #[test]
    fn states_can_be_visited_again_after_all_stamps_were_used() {
        let mut visited = Visited { stamps: vec![1, u32::MAX], stamp: u32::MAX - 1 };
        let id = |number: usize| StateID::new(number).expect("it is small");
        assert!(visited.insert(id(1)) && !visited.insert(id(1)));
        visited.clear();
        assert!(visited.insert(id(0)) && visited.insert(id(1)) && !visited.insert(id(1)));
        visited.clear();
        assert!(visited.insert(id(0)), "its old stamp is the new one");
        visited.make_room(3);
        assert!(!visited.insert(id(0)) && visited.insert(id(1)) && visited.insert(id(2)));
    }

    #[test]
    fn a_search_ends_when_its_steps_are_refused() {
        let nfa = compiled("(a|b)*a(a|b){300}c");
        let mut left = 50_000_usize;
        let afford = |steps: usize| {
            let enough = steps <= left;
            left = left.saturating_sub(steps);
            enough
        };
        assert_eq!(is_match(&nfa, &"ab".repeat(10_000), afford), None);
        assert_eq!(is_match(&nfa, "", |_| false), None, "even the shortest search is asked for");
    }

    /// The automata of the crate, one of which failed in an endless recursion for expressions such
    /// as these, are not used.
    #[test]
    fn expressions_with_many_empty_alternatives_can_be_searched_for() {
        for expression in [
            format!("(a?e{}){}", "|".repeat(80_000), ".".repeat(500)),
            format!("(a{}){{100}}", "|".repeat(300)),
        ] {
            assert!(!searched(&compiled(&format!("^{expression}q$")), "x").0);
        }
    }

    proptest! {
        #[test]
        fn the_result_is_that_of_the_regex_crate(
            expression in r"\^?(\(?[abä.]\)?[*+?]?\|?){0,6}\$?",
            text in "[abcä\n]{0,12}",
        ) {
            if let Ok(regex) = Regex::new(&expression) {
                prop_assert_eq!(searched(&compiled(&expression), &text).0, regex.is_match(&text));
            }
        }
    }
}
