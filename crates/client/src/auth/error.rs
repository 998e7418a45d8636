//! Why a request could not be given credentials.
//!
//! All of it can be cloned: callers that waited for one renewal share its failure. None of it carries a secret; what
//! a plugin or an identity provider answered is described, never quoted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a request could not be given credentials.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The settings cannot work; only changing them helps.
    #[error("{0}")]
    Misconfigured(String),
    /// Credentials would travel in clear text; change the address, or allow it on purpose.
    #[error(
        "refusing to send credentials in clear text to {server}: use an https address, or set \
         allow_plaintext_credentials if you trust every hop to it"
    )]
    Plaintext {
        /// Scheme, host and port of the server.
        server: String,
    },
    /// The token file could not be read and no earlier token is at hand; a later request tries again.
    #[error("cannot read the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The credential plugin gave nothing usable; a later request runs it again.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The identity provider gave nothing usable; a later request asks again.
    #[error(transparent)]
    Oidc(#[from] OidcError),
}

/// Why a credential plugin gave nothing usable.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The program is not there; the user has to install it.
    #[error(
        "credential plugin `{command}` is not installed or not executable{}",
        hint.as_deref().map(|hint| format!("\n\n{hint}")).unwrap_or_default()
    )]
    NotFound {
        /// The command of the kubeconfig.
        command: String,
        /// The install hint of the kubeconfig; left out once it has been shown often enough.
        hint: Option<String>,
    },
    /// The plugin policy forbids it; the policy or the kubeconfig has to change.
    #[error("credential plugin `{command}` may not run: {reason}")]
    Denied {
        /// The command of the kubeconfig.
        command: String,
        /// The part of the policy that forbids it.
        reason: &'static str,
    },
    /// The plugin must ask a person, and there is no terminal to ask on.
    #[error("credential plugin `{command}` needs a terminal: {reason}")]
    NeedsTerminal {
        /// The command of the kubeconfig.
        command: String,
        /// Why there is none.
        reason: &'static str,
    },
    /// The system would not start the program, or lost it.
    #[error("credential plugin `{command}` could not be run")]
    Start {
        /// The command of the kubeconfig.
        command: String,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The program ended with a failure.
    #[error("credential plugin `{command}` failed ({status}){}", after_colon(stderr))]
    Failed {
        /// The command of the kubeconfig.
        command: String,
        /// How it ended, for example `exit status: 1`.
        status: String,
        /// The exit code; none if a signal ended it.
        code: Option<i32>,
        /// The end of what it wrote to standard error, without the secrets of its configuration.
        stderr: String,
    },
    /// The program did not end in time and was killed.
    #[error("credential plugin `{command}` did not end within {} s and was killed{}", limit.as_secs_f32(), after_colon(stderr))]
    TimedOut {
        /// The command of the kubeconfig.
        command: String,
        /// The time it was given.
        limit: Duration,
        /// The end of what it wrote to standard error, without the secrets of its configuration.
        stderr: String,
    },
    /// What it printed is not a credential we can use. The output itself is not shown, it may hold a secret.
    #[error("credential plugin `{command}` printed no usable credential: {problem}")]
    Malformed {
        /// The command of the kubeconfig.
        command: String,
        /// What is wrong with the output.
        problem: String,
    },
}

/// Why the identity provider gave no id-token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// Only a new login helps.
    #[error("the id-token has expired and there is no refresh-token: log in again")]
    NoRefreshToken,
    /// The program gave the client no way to reach an identity provider.
    #[error("the id-token has expired and this client was given no way to reach {issuer}")]
    NoHttp {
        /// The issuer of the kubeconfig.
        issuer: String,
    },
    /// The provider did not answer; the same request may succeed later.
    #[error("cannot reach the identity provider at {url}")]
    Unreachable {
        /// The address asked.
        url: String,
        /// What the transport said.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The provider answered with a failure. After `invalid_grant` only a new login helps.
    #[error("the identity provider refused with status {status}{}", after_colon(code))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The OAuth error code, for example `invalid_grant`; empty if there was none.
        code: String,
    },
    /// The provider answered something we cannot use.
    #[error("the identity provider's answer is unusable: {0}")]
    Malformed(&'static str),
}

/// `: text`, or nothing for nothing.
fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
