//! A shard member: takes part in the group, and knows which keys it owns.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::member_lease::MemberLease;
use super::member_state::MemberState;
use super::ownership::KeyOwner;

/// One of several replicas that shard keys. Clones refer to the same member.
///
/// ```
/// use dogwatch_controller::sharding::ShardMember;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let member = ShardMember::builder(client, "my-controller").build()?;
/// tokio::spawn({
///     let member = member.clone();
///     async move { member.run_until(std::future::pending()).await }
/// });
/// // For each key of the work queue; another replica works on the others.
/// let done = member.while_owning("namespace/name", async { /* the work */ }).await;
/// assert!(done.is_none(), "the member has not joined yet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ShardMember {
    pub(super) shared: Arc<MemberState>,
    /// Held by the current run, so that runs are serialised.
    pub(super) member_lease: Arc<Mutex<MemberLease>>,
}

impl ShardMember {
    /// Takes part until `stop` resolves, then gives up all keys and leaves, so that other members
    /// can take them at once.
    ///
    /// Failures are logged and retried for ever; keys are given up if the Lease could not be
    /// renewed by the renew deadline. Dropping the future does not leave the group: we own the keys
    /// until the renew deadline, and then no member does until the Lease expires. Runs are
    /// serialised: a second call waits until the first has ended.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut member_lease = tokio::select! {
            biased;
            // Another run holds the Lease, and leaves the group when it ends.
            () = &mut stop => return,
            member_lease = self.member_lease.lock() => member_lease,
        };
        loop {
            let next = self.shared.clock.now().saturating_add(member_lease.timing.retry_period);
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = member_lease.round() => {}
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                // The work that we waited for has ended: our Lease can declare that now.
                () = self.shared.holds.ended(), if member_lease.is_behind() => {}
                () = self.shared.clock.sleep_until(next) => {}
            }
        }
        member_lease.leave().await;
    }

    /// Returns true if we own the key right now. Use [`Self::while_owning`] for work that takes
    /// longer than a moment.
    pub fn owns(&self, key: &str) -> bool {
        self.shared.owns(key)
    }

    /// Returns the owner of the key right now. Separate calls of [`Self::owns`] and
    /// [`Self::is_settled`] may see different states.
    pub(crate) fn owner(&self, key: &str) -> KeyOwner {
        let now = self.shared.clock.now();
        self.shared.lock().owner(&self.shared.me, key, now)
    }

    /// Runs the work on a key for as long as we own it. Returns `None` if we do not, or no longer
    /// do. The work is then dropped, and only after that may another member take the key.
    pub async fn while_owning<F: Future>(&self, key: &str, work: F) -> Option<F::Output> {
        let _hold = self.shared.holds.begin(key);
        let lapses = self.shared.lock().lapses();
        if !self.owns(key) {
            return None;
        }
        let mut changes = self.shared.changes.subscribe();
        let lost = async {
            // A key that was lost and regained may have been worked on by another member in
            // between.
            while self.owns(key) && self.shared.lock().lapses() == lapses {
                let until = self.shared.lock().until();
                tokio::select! {
                    biased;
                    _ = changes.changed() => {}
                    () = self.shared.clock.sleep_until(until) => {}
                }
            }
        };
        // The work is dropped with this future's own block, before the hold is.
        let work = pin!(work);
        tokio::select! {
            biased;
            () = lost => None,
            output = work => Some(output),
        }
    }

    /// Returns a receiver that changes whenever we gain or lose keys: check all keys again then.
    /// The number has no other meaning; a slow reader that misses some loses nothing. That is what
    /// tokio's receiver is for; see [`LeaderElector::leaders`](crate::LeaderElector::leaders).
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns true if all members agree on the view, so that every key has an owner.
    pub fn is_settled(&self) -> bool {
        self.shared.lock().is_settled(self.shared.clock.now())
    }

    /// Returns the identity of this member.
    pub fn identity(&self) -> &str {
        &self.shared.me
    }
}

impl fmt::Debug for ShardMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMember")
            .field("identity", &self.shared.me)
            .field("is_settled", &self.is_settled())
            .finish_non_exhaustive()
    }
}
