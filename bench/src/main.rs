//! The benchmarks of this repository: `cargo xtask bench NAME`, which builds this program in
//! release mode.
//!
//! A benchmark is a file or a directory next to this one and an entry in [`ALL`]. The peers that it
//! is compared with are in `bench/peers`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark reports to the terminal")]

mod pods;
mod server_pods;
mod sample;
mod wire;
mod strings;
mod workqueue;
mod notifier;
mod apiserver;
mod informer;
mod live_page;
mod peers;
mod proxy;
mod grpc;

use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;

/// Measures dogwatch and compares it with its peers.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench", max_term_width = 100, disable_help_subcommand = true)]
struct Arguments {
    /// The benchmark to run. Without a name, the benchmarks are listed.
    name: Option<String>,
    /// Arguments for the benchmark.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// One benchmark.
struct Bench {
    name: &'static str,
    /// One line about what it measures.
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

/// Every benchmark, in the order in which they are listed.
const ALL: &[Bench] = &[
    Bench {
        name: "wire",
        about: "decode lists and watches of pods, compared with serde_json",
        run: |_| wire::run(),
    },
    Bench {
        name: "strings",
        about: "decode views of pods with strings of their own and shared ones, and count their memory",
        run: |_| strings::run(),
    },
    Bench {
        name: "workqueue",
        about: "pass keys through the work queue, compared with client-go and controller-runtime",
        run: workqueue::run,
    },
    Bench {
        name: "notifier",
        about: "notify a thousand listeners of a change, compared with tokio's watch channel",
        run: notifier::run,
    },
    Bench {
        name: "apiserver",
        about: "start our API server and load it up to a thousand watchers, compared with kube-apiserver",
        run: apiserver::run,
    },
    Bench {
        name: "informer",
        about: "measure updates, reads, notifications and memory of an informer, compared with client-go and kube-rs",
        run: informer::run,
    },
    Bench {
        name: "live-page",
        about: "measure what the numbers of the live page cost a program, read and not read",
        run: live_page::run,
    },
    Bench {
        name: "peers",
        about: "sync an informer of pods and follow it, compared with client-go, kube-rs and curl",
        run: peers::run,
    },
    Bench {
        name: "proxy",
        about: "watch pods with thousands of watchers, directly and through a proxy that caches them",
        run: proxy::run,
    },
    Bench {
        name: "grpc",
        about: "measure picks, calls, and calls while endpoints change and fail, compared with tonic and kuberesolver",
        run: grpc::run,
    },
    Bench {
        name: "pods",
        about: "write a list of realistic pods to a file or standard output",
        run: sample::run,
    },
];

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the named benchmark, or lists all of them.
fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Some(name) = &arguments.name else {
        for Bench { name, about, .. } in ALL {
            println!("{name:10} {about}");
        }
        return Ok(());
    };
    match ALL.iter().find(|it| it.name == name) {
        Some(bench) => (bench.run)(&arguments.arguments),
        None => bail!("there is no benchmark `{name}`; `cargo xtask bench` lists all of them"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_unknown_benchmark_is_an_error() {
        let arguments = Arguments::parse_from(["bench", "nonsense"]);
        assert!(run(&arguments).is_err_and(|it| it.to_string().contains("`nonsense`")));
    }
}
