//! The settings of the HTTP service.

use std::time::Duration;

use super::list_memory::ListMemory;

/// The settings of the HTTP service. Paths in the docs of defaults are of k8s.io/apiserver v0.36.4.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The interval of bookmarks for watches that allow them. Defaults to one minute, as in
    /// kube-apiserver (`defaultBookmarkFrequency` in pkg/storage/cacher/cacher.go).
    pub bookmark_period: Duration,
    /// The minimum duration of a watch without a timeout; it ends at a random time before twice
    /// that. Defaults to 30 minutes, as in kube-apiserver (`MinRequestTimeout` in
    /// pkg/server/config.go).
    pub watch_timeout: Duration,
    /// The maximum size of a request body. Defaults to 3 MiB, as in kube-apiserver
    /// (`MaxRequestBodyBytes` in pkg/server/config.go).
    pub body_limit: usize,
    /// The maximum number of bytes of all request bodies in memory; further requests get 429.
    /// Defaults to 256 MiB.
    pub bodies_limit: usize,
    /// The same limit for the bodies of one connection. Defaults to 64 MiB.
    pub connection_bodies_limit: usize,
    /// A name or address of the server, besides its own addresses, that requests without
    /// credentials may use as host. Defaults to none.
    pub advertised: Option<String>,
    /// The time limit for a body to arrive. Defaults to one minute, as in kube-apiserver
    /// (`RequestTimeout` in pkg/server/config.go).
    pub body_timeout: Duration,
    /// The time that a request for a future version waits for it. Defaults to 3 s, as in
    /// kube-apiserver (`blockTimeout` in pkg/storage/cacher/watch_cache.go).
    pub version_wait: Duration,
    /// The size above which responses are compressed for clients that accept gzip. Defaults to 128
    /// KiB, as in kube-apiserver (`defaultGzipThresholdBytes` in
    /// pkg/endpoints/handlers/responsewriters/writers.go).
    pub gzip_from: usize,
    /// Exposes the fault-injection API over HTTP. Defaults to false.
    pub fault_admin: bool,
    /// Honours `shardSelector` in lists and watches. Defaults to false, as in kube-apiserver.
    pub sharding: bool,
    /// The memory for lists that have not been sent. Defaults to no limit.
    pub list_memory: Option<ListMemory>,
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
            list_memory: None,
        }
    }
}
