//! Files that other processes read: each is replaced atomically, and accessible to the user and the
//! group only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Replaces a file atomically: a reader sees the old or the new content.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        make_directory(directory)?;
    }
    let (mut file, beside) = file_beside(path)?;
    let written =
        file.write_all(text).and_then(|()| allow_group(&file)).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // If writing fails, removing often fails too; the first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Creates a file with a unique name in the same directory.
fn file_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}-{number}", std::process::id()));
        let beside = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file.map(|it| (it, beside)),
        }
    }
}

#[cfg(unix)]
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o750).create(path)
}

#[cfg(not(unix))]
fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Makes a file accessible to the user and the group, like kubectl's.
#[cfg(unix)]
fn allow_group(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o660))
}

#[cfg(not(unix))]
fn allow_group(_: &File) -> io::Result<()> {
    Ok(())
}
