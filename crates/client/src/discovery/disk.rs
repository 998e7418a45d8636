//! The discovery cache on disk, in the layout and format of kubectl (rule DI-4).
//!
//! ```text
//! <directory>/servergroups.json                        APIGroupList
//! <directory>/<group>/<version>/serverresources.json   APIResourceList
//! ```
//!
//! A file is valid while it is younger than the time to live. A file that cannot be read or parsed
//! counts as missing; a file that cannot be written is logged. Nothing here returns an error.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::document::{GroupList, ResourceList};
use super::files::replace;
use super::model::Discovery;

/// The directory and lifetime of the discovery cache on disk.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::discovery::{CachedDiscovery, DiskCache};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let disk = DiskCache::new("cache/discovery", Duration::from_secs(6 * 60 * 60));
/// let discovery = CachedDiscovery::on_disk(client, disk); // nothing is written yet
/// # let _ = discovery;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// The directory: one per server. Created if it does not exist.
    pub directory: PathBuf,
    /// The time that a file is valid after it was written. kubectl uses six hours.
    pub ttl: Duration,
    /// The directory of the HTTP cache: the server's responses with their ETags, so that an
    /// unchanged one is not transferred again when the files above are too old. Off by default. One
    /// directory serves many servers.
    pub http_directory: Option<PathBuf>,
}

impl DiskCache {
    /// Creates a cache in a directory.
    pub fn new(directory: impl Into<PathBuf>, ttl: Duration) -> Self {
        Self { directory: directory.into(), ttl, http_directory: None }
    }

    /// Caches the HTTP responses as well, in another directory. The format is that of kubectl's
    /// `~/.kube/cache/http`; share that only with a kubectl that accepts the same content types, or
    /// each replaces the other's entries.
    #[must_use]
    pub fn http(mut self, directory: impl Into<PathBuf>) -> Self {
        self.http_directory = Some(directory.into());
        self
    }
}

/// Returns the directory where kubectl caches a server's discovery, below for example
/// `~/.kube/cache/discovery`.
///
/// kubectl names it after the address in the kubeconfig; an explicit default port is not part of a
/// [`Url`], and then the directories differ, which only costs a request.
///
/// ```
/// use std::path::Path;
///
/// use dogwatch_client::discovery::kubectl_directory;
///
/// let parent = Path::new(".kube/cache/discovery");
/// let directory = kubectl_directory(parent, &"https://10.0.0.1:6443".parse()?);
/// assert_eq!(directory.parent(), Some(parent));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn kubectl_directory(parent: &Path, server: &Url) -> PathBuf {
    let address = server.as_str().trim_start_matches("https://").trim_start_matches("http://");
    let keep = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '/' | '(' | ')');
    let safe: String = address.chars().map(|it| if keep(it) { it } else { '_' }).collect();
    parent.join(safe.trim_matches('/'))
}

/// The directory, and the files in it that this process wrote.
#[derive(Debug)]
pub(crate) struct Disk {
    settings: DiskCache,
    own: Mutex<OwnFiles>,
}

#[derive(Debug, Default)]
struct OwnFiles {
    files: HashSet<PathBuf>,
    /// True if only files of this process are valid.
    invalidated: bool,
}

/// Groups and versions.
pub(crate) type Versions = Vec<(String, String)>;

/// The content of the directory.
#[derive(Debug)]
pub(crate) struct CachedFiles {
    pub(crate) discovery: Discovery,
    /// The versions of the group list without a valid file.
    pub(crate) missing: Versions,
    /// True if this process wrote all of it since the last invalidation.
    pub(crate) ours: bool,
    /// The time that all of it is still valid.
    pub(crate) left: Duration,
}

impl Disk {
    pub(crate) fn new(settings: DiskCache) -> Self {
        Self { settings, own: Mutex::default() }
    }

    /// Makes all files invalid, except those that this process writes from now on.
    pub(crate) fn invalidate(&self) {
        let mut own = self.own.lock();
        *own = OwnFiles { files: HashSet::new(), invalidated: true };
    }

    /// Reads the directory, off the async workers. `None` without a valid group list.
    pub(crate) async fn read(self: &Arc<Self>) -> Option<CachedFiles> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.read_now()).await.ok().flatten()
    }

    /// Writes what is known and not empty: everything and the group list, or only some versions.
    /// Runs to its end even if the future is dropped.
    pub(crate) async fn write(self: &Arc<Self>, discovery: Arc<Discovery>, only: Option<Versions>) {
        let this = Arc::clone(self);
        // The task does not panic; if the runtime is shutting down, nothing is written.
        let _ = tokio::task::spawn_blocking(move || this.write_now(&discovery, only.as_ref())).await;
    }

    fn read_now(&self) -> Option<CachedFiles> {
        let mut kept = CachedFiles {
            discovery: Discovery::default(),
            missing: Vec::new(),
            ours: true,
            left: self.settings.ttl,
        };
        let list: GroupList = self.read_file(&self.group_file(), &mut kept)?;
        kept.discovery.groups = list.into_groups();
        if kept.discovery.groups.is_empty() {
            return None;
        }
        let mut groups = std::mem::take(&mut kept.discovery.groups);
        for group in &mut groups {
            for version in &mut group.versions {
                let file = self.version_file(&group.name, &version.version);
                match file.and_then(|it| self.read_file::<ResourceList>(&it, &mut kept)) {
                    Some(list) => *version = list.into_version(&group.name, &version.version),
                    None => kept.missing.push((group.name.clone(), version.version.clone())),
                }
            }
        }
        kept.discovery.groups = groups;
        Some(kept)
    }

    /// Reads one file, if it is valid and complete; its owner and age are recorded in `kept`.
    fn read_file<T: DeserializeOwned + Document>(&self, path: &Path, kept: &mut CachedFiles) -> Option<T> {
        let ours = {
            let own = self.own.lock();
            let ours = own.files.contains(path);
            if own.invalidated && !ours {
                return None;
            }
            ours
        };
        let mut file = File::open(path).ok()?;
        let age =
            SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).unwrap_or_default();
        let left = self.settings.ttl.checked_sub(age).filter(|it| !it.is_zero())?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let document = serde_json::from_slice::<T>(&text).ok().filter(Document::is_whole);
        if document.is_none() {
            tracing::debug!(path = %path.display(), "ignoring an invalid file of the discovery cache");
        }
        let document = document?;
        kept.ours &= ours;
        kept.left = kept.left.min(left);
        Some(document)
    }

    fn write_now(&self, discovery: &Discovery, only: Option<&Versions>) {
        if let Err((path, error)) = self.try_write(discovery, only) {
            tracing::warn!(path = %path.display(), %error, "cannot write the discovery cache, continuing without it");
        }
    }

    /// Stops at the first file that cannot be written: the next one would hardly succeed.
    fn try_write(&self, discovery: &Discovery, only: Option<&Versions>) -> Result<(), (PathBuf, io::Error)> {
        for group in &discovery.groups {
            for version in group.versions.iter().filter(|it| !it.is_empty()) {
                let wanted = |it: &(String, String)| it.0 == group.name && it.1 == version.version;
                if only.is_some_and(|only| !only.iter().any(wanted)) {
                    continue;
                }
                if let Some(file) = self.version_file(&group.name, &version.version) {
                    self.write_file(&file, &ResourceList::of(group, version))?;
                }
            }
        }
        // The group list is written last: a reader that finds it finds the others.
        if only.is_none() && !discovery.groups.is_empty() {
            self.write_file(&self.group_file(), &GroupList::of(&discovery.groups))?;
        }
        Ok(())
    }

    fn write_file(&self, path: &Path, document: &impl Serialize) -> Result<(), (PathBuf, io::Error)> {
        let text = serde_json::to_vec(document).expect("structs of strings always serialise");
        if !touch_if_unchanged(path, &text) {
            replace(path, &text).map_err(|error| (path.to_owned(), error))?;
        }
        self.own.lock().files.insert(path.to_owned());
        Ok(())
    }

    fn group_file(&self) -> PathBuf {
        self.settings.directory.join("servergroups.json")
    }

    /// Returns the file of a version, unless the server's names would lead out of the directory.
    fn version_file(&self, group: &str, version: &str) -> Option<PathBuf> {
        let harmless = |it: &str| {
            let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
            it.chars().all(allowed) && it != "." && it != ".."
        };
        let directory = self.settings.directory.join(group).join(version);
        let named = harmless(group) && harmless(version) && !version.is_empty();
        named.then(|| directory.join("serverresources.json"))
    }
}

/// A document that may be truncated or of another kind.
trait Document {
    fn is_whole(&self) -> bool;
}

impl Document for GroupList {
    fn is_whole(&self) -> bool {
        self.kind == "APIGroupList"
    }
}

impl Document for ResourceList {
    fn is_whole(&self) -> bool {
        self.kind == "APIResourceList" && !self.resources.is_empty()
    }
}

/// Updates the modification time of a file with this content: replacing it would cost a write to
/// disk.
fn touch_if_unchanged(path: &Path, text: &[u8]) -> bool {
    fs::read(path).is_ok_and(|it| it == text)
        && File::options().write(true).open(path).and_then(|it| it.set_modified(SystemTime::now())).is_ok()
}
