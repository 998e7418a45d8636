//! Who is compared, and how each of them is started: this program itself, and the peers below `bench/` that can be built here.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use processes::cargo::Cargo;
use processes::go;

/// Somebody who can call a service by its name.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) who: Who,
    pub(super) program: PathBuf,
    /// In front of the arguments that all of them get.
    pub(super) arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// One channel of tonic's to one pod: nothing is chosen.
    Single,
    /// A channel of tonic's to each pod, dealt out to those who call: nothing is chosen, and there are as many connections.
    Each,
    /// tonic's `balance_channel`, fed by our resolver.
    Balance,
    Kube,
    TonicLbK8s,
    Kuberesolver,
}

impl Who {
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

    /// Whether it can also choose by load.
    pub(super) fn knows_load(self) -> bool {
        matches!(self, Self::Kube | Self::Kuberesolver)
    }
}

/// Everybody who can be had; says who cannot.
///
/// # Errors
/// When a peer is there and does not build.
pub(super) fn find(alone: bool) -> Result<Vec<Contender>> {
    let itself = std::env::current_exe().context("cannot find this program")?;
    let own = [(Who::Single, "single"), (Who::Each, "each"), (Who::Balance, "balance"), (Who::Kube, "kube")];
    let own = own.map(|(who, name)| {
        let arguments = ["grpc", "call", name].map(str::to_owned).to_vec();
        Contender { who, program: itself.clone(), arguments }
    });
    let mut all = Vec::from(own);
    if alone {
        return Ok(all);
    }
    match tonic_lb_k8s() {
        Ok(program) => all.push(Contender { who: Who::TonicLbK8s, program, arguments: Vec::new() }),
        Err(error) => println!("tonic-lb-k8s cannot be built, and is left out: {error}"),
    }
    match go::build("grpc-go")? {
        Some(program) => all.push(Contender { who: Who::Kuberesolver, program, arguments: Vec::new() }),
        None => println!("Go is not installed: kuberesolver is left out"),
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
