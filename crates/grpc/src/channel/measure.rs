//! Entry points for `cargo xtask bench grpc`: picks as calls make them, among endpoints that do not
//! exist, and switches for parts of connections. Not part of the public API.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

pub use crate::connection::{Parts, Turns};
use crate::load::Load;
use crate::policy::{Group, Member, Policy, PolicyState};
use crate::random;

/// A snapshot of endpoints to pick from, both behind the pointer that calls load and held directly.
#[derive(Debug)]
pub struct Picks {
    snapshot: ArcSwap<Group<usize>>,
    at_hand: Arc<Group<usize>>,
}

impl Picks {
    /// Creates this number of endpoints, all ready, in a group with this policy.
    pub fn new(policy: impl Into<Policy>, endpoints: usize) -> Self {
        let keys: Vec<_> = (0..endpoints).map(|it| format!("10.0.{}.{}:8080", it / 256, it % 256)).collect();
        let member = |(index, key)| Member {
            key,
            weight: 1 + index as u32 % 4,
            zone: None,
            ready: Some((index, Arc::new(Load::new(Duration::from_millis(1), 0)))),
            connecting: false,
            admission: u32::MAX,
        };
        let members = keys.iter().map(String::as_str).enumerate().map(member).collect();
        let group = Group::new(members, &policy.into(), None, Arc::new(PolicyState::new()));
        let at_hand = Arc::new(group);
        Self { snapshot: ArcSwap::new(Arc::clone(&at_hand)), at_hand }
    }

    /// Picks from the held snapshot, which is the work of the policy alone. Returns the index of
    /// the endpoint.
    pub fn choose(&self) -> usize {
        self.at_hand.choice(|| Some(random::bits())).unwrap_or_default()
    }

    /// Loads the snapshot and drops it. Returns the number of its endpoints.
    pub fn load(&self) -> usize {
        self.snapshot.load().len()
    }

    /// Does what every call does: loads the snapshot, picks, and counts itself in and out.
    pub fn pick(&self) -> usize {
        self.snapshot.load().pick(|| Some(random::bits())).map_or(0, |it| *it.0)
    }
}
