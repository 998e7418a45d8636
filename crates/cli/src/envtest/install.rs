//! The folder for `KUBEBUILDER_ASSETS`: links to this program under the names of two others.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::failure::Reason;

/// Creates the folder and its links of these names, and returns its absolute path. Links of an
/// earlier call are replaced; other files are kept, and are an error.
///
/// # Errors
/// Returns an error that names the file which cannot be created, or is not a link.
pub(super) fn install(folder: &Path, program: &Path, names: &[&str]) -> anyhow::Result<PathBuf> {
    let folder =
        std::path::absolute(folder).with_context(|| format!("no such path: {}", folder.display()))?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for name in names {
        let place = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        replace(&place, program).with_context(|| format!("cannot create {}", place.display()))?;
    }
    Ok(folder)
}

/// Links to the program. The link is renamed into its place, so that a test suite that starts at
/// the same time finds the old one or the new one.
fn replace(place: &Path, program: &Path) -> anyhow::Result<()> {
    match std::fs::symlink_metadata(place) {
        Ok(found) if !is_ours(&found) => {
            let text = "a file of this name exists, for example kube-apiserver itself; choose another folder";
            return Err(Reason::from(text).into());
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let draft = place.with_extension(format!("new-{}", std::process::id()));
    link(program, &draft)?;
    std::fs::rename(&draft, place).inspect_err(|_| {
        // The error of the rename is the one to report.
        let _ = std::fs::remove_file(&draft);
    })?;
    Ok(())
}

#[cfg(unix)]
fn is_ours(found: &std::fs::Metadata) -> bool {
    found.is_symlink()
}

/// Symbolic links need a privilege on Windows, where the program is copied.
#[cfg(windows)]
fn is_ours(found: &std::fs::Metadata) -> bool {
    found.is_file()
}

#[cfg(unix)]
fn link(program: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, place)
}

#[cfg(windows)]
fn link(program: &Path, place: &Path) -> io::Result<()> {
    std::fs::copy(program, place).map(|_| ())
}

/// Returns the default folder: that of the user's data.
///
/// # Errors
/// Returns an error if the environment names no home folder.
pub(super) fn default_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let absolute = |name| variable(name).filter(|it| it.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("LOCALAPPDATA"))
        .or_else(|| absolute("HOME").map(|it| it.join(".local").join("share")));
    let data = data.context("there is no folder for data: name a folder, or set HOME")?;
    Ok(data.join("dogwatch").join("envtest"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["kube-apiserver", "etcd"];

    #[test]
    fn a_second_installation_replaces_the_links_of_the_first() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a").join("b");
        for program in ["/usr/bin/first", "/usr/bin/second"] {
            let found = install(&folder, Path::new(program), &NAMES).unwrap();
            for name in NAMES {
                assert_eq!(std::fs::read_link(found.join(name)).unwrap(), Path::new(program));
            }
            assert_eq!(std::fs::read_dir(&found).unwrap().count(), NAMES.len());
        }
    }

    #[test]
    fn a_program_that_is_there_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("kube-apiserver"), "the original").unwrap();
        let error = install(scratch.path(), Path::new("/usr/bin/dogwatch"), &NAMES).unwrap_err();
        assert!(format!("{error:#}").contains("kube-apiserver: a file of this name exists"), "{error:#}");
        let kept = std::fs::read_to_string(scratch.path().join("kube-apiserver")).unwrap();
        assert_eq!(kept, "the original");
    }

    #[test]
    fn the_default_is_in_the_folder_for_data() {
        let of = |name: &'static str, path: &'static str| {
            default_folder(move |it| (it == name).then(|| PathBuf::from(path))).ok()
        };
        assert_eq!(of("XDG_DATA_HOME", "/data").unwrap(), Path::new("/data/dogwatch/envtest"));
        assert_eq!(
            of("HOME", "/users/jane").unwrap(),
            Path::new("/users/jane/.local/share/dogwatch/envtest")
        );
        assert_eq!(of("XDG_DATA_HOME", "relative"), None);
    }
}
