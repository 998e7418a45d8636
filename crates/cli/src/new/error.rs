//! The errors of `dogwatch new`: what was rejected and why, and a hint with the way out.

use std::path::PathBuf;

use crate::failure::Reason;

/// An error in the arguments of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewError {
    /// The name of the operator.
    #[error("{name:?} is not a name for an operator")]
    Name { name: String, source: Reason },
    /// The kind, given or derived from the name.
    #[error("{kind:?} is not a name for a kind")]
    Kind { kind: String, source: Reason },
    /// The API group.
    #[error("{group:?} is not an API group")]
    Group { group: String, source: Reason },
    /// The folder for the project is in use.
    #[error("{} exists and is not an empty folder", .path.display())]
    Occupied { path: PathBuf },
    /// There is no release to depend on.
    #[error("dogwatch is on no registry yet, so the operator needs a checkout or a git URL of it")]
    NoSource,
    /// The plural of the kind.
    #[error("{plural:?} is not a plural name")]
    Plural { plural: String, source: Reason },
    /// The source of dogwatch is neither a checkout nor a URL.
    #[error("there is no dogwatch in {value:?}")]
    Source { value: String, source: Reason },
}

impl NewError {
    /// Returns the hint that is printed below the error.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Name { .. } => "use up to 63 lower-case letters, digits and `-`, as in website-operator",
            Self::Kind { .. } => "choose one with --kind, in the form of Website or WebSite",
            Self::Group { .. } => "use a domain of yours, as in --group example.com",
            Self::Occupied { .. } => "choose another folder with --path, or remove this one first",
            Self::NoSource => "name it with --dogwatch, as in --dogwatch ../dogwatch",
            Self::Plural { .. } => "use up to 63 lower-case letters and digits, as in --plural websites",
            Self::Source { .. } => "name a checkout, or a git URL such as https://example.com/dogwatch.git",
        }
    }
}
