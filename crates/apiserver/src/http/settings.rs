//! What can be set about answering.

use std::time::Duration;

/// What can be set about answering requests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often a watch that allows it is sent a bookmark. A minute, as in the original.
    pub bookmark_period: Duration,
    /// The shortest time a watch lasts that does not say how long; it ends at random before twice that. Half an hour, as in
    /// the original.
    pub watch_timeout: Duration,
    /// The longest body that is read. 3 MiB, as in the original.
    pub body_limit: usize,
    /// The bytes of all request bodies that may be in memory at one moment; further requests get 429. Defaults to 256 MiB.
    pub bodies_limit: usize,
    /// The same for the bodies of one connection. Defaults to 64 MiB.
    pub connection_bodies_limit: usize,
    /// A name or an address of the server besides those it knows itself, for requests without credentials. Defaults to none.
    pub advertised: Option<String>,
    /// How long a body may take to arrive. A minute, as in the original.
    pub body_timeout: Duration,
    /// How long a request for a version of the future waits for it. 3 seconds, as in the original.
    pub version_wait: Duration,
    /// Answers longer than this are compressed for those who ask for it. 128 KiB, as in the original.
    pub gzip_from: usize,
    /// Whether the fault lab can be used over HTTP. Not unless somebody says so.
    pub fault_admin: bool,
    /// Whether lists and watches can be of parts of a collection. Not unless somebody says so, as in the original.
    pub sharding: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bookmark_period: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(1800),
            body_limit: 3 * 1024 * 1024,
            bodies_limit: 256 * 1024 * 1024,
            connection_bodies_limit: 64 * 1024 * 1024,
            advertised: None,
            body_timeout: Duration::from_secs(60),
            version_wait: Duration::from_secs(3),
            gzip_from: 128 * 1024,
            fault_admin: false,
            sharding: false,
        }
    }
}
