//! `dogwatch man`: manual pages of the command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap_mangen::Man;

const EXAMPLES: &str = "\
Examples:
  Read the main page now:
    dogwatch man | man -l -

  Install all pages for `man dogwatch` and `man dogwatch-serve`, for you or for all users:
    dogwatch man ~/.local/share/man/man1
    sudo dogwatch man /usr/local/share/man/man1";

/// Print the manual page, or write one page per command into a directory.
///
/// The directory is created if it does not exist. `man` finds pages in directories called man1 below
/// those that `manpath` prints.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The directory for the pages, for example ~/.local/share/man/man1. Without it, the main page
    /// goes to stdout.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints or writes the pages of a command.
pub(crate) fn run(options: &Options, command: clap::Command) -> anyhow::Result<ExitCode> {
    // There is no page for `help`, and the build of the command is nothing to read about.
    let command = command.disable_help_subcommand(true);
    let command = command.version(env!("CARGO_PKG_VERSION")).long_version(None);
    match &options.directory {
        None => {
            let page = page(command).context("cannot generate the page")?;
            let mut out = io::stdout().lock();
            out.write_all(&page).and_then(|()| out.flush()).context("cannot write to stdout")?;
        }
        Some(directory) => {
            let written = write_pages(command, directory);
            written.with_context(|| format!("cannot write pages into {}", directory.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}

fn write_pages(command: clap::Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}
