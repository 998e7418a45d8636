//! The tasks of this repository, the same for people and for CI: `cargo xtask --help`.
//!
//! Each task is one file below. This one only reads the command line and hands over.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task speaks to the terminal")]

mod cargo;
mod go;
mod features;
mod licences;
mod waiting;
mod process;
mod link;
mod server;
mod examples;
mod tables;
mod ci;
mod conformance;
mod soak;
mod controllers;
mod controller_runtime;
mod controller_storm;
mod e2e;
mod browser;
mod follow;
mod bench;
mod sample;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of the dogwatch repository.
///
/// Before you send a change, run `cargo test --workspace` and then `cargo xtask ci`.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every check but the tests: format, tables, lints, docs, models, features, licences, examples.
    Ci(ci::Options),
    /// Build each crate with each of its features alone.
    Features,
    /// Check that every dependency comes under a licence that deny.toml allows.
    Licences,
    /// Run every example, and fail if one fails.
    Examples,
    /// Make the tables of the API server from the facts in crates/apiserver/data.
    Gen(tables::Options),
    /// Run the whole-pipeline suite against a server of your choice.
    Conformance(conformance::Options),
    /// Play random schedules of writes, faults and restarts on informers or controllers; `soak grpc` is of channels.
    Soak(soak::Options),
    /// Run the original kube-controller-manager on our server, and say what it does there.
    OriginalControllers(controllers::Options),
    /// Run the suites of controller-runtime on our server.
    ControllerRuntime(controller_runtime::Options),
    /// Run a controller over many objects on our server in bad weather, and count its reconciles.
    ControllerStorm(controller_storm::Options),
    /// Run tests of the official Kubernetes conformance suite on our server.
    E2e(e2e::Options),
    /// Let web pages in a real Chromium try to use `dogwatch serve`, and fail if one can.
    Browser(browser::Options),
    /// Let kube-rs, client-go and our own client follow a server on which faults run, and compare what they have.
    Follow(follow::Options),
    /// Measure something, in release mode.
    Bench(bench::Options),
    /// Write a list of realistic pods, to try things with.
    Pods(sample::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    // Numbers of a program that was not optimised say nothing.
    if cfg!(debug_assertions) && matches!(task, Task::Bench(_) | Task::ControllerStorm(_)) {
        return cargo::in_release();
    }
    match task {
        Task::Ci(options) => ci::run(&options),
        Task::Features => features::run(),
        Task::Licences => licences::run(),
        Task::Examples => examples::run(),
        Task::Gen(options) => tables::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::OriginalControllers(options) => waiting::wait(controllers::run(&options)),
        Task::ControllerRuntime(options) => waiting::wait(controller_runtime::run(&options)),
        Task::ControllerStorm(options) => controller_storm::run(&options),
        Task::E2e(options) => waiting::wait(e2e::run(&options)),
        Task::Browser(options) => waiting::wait(browser::run(&options)),
        Task::Follow(options) => waiting::wait(follow::run(&options)),
        Task::Bench(options) => bench::run(&options),
        Task::Pods(options) => sample::run(&options),
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
    fn ci_takes_steps_by_name_and_refuses_unknown_ones() {
        assert!(Arguments::try_parse_from(["xtask", "ci"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "ci", "format", "docs"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "ci", "nonsense"]).is_err());
    }

    #[test]
    fn the_original_controllers_must_be_named() {
        assert!(Arguments::try_parse_from(["xtask", "original-controllers"]).is_err());
        let named = ["xtask", "original-controllers", "--kube-controller-manager", "x"];
        assert!(Arguments::try_parse_from(named).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "follow", "--objects", "10"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "browser", "--chromium", "x"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "e2e"]).is_err());
        assert!(Arguments::try_parse_from(["xtask", "e2e", "--e2e-binary", "x", "Watchers"]).is_ok());
    }

    #[test]
    fn the_suites_of_controller_runtime_take_a_checkout_and_packages() {
        assert!(Arguments::try_parse_from(["xtask", "controller-runtime"]).is_err());
        let named = ["xtask", "controller-runtime", "--source", "x", "pkg/client", "pkg/cache"];
        assert!(Arguments::try_parse_from(named).is_ok());
    }

    #[test]
    fn a_soak_takes_a_time_or_a_seed() {
        assert!(Arguments::try_parse_from(["xtask", "soak"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--minutes", "2", "--release"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--seed", "7"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--seed", "7", "--minutes", "2"]).is_err());
    }

    #[test]
    fn a_soak_of_channels_takes_scenarios_by_name_and_nothing_of_informers() {
        for good in [&["--quick"][..], &["rollout"], &["churn", "rollout", "--quick", "--release"], &[]] {
            let words = ["xtask", "soak", "grpc"].iter().chain(good);
            assert!(Arguments::try_parse_from(words).is_ok(), "{good:?}");
        }
        assert!(Arguments::try_parse_from(["xtask", "soak", "grpc", "nonsense"]).is_err());
        assert!(Arguments::try_parse_from(["xtask", "soak", "grpc", "--minutes", "2"]).is_err());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--minutes", "2", "grpc"]).is_err());
    }

    #[test]
    fn conformance_needs_a_kubeconfig() {
        assert!(Arguments::try_parse_from(["xtask", "conformance"]).is_err());
        assert!(
            Arguments::try_parse_from(["xtask", "conformance", "--kubeconfig", "x", "--", "watch"]).is_ok()
        );
    }
}
