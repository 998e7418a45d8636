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

  Install all pages (`man dogwatch-serve`), for you or for all users:
    dogwatch man ~/.local/share/man/man1
    sudo dogwatch man /usr/local/share/man/man1";

/// Print the manual page, or write one per command into a directory.
///
/// The directory is created if it does not exist. `man` finds pages in directories called man1
/// below those that `manpath` prints.
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

/// Renders the page of a command.
fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let notes = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let has_commands = command.has_subcommands();
    let (man, mut page) = (Man::new(command), Vec::new());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    // The generator would fill the lines of the examples as one paragraph.
    if let Some(notes) = notes {
        writeln!(page, ".SH NOTES\n.nf\n{}\n.fi", verbatim(&notes))?;
    }
    Ok(page)
}

/// Writes the page of a command, and those of the commands below it.
fn write_pages(mut command: clap::Command, directory: &Path) -> io::Result<()> {
    fn write_all(command: &clap::Command, directory: &Path) -> io::Result<()> {
        let file = Man::new(command.clone()).get_filename();
        std::fs::write(directory.join(file), page(command.clone())?)?;
        command.get_subcommands().try_for_each(|it| write_all(it, directory))
    }
    std::fs::create_dir_all(directory)?;
    // So that the commands have their full names.
    command.build();
    write_all(&command, directory)
}

/// Escapes text for roff: a line that begins with a dot or a quote would be a request.
fn verbatim(text: &str) -> String {
    let line = |line: &str| {
        let escaped = line.replace('\\', "\\e").replace('-', "\\-");
        if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
    };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_are_no_requests_of_roff() {
        let command =
            clap::Command::new("a").after_long_help("one\n  two -x\n.so secret\n'quoted\nback\\slash\n");
        let page = String::from_utf8(page(command).expect("written to memory")).expect("text");
        let notes = ".SH NOTES\n.nf\none\n  two \\-x\n\\&.so secret\n\\&'quoted\nback\\eslash\n.fi\n";
        assert!(page.contains(notes), "{page}");
    }
}
