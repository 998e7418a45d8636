//! The fault lab: bad weather on demand, and nothing but weather.
//!
//! ```text
//! request ─► decide: wait, refuse, cut ─► carried out ─► (cut) ─► answer
//! watch   ─► gate: wait, pause, drop ─► frames: split, coalesced ─► delivery
//! ```
//!
//! A [`Rule`] says which requests or watches, how often, and what happens to them; switches such as
//! [`Lab::drop_watches`] act at once on the watches that are there. The lab lies about nothing: no fault loses, repeats or
//! reorders an event inside a living watch, and what was refused did not happen.
//!
//! Time is tokio's, so that it can be paused, and chance comes from a seed: the same requests in the same order meet the
//! same faults. [`admin`] is the same for those who only have HTTP. Nothing here knows connections.
//!
//! ```
//! use dogwatch_apiserver::faults::{Lab, Rule};
//!
//! let lab = Lab::default();
//! let busy = lab.rule(Rule::on("list").resource("pods").times(2).refuse(429).retry_after(1));
//! // … two lists of pods are refused …
//! assert_eq!(busy.fired(), 0);
//! busy.remove();
//! ```
//!
//! The `mod` lines below are in layer order.

mod scope;
mod delay;
mod rule;
mod board;
mod shared;
mod watch;
mod admin;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde::Serialize;
use serde_json::json;

pub use admin::{PREFIX, admin};
pub use board::{Act, Tally};
pub use delay::{Delay, DelayError};
pub use rule::{Rule, RuleError};
pub(crate) use scope::names_resource;
pub use scope::{Call, Scope};
pub use watch::{Disturbance, WatchLab};

use crate::cluster::Cluster;
use crate::store::{CollectionName, Draft, Expect};
use board::{Counts, What};
use scope::OwnedCall;
use shared::Shared;

/// The rules of a server. Clones share them. Without rules, a request costs one atomic load.
#[derive(Clone, Debug, Default)]
pub struct Lab {
    shared: Arc<Shared>,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuleReport {
    /// Names it.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// How many requests or watches it covered.
    pub matched: u64,
    /// How often it fired.
    pub fired: u64,
}

/// A rule that was placed. Dropping this changes nothing; see [`RuleHandle::scoped`].
#[derive(Clone, Debug)]
pub struct RuleHandle {
    lab: Lab,
    id: u64,
    counts: Arc<Counts>,
}

/// A rule that is removed when this is dropped.
#[derive(Debug)]
#[must_use = "the rule is removed when this is dropped"]
pub struct ScopedRule(RuleHandle);

impl Lab {
    /// Places a rule. It stays until it is removed, also when it is spent.
    ///
    /// # Panics
    /// When the rule makes no sense, as a test that is wrong should; [`Lab::try_rule`] gives an error instead.
    pub fn rule(&self, rule: Rule) -> RuleHandle {
        match self.try_rule(rule) {
            Ok(handle) => handle,
            Err(error) => panic!("a rule that makes no sense: {error}"),
        }
    }

    /// Places a rule. It stays until it is removed, also when it is spent.
    ///
    /// # Errors
    /// When the rule makes no sense.
    pub fn try_rule(&self, rule: Rule) -> Result<RuleHandle, RuleError> {
        rule.check()?;
        let (id, counts) = self.shared.change(|board| board.place(rule));
        Ok(RuleHandle { lab: self.clone(), id, counts })
    }

    /// Removes a rule. Watches that it paused go on. Whether there was one.
    pub fn remove(&self, id: u64) -> bool {
        self.shared.change(|board| {
            let before = board.rules.len();
            board.rules.retain(|it| it.id != id);
            board.rules.len() < before
        })
    }

    /// Removes all rules and resumes delivery.
    pub fn clear(&self) {
        self.shared.change(|board| {
            board.rules.clear();
            board.paused = false;
        });
    }

    /// All rules and what became of them, in the order in which they were placed.
    pub fn rules(&self) -> Vec<RuleReport> {
        let board = self.shared.board();
        let report = |it: &board::Placed| RuleReport {
            id: it.id,
            rule: it.rule.clone(),
            matched: it.counts.matched.load(Ordering::Relaxed),
            fired: it.counts.fired.load(Ordering::Relaxed),
        };
        board.rules.iter().map(report).collect()
    }

    /// How often what happened since the lab was made.
    pub fn tally(&self) -> Tally {
        self.shared.board().tally
    }

    /// Ends all watches that are there now, as if their time were over.
    pub fn drop_watches(&self) {
        self.drop_watches_of(Scope::default(), false);
    }

    /// Ends all watches that are there now by cutting their connections.
    pub fn cut_watches(&self) {
        self.drop_watches_of(Scope::default(), true);
    }

    /// Ends these watches of those that are there now, by cutting their connections if so asked.
    pub fn drop_watches_of(&self, scope: Scope, cut: bool) {
        self.shared.change(|board| board.order(scope, What::Drop { cut }));
    }

    /// All watches that are there now and allow bookmarks send one.
    pub fn bookmark_now(&self) {
        self.bookmark_now_of(Scope::default());
    }

    /// These watches of those that are there now send a bookmark, if they allow bookmarks.
    pub fn bookmark_now_of(&self, scope: Scope) {
        self.shared.change(|board| board.order(scope, What::Bookmark));
    }

    /// No watch delivers anything until [`Lab::resume`].
    pub fn pause(&self) {
        self.shared.change(|board| board.paused = true);
    }

    /// Watches deliver again, beginning with what happened meanwhile. Those that a rule pauses wait on.
    pub fn resume(&self) {
        self.shared.change(|board| board.paused = false);
    }

    /// Whether all watches wait.
    pub fn is_paused(&self) -> bool {
        self.shared.board().paused
    }

    /// Forgets all history of a cluster: who lists or watches from an older version than the newest, or has not been told
    /// everything yet, gets 410. Gives the oldest version that is still kept.
    pub fn compact(&self, cluster: &Cluster) -> u64 {
        self.compact_to(cluster, cluster.store().revision())
    }

    /// Forgets the history of a cluster before a version, at most all of it. Gives the oldest version that is still kept by
    /// this call.
    pub fn compact_to(&self, cluster: &Cluster, version: u64) -> u64 {
        let version = version.min(cluster.store().revision());
        cluster.store().compact(version);
        version
    }

    /// Makes every version that anybody can know too old, and ends all watches: whoever comes back to go on gets 410 and has
    /// to list again. Gives the oldest version that is still kept.
    pub fn expire(&self, cluster: &Cluster) -> u64 {
        // Time goes on, as if something had happened in a collection nobody looks at.
        let (store, collection) = (cluster.store(), CollectionName::from("dogwatch/faults"));
        let key = ObjectKey::cluster("expired");
        let draft = Draft::new(&json!({ "metadata": { "name": key.name() } }), Vec::new()).ok();
        if let Ok(there) = store.commit(&collection, &key, Expect::Absent, draft) {
            // Whoever was faster has moved time on just as well.
            let _ = store.commit(&collection, &key, Expect::At(there.version()), None);
        }
        let oldest = self.compact(cluster);
        self.drop_watches();
        oldest
    }

    /// What happens to a request: how long it waits, and then.
    pub fn decide(&self, call: &Call<'_>) -> (Option<Duration>, Act) {
        if !self.shared.acts_on_requests() {
            return (None, Act::Proceed);
        }
        self.shared.board().decide(call)
    }

    /// What happens to a watch that begins now.
    pub fn watch(&self, call: &Call<'_>) -> WatchLab {
        WatchLab::new(Arc::clone(&self.shared), OwnedCall::new(call))
    }
}

impl RuleHandle {
    /// Names the rule.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How often it fired.
    pub fn fired(&self) -> u64 {
        self.counts.fired.load(Ordering::Relaxed)
    }

    /// How many requests or watches it covered, whether it fired or not.
    pub fn matched(&self) -> u64 {
        self.counts.matched.load(Ordering::Relaxed)
    }

    /// Removes the rule. Its counts stay.
    pub fn remove(&self) {
        self.lab.remove(self.id);
    }

    /// Removes the rule when the result is dropped.
    pub fn scoped(self) -> ScopedRule {
        ScopedRule(self)
    }
}

impl std::ops::Deref for ScopedRule {
    type Target = RuleHandle;

    fn deref(&self) -> &RuleHandle {
        &self.0
    }
}

impl Drop for ScopedRule {
    fn drop(&mut self) {
        self.0.remove();
    }
}
