//! `dogwatch completion`: a script that completes the command line in a shell.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Where to put the script:
  bash   dogwatch completion bash \\
           > ~/.local/share/bash-completion/completions/dogwatch
  zsh    dogwatch completion zsh > \"${fpath[1]}/_dogwatch\"
  fish   dogwatch completion fish > ~/.config/fish/completions/dogwatch.fish

Only in this shell, to try it:
  source <(dogwatch completion bash)
  dogwatch completion fish | source";

/// Print a script that completes the command line in a shell.
///
/// Put it where the shell looks for such scripts, which is listed below: shells that you start from
/// then on complete commands, flags and their values. Print it again after an update of dogwatch.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "completions", after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell.
    shell: Shell,
}

/// Prints the script for a command.
pub(crate) fn run(options: &Options, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_owned();
    // The generator panics if it cannot write, as to a closed stdout.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    let mut out = io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}
