//! Program lookup and path normalisation, like Go's `exec.LookPath` and `filepath.Clean`.

use std::env;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf, is_separator};

/// Returns the program of a command: the command itself if it is a path, otherwise the first match
/// in the search path.
///
/// Relative directories of the search path are skipped: the result must not depend on the working
/// directory. Reads the file system, so it must run on a thread that may block.
pub(super) fn look_path(command: &str, search: Option<&OsStr>) -> Option<PathBuf> {
    if command.chars().any(is_separator) {
        return executable(Path::new(command));
    }
    env::split_paths(search?)
        .filter(|directory| directory.is_absolute())
        .find_map(|directory| executable(&directory.join(command)))
}

/// Returns the shortest equivalent path, without using the file system.
pub(super) fn clean(path: &str) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match cleaned.components().next_back() {
                Some(Component::Normal(_)) => {
                    cleaned.pop();
                }
                Some(Component::RootDir | Component::Prefix(_)) => {}
                _ => cleaned.push(component),
            },
            other => cleaned.push(other),
        }
    }
    if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned }
}

#[cfg(unix)]
fn executable(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = path.metadata().ok()?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

#[cfg(not(unix))]
fn executable(path: &Path) -> Option<PathBuf> {
    // Without an executable bit, the file extension decides.
    let endings = env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    let with_ending = endings.split(';').map(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    });
    let as_is = path.extension().is_some().then(|| path.to_owned());
    as_is.into_iter().chain(with_ending).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_without_the_file_system() {
        let cases = [
            ("", "."),
            (".", "."),
            ("aws", "aws"),
            ("./aws", "aws"),
            ("a//b/", "a/b"),
            ("a/../b", "b"),
            ("../a", "../a"),
            ("../../a", "../../a"),
            ("/../a", "/a"),
            ("/a/./b/../c", "/a/c"),
            ("a/..", "."),
        ];
        for (path, expected) in cases {
            assert_eq!(clean(path).to_str(), Some(expected), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_an_executable_file_in_an_absolute_directory_is_found() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let put = |directory: &str, name: &str, mode| {
            let directory = home.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(name), "").unwrap();
            fs::set_permissions(directory.join(name), Permissions::from_mode(mode)).unwrap();
        };
        put("first", "tool", 0o644);
        put("second", "tool", 0o755);
        fs::create_dir_all(home.path().join("first/folder")).unwrap();
        let search = env::join_paths([
            PathBuf::from("relative"),
            PathBuf::new(),
            home.path().join("first"),
            home.path().join("second"),
        ])
        .unwrap();

        let second = home.path().join("second/tool");
        assert_eq!(look_path("tool", Some(&search)), Some(second.clone()));
        assert_eq!(look_path("folder", Some(&search)), None);
        assert_eq!(look_path("missing", Some(&search)), None);
        assert_eq!(look_path("tool", None), None);
        assert_eq!(look_path(second.to_str().unwrap(), None), Some(second));
        assert_eq!(look_path(home.path().join("first/tool").to_str().unwrap(), Some(&search)), None);
    }
}
