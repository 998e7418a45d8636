//! Files that only their owner can read, such as a kubeconfig with credentials.

use std::io::{self, Write};
use std::path::Path;

/// Writes a file that only its owner can read, atomically. A symbolic link is followed.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match std::fs::canonicalize(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        target => target?,
    };
    // A device or a pipe would be replaced by the file: /dev/stdout would be gone for all
    // processes.
    match std::fs::metadata(&target) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a regular file")),
        _ => {}
    }
    let file = target.as_path();
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Checked separately because the error of a temporary file would name that file, which the user
    // does not know.
    std::fs::metadata(folder)?;
    let plain = |error: io::Error| io::Error::from(error.kind());
    // Temporary files are created with mode 0600.
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(plain)?;
    draft.write_all(bytes).map_err(plain)?;
    draft.persist(file).map_err(|it| plain(it.error))?;
    Ok(())
}
