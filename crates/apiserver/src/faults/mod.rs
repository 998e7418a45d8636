//! Fault injection: errors, delays and cut connections on demand.
//!
//! ```text
//! request ─► decide: wait, refuse, cut ─► carried out ─► (cut) ─► response
//! watch   ─► gate: wait, pause, drop ─► frames: split, coalesced ─► delivery
//! ```
//!
//! A [`Rule`] selects requests or watches, how often it fires, and the fault; switches such as
//! [`FaultInjector::drop_watches`] act immediately on the open watches. No fault makes the server
//! lie: none loses, repeats or reorders an event inside an open watch, and a rejected request was
//! not carried out.
//!
//! Time is tokio's, so that it can be paused, and randomness comes from a seed: the same requests
//! in the same order meet the same faults. The administration paths of the server offer the same
//! over HTTP. Nothing here depends on connections.
//!
//! ```
//! use dogwatch_apiserver::faults::{FaultInjector, Rule};
//!
//! let lab = FaultInjector::default();
//! let busy = lab.rule(Rule::on("list").resource("pods").times(2).refuse(429).retry_after(1));
//! // … two lists of pods are rejected …
//! assert_eq!(busy.fired(), 0);
//! busy.remove();
//! ```
//!
//! The `mod` lines below are in layer order.

mod scope;
mod delay;
mod rule;
mod state;
mod shared;
mod watch;
mod admin;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde::Serialize;
use serde_json::json;

pub(crate) use admin::{PREFIX, admin};
pub use delay::{Delay, DelayError};
pub use rule::{Rule, RuleError};
pub(crate) use scope::Call;
pub use scope::Scope;
pub(crate) use scope::names_resource;
pub(crate) use state::Act;
pub use state::FaultCounts;
pub(crate) use watch::{Disturbance, WatchFaults};

use crate::cluster::Cluster;
use crate::store::{CollectionName, Draft, Expect};
use scope::OwnedCall;
use shared::SharedState;
use state::{Counts, OrderKind};

/// The fault injector of a server: its fault rules. Clones share them. Without rules, a request
/// costs one atomic load.
///
/// ```
/// use bytes::Bytes;
/// use dogwatch_apiserver::ApiServer;
/// use dogwatch_apiserver::faults::Rule;
/// use http_body_util::Empty;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::in_process().await?;
/// let busy = server.faults().rule(Rule::on("list").resource("pods").times(1).refuse(429));
/// for status in [429, 200] {
///     let request = http::Request::get("http://localhost/api/v1/pods");
///     let request = request.body(Empty::<Bytes>::new())?;
///     let response = server.service().oneshot(request).await;
///     assert!(response.is_ok_and(|it| it.status() == status));
/// }
/// assert_eq!((busy.matched(), busy.fired()), (2, 1));
/// assert_eq!(server.faults().tally().refused, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultInjector {
    shared: Arc<SharedState>,
}

/// A rule and its counters.
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Rule};
///
/// let faults = FaultInjector::default();
/// faults.rule(Rule::on("watch").drop_after(3));
/// for report in faults.rules() {
///     assert_eq!((report.matched, report.fired), (0, 0));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuleReport {
    /// The id of the rule.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// The number of requests or watches that it matched.
    pub matched: u64,
    /// The number of times that it fired.
    pub fired: u64,
}

/// A handle of an active rule. Dropping it does not remove the rule; see [`RuleHandle::scoped`].
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Rule};
///
/// let faults = FaultInjector::default();
/// let slow = faults.rule(Rule::on_everything().delay(std::time::Duration::from_millis(50)));
/// assert_eq!(slow.fired(), 0);
/// slow.remove();
/// assert!(faults.rules().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct RuleHandle {
    lab: FaultInjector,
    id: u64,
    counts: Arc<Counts>,
}

/// A rule that is removed when this is dropped.
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Rule};
///
/// let faults = FaultInjector::default();
/// {
///     let _outage = faults.rule(Rule::on_everything().refuse(503)).scoped();
///     assert_eq!(faults.rules().len(), 1);
/// }
/// assert!(faults.rules().is_empty());
/// ```
#[derive(Debug)]
#[must_use = "the rule is removed when this is dropped"]
pub struct ScopedRule(RuleHandle);

impl FaultInjector {
    /// Adds a rule. It stays until it is removed, even after it has fired for the last time.
    ///
    /// # Panics
    ///
    /// Panics if the rule is invalid, as a test with a mistake should; [`FaultInjector::try_rule`]
    /// returns an error instead.
    pub fn rule(&self, rule: Rule) -> RuleHandle {
        match self.try_rule(rule) {
            Ok(handle) => handle,
            Err(error) => panic!("invalid fault rule: {error}"),
        }
    }

    /// Adds a rule. It stays until it is removed, even after it has fired for the last time.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule is invalid.
    pub fn try_rule(&self, rule: Rule) -> Result<RuleHandle, RuleError> {
        rule.check()?;
        let (id, counts) = self.shared.change(|state| state.place(rule));
        Ok(RuleHandle { lab: self.clone(), id, counts })
    }

    /// Removes a rule and returns true if there was one. Watches that it paused resume.
    pub fn remove(&self, id: u64) -> bool {
        self.shared.change(|state| {
            let before = state.rules.len();
            state.rules.retain(|it| it.id != id);
            state.rules.len() < before
        })
    }

    /// Removes all rules and resumes delivery.
    pub fn clear(&self) {
        self.shared.change(|state| {
            state.rules.clear();
            state.paused = false;
        });
    }

    /// Returns all rules with their counters, in the order in which they were added.
    pub fn rules(&self) -> Vec<RuleReport> {
        let state = self.shared.state();
        let report = |it: &state::ActiveRule| RuleReport {
            id: it.id,
            rule: it.rule.clone(),
            matched: it.counts.matched.load(Ordering::Relaxed),
            fired: it.counts.fired.load(Ordering::Relaxed),
        };
        state.rules.iter().map(report).collect()
    }

    /// Returns the number of injected faults of each type since the injector was created.
    pub fn tally(&self) -> FaultCounts {
        self.shared.state().tally
    }

    /// Ends all open watches, as if they had timed out.
    pub fn drop_watches(&self) {
        self.drop_watches_of(Scope::default(), false);
    }

    /// Ends all open watches by cutting their connections.
    pub fn cut_watches(&self) {
        self.drop_watches_of(Scope::default(), true);
    }

    /// Ends the open watches in a scope; cuts their connections if `cut` is set.
    pub fn drop_watches_of(&self, scope: Scope, cut: bool) {
        self.shared.change(|state| state.order(scope, OrderKind::Drop { cut }));
    }

    /// Makes all open watches that allow bookmarks send one.
    pub fn bookmark_now(&self) {
        self.bookmark_now_of(Scope::default());
    }

    /// Makes the open watches in a scope send a bookmark, if they allow bookmarks.
    pub fn bookmark_now_of(&self, scope: Scope) {
        self.shared.change(|state| state.order(scope, OrderKind::Bookmark));
    }

    /// Stops the delivery of all watches until [`FaultInjector::resume`].
    pub fn pause(&self) {
        self.shared.change(|state| state.paused = true);
    }

    /// Resumes the delivery of all watches, starting with what happened in the meantime. Watches
    /// that a rule pauses stay paused.
    pub fn resume(&self) {
        self.shared.change(|state| state.paused = false);
    }

    /// Returns true if all watches are paused.
    pub fn is_paused(&self) -> bool {
        self.shared.state().paused
    }

    /// Drops all history of a cluster: a list or watch from an older version than the newest gets
    /// 410, and so does an open watch that has not sent everything yet. Returns the oldest version
    /// that is still available.
    pub(crate) fn compact(&self, cluster: &Cluster) -> u64 {
        self.compact_to(cluster, cluster.store().revision())
    }

    /// Drops the history of a cluster before a version, at most all of it. Returns the oldest
    /// version that this call leaves available.
    pub(crate) fn compact_to(&self, cluster: &Cluster, version: u64) -> u64 {
        let version = version.min(cluster.store().revision());
        cluster.store().compact(version);
        version
    }

    /// Makes every version that a client can know too old, and ends all watches: clients that
    /// resume get 410 and have to list again. Returns the oldest version that is still available.
    pub(crate) fn expire(&self, cluster: &Cluster) -> u64 {
        // Advances the revision by a change in a collection that no client reads.
        let (store, collection) = (cluster.store(), CollectionName::from("dogwatch/faults"));
        let key = ObjectKey::cluster("expired");
        let draft = Draft::new(&json!({ "metadata": { "name": key.name() } }), Vec::new()).ok();
        if let Ok(there) = store.commit(&collection, &key, Expect::Absent, draft) {
            // If another call was faster, the revision has advanced just as well.
            let _ = store.commit(&collection, &key, Expect::At(there.version()), None);
        }
        let oldest = self.compact(cluster);
        self.drop_watches();
        oldest
    }

    /// Returns the delay of a request, and the fault that follows it.
    pub(crate) fn decide(&self, call: &Call<'_>) -> (Option<Duration>, Act) {
        if !self.shared.acts_on_requests() {
            return (None, Act::Proceed);
        }
        self.shared.state().decide(call)
    }

    /// Returns the fault state of a watch that starts now.
    pub(crate) fn watch(&self, call: &Call<'_>) -> WatchFaults {
        WatchFaults::new(Arc::clone(&self.shared), OwnedCall::new(call))
    }
}

impl RuleHandle {
    /// Returns the id of the rule.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of times that it fired.
    pub fn fired(&self) -> u64 {
        self.counts.fired.load(Ordering::Relaxed)
    }

    /// Returns the number of requests or watches that it matched, whether it fired or not.
    pub fn matched(&self) -> u64 {
        self.counts.matched.load(Ordering::Relaxed)
    }

    /// Removes the rule. Its counters stay readable.
    pub fn remove(&self) {
        self.lab.remove(self.id);
    }

    /// Converts this into a guard that removes the rule when dropped.
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
