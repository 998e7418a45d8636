//! Discovery kept in a directory, in the layout and format of kubectl (rule DI-4).
//!
//! ```text
//! <directory>/servergroups.json                        APIGroupList
//! <directory>/<group>/<version>/serverresources.json   APIResourceList
//! ```
//!
//! A file counts while it is younger than the time to live. A file that cannot be read or makes no sense is a file that
//! is not there; a file that cannot be written is a warning. Nothing here fails.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::document::{GroupList, ResourceList};
use super::files::replace;
use super::model::Discovery;

/// Where discovery is kept between runs, and for how long it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCache {
    /// The directory: one per server. Made when it is not there.
    pub directory: PathBuf,
    /// How long a file counts after it was written. kubectl takes six hours.
    pub ttl: Duration,
    /// Where the server's answers are kept as they came, with their tags, so that one that did not change need not come
    /// again when the files above are too old to count; nowhere unless set. One directory serves many servers.
    pub http_directory: Option<PathBuf>,
}

impl DiskCache {
    /// Keeps discovery in a directory for some time.
    pub fn new(directory: impl Into<PathBuf>, ttl: Duration) -> Self {
        Self { directory: directory.into(), ttl, http_directory: None }
    }

    /// Keeps the answers themselves as well, in another directory. The format is that of kubectl's `~/.kube/cache/http`;
    /// share that only with a kubectl that accepts the same content types, or each drives out the other's answers.
    #[must_use]
    pub fn http(mut self, directory: impl Into<PathBuf>) -> Self {
        self.http_directory = Some(directory.into());
        self
    }
}

/// The directory kubectl keeps a server's discovery in, below for example `~/.kube/cache/discovery`.
///
/// kubectl names it after the address as the kubeconfig writes it; a default port that is written there is not in a
/// [`Url`], and the directories differ then, which only costs a request.
pub fn kubectl_directory(parent: &Path, server: &Url) -> PathBuf {
    let address = server.as_str().trim_start_matches("https://").trim_start_matches("http://");
    let keep = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '/' | '(' | ')');
    let safe: String = address.chars().map(|it| if keep(it) { it } else { '_' }).collect();
    parent.join(safe.trim_matches('/'))
}

/// The directory, and which of its files are by this process.
#[derive(Debug)]
pub(crate) struct Disk {
    settings: DiskCache,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    files: HashSet<PathBuf>,
    /// From now on only files of this process count.
    invalidated: bool,
}

/// Groups and versions.
pub(crate) type Versions = Vec<(String, String)>;

/// What the directory holds.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) discovery: Discovery,
    /// Versions of the group list without a file that counts.
    pub(crate) missing: Versions,
    /// Whether this process wrote all of it since it was last told to forget.
    pub(crate) ours: bool,
    /// How long all of it still counts.
    pub(crate) left: Duration,
}

impl Disk {
    pub(crate) fn new(settings: DiskCache) -> Self {
        Self { settings, own: Mutex::default() }
    }

    /// From now on only files that are written after this, and by this process, count.
    pub(crate) fn invalidate(&self) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Own { files: HashSet::new(), invalidated: true };
    }

    /// Reads the directory, away from the async workers. `None` without a group list that counts.
    pub(crate) async fn read(self: &Arc<Self>) -> Option<Kept> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.read_now()).await.ok().flatten()
    }

    /// Writes what is known and not empty: everything and the group list, or only some versions. Runs to its end even
    /// if nobody waits for it.
    pub(crate) async fn write(self: &Arc<Self>, discovery: Arc<Discovery>, only: Option<Versions>) {
        let this = Arc::clone(self);
        // The task does not panic; if the runtime is going away, nothing is kept.
        let _ = tokio::task::spawn_blocking(move || this.write_now(&discovery, only.as_ref())).await;
    }

    fn read_now(&self) -> Option<Kept> {
        let mut kept = Kept {
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

    /// One file, if it counts and makes sense; whose it is and how old it is goes into `kept`.
    fn read_file<T: DeserializeOwned + Document>(&self, path: &Path, kept: &mut Kept) -> Option<T> {
        let ours = {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
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
            tracing::debug!(path = %path.display(), "a file of the discovery cache makes no sense");
        }
        let document = document?;
        kept.ours &= ours;
        kept.left = kept.left.min(left);
        Some(document)
    }

    fn write_now(&self, discovery: &Discovery, only: Option<&Versions>) {
        if let Err((path, error)) = self.try_write(discovery, only) {
            tracing::warn!(path = %path.display(), %error, "cannot keep discovery on disk; going on without");
        }
    }

    /// Stops at the first file that cannot be written: the next one hardly could be.
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
        // The group list comes last: whoever finds it finds the others.
        if only.is_none() && !discovery.groups.is_empty() {
            self.write_file(&self.group_file(), &GroupList::of(&discovery.groups))?;
        }
        Ok(())
    }

    fn write_file(&self, path: &Path, document: &impl Serialize) -> Result<(), (PathBuf, io::Error)> {
        let text = serde_json::to_vec(document).expect("plain structs of text always have a JSON form");
        if !renewed(path, &text) {
            replace(path, &text).map_err(|error| (path.to_owned(), error))?;
        }
        self.own.lock().unwrap_or_else(PoisonError::into_inner).files.insert(path.to_owned());
        Ok(())
    }

    fn group_file(&self) -> PathBuf {
        self.settings.directory.join("servergroups.json")
    }

    /// The file of a version, unless the server chose names that would lead out of the directory.
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

/// A file that may be cut short or be something else.
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

/// Makes a file young again if it says what it should: replacing it would cost a flush of the disk.
fn renewed(path: &Path, text: &[u8]) -> bool {
    fs::read(path).is_ok_and(|it| it == text)
        && File::options().write(true).open(path).and_then(|it| it.set_modified(SystemTime::now())).is_ok()
}
