//! Which files make up the configuration (rules KC-1 and KC-10), and reading them.
//!
//! Reads only the files; whether what they say makes sense is judged later, by those who use it.

use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::environment::{Environment, KUBECONFIG};
use super::error::{ConfigError, FileError};
use super::kubeconfig::Kubeconfig;
use super::yaml;

/// What the files said, and which could not be asked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// All readable files merged, the first that defines an entry winning; paths are absolute.
    pub kubeconfig: Kubeconfig,
    /// The files that were read, in order of precedence.
    pub files: Vec<PathBuf>,
    /// The files that were looked for and do not exist.
    pub missing: Vec<PathBuf>,
    /// The files that exist and cannot be used. Their absence may change what the others mean: do not go on lightly.
    pub broken: Vec<FileError>,
}

impl Kubeconfig {
    /// Reads one file. Its entries remember it; paths in them stay as written until
    /// [`resolve_paths`](Self::resolve_paths).
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        match read(path) {
            Ok(Some(kubeconfig)) => Ok(kubeconfig),
            Ok(None) => Err(ConfigError::Files(vec![FileError::new("does not exist").in_file(path)])),
            Err(error) => Err(ConfigError::Files(vec![error])),
        }
    }

    /// Reads the files that make up the configuration: `explicit` alone, which must exist; or those that `KUBECONFIG`
    /// lists; or `.kube/config` of the home directory, with `.kube/.kubeconfig` in its place where only that exists.
    /// Missing files are skipped, broken ones are reported beside the rest.
    pub fn load(environment: &Environment, explicit: Option<&Path>) -> Result<Loaded, ConfigError> {
        if let Some(path) = explicit.filter(|path| !path.as_os_str().is_empty()) {
            let mut kubeconfig = Self::read(path)?;
            kubeconfig.resolve_paths();
            return Ok(Loaded { kubeconfig, files: vec![path.to_owned()], ..Loaded::default() });
        }
        let listed = environment.var(KUBECONFIG);
        let mut loaded = match listed {
            Some(list) => read_all(&distinct(std::env::split_paths(list))),
            None => read_home(environment),
        };
        if listed.is_some() && loaded.files.is_empty() && !loaded.missing.is_empty() {
            warn!(missing = ?loaded.missing, "no file that KUBECONFIG lists exists");
        }
        loaded.kubeconfig.resolve_paths();
        Ok(loaded)
    }
}

/// The paths in order, without empty names and repetitions.
fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for path in paths {
        if !path.as_os_str().is_empty() && !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

/// The file in the home directory, or the one that very old tools wrote. That one is read in place, not copied: a
/// library that looks for its settings writes nothing.
fn read_home(environment: &Environment) -> Loaded {
    let Some(directory) = environment.kube_dir() else { return Loaded::default() };
    let loaded = read_all(&[directory.join("config")]);
    if loaded.missing.is_empty() {
        return loaded;
    }
    let legacy = read_all(&[directory.join(".kubeconfig")]);
    if legacy.missing.is_empty() { legacy } else { loaded }
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
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::new(format!("cannot be read: {error}")).in_file(path)),
    };
    let mut kubeconfig = yaml::parse_bytes(&bytes).map_err(|error| error.in_file(path))?;
    kubeconfig.set_origin(path);
    Ok(Some(kubeconfig))
}
