//! A member: takes part, and says which keys are its own.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::keeper::Keeper;
use super::shared::Shared;

/// One of several replicas that divide keys among them. Clones are the same member.
///
/// ```no_run
/// # async fn example(client: dogwatch_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use dogwatch_controller::sharding::ShardMember;
///
/// let member = ShardMember::builder(client, "my-controller").build()?;
/// tokio::spawn({
///     let member = member.clone();
///     async move { member.run_until(std::future::pending()).await }
/// });
/// // For each key of the work queue; another replica works on the others.
/// let done = member.while_owning("namespace/name", async { /* the work */ }).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ShardMember {
    pub(super) shared: Arc<Shared>,
    /// Held by whoever runs, so that runs take turns.
    pub(super) keeper: Arc<Mutex<Keeper>>,
}

impl ShardMember {
    /// Takes part until `stop` ends, then gives up all keys and leaves, so that others can take them at once.
    ///
    /// Failures are logged and tried again, for ever; keys are given up when the Lease could not be renewed by the renew deadline.
    /// Dropping the future is not leaving: the keys stay ours until the renew deadline, and nobody's until the Lease
    /// expires. One run at a time: a second call waits until the first has ended.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut keeper = self.keeper.lock().await;
        loop {
            let next = self.shared.clock.now().saturating_add(keeper.timing.retry_period);
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = keeper.round() => {}
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                // Work that was waited for has ended: others can be told so now.
                () = self.shared.holds.ended(), if keeper.is_behind() => {}
                () = self.shared.clock.sleep_until(next) => {}
            }
        }
        keeper.leave().await;
    }

    /// Whether a key is ours right now. Work that takes longer than a moment belongs into [`Self::while_owning`].
    pub fn owns(&self, key: &str) -> bool {
        self.shared.owns(key)
    }

    /// Does the work on a key for as long as it is ours: `None` when it is not, or no longer is. The work is then dropped, and only
    /// after that may another take the key.
    pub async fn while_owning<F: Future>(&self, key: &str, work: F) -> Option<F::Output> {
        let _hold = self.shared.holds.begin(key);
        let lapses = self.shared.lock().lapses();
        if !self.owns(key) {
            return None;
        }
        let mut changes = self.shared.changes.subscribe();
        let lost = async {
            // A key that was lost and is ours again may have been worked on by another in between.
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

    /// Changes whenever keys became ours or ceased to be: time to look at all keys again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Whether all members agree on who they are, so that every key has an owner.
    pub fn is_settled(&self) -> bool {
        self.shared.lock().is_settled(self.shared.clock.now())
    }

    /// Who this member is.
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
