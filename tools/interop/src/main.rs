//! dogwatch together with other programs: `cargo xtask kubectl`, `original-controllers`,
//! `controller-runtime`, `e2e`, `browser`, `live-page`, `follow`, `proxied` and `soak grpc` start
//! this program.
//! program.
//!
//! Each task is a directory below. This file only parses the command line.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task reports to the terminal")]

mod encoding;
mod kubectl;
mod kube_controller_manager;
mod controller_runtime;
mod e2e;
mod chromium;
mod browser;
mod live_page;
mod follow;
mod proxied;
mod grpc_soak;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testbed::runtime;

/// Runs dogwatch together with other programs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run a session of a real kubectl on our server, and compare it with one on kube-apiserver.
    Kubectl(kubectl::Options),
    /// Run kube-controller-manager on our server and report what it does there.
    OriginalControllers(kube_controller_manager::Options),
    /// Run the test suites of controller-runtime on our server.
    ControllerRuntime(controller_runtime::Options),
    /// Run tests of the official Kubernetes conformance suite on our server.
    E2e(e2e::Options),
    /// Let web pages in a real Chromium try to use `dogwatch serve`, and fail if one can.
    Browser(browser::Options),
    /// Open the live page of a program in a real Chromium, check it, and save
    /// screenshots.
    LivePage(live_page::Options),
    /// Let kube-rs, client-go and our client follow a server with injected faults, and compare
    /// their caches.
    Follow(follow::Options),
    /// Run the recorded scenarios, kubectl, our client's test suite and the followers through
    /// `dogwatch proxy`, with every resource cached.
    ///
    /// The server behind the proxy is our own, or the one of --kubeconfig. Each suite must pass as
    /// it does without a proxy, and reads of it must have been answered from memory. `follow` cuts
    /// connections on both sides of the proxy, makes the server unreachable for seconds, and
    /// replaces the proxy by one without history; in the end every cache has to equal the server's
    /// state. A kube-apiserver that is started with --etcd-compaction-interval=1s and
    /// --watch-cache-sizes=configmaps#0 forgets its own history meanwhile.
    Proxied(proxied::Options),
    /// Roll pods, churn endpoints and keep connections to a grpc-go server through a channel, at
    /// full scale.
    ///
    /// Three scenarios, on real loopback sockets and in real time. The task prints its measurements
    /// and the result of each check, and fails if a check fails.
    ///
    /// rollout: ten pods are replaced one by one under an open-loop load of 5,000 calls a second,
    /// once announced ("terminating, then stopped, then deleted") and once in a race ("stopped
    /// before the slices are updated"). A stream of 30 s runs on the first pod to be replaced. No
    /// call may fail, be lost or be served twice, every pod must get calls, and the stream must run
    /// to its end.
    ///
    /// churn: of 1,000 connected endpoints, 100 are replaced each second for 60 s under a light
    /// load. No call may fail. Afterwards the calling process has as many tasks, open files and
    /// bytes as before; after its channel is dropped, it has as many as at the start, and no watch
    /// of the API server is left.
    ///
    /// grpc-go: a quiet stream to a server with grpc-go's defaults, an idle channel, and one with
    /// an unread response, for 150 s. The server must not close a connection, as it does with
    /// clients that ping too often. Skipped if Go is not installed.
    ///
    /// The caller is a separate process, so that its resources can be counted. A machine or a build
    /// that is too slow for the rate is not a failure: the requested rate and the achieved one are
    /// printed.
    GrpcSoak(grpc_soak::Options),
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
        Task::Kubectl(options) => runtime::run(kubectl::run(&options)),
        Task::OriginalControllers(options) => runtime::run(kube_controller_manager::run(&options)),
        Task::ControllerRuntime(options) => runtime::run(controller_runtime::run(&options)),
        Task::E2e(options) => runtime::run(e2e::run(&options)),
        Task::Browser(options) => runtime::run(browser::run(&options)),
        Task::LivePage(options) => runtime::run(live_page::run(&options)),
        Task::Follow(options) => runtime::run(follow::run(&options)),
        Task::Proxied(options) => runtime::run(proxied::run(&options)),
        Task::GrpcSoak(options) => grpc_soak::run(&options),
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
    fn programs_outside_the_repository_are_required_arguments() {
        for missing in ["original-controllers", "controller-runtime", "e2e"] {
            assert!(Arguments::try_parse_from(["interop", missing]).is_err(), "{missing}");
        }
        for named in [
            &["original-controllers", "--kube-controller-manager", "x"][..],
            &["controller-runtime", "--source", "x", "pkg/client", "pkg/cache"],
            &["e2e", "--e2e-binary", "x", "--encoding", "json", "Watchers"],
            &["follow", "--objects", "10"],
            &["proxied", "scenarios", "kubectl", "--kubeconfig", "x", "--rbac"],
            &["proxied", "--direct", "--seconds", "5", "--logs", "x"],
            &["browser", "--chromium", "x"],
            &["live-page", "--require-chromium", "--chromium", "x", "--screenshots", "y"],
        ] {
            assert!(Arguments::try_parse_from(["interop"].iter().chain(named)).is_ok(), "{named:?}");
        }
    }

    #[test]
    fn only_another_server_can_have_the_scenarios_of_roles() {
        assert!(Arguments::try_parse_from(["interop", "proxied", "--rbac"]).is_err());
        assert!(Arguments::try_parse_from(["interop", "proxied", "nonsense"]).is_err());
    }

    #[test]
    fn the_grpc_soak_takes_scenarios_by_name() {
        for good in [&["--quick"][..], &["rollout"], &["churn", "rollout", "--quick", "--release"], &[]] {
            assert!(
                Arguments::try_parse_from(["interop", "grpc-soak"].iter().chain(good)).is_ok(),
                "{good:?}"
            );
        }
        assert!(Arguments::try_parse_from(["interop", "grpc-soak", "nonsense"]).is_err());
        assert!(Arguments::try_parse_from(["interop", "grpc-soak", "--minutes", "2"]).is_err());
    }
}
