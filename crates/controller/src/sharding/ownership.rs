//! Which keys are ours: the rules that never let a key have two owners, as a plain structure.

use std::time::Duration;

use super::view::View;

/// What one member may take to be its own. It is valid until a time of the member's own clock.
///
/// Invariant: a key that `owns` says is ours was ours in the last view that all members acted on, and is ours in every view that we have
/// acted on since. So a key that does not move is never given up, and one that moves is, before anybody else may take it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ownership {
    /// The last view that all acted on, and then those that we have acted on since. Empty when nothing is ours.
    views: Vec<View>,
    /// Whether the last view is one that all acted on.
    settled: bool,
    /// Until when our Lease is certainly held.
    until: Duration,
    /// How often it was not, and others could have taken everything meanwhile.
    lapses: u64,
}

/// How many views may follow each other without one that all act on; then everything is given up, to be taken anew.
const MOST_VIEWS: usize = 8;

impl Ownership {
    /// Whether a key is ours, now.
    pub(super) fn owns(&self, me: &str, key: &str, now: Duration) -> bool {
        now < self.until && !self.views.is_empty() && self.views.iter().all(|it| it.owner(key) == Some(me))
    }

    /// Our Lease was renewed; it holds until then. Where it had lapsed before, others may have taken everything.
    /// `true` when something was lost by that.
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

    /// How often everything was lost. What was begun before the last time may have been done by others since.
    pub(super) fn lapses(&self) -> u64 {
        self.lapses
    }

    /// The view we act on.
    pub(super) fn last(&self) -> Option<&View> {
        self.views.last()
    }

    /// We are about to act on this view, before anybody is told so. `true` when it is another than before.
    pub(super) fn act_on(&mut self, view: &View) -> bool {
        match self.views.last() {
            None => false,
            Some(last) if last == view => false,
            Some(_) if self.views.len() == MOST_VIEWS => {
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

    /// All members act on this view, by a list that was asked for after our own Lease said so. `true` when that is news.
    pub(super) fn settle(&mut self, view: View) -> bool {
        let news = !self.settled || self.views.last() != Some(&view);
        self.views = vec![view];
        self.settled = true;
        news
    }

    /// Nothing is ours any more.
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

    /// A key that moves from `a` to `b` when `b` comes, and one that stays.
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
        assert!(!ownership.owns("a", &stays, s(1)), "nothing before all act on one view");
        assert!(ownership.settle(view(&["a"])));
        assert!(ownership.owns("a", &stays, s(1)) && ownership.owns("a", &moves, s(1)));
        assert!(ownership.act_on(&view(&["a", "b"])) && !ownership.act_on(&view(&["a", "b"])));
        assert!(ownership.owns("a", &stays, s(1)) && !ownership.owns("a", &moves, s(1)));
        assert!(ownership.act_on(&view(&["a"])), "b is gone again");
        assert!(!ownership.owns("a", &moves, s(1)), "b may have taken it in between");
        assert!(ownership.settle(view(&["a"])) && ownership.owns("a", &moves, s(1)));
    }

    #[test]
    fn a_lease_that_lapsed_begins_anew() {
        let (_, stays) = keys();
        let mut ownership = Ownership::default();
        ownership.renewed(s(10), s(0));
        ownership.settle(view(&["a"]));
        ownership.renewed(s(12), s(2));
        assert!(ownership.owns("a", &stays, s(11)) && !ownership.owns("a", &stays, s(12)));
        assert_eq!(ownership.lapses(), 0);
        ownership.renewed(s(22), s(12));
        assert!(!ownership.owns("a", &stays, s(13)));
        assert_eq!(ownership.lapses(), 1);
    }

    #[test]
    fn too_many_views_in_a_row_give_everything_up() {
        let (_, stays) = keys();
        let mut ownership = Ownership::default();
        ownership.renewed(s(10), s(0));
        ownership.settle(view(&["a"]));
        for number in 0..MOST_VIEWS {
            ownership.act_on(&view(&["a", &format!("x{number}")]));
        }
        assert!(ownership.views.is_empty() && !ownership.owns("a", &stays, s(1)));
    }
}
