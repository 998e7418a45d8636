//! The encoding in which a program of Kubernetes talks to the server.

use clap::ValueEnum;

/// The encoding of requests and responses for built-in kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// The default of the programs.
    #[default]
    Protobuf,
    Json,
}

impl Encoding {
    /// Returns the flag that kube-controller-manager and e2e.test have for it.
    pub(crate) fn flag(self) -> String {
        let media_type = match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Json => "application/json",
        };
        format!("--kube-api-content-type={media_type}")
    }
}
