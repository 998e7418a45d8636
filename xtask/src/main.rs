//! The tasks of this repository, the same for people and for CI: `cargo xtask --help`.
//!
//! Checks and generators are files below. Benchmarks and tasks that need other programs are
//! programs of their own, which this one starts, so that it builds in seconds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task reports to the terminal")]

mod features;
mod kubernetes_versions;
mod licences;
mod examples;
mod book;
mod tables;
mod semver;
mod ci;
mod new_operator;
mod publish_check;
mod conformance;
mod programs;
mod soak;
mod controller_storm;

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
    /// Run every check except the tests: format, tables, lints, docs, models, features, licences.
    Ci(ci::Options),
    /// Build each crate with each of its features alone.
    Features,
    /// Check that every dependency has a licence that deny.toml allows.
    Licences,
    /// Look for published advisories on dependencies. Downloads their database.
    Advisories(licences::AdvisoryOptions),
    /// Build the libraries with the types of older versions of Kubernetes.
    KubernetesVersions(kubernetes_versions::Options),
    /// Compare the signatures of the libraries with an earlier revision, by cargo-semver-checks.
    Semver(semver::Options),
    /// Write an operator with `dogwatch new`, build it and run its test.
    NewOperator(new_operator::Options),
    /// Package every crate as for a publication, and upload nothing.
    PublishCheck(publish_check::Options),
    /// Run every example, and fail if one fails.
    Examples,
    /// Build the book in docs/book with mdBook.
    Book(book::Options),
    /// Generate the tables of the API server from the data in crates/apimachinery/data.
    Gen(tables::Options),
    /// Run the whole-pipeline test suite against a server of your choice.
    Conformance(conformance::Options),
    /// Run random schedules of writes, faults and restarts on informers or controllers; `soak grpc`
    /// is for channels.
    Soak(soak::Options),
    /// Run a controller over many objects on a server with injected faults, and count its
    /// reconciles.
    ControllerStorm(controller_storm::Options),
    /// Run a session of a real kubectl on our server, and compare it with one on kube-apiserver.
    #[command(disable_help_flag = true)]
    Kubectl(programs::Arguments),
    /// Run kube-controller-manager on our server and report what it does there.
    #[command(disable_help_flag = true)]
    OriginalControllers(programs::Arguments),
    /// Run the test suites of controller-runtime on our server, through KUBEBUILDER_ASSETS.
    #[command(disable_help_flag = true)]
    ControllerRuntime(programs::Arguments),
    /// Run tests of the official Kubernetes conformance suite on our server.
    #[command(disable_help_flag = true)]
    E2e(programs::Arguments),
    /// Let web pages in a real Chromium try to use `dogwatch serve`, and fail if one can.
    #[command(disable_help_flag = true)]
    Browser(programs::Arguments),
    /// Open the live page of a program in a real Chromium, check it, and save
    /// screenshots.
    #[command(disable_help_flag = true)]
    LivePage(programs::Arguments),
    /// Let kube-rs, client-go and our client follow a server with injected faults, and compare
    /// their caches.
    #[command(disable_help_flag = true)]
    Follow(programs::Arguments),
    /// Run the recorded scenarios, kubectl, our client's test suite and the followers through
    /// `dogwatch proxy`, with every resource cached.
    #[command(disable_help_flag = true)]
    Proxied(programs::Arguments),
    /// Run a benchmark, in release mode. Without a name, lists them.
    #[command(disable_help_flag = true)]
    Bench(programs::Arguments),
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
    match task {
        Task::Ci(options) => ci::run(&options),
        Task::Features => features::run(),
        Task::Licences => licences::run(),
        Task::Advisories(options) => licences::advisories(&options),
        Task::KubernetesVersions(options) => kubernetes_versions::run(&options),
        Task::Semver(options) => semver::run(&options),
        Task::NewOperator(options) => new_operator::run(&options),
        Task::PublishCheck(options) => publish_check::run(&options),
        Task::Examples => examples::run(),
        Task::Book(options) => book::run(&options),
        Task::Gen(options) => tables::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::ControllerStorm(options) => controller_storm::run(&options),
        Task::Kubectl(rest) => programs::interop("kubectl", &rest),
        Task::OriginalControllers(rest) => programs::interop("original-controllers", &rest),
        Task::ControllerRuntime(rest) => programs::interop("controller-runtime", &rest),
        Task::E2e(rest) => programs::interop("e2e", &rest),
        Task::Browser(rest) => programs::interop("browser", &rest),
        Task::LivePage(rest) => programs::interop("live-page", &rest),
        Task::Follow(rest) => programs::interop("follow", &rest),
        Task::Proxied(rest) => programs::interop("proxied", &rest),
        Task::Bench(rest) => programs::bench(&rest),
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
    fn ci_takes_steps_by_name_and_rejects_unknown_ones() {
        assert!(Arguments::try_parse_from(["xtask", "ci"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "ci", "format", "docs"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "ci", "nonsense"]).is_err());
    }

    #[test]
    fn arguments_of_other_programs_are_passed_on() {
        for good in [
            &["bench"][..],
            &["bench", "wire", "--quick"],
            &["bench", "--help"],
            &["e2e", "--e2e-binary", "x", "Watchers"],
            &["browser", "--help"],
            &["live-page", "--help"],
        ] {
            assert!(Arguments::try_parse_from(["xtask"].iter().chain(good)).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_soak_takes_a_time_or_a_seed() {
        assert!(Arguments::try_parse_from(["xtask", "soak"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--minutes", "2", "--release"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--seed", "7"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--seed", "7", "--minutes", "2"]).is_err());
    }

    #[test]
    fn soak_grpc_rejects_options_of_schedules_before_it() {
        assert!(Arguments::try_parse_from(["xtask", "soak", "grpc", "rollout", "--quick"]).is_ok());
        assert!(Arguments::try_parse_from(["xtask", "soak", "--minutes", "2", "grpc"]).is_err());
    }

    #[test]
    fn semver_needs_a_revision() {
        assert!(Arguments::try_parse_from(["xtask", "semver"]).is_err());
        assert!(Arguments::try_parse_from(["xtask", "semver", "--since", "v0.1.0"]).is_ok());
    }

    #[test]
    fn conformance_needs_a_kubeconfig() {
        assert!(Arguments::try_parse_from(["xtask", "conformance"]).is_err());
        assert!(
            Arguments::try_parse_from(["xtask", "conformance", "--kubeconfig", "x", "--", "watch"]).is_ok()
        );
    }
}
