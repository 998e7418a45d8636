//! Finding and reading the kubeconfig files (rules KC-1 and KC-10).
//!
//! Only reads; validation happens later, for the entries in use. It writes one thing: a kubeconfig
//! at the path of very old tools is copied to today's path.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::warn;

use super::environment::{Environment, KUBECONFIG};
use super::error::{ConfigError, FileError};
use super::kubeconfig::Kubeconfig;
use super::yaml;

/// The result of loading the kubeconfig files.
///
/// ```
/// use dogwatch_client::config::{Environment, Kubeconfig};
///
/// let environment = Environment::empty().with_var("KUBECONFIG", "/does/not/exist");
/// let loaded = Kubeconfig::load(&environment, None)?;
/// assert!(loaded.files.is_empty() && loaded.broken.is_empty());
/// assert_eq!(loaded.missing.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// All readable files merged; the first file that defines an entry wins, and paths are
    /// absolute.
    pub kubeconfig: Kubeconfig,
    /// The files that were read, in order of precedence.
    pub files: Vec<PathBuf>,
    /// The files that do not exist.
    pub missing: Vec<PathBuf>,
    /// The files that exist and cannot be used. Without them the others may mean something else: do
    /// not ignore these errors.
    pub broken: Vec<FileError>,
}

impl Kubeconfig {
    /// Reads one file. Its entries record it as their origin; paths in them stay as written until
    /// [`resolve_paths`](Self::resolve_paths).
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        match read(path) {
            Ok(Some(kubeconfig)) => Ok(kubeconfig),
            Ok(None) => Err(ConfigError::Files(vec![FileError::new("does not exist").in_file(path)])),
            Err(error) => Err(ConfigError::Files(vec![error])),
        }
    }

    /// Reads the kubeconfig files: `explicit` alone, which must exist; or those that `KUBECONFIG`
    /// lists; or `.kube/config` of the home directory. Missing files are skipped, broken ones are
    /// reported in the result.
    ///
    /// First, whichever files are read, `.kube/.kubeconfig` of the home directory is copied to
    /// `.kube/config` if only the former exists, as kubectl does (`Migrate` in client-go v0.36.4
    /// `tools/clientcmd/loader.go`). If that fails, a warning is logged and the old file is read
    /// instead of the new one.
    pub fn load(environment: &Environment, explicit: Option<&Path>) -> Result<Loaded, ConfigError> {
        let home = environment.kube_dir().map(Home::new);
        if let Some(home) = &home {
            home.migrate();
        }
        if let Some(path) = explicit.filter(|path| !path.as_os_str().is_empty()) {
            let mut kubeconfig = Self::read(path)?;
            kubeconfig.resolve_paths();
            return Ok(Loaded { kubeconfig, files: vec![path.to_owned()], ..Loaded::default() });
        }
        let listed = environment.var(KUBECONFIG);
        let mut loaded = match listed {
            Some(list) => read_all(&distinct(std::env::split_paths(list))),
            None => home.map(|it| it.read()).unwrap_or_default(),
        };
        if listed.is_some() && loaded.files.is_empty() && !loaded.missing.is_empty() {
            warn!(missing = ?loaded.missing, "none of the files in KUBECONFIG exist");
        }
        loaded.kubeconfig.resolve_paths();
        Ok(loaded)
    }
}

/// Returns the paths in order, without empty and repeated ones.
fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for path in paths {
        if !path.as_os_str().is_empty() && !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

/// The kubeconfig in the home directory, and the one that very old tools wrote.
struct Home {
    config: PathBuf,
    legacy: PathBuf,
}

impl Home {
    fn new(kube_dir: PathBuf) -> Self {
        Self { config: kube_dir.join("config"), legacy: kube_dir.join(".kubeconfig") }
    }

    fn read(&self) -> Loaded {
        let loaded = read_all(std::slice::from_ref(&self.config));
        if loaded.missing.is_empty() {
            return loaded;
        }
        // The old file is still alone only if the copy failed.
        let legacy = read_all(std::slice::from_ref(&self.legacy));
        if legacy.missing.is_empty() { legacy } else { loaded }
    }

    /// Copies the old file to the new path if nothing is there. Does nothing if either cannot be
    /// accessed.
    fn migrate(&self) {
        let nothing_there = matches!(fs::metadata(&self.config), Err(error) if is_missing(&error));
        let (true, Ok(legacy)) = (nothing_there, fs::metadata(&self.legacy)) else { return };
        let copied = match legacy.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => self.copy(legacy.permissions()),
        };
        if let Err(error) = copied {
            let (from, to) = (self.legacy.display(), self.config.display());
            warn!(%from, %to, %error, "cannot copy the kubeconfig from its old path; copy or remove it manually");
        }
    }

    /// Writes the copy to a temporary file and hard-links it to its name, unless another process
    /// was faster: readers never see a partial file, and no file is overwritten.
    fn copy(&self, permissions: Permissions) -> io::Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let text = fs::read(&self.legacy)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = self.config.with_file_name(format!("config.{}-{number}", std::process::id()));
        let mut file = new_file(&beside, &permissions)?;
        let named = file.write_all(&text).and_then(|()| fs::hard_link(&beside, &self.config));
        // If this fails too, the first error is the one to report.
        let _ = fs::remove_file(&beside);
        match named {
            Err(_) if self.config.exists() => Ok(()),
            named => named,
        }
    }
}

/// Returns true if there is no such file. A home such as `/dev/null`, which some images have, is
/// not a directory.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Creates a file that is readable only by those who can read the old one. client-go leaves that to
/// the umask (`os.WriteFile` with 0666), which can make a private kubeconfig world-readable.
fn new_file(path: &Path, permissions: &Permissions) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        options.mode(permissions.mode() & 0o666);
    }
    #[cfg(not(unix))]
    let _ = permissions;
    options.open(path)
}

fn read_all(paths: &[PathBuf]) -> Loaded {
    let mut loaded = Loaded::default();
    for path in paths {
        match read(path) {
            Ok(Some(kubeconfig)) => {
                loaded.kubeconfig.merge(kubeconfig);
                loaded.files.push(path.clone());
            }
            Ok(None) => loaded.missing.push(path.clone()),
            Err(error) => loaded.broken.push(error),
        }
    }
    loaded
}

/// Reads one file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Kubeconfig>, FileError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(FileError::new(format!("cannot be read: {error}")).in_file(path)),
    };
    let mut kubeconfig = yaml::parse_bytes(&bytes).map_err(|error| error.in_file(path))?;
    kubeconfig.set_origin(path);
    Ok(Some(kubeconfig))
}
