//! What goes wrong on purpose: until the lab is joined in, nothing.

use std::time::Duration;

use bytes::Bytes;

use crate::refusal::Refusal;

/// What a request is about, for rules.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The verb of the API.
    pub verb: &'a str,
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The plural of the resource.
    pub resource: &'a str,
    /// The namespace.
    pub namespace: Option<&'a str>,
    /// The object.
    pub name: Option<&'a str>,
    /// The part of the object; empty for the object itself.
    pub part: &'a str,
    /// Who asks.
    pub user: &'a str,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Act {
    /// It is carried out.
    Proceed,
    /// It is refused.
    Refuse {
        /// With these words.
        refusal: Refusal,
        /// To be tried again after so many seconds.
        retry_after: Option<u32>,
    },
    /// The connection is cut before it is carried out.
    ResetBefore,
    /// The connection is cut after it was carried out.
    ResetAfter,
}

/// What happens to a watch from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disturbance {
    /// It ends.
    Drop,
    /// It sends a bookmark now.
    Bookmark,
}

/// What goes wrong on purpose.
#[derive(Clone, Debug, Default)]
pub struct Lab {}

/// What goes wrong with one watch.
#[derive(Debug)]
pub struct WatchLab {}

impl Lab {
    /// How long a request waits, and what becomes of it.
    pub fn decide(&self, _call: &Call<'_>) -> (Option<Duration>, Act) {
        (None, Act::Proceed)
    }

    /// What goes wrong with a watch.
    pub fn watch(&self, _call: &Call<'_>) -> WatchLab {
        WatchLab {}
    }
}

impl WatchLab {
    /// Waits while delivery is held up; false where the watch ends.
    pub async fn gate(&mut self) -> bool {
        true
    }

    /// Resolves when something happens to the watch.
    pub async fn disturbed(&mut self) -> Disturbance {
        std::future::pending().await
    }

    /// Whether the end of the watch is a cut of its connection.
    pub fn cuts(&self) -> bool {
        false
    }

    /// How many events the next delivery may hold at most.
    pub fn room(&self) -> usize {
        usize::MAX
    }

    /// Tells how many events were delivered.
    pub fn told(&mut self, _events: usize) {}

    /// How the pieces of one delivery are written.
    pub fn frames(&self, frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        vec![frames]
    }
}

/// Where the paths of the lab begin.
pub const PREFIX: &str = "/_dogwatch/";

/// Answers a request to a path below [`PREFIX`].
pub fn admin(
    _method: &str,
    _path: &str,
    _body: &[u8],
    _lab: &Lab,
    _cluster: &crate::cluster::Cluster,
) -> (u16, serde_json::Value) {
    (404, serde_json::Value::Null)
}
