//! How a reflector is doing: what it is at, what troubles it, in words a person can act on. Readable at any time, and watchable.
//!
//! Written by the reflector, read by informers, by waiting for a sync, and by people. A reflector that cannot reach its server, or is
//! not allowed to, says so here; it is never just silent. How to follow it is in `health_watch.rs`.

use std::fmt;

use dogwatch_core::ResourceVersion;
use dogwatch_wire::BadItem;
use tokio::time::Instant;

/// How a reflector is doing.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// What it is at.
    pub state: HealthState,
    /// What keeps it from being in step with the server, while something does.
    pub problem: Option<Problem>,
    /// Whether a whole list has ever been told. Once true it stays true: what was learned is kept through every failure.
    pub synced: bool,
    /// Everything up to this version has been told; unset before the first list.
    pub last_version: ResourceVersion,
    /// When the server last sent anything of this collection.
    pub last_event_at: Option<Instant>,
    /// How many times the collection was read again in whole, after the first time.
    pub relists: u64,
    /// The number of times the server turned out to have an older history than the informer, for example because its storage was
    /// restored from a backup.
    ///
    /// Each time, the collection is listed again. An informer notices when it reaches a server that has not got to the informer's
    /// version yet. If the restored server has already passed that version when the informer reconnects, the two histories cannot be
    /// distinguished and the informer resumes. Restore etcd with a raised revision (`etcdutl snapshot restore --bump-revision
    /// --mark-compacted`) to make every client list again, or restart the clients.
    pub rewinds: u64,
    /// How many objects could not be decoded, each time one came.
    pub poison: u64,
    /// The last object that could not be decoded: its key, the path in it, the reason.
    pub last_poison: Option<BadItem>,
    /// How many objects exist whose newest state could not be decoded: each is shown in an older state, or not at all.
    pub unreadable: u64,
}

/// What a reflector is at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum HealthState {
    /// Nothing has come yet, and nothing has failed.
    #[default]
    Starting,
    /// The collection is being read in whole.
    Listing {
        /// How many objects have come so far.
        items: u64,
    },
    /// In step with the server, as far as it tells.
    Synced,
    /// The last request failed, and the next one comes later.
    Retrying {
        /// When the first failure of this row was.
        since: Instant,
        /// How many failures in a row there were.
        attempts: u32,
        /// When the next request is made.
        next: Instant,
    },
    /// The server does not serve the collection, and the reflector has ended. An informer asks again from time to time.
    Gone,
    /// The informer was stopped, and its copy is not kept in step any more.
    Stopped,
}

/// What keeps a reflector from being in step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// What is wrong, and what to look at.
    pub message: String,
    /// When it was first met.
    pub since: Instant,
    /// How many times in a row it, or another one before it, was met.
    pub count: u32,
}

impl Health {
    /// Whether it is synced with the server, nothing troubles it, and every object is shown in its newest state.
    pub fn is_ok(&self) -> bool {
        self.state == HealthState::Synced && self.problem.is_none() && self.unreadable == 0
    }
}

impl fmt::Display for Health {
    /// In one line: the state, and the problem where there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            HealthState::Starting => f.write_str("starting")?,
            HealthState::Listing { items } => write!(f, "listing, {items} objects so far")?,
            HealthState::Synced => f.write_str("in step")?,
            HealthState::Retrying { attempts: 1, .. } => f.write_str("retrying after a failure")?,
            HealthState::Retrying { attempts, .. } => write!(f, "retrying after {attempts} failures")?,
            HealthState::Gone => f.write_str("gone")?,
            HealthState::Stopped => f.write_str("stopped")?,
        }
        match (self.unreadable, &self.last_poison) {
            (0, _) => {}
            (1, Some(bad)) => write!(f, ", except for an object that cannot be decoded ({bad})")?,
            (count, Some(bad)) => {
                write!(f, ", except for {count} objects that cannot be decoded (last {bad})")?;
            }
            (count, None) => write!(f, ", except for objects that cannot be decoded ({count})")?,
        }
        match &self.problem {
            Some(problem) => write!(f, ": {}", problem.message),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_reads_as_one_line() {
        let now = Instant::now();
        let mut health = Health::default();
        assert_eq!(health.to_string(), "starting");
        health.state = HealthState::Listing { items: 7 };
        assert_eq!(health.to_string(), "listing, 7 objects so far");
        health.state = HealthState::Retrying { since: now, attempts: 2, next: now };
        health.problem = Some(Problem { message: "no route".to_owned(), since: now, count: 2 });
        assert_eq!(health.to_string(), "retrying after 2 failures: no route");
        assert!(!health.is_ok());
        let ok = Health { state: HealthState::Synced, ..Health::default() };
        assert!(ok.is_ok());
    }
}
