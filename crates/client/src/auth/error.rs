//! Errors of authentication.
//!
//! All of them are `Clone`: callers that waited for one renewal share its error. None contains a
//! secret; the output of a plugin or an identity provider is described, never quoted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An error that prevents a request from getting credentials.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::auth::{AuthError, Credentials};
///
/// let mut config = Config::new("http://10.0.0.1:8080".parse()?);
/// config.auth.token = Some("secret".into());
/// match Credentials::new(&config, None) {
///     Err(AuthError::Plaintext { server }) => println!("{server} needs https"),
///     Err(AuthError::Plugin(error)) => println!("{error}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The settings are invalid; only changing them helps.
    #[error("{0}")]
    Misconfigured(String),
    /// Credentials would be sent in clear text; change the address, or allow it explicitly.
    #[error(
        "refusing to send credentials in clear text to {server}: use an https address, or set \
         allow_plaintext_credentials if you trust every hop to it"
    )]
    Plaintext {
        /// Scheme, host and port of the server.
        server: String,
    },
    /// The token file could not be read and there is no earlier token; a later request tries again.
    #[error("cannot read the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The credential plugin returned nothing usable; a later request runs it again.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The identity provider returned nothing usable; a later request tries again.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    /// The runtime shut down while a credential was renewed.
    #[error("the runtime ended while a credential was renewed")]
    RuntimeEnded,
}

/// An error of a credential plugin.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::auth::{AuthError, Credentials, PluginError};
/// use dogwatch_client::config::{ExecConfig, InteractiveMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.auth.exec = Some(ExecConfig {
///     api_version: "client.authentication.k8s.io/v1".to_owned(),
///     command: "/does/not/exist".to_owned(),
///     interactive_mode: Some(InteractiveMode::Never),
///     ..ExecConfig::default()
/// });
/// let credentials = Credentials::new(&config, None)?;
/// let result = credentials.authorize(&mut http::HeaderMap::new()).await;
/// let Err(AuthError::Plugin(PluginError::NotFound { command, .. })) = result else {
///     panic!("{result:?}")
/// };
/// assert_eq!(command, "/does/not/exist");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The program does not exist; the user has to install it.
    #[error(
        "credential plugin `{command}` is not installed or not executable{}",
        hint.as_deref().map(|hint| format!("\n\n{hint}")).unwrap_or_default()
    )]
    NotFound {
        /// The command of the kubeconfig.
        command: String,
        /// The install hint of the kubeconfig; omitted once it has been shown often enough.
        hint: Option<String>,
    },
    /// The plugin policy denies it; the policy or the kubeconfig has to change.
    #[error("credential plugin `{command}` may not run: {reason}")]
    Denied {
        /// The command of the kubeconfig.
        command: String,
        /// The part of the policy that forbids it.
        reason: &'static str,
    },
    /// The plugin needs user input, and there is no terminal.
    #[error("credential plugin `{command}` needs a terminal: {reason}")]
    NeedsTerminal {
        /// The command of the kubeconfig.
        command: String,
        /// The reason why there is no terminal.
        reason: &'static str,
    },
    /// The program could not be started or awaited.
    #[error("credential plugin `{command}` could not be run")]
    Start {
        /// The command of the kubeconfig.
        command: String,
        /// The I/O error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The program exited with a failure.
    #[error("credential plugin `{command}` failed ({status}){}", after_colon(stderr))]
    Failed {
        /// The command of the kubeconfig.
        command: String,
        /// The exit status, for example `exit status: 1`.
        status: String,
        /// The exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// The end of its standard error, without the secrets of its configuration.
        stderr: String,
    },
    /// The program did not end in time and was killed.
    #[error("credential plugin `{command}` did not end within {} s and was killed{}", limit.as_secs_f32(), after_colon(stderr))]
    TimedOut {
        /// The command of the kubeconfig.
        command: String,
        /// The time limit.
        limit: Duration,
        /// The end of its standard error, without the secrets of its configuration.
        stderr: String,
    },
    /// The output is not a usable credential. It is not shown, because it may contain a secret.
    #[error("credential plugin `{command}` printed no usable credential: {problem}")]
    Malformed {
        /// The command of the kubeconfig.
        command: String,
        /// The problem with the output.
        problem: String,
    },
}

/// An error of an identity provider.
///
/// ```
/// use dogwatch_client::auth::OidcError;
///
/// fn needs_login(error: &OidcError) -> bool {
///     match error {
///         OidcError::NoRefreshToken => true,
///         OidcError::Refused { code, .. } => code == "invalid_grant",
///         _ => false, // the same request may succeed later
///     }
/// }
/// assert!(needs_login(&OidcError::NoRefreshToken));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// There is no refresh-token; only a new login helps.
    #[error("the id-token has expired and there is no refresh-token: log in again")]
    NoRefreshToken,
    /// The client has no HTTP client to reach an identity provider.
    #[error("the id-token has expired and this client has no HTTP client to reach {issuer}")]
    NoHttp {
        /// The issuer of the kubeconfig.
        issuer: String,
    },
    /// The provider did not answer; the same request may succeed later.
    #[error("cannot reach the identity provider at {url}")]
    Unreachable {
        /// The address of the request.
        url: String,
        /// The transport error.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The provider answered with an error. After `invalid_grant` only a new login helps.
    #[error("the identity provider answered with status {status}{}", after_colon(code))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The OAuth error code, for example `invalid_grant`; empty if there was none.
        code: String,
    },
    /// The provider's response is unusable.
    #[error("the identity provider's response is unusable: {0}")]
    Malformed(&'static str),
}

/// Returns `: text`, or nothing for empty text.
fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
