//! The ownership of keys: the rules that never let a key have two owners, as a plain structure.

use std::time::Duration;

use super::view::View;

/// The owner of a key, as far as this member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOwner {
    /// We own it.
    Us,
    /// All members agree on another owner.
    Another,
    /// The members do not agree on an owner, or our Lease has lapsed.
    Unknown,
}

/// The keys that one member may treat as its own, until a time of its own clock.
///
/// Invariant: a key for which `owns` returns true was ours in the last view that all members acted
/// on, and is ours in every view that we have acted on since. So a key that does not move is never
/// given up, and one that moves is, before another member may take it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ownership {
    /// The last view that all members acted on, followed by those that we have acted on since.
    /// Empty if we own nothing.
    views: Vec<View>,
    /// True if all members act on the last view.
    settled: bool,
    /// The time until which we certainly hold our Lease.
    until: Duration,
    /// The number of times our Lease lapsed, and other members could have taken everything.
    lapses: u64,
}

/// The maximum number of consecutive views without one that all members act on; then we give up
/// everything and start over.
const MAX_VIEWS: usize = 8;

impl Ownership {
    /// Returns true if we own the key now.
    pub(super) fn owns(&self, me: &str, key: &str, now: Duration) -> bool {
        now < self.until && !self.views.is_empty() && self.views.iter().all(|it| it.owner(key) == Some(me))
    }

    /// Returns the owner of the key.
    pub(super) fn owner(&self, me: &str, key: &str, now: Duration) -> KeyOwner {
        if self.owns(me, key, now) {
            KeyOwner::Us
        } else if self.is_settled(now) {
            KeyOwner::Another
        } else {
            KeyOwner::Unknown
        }
    }

    /// Records a renewal of our Lease, valid until this time. If the Lease had lapsed before, other
    /// members may have taken everything. Returns true if keys were lost that way.
    pub(super) fn renewed(&mut self, until: Duration, now: Duration) -> bool {
        let lapsed = now >= self.until && !self.views.is_empty();
        if lapsed {
            self.give_up();
            self.lapses += 1;
        }
        self.until = until;
        lapsed
    }

    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// Returns the number of times everything was lost. Other members may since have done work that
    /// we began before.
    pub(super) fn lapses(&self) -> u64 {
        self.lapses
    }

    /// Returns the view we act on.
    pub(super) fn last(&self) -> Option<&View> {
        self.views.last()
    }

    /// Begins to act on this view, before our Lease declares it. Returns true if the view is new.
    pub(super) fn act_on(&mut self, view: &View) -> bool {
        match self.views.last() {
            None => false,
            Some(last) if last == view => false,
            Some(_) if self.views.len() == MAX_VIEWS => {
                self.give_up();
                true
            }
            Some(_) => {
                self.views.push(view.clone());
                self.settled = false;
                true
            }
        }
    }

    /// Records that all members act on this view, according to a list that was requested after our
    /// own Lease declared it. Returns true if that is new.
    pub(super) fn settle(&mut self, view: View) -> bool {
        let news = !self.settled || self.views.last() != Some(&view);
        self.views = vec![view];
        self.settled = true;
        news
    }

    /// Gives up all keys.
    pub(super) fn give_up(&mut self) {
        self.views.clear();
        self.settled = false;
    }

    pub(super) fn is_settled(&self, now: Duration) -> bool {
        self.settled && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn view(members: &[&str]) -> View {
        View::of(members.iter().map(|it| (*it).to_owned()))
    }

    /// Returns a key that moves from `a` to `b` when `b` joins, and one that stays.
    fn keys() -> (String, String) {
        let both = view(&["a", "b"]);
        let find = |owner| (0..).map(|it| format!("key-{it}")).find(|it| both.owner(it) == Some(owner));
        (find("b").expect("one of them"), find("a").expect("one of them"))
    }

    #[test]
    fn a_key_that_moves_is_given_up_at_once_and_one_that_stays_is_kept() {
        let (moves, stays) = keys();
        let mut ownership = Ownership::default();
        ownership.renewed(s(10), s(0));
        assert!(!ownership.owns("a", &stays, s(1)), "no keys before all members act on the same view");
        assert!(ownership.settle(view(&["a"])));
        assert!(ownership.owns("a", &stays, s(1)) && ownership.owns("a", &moves, s(1)));
        assert!(ownership.act_on(&view(&["a", "b"])) && !ownership.act_on(&view(&["a", "b"])));
        assert!(ownership.owns("a", &stays, s(1)) && !ownership.owns("a", &moves, s(1)));
        assert!(ownership.act_on(&view(&["a"])), "b is gone again");
        assert!(!ownership.owns("a", &moves, s(1)), "b may have taken it in between");
        assert!(ownership.settle(view(&["a"])) && ownership.owns("a", &moves, s(1)));
    }

    #[test]
    fn a_lapsed_lease_starts_over() {
        let (_, stays) = keys();
        let mut ownership = Ownership::default();
        ownership.renewed(s(10), s(0));
        ownership.settle(view(&["a"]));
        ownership.renewed(s(12), s(2));
        assert!(ownership.owns("a", &stays, s(11)) && !ownership.owns("a", &stays, s(12)));
        let owner = |me, now| ownership.owner(me, &stays, now);
        assert_eq!((owner("a", s(11)), owner("b", s(11))), (KeyOwner::Us, KeyOwner::Another));
        assert_eq!((owner("a", s(12)), owner("b", s(12))), (KeyOwner::Unknown, KeyOwner::Unknown));
        assert_eq!(ownership.lapses(), 0);
        ownership.renewed(s(22), s(12));
        assert!(!ownership.owns("a", &stays, s(13)));
        assert_eq!(ownership.lapses(), 1);
    }

    #[test]
    fn too_many_consecutive_views_give_up_everything() {
        let (_, stays) = keys();
        let mut ownership = Ownership::default();
        ownership.renewed(s(10), s(0));
        ownership.settle(view(&["a"]));
        for number in 0..MAX_VIEWS {
            ownership.act_on(&view(&["a", &format!("x{number}")]));
        }
        assert!(ownership.views.is_empty() && !ownership.owns("a", &stays, s(1)));
    }
}
