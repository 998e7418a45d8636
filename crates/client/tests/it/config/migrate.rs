//! A kubeconfig at the path of very old tools is copied to today's path (rule KC-10).

use std::fs;
use std::path::PathBuf;

use dogwatch_client::config::{Environment, Kubeconfig, Loaded};

use super::{Files, warnings_of};

fn at_home(files: &Files) -> Environment {
    Environment::empty().with_home(files.path(""))
}

fn load(environment: &Environment) -> Loaded {
    Kubeconfig::load(environment, None).unwrap()
}

/// Returns a kubeconfig that sets only its current context, with a comment that only a byte-by-byte
/// copy keeps.
fn choosing(context: &str) -> String {
    format!("# by hand\ncurrent-context: {context}\n")
}

fn chosen(loaded: &Loaded) -> Option<&str> {
    loaded.kubeconfig.current_context.as_deref()
}

/// Lists a directory, sorted by name.
fn listing(directory: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn kc_10_migrating_file() {
    let files = Files::new();
    files.write(".kube/.kubeconfig", &choosing("legacy"));
    let mut loaded = Loaded::default();
    let warnings = warnings_of(|| loaded = load(&at_home(&files)));
    assert_eq!(chosen(&loaded), Some("legacy"));
    assert_eq!(loaded.files, [files.path(".kube/config")]);
    assert_eq!(fs::read_to_string(files.path(".kube/config")).unwrap(), choosing("legacy"));
    assert_eq!(
        listing(files.path(".kube")),
        [".kubeconfig", "config"],
        "the old one stays, and no other file is left"
    );
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn kc_10_migrating_file_leave_existing_file_alone() {
    let files = Files::new();
    files.write(".kube/.kubeconfig", &choosing("legacy"));
    // Even an empty one.
    for existing in [choosing("existing"), String::new()] {
        files.write(".kube/config", &existing);
        load(&at_home(&files));
        assert_eq!(fs::read_to_string(files.path(".kube/config")).unwrap(), existing);
    }
}

#[test]
fn kc_10_migrating_file_source_missing_skip() {
    let files = Files::new();
    fs::create_dir(files.path(".kube")).unwrap();
    let mut loaded = Loaded::default();
    let warnings = warnings_of(|| loaded = load(&at_home(&files)));
    assert_eq!(loaded.missing, [files.path(".kube/config")]);
    assert!(listing(files.path(".kube")).is_empty() && warnings.is_empty());
}

#[test]
fn kc_10_it_is_copied_whichever_files_are_read() {
    for explicit in [true, false] {
        let files = Files::new();
        files.write(".kube/.kubeconfig", &choosing("legacy"));
        let other = files.write("other", &choosing("other"));
        let environment = at_home(&files).with_var("KUBECONFIG", &other);
        let loaded = Kubeconfig::load(&environment, explicit.then_some(other.as_path())).unwrap();
        assert_eq!(chosen(&loaded), Some("other"));
        assert!(files.path(".kube/config").exists(), "explicit: {explicit}");
    }
}

#[test]
fn kc_10_the_copied_file_is_not_validated() {
    let files = Files::new();
    files.write(".kube/.kubeconfig", "clusters:\n- name: [a\n");
    let loaded = load(&at_home(&files));
    assert_eq!(loaded.broken[0].file, Some(files.path(".kube/config")));
    assert!(files.path(".kube/config").exists());
}

#[test]
fn kc_10_concurrent_loads_make_one_copy() {
    let files = Files::new();
    files.write(".kube/.kubeconfig", &choosing("legacy"));
    let environment = at_home(&files);
    let loads = || assert_eq!(chosen(&load(&environment)), Some("legacy"));
    std::thread::scope(|threads| (0..16).for_each(|_| drop(threads.spawn(loads))));
    assert_eq!(listing(files.path(".kube")), [".kubeconfig", "config"]);
}

#[test]
fn kc_10_a_directory_is_not_copied() {
    let files = Files::new();
    fs::create_dir_all(files.path(".kube/.kubeconfig")).unwrap();
    let mut loaded = Loaded::default();
    let warnings = warnings_of(|| loaded = load(&at_home(&files)));
    assert_eq!(loaded.broken[0].file, Some(files.path(".kube/.kubeconfig")));
    assert_eq!(listing(files.path(".kube")), [".kubeconfig"]);
    assert_eq!(warnings.len(), 1);
}

#[cfg(unix)]
#[test]
fn kc_10_the_copy_is_readable_by_no_more_users_than_the_old_file() {
    use std::os::unix::fs::PermissionsExt as _;

    for (original, copy) in [(0o600, 0o600), (0o700, 0o600), (0o640, 0o640), (0o400, 0o400)] {
        let files = Files::new();
        let legacy = files.write(".kube/.kubeconfig", &choosing("legacy"));
        fs::set_permissions(&legacy, fs::Permissions::from_mode(original)).unwrap();
        load(&at_home(&files));
        let mode = fs::metadata(files.path(".kube/config")).unwrap().permissions().mode() & 0o7777;
        // The umask may remove more.
        assert_eq!(mode & !copy, 0, "{original:o} became {mode:o}");
        assert_ne!(mode & 0o400, 0, "{original:o} became {mode:o}");
    }
}

/// Permissions do not stop root. A dangling link stops root as well: its name is taken, although
/// the file does not exist.
#[cfg(unix)]
#[test]
fn kc_10_if_the_copy_fails_a_warning_is_logged_and_the_old_file_is_read() {
    use std::os::unix::fs::PermissionsExt as _;

    let files = Files::new();
    let legacy = files.write(".kube/.kubeconfig", &choosing("legacy"));
    std::os::unix::fs::symlink(files.path("nowhere/config"), files.path(".kube/config")).unwrap();
    fs::set_permissions(files.path(".kube"), fs::Permissions::from_mode(0o500)).unwrap();
    let mut loaded = Loaded::default();
    let warnings = warnings_of(|| loaded = load(&at_home(&files)));
    fs::set_permissions(files.path(".kube"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(chosen(&loaded), Some("legacy"));
    assert_eq!(loaded.files, [legacy]);
    assert_eq!(listing(files.path(".kube")), [".kubeconfig", "config"], "no temporary file is left behind");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    for part in [".kube/.kubeconfig", ".kube/config", "cannot copy", "manually"] {
        assert!(warning.contains(part), "{part:?} is missing in {warning:?}");
    }
}
