//! Finding a Chromium on this machine.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The names of Chromium executables.
const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

/// The choice of a Chromium.
#[derive(Debug, clap::Args)]
pub(crate) struct ChromiumChoice {
    /// The Chromium to use. Defaults to the first one found in PATH.
    #[arg(long, value_name = "FILE")]
    chromium: Option<PathBuf>,
    /// Fail if there is no Chromium, instead of testing nothing.
    #[arg(long)]
    require_chromium: bool,
}

impl ChromiumChoice {
    /// Returns the Chromium to use. Without one, prints so and returns `None`.
    ///
    /// # Errors
    /// Returns an error if there is none although it is required.
    pub(crate) fn choose(&self) -> Result<Option<PathBuf>> {
        let found = self.chromium.clone().or_else(find);
        if found.is_some() {
            return Ok(found);
        }
        let names = NAMES.join(", ");
        if self.require_chromium {
            bail!(
                "there is no Chromium in PATH ({names}): install one, or pass its path with --chromium FILE"
            );
        }
        println!("skipped: there is no Chromium in PATH ({names})");
        println!("install one, or pass its path with --chromium FILE");
        Ok(None)
    }
}

/// Returns the first Chromium in PATH.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.into_iter().find(|it| it.is_file())
}
