//! What a test may not take the time for: `cargo xtask soak` is of informers and controllers, `cargo xtask soak grpc` of channels.

mod schedules;
mod grpc;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    subject: Option<Subject>,
    #[command(flatten)]
    schedules: schedules::Options,
}

#[derive(Debug, clap::Subcommand)]
enum Subject {
    /// Roll pods, churn endpoints and keep connections to a grpc-go server through a channel, at full scale.
    ///
    /// Three scenarios, on real sockets of the loopback and in real time. What was seen is printed, and what was promised of it is judged
    /// one by one; the task fails when a promise is broken.
    ///
    /// rollout: ten pods are replaced one by one under an open load of 5,000 calls a second, once announced ("terminating, then stopped,
    /// then deleted") and once in a race ("stopped before the slices say so"). A stream of 30 s runs on the pod that goes first. No call may
    /// fail, be lost or be carried out twice, every pod must get calls, and the stream must be read to its end.
    ///
    /// churn: of 1,000 endpoints, all of them connected, 100 are replaced each second for 60 s under a light load. No call may fail, and
    /// afterwards the process that calls has as many tasks, open files and bytes as before; when its channel is dropped, it has what it began
    /// with, and nobody watches the API server any more.
    ///
    /// grpc-go: a quiet stream to a server with all of grpc-go's defaults, a channel that nobody uses, and one whose answer nobody reads,
    /// for 150 s. The server must not end a connection, as it does with clients that ping too often. Left out where Go is not installed.
    ///
    /// Who calls is a process of its own, so that what it holds can be counted. A machine, or a build, that is too slow for the rate is no
    /// failure: the rate that was wanted and the one that was reached are printed.
    Grpc(grpc::Options),
}

/// Plays; fails if something does not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    match &options.subject {
        Some(Subject::Grpc(options)) => grpc::run(options),
        None => schedules::run(&options.schedules),
    }
}
