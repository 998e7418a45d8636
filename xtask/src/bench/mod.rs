//! Measurements, by name: `cargo xtask bench NAME`. They run in release mode, so they are worth reading.
//!
//! A benchmark is a file beside this one and a line in [`ALL`].

pub(crate) mod pods;
mod wire;
mod workqueue;
mod apiserver_load;
mod apiserver;
mod informer;
mod grpc;

use anyhow::bail;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which benchmark to run; without a name, the list of them.
    name: Option<String>,
    /// Arguments for the benchmark.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// One benchmark.
struct Bench {
    name: &'static str,
    /// What it measures, in one line.
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

/// Every benchmark there is.
const ALL: &[Bench] = &[
    Bench {
        name: "wire",
        about: "lists and watches of pods from bytes to objects, beside serde_json",
        run: |_| wire::run(),
    },
    Bench {
        name: "workqueue",
        about: "a key on its way through the work queue, beside client-go and controller-runtime",
        run: |_| workqueue::run(),
    },
    Bench {
        name: "apiserver",
        about: "our API server from its start to a thousand watchers, beside kube-apiserver",
        run: apiserver::run,
    },
    Bench {
        name: "informer",
        about: "an informer beside client-go and kube-rs: updates beside readers, reads, notifications, memory",
        run: informer::run,
    },
    Bench {
        name: "grpc",
        about: "choosing an endpoint, calling one, and calls while endpoints come, go and fail, beside tonic and kuberesolver",
        run: grpc::run,
    },
];

/// Runs the benchmark of that name, or prints which there are.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(name) = &options.name else {
        for Bench { name, about, .. } in ALL {
            println!("{name:10} {about}");
        }
        return Ok(());
    };
    match ALL.iter().find(|it| it.name == name) {
        Some(bench) => (bench.run)(&options.arguments),
        None => bail!("there is no benchmark `{name}`; `cargo xtask bench` lists those there are"),
    }
}
