//! The settings of a mirror.

use std::time::Duration;

use crate::http::{ListMemory, Settings};
use crate::store::CopyLimits;

/// The settings of a mirror. Every field has a default; `http/settings.rs` names the sources of
/// those of kube-apiserver.
///
/// ```
/// use dogwatch_apiserver::mirror::MirrorSettings;
/// use std::time::Duration;
///
/// let mut settings = MirrorSettings::default();
/// settings.history_age = Duration::from_secs(60);
/// assert!(settings.protobuf);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MirrorSettings {
    /// The interval of bookmarks for watches that allow them. Defaults to one minute, as in
    /// kube-apiserver.
    pub bookmark_period: Duration,
    /// The minimum duration of a watch without a timeout; it ends at a random time before twice
    /// that. Defaults to 30 minutes, as in kube-apiserver.
    pub watch_timeout: Duration,
    /// The time that a request for a version that the mirror has not reached waits for it. Defaults
    /// to 3 s, as in kube-apiserver.
    pub version_wait: Duration,
    /// The size in bytes above which responses are compressed for clients that accept gzip.
    /// Defaults to 128 KiB, as in kube-apiserver.
    pub gzip_from: usize,
    /// Offers whole objects of the kinds of Kubernetes in protobuf. Defaults to true. To be
    /// switched off for a server whose objects have fields that are not known here: it is fed in
    /// JSON, and its objects have no other encoding.
    pub protobuf: bool,
    /// The maximum number of changes that a watch can resume from. Defaults to 100,000.
    pub history_changes: usize,
    /// The maximum size in bytes of these changes. Defaults to 64 MiB.
    pub history_bytes: usize,
    /// The maximum age of these changes. Defaults to five minutes.
    pub history_age: Duration,
    /// The maximum size in bytes of the objects that are kept for one view, as it shows them.
    /// Defaults to 16 MiB.
    pub view_bytes: usize,
    /// The memory for lists that have not been sent, which several mirrors may share. Defaults to
    /// no limit.
    pub list_memory: Option<ListMemory>,
}

impl Default for MirrorSettings {
    fn default() -> Self {
        let (http, limits) = (Settings::default(), CopyLimits::default());
        Self {
            bookmark_period: http.bookmark_period,
            watch_timeout: http.watch_timeout,
            version_wait: http.version_wait,
            gzip_from: http.gzip_from,
            protobuf: true,
            history_changes: limits.changes,
            history_bytes: limits.bytes,
            history_age: Duration::from_secs(5 * 60),
            view_bytes: 16 << 20,
            list_memory: None,
        }
    }
}

impl MirrorSettings {
    /// Returns the settings of the read path.
    pub(super) fn http(&self) -> Settings {
        Settings {
            bookmark_period: self.bookmark_period,
            watch_timeout: self.watch_timeout,
            version_wait: self.version_wait,
            gzip_from: self.gzip_from,
            list_memory: self.list_memory.clone(),
            ..Settings::default()
        }
    }

    /// Returns the limits of the history.
    pub(super) fn limits(&self) -> CopyLimits {
        CopyLimits { changes: self.history_changes, bytes: self.history_bytes }
    }
}
