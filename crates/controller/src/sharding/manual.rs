//! A member without others, whose Lease a test renews by hand. It sends no requests.

use std::time::Duration;

use dogwatch_client::Error;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

use super::view::View;
use super::{MemberLeaseStore, ShardMember};
use crate::leader::clock::Clock;

struct NoSeats;

impl MemberLeaseStore for NoSeats {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>> {
        unreachable!("the member does not run")
    }

    fn create(&self, _: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        unreachable!("the member does not run")
    }

    fn update(&self, _: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        unreachable!("the member does not run")
    }

    fn delete<'s>(&'s self, _: &'s str, _: &'s str) -> BoxFuture<'s, Result<(), Error>> {
        unreachable!("the member does not run")
    }
}

pub(crate) fn member(clock: Clock) -> ShardMember {
    ShardMember::over(NoSeats, "group").identity("me").simulated(clock).build().expect("valid settings")
}

impl ShardMember {
    /// Renews the Lease, valid until this time of its clock, and takes all keys: there is no other
    /// member.
    pub(crate) fn renew_until(&self, until: Duration) {
        let now = self.shared.clock.now();
        let mut ownership = self.shared.lock();
        ownership.renewed(until, now);
        ownership.settle(View::of([self.shared.me.clone()]));
        drop(ownership);
        self.shared.changed();
    }
}
