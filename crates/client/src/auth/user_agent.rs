//! The `User-Agent` header, for the server's logs and audit (rule RQ-16).

use std::env;
use std::path::Path;
use std::task::{Context, Poll};

use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use tower_layer::Layer;
use tower_service::Service;

use super::error::AuthError;

/// A layer that sets the `User-Agent` header, unless the request already has one.
///
/// ```
/// use dogwatch_client::auth::UserAgentLayer;
///
/// assert!(UserAgentLayer::new(Some("my-program/1.4.0")).is_ok());
/// assert!(UserAgentLayer::new(Some("two\nlines")).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct UserAgentLayer {
    value: HeaderValue,
}

/// A service that sets the `User-Agent` header of its requests.
///
/// ```
/// use std::convert::Infallible;
///
/// use dogwatch_client::auth::UserAgentLayer;
/// use http::{HeaderMap, Request};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let echo = tower::service_fn(|it: Request<()>| async move {
///     Ok::<HeaderMap, Infallible>(it.headers().clone())
/// });
/// let service = UserAgentLayer::new(Some("my-program/1.4.0"))?.layer(echo);
/// let headers = service.oneshot(Request::new(())).await?;
/// assert_eq!(headers["user-agent"], "my-program/1.4.0");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct UserAgentService<S> {
    inner: S,
    value: HeaderValue,
}

/// Returns `<binary>/<version> (<os>/<arch>) dogwatch/<version>`, with Go's names of systems and
/// architectures, because existing audit log filters use those. A process does not know its own
/// version: it is `unknown` unless the program sets a user agent itself. The format of
/// `buildUserAgent` in client-go v0.36.4 `rest/config.go`, with the library instead of the commit.
///
/// ```
/// use dogwatch_client::auth::default_user_agent;
///
/// assert!(default_user_agent().contains("dogwatch/"));
/// ```
pub fn default_user_agent() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    format(name, env::consts::OS, env::consts::ARCH)
}

fn format(program: &str, os: &str, arch: &str) -> String {
    let name: String =
        program.chars().filter(|c| c.is_ascii_alphanumeric() || "!#$&'*+-.^_`|~".contains(*c)).collect();
    let name = if name.is_empty() { "unknown" } else { &name };
    let os = if os == "macos" { "darwin" } else { os };
    let arch = match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{name}/unknown ({os}/{arch}) dogwatch/{}", env!("CARGO_PKG_VERSION"))
}

impl UserAgentLayer {
    /// Creates a layer with the configured value, or the default. Returns an error if the value is
    /// not valid in a header.
    pub fn new(configured: Option<&str>) -> Result<Self, AuthError> {
        let text = configured.map_or_else(default_user_agent, str::to_owned);
        let value = HeaderValue::try_from(text).map_err(|_| {
            AuthError::Misconfigured(
                "the user agent has characters that are not valid in a header".to_owned(),
            )
        })?;
        Ok(Self { value })
    }
}

impl<S> Layer<S> for UserAgentLayer {
    type Service = UserAgentService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        UserAgentService { inner, value: self.value.clone() }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for UserAgentService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.value.clone());
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rq_16_a_user_agent_names_program_platform_and_library() {
        let ours = concat!("dogwatch/", env!("CARGO_PKG_VERSION"));
        let cases = [
            ("kubectl", "linux", "x86_64", "kubectl/unknown (linux/amd64)"),
            ("my tool\n", "macos", "aarch64", "mytool/unknown (darwin/arm64)"),
            ("", "freebsd", "riscv64", "unknown/unknown (freebsd/riscv64)"),
            ("größe", "windows", "x86", "gre/unknown (windows/386)"),
        ];
        for (program, os, arch, expected) in cases {
            assert_eq!(format(program, os, arch), format!("{expected} {ours}"));
        }
    }

    #[test]
    fn the_default_is_a_valid_header_and_control_characters_are_rejected() {
        assert!(UserAgentLayer::new(None).is_ok());
        assert!(UserAgentLayer::new(Some("a\nb")).is_err());
    }
}
