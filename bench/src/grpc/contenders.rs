//! The contenders and how each of them is started: this program itself, and the peers below
//! `bench/` that can be built here.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use processes::cargo::Cargo;
use processes::go;

/// A program that can call a service by its name.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) kind: ContenderKind,
    pub(super) program: PathBuf,
    /// The arguments before those that all contenders get.
    pub(super) arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContenderKind {
    /// One tonic channel to one pod, without balancing.
    Single,
    /// One tonic channel per pod, assigned to the concurrent calls in turn: no balancing, with as
    /// many connections as a balancer has.
    Each,
    /// tonic's `balance_channel`, fed by our resolver.
    Balance,
    Kube,
    TonicLbK8s,
    Kuberesolver,
}

impl ContenderKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Single => "tonic, one channel",
            Self::Each => "tonic, one to each",
            Self::Balance => "tonic, balanced",
            Self::Kube => "KubeChannel",
            Self::TonicLbK8s => "tonic-lb-k8s",
            Self::Kuberesolver => "kuberesolver",
        }
    }

    /// Returns true if it also has a policy that balances by load.
    pub(super) fn supports_load(self) -> bool {
        matches!(self, Self::Kube | Self::Kuberesolver)
    }
}

/// Returns the contenders that can be built. Prints those that cannot.
///
/// # Errors
/// If Go is installed and a peer in Go does not build.
pub(super) fn find(alone: bool) -> Result<Vec<Contender>> {
    let itself = std::env::current_exe().context("cannot find the path of this program")?;
    let own = [
        (ContenderKind::Single, "single"),
        (ContenderKind::Each, "each"),
        (ContenderKind::Balance, "balance"),
        (ContenderKind::Kube, "kube"),
    ];
    let own = own.map(|(kind, name)| {
        let arguments = ["grpc", "call", name].map(str::to_owned).to_vec();
        Contender { kind, program: itself.clone(), arguments }
    });
    let mut all = Vec::from(own);
    if alone {
        return Ok(all);
    }
    match tonic_lb_k8s() {
        Ok(program) => {
            all.push(Contender { kind: ContenderKind::TonicLbK8s, program, arguments: Vec::new() })
        }
        Err(error) => println!("skipping tonic-lb-k8s, which does not build: {error}"),
    }
    match go::build("grpc-go")? {
        Some(program) => {
            all.push(Contender { kind: ContenderKind::Kuberesolver, program, arguments: Vec::new() })
        }
        None => println!("skipping kuberesolver: Go is not installed"),
    }
    Ok(all)
}

fn tonic_lb_k8s() -> Result<PathBuf> {
    let folder = "bench/peers/tonic-lb-k8s/target";
    Cargo::new([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "bench/peers/tonic-lb-k8s/Cargo.toml",
        "--target-dir",
        folder,
    ])
    .run()?;
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("release/peer-tonic-lb-k8s"))
}
