//! Keeps the Lease of a member and follows the others': renew, list, judge, and again where the view has changed.
//!
//! What it finds out is written to what the member's handles read; it knows nothing of keys, nor of who works on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

use super::members::{Listed, Members, VIEW, all_act_on, view};
use super::seat::MemberSeats;
use super::shared::Shared;
use super::view::View;
use crate::leader::ElectionTiming;
use crate::leader::record::{self, Entry};

/// Leases of members that have been gone for so many lease durations are deleted by whoever sees it.
const FORGOTTEN_AFTER: u32 = 20;
/// How often in a row a view that changes is followed before the next wait.
const TURNS: usize = 4;

/// Keeps the Lease of one member. It outlives a run, since the next goes on where it ended.
pub(super) struct Keeper {
    pub(super) seats: Arc<dyn MemberSeats>,
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    /// Tells this process from others of the same identity.
    pub(super) instance: String,
    pub(super) timing: ElectionTiming,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) members: Members,
    /// The view that our Lease says, or is to say next.
    pub(super) acting: View,
    /// Our Lease as the last write left it, where nothing has failed since.
    pub(super) own: Option<Lease>,
}

impl Keeper {
    /// Renews, lists and judges, again where the view has changed. Failures are logged; the next round tries again.
    pub(super) async fn round(&mut self) {
        for _ in 0..TURNS {
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(member = self.shared.me, %error, "cannot keep the Lease of this member, trying again");
                    return;
                }
            }
        }
    }

    /// Whether our Lease says an older view than the one we act on, for work on keys that have moved goes on.
    pub(super) fn is_behind(&self) -> bool {
        self.shared.lock().last().is_some_and(|it| *it != self.acting)
    }

    /// One turn: `true` when there is something to tell or to read again at once.
    async fn turn(&mut self) -> Result<bool, Error> {
        let said = self.renew().await?;
        let seats = Arc::clone(&self.seats);
        let leases = self.bounded(seats.list()).await?;
        let now = self.shared.clock.now();
        let listed: Vec<_> = leases.iter().map(|it| Listed::of(it, self.timing.lease_duration)).collect();
        let live = self.members.live(&listed, now);
        if self.own.is_none() {
            return self.sit_down(&leases, &live).await;
        }
        let view = view(&live, &self.shared.me);
        self.sweep(now).await;
        if view != self.acting {
            let moved = self.shared.lock().act_on(&view);
            if moved {
                self.shared.changed();
            }
            // Others may take what we gave up as soon as our Lease says so: not before the work on it has ended.
            if self.shared.holds.any(|key| !self.shared.owns(key)) {
                return Ok(false);
            }
            self.acting = view;
            return Ok(true);
        }
        if said && all_act_on(&view, &live) && self.shared.lock().settle(view) {
            tracing::debug!(member = self.shared.me, "all members act on one view");
            self.shared.changed();
        }
        Ok(false)
    }

    /// Renews our Lease, where we know it, with the view we act on. `true` when it says that now.
    async fn renew(&mut self) -> Result<bool, Error> {
        let Some(own) = self.own.take() else { return Ok(false) };
        let sent = self.shared.clock.now();
        let lease = self.saying_the_view(record::renewed(own, &self.entry()));
        let seats = Arc::clone(&self.seats);
        let written = self.bounded(seats.update(lease)).await;
        match written {
            Ok(written) => self.own = Some(written),
            // Gone, or written by a request of ours that was given up: the list shows it.
            Err(error) if error.is_conflict() || error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.held_since(sent);
        Ok(true)
    }

    /// Finds our Lease in the list, or makes it. `false` where another process holds it under our identity: it is waited for until that
    /// Lease expires, since both would own the same keys.
    async fn sit_down(&mut self, leases: &[Lease], live: &[Listed]) -> Result<bool, Error> {
        if let Some(own) = leases.iter().find(|it| it.metadata.name.as_deref() == Some(&self.name)) {
            if !self.is_ours(own) && live.iter().any(|it| it.lease == self.name) {
                tracing::warn!(
                    member = self.shared.me,
                    "another process is a member under the identity of this one, or was until it ended without leaving"
                );
                return Ok(false);
            }
            self.own = Some(own.clone());
            return Ok(true);
        }
        let sent = self.shared.clock.now();
        let lease = self.saying_the_view(record::created(&self.name, &self.entry(), 0));
        let seats = Arc::clone(&self.seats);
        self.own = Some(self.bounded(seats.create(lease)).await?);
        self.held_since(sent);
        Ok(true)
    }

    /// Whether this process wrote a Lease of our name, as far as the Lease says.
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

    /// Deletes the Leases of members that are long gone. That it fails is no harm.
    async fn sweep(&self, now: Duration) {
        for gone in self.members.long_gone(FORGOTTEN_AFTER, now) {
            let seats = Arc::clone(&self.seats);
            if let Err(error) = self.bounded(seats.delete(&gone.lease, &gone.version)).await {
                tracing::debug!(lease = gone.lease, %error, "cannot delete the Lease of a member that is gone");
            }
        }
    }

    /// Gives everything up, waits for the work on it, and releases our Lease, so that others need not wait for it to expire.
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
        if let Err(error) = self.get_up().await {
            tracing::warn!(member = self.shared.me, %error, "cannot release the Lease of this member, it will expire");
        }
    }

    /// Says in our Lease that it is nobody's. Others delete it in time; missing, it would count until it would have expired.
    async fn get_up(&mut self) -> Result<(), Error> {
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

    fn saying_the_view(&self, mut lease: Lease) -> Lease {
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
