//! Finding a Chromium on this machine.

use std::path::PathBuf;

/// The names of Chromium executables.
pub(crate) const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

/// Returns the first Chromium in PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.into_iter().find(|it| it.is_file())
}

/// Prints that there is none, and what to do.
pub(crate) fn report_missing() {
    println!("skipped: there is no Chromium in PATH ({})", NAMES.join(", "));
    println!("install one, or pass its path with --chromium FILE");
}
