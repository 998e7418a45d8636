//! Keeps the Lease of a member and follows the others': renew, list, compare, and again if the view
//! has changed.
//!
//! It publishes its findings to the state that the member's handles read; it knows neither keys nor
//! their workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

use super::member_state::MemberState;
use super::members::{Listed, Members, VIEW, all_act_on, view};
use super::seat::MemberLeaseStore;
use super::view::View;
use crate::leader::ElectionTiming;
use crate::leader::record::{self, Entry};

/// The number of lease durations after which any member deletes the Lease of a member that is gone.
const FORGOTTEN_AFTER: u32 = 20;
/// The maximum number of consecutive turns for a changing view before the next wait.
const MAX_TURNS: usize = 4;

/// Keeps the Lease of one member. It outlives a run; the next run continues where it ended.
pub(super) struct MemberLease {
    pub(super) seats: Arc<dyn MemberLeaseStore>,
    pub(super) shared: Arc<MemberState>,
    pub(super) name: String,
    /// Distinguishes this process from others with the same identity.
    pub(super) instance: String,
    pub(super) timing: ElectionTiming,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) members: Members,
    /// The view that our Lease declares, or will declare next.
    pub(super) acting: View,
    /// Our Lease as the last write left it, if nothing has failed since.
    pub(super) own: Option<Lease>,
}

impl MemberLease {
    /// Renews, lists and compares, and repeats that if the view has changed. Failures are logged;
    /// the next round retries.
    pub(super) async fn round(&mut self) {
        for _ in 0..MAX_TURNS {
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(member = self.shared.me, %error, "cannot renew the Lease of this member, retrying");
                    return;
                }
            }
        }
    }

    /// Returns true if our Lease declares an older view than the one we act on, because work on
    /// keys that have moved is still running.
    pub(super) fn is_behind(&self) -> bool {
        self.shared.lock().last().is_some_and(|it| *it != self.acting)
    }

    /// Runs one turn. Returns true if there is something to write or to read again at once.
    async fn turn(&mut self) -> Result<bool, Error> {
        let said = self.renew().await?;
        let seats = Arc::clone(&self.seats);
        let leases = self.bounded(seats.list()).await?;
        let now = self.shared.clock.now();
        let listed: Vec<_> = leases.iter().map(|it| Listed::of(it, self.timing.lease_duration)).collect();
        let live = self.members.live(&listed, now);
        if self.own.is_none() {
            return self.join(&leases, &live).await;
        }
        let view = view(&live, &self.shared.me);
        if view != self.acting {
            let moved = self.shared.lock().act_on(&view);
            if moved {
                self.shared.changed();
            }
            // Other members may take the keys that we gave up as soon as our Lease declares the
            // view: not before the work on them has ended.
            if self.shared.holds.any(|key| !self.shared.owns(key)) {
                return Ok(false);
            }
            self.acting = view;
            return Ok(true);
        }
        if said && all_act_on(&view, &live) && self.shared.lock().settle(view) {
            tracing::debug!(member = self.shared.me, "all members act on the same view");
            self.shared.changed();
        }
        self.sweep(now).await;
        Ok(false)
    }

    /// Renews our Lease, if we know it, with the view we act on. Returns true if the Lease declares
    /// that view now.
    async fn renew(&mut self) -> Result<bool, Error> {
        let Some(own) = self.own.take() else { return Ok(false) };
        let sent = self.shared.clock.now();
        let lease = self.declaring_the_view(record::renewed(own, &self.entry()));
        let seats = Arc::clone(&self.seats);
        let written = self.bounded(seats.update(lease)).await;
        match written {
            Ok(written) => self.own = Some(written),
            // Deleted, or written by an earlier request of ours that was given up: the list shows
            // it.
            Err(error) if error.is_conflict() || error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.held_since(sent);
        Ok(true)
    }

    /// Finds our Lease in the list, or creates it. Returns false if another process holds it under
    /// our identity: we wait until that Lease expires, since both would own the same keys.
    async fn join(&mut self, leases: &[Lease], live: &[Listed]) -> Result<bool, Error> {
        if let Some(own) = leases.iter().find(|it| it.metadata.name.as_deref() == Some(&self.name)) {
            if !self.is_ours(own) && live.iter().any(|it| it.lease == self.name) {
                tracing::warn!(
                    member = self.shared.me,
                    "another process is a member under this process's identity, or an earlier one exited without leaving"
                );
                return Ok(false);
            }
            self.own = Some(own.clone());
            return Ok(true);
        }
        let sent = self.shared.clock.now();
        let lease = self.declaring_the_view(record::created(&self.name, &self.entry(), 0));
        let seats = Arc::clone(&self.seats);
        self.own = Some(self.bounded(seats.create(lease)).await?);
        self.held_since(sent);
        Ok(true)
    }

    /// Returns true if this process wrote the Lease of our name, according to its instance
    /// annotation.
    fn is_ours(&self, lease: &Lease) -> bool {
        record::instance(lease).is_none_or(|it| it == self.instance)
    }

    fn held_since(&self, sent: Duration) {
        let until = sent.saturating_add(self.timing.renew_deadline);
        let lapsed = self.shared.lock().renewed(until, self.shared.clock.now());
        if lapsed {
            self.shared.changed();
        }
    }

    /// Deletes the Lease of one member that is long gone: one in each turn, so that many of them do
    /// not delay the renewal of ours. Failures are harmless.
    async fn sweep(&self, now: Duration) {
        if let Some(gone) = self.members.long_gone(FORGOTTEN_AFTER, now).first() {
            let seats = Arc::clone(&self.seats);
            if let Err(error) = self.bounded(seats.delete(&gone.lease, &gone.version)).await {
                tracing::debug!(lease = gone.lease, %error, "cannot delete the Lease of a member that is gone");
            }
        }
    }

    /// Gives up all keys, waits for the work on them, and releases our Lease, so that other members
    /// need not wait for it to expire.
    pub(super) async fn leave(&mut self) {
        self.shared.lock().give_up();
        self.shared.changed();
        let deadline = self.shared.clock.now().saturating_add(self.timing.renew_deadline);
        let ended = async {
            while self.shared.holds.any(|_| true) {
                self.shared.holds.ended().await;
            }
        };
        tokio::select! {
            biased;
            () = ended => {}
            () = self.shared.clock.sleep_until(deadline) => return,
        }
        if let Err(error) = self.release().await {
            tracing::warn!(member = self.shared.me, %error, "cannot release the Lease of this member; it will expire");
        }
    }

    /// Clears the holder of our Lease. Other members delete it later; if we deleted it, it would
    /// count until it would have expired.
    async fn release(&mut self) -> Result<(), Error> {
        let seats = Arc::clone(&self.seats);
        let own = match self.own.take() {
            Some(own) => Some(own),
            None => {
                let leases = self.bounded(seats.list()).await?;
                let ours = |it: &Lease| it.metadata.name.as_deref() == Some(&self.name) && self.is_ours(it);
                leases.into_iter().find(ours)
            }
        };
        if let Some(own) = own {
            self.bounded(seats.update(record::released(own, self.shared.clock.wall()))).await?;
        }
        Ok(())
    }

    async fn bounded<T>(&self, request: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
        let limit = self.timing.request_timeout();
        let clock = &self.shared.clock;
        tokio::select! {
            biased;
            answer = request => answer,
            () = clock.sleep_until(clock.now().saturating_add(limit)) => Err(Error::TimedOut(limit)),
        }
    }

    fn declaring_the_view(&self, mut lease: Lease) -> Lease {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(VIEW.to_owned(), self.acting.id().to_owned());
        lease
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            identity: &self.shared.me,
            instance: &self.instance,
            lease_seconds: self.timing.lease_seconds(),
            labels: &self.labels,
            now: self.shared.clock.wall(),
        }
    }
}
