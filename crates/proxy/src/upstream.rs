//! The API server behind the proxy, and the connections to it.
//!
//! Requests of callers with credentials of their own use connections that carry no identity: the
//! proxy's client certificate on them would give its rights to every caller. Callers that the proxy
//! has authenticated by their certificate use other connections, and so do those whose credentials
//! the API server has not accepted yet.

use std::sync::Arc;

use dogwatch_client::auth::Credentials;
use dogwatch_client::config::{AuthSettings, HttpVersion, Identity, Impersonation};
use dogwatch_client::transport::{Transport, TransportError, TransportOptions};
use dogwatch_client::{Config, ResponseBody};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use tokio::sync::watch;

use crate::error::StartError;
use crate::headers::{self, OtherNames};
use crate::proven_callers::ProvenCallers;
use crate::user::User;

/// The API server behind the proxy.
pub(crate) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// The path of the server's address, without a slash at the end.
    prefix: String,
    /// Connections without an identity, for callers with their own credentials.
    bare: Transport,
    /// The same over HTTP/1.1, for callers that are not proven: one request at a time, so that
    /// upstream may end a connection with nothing else on it.
    unproven: Transport,
    proven: ProvenCallers,
    identified: Identified,
}

/// The way to name a user whom the proxy has authenticated.
enum Identified {
    /// With the proxy's credentials, and headers that let it act as the user.
    Impersonation { transport: Transport, credentials: Credentials },
    /// On connections with the certificate of a front proxy, and headers that name the user.
    FrontProxy(Transport, OtherNames),
}

/// The reason why a request was not answered by upstream.
pub(crate) enum Unanswered {
    Transport(TransportError),
    /// The proxy's own credentials are not valid now.
    Credentials(String),
    /// The user's name cannot be in a header.
    Unnameable,
    /// The path cannot be passed on.
    Path,
}

impl Upstream {
    /// Reads certificates; opens no connection.
    pub(crate) fn new(
        config: &Config,
        front_proxy: Option<Identity>,
        other_names: &[String],
    ) -> Result<Arc<Self>, StartError> {
        let options = || TransportOptions::from_env(|name| std::env::var(name).ok());
        let no_plugin = || watch::channel(None).1;
        let mut bare = config.clone();
        bare.auth = AuthSettings::default();
        bare.impersonate = Impersonation::default();
        bare.tls.identity = None;
        let identified = match front_proxy {
            Some(identity) => {
                let mut config = bare.clone();
                config.tls.identity = Some(identity);
                let others = OtherNames::new(other_names).map_err(StartError::Settings)?;
                Identified::FrontProxy(Transport::with_options(&config, no_plugin(), options())?, others)
            }
            None => {
                let credentials = Credentials::new(config, None)?;
                let transport = Transport::with_options(config, credentials.identity(), options())?;
                Identified::Impersonation { transport, credentials }
            }
        };
        let mut unproven = bare.clone();
        unproven.http = HttpVersion::Http1;
        let uri: Uri = config.server.as_str().parse().map_err(|_| StartError::Server)?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(StartError::Server);
        };
        Ok(Arc::new(Self {
            scheme,
            authority,
            prefix: config.server.path().trim_end_matches('/').to_owned(),
            bare: Transport::with_options(&bare, no_plugin(), options())?,
            unproven: Transport::with_options(&unproven, no_plugin(), options())?,
            proven: ProvenCallers::default(),
            identified,
        }))
    }

    /// Returns true if callers with certificates are named by impersonation.
    pub(crate) fn impersonates(&self) -> bool {
        matches!(self.identified, Identified::Impersonation { .. })
    }

    /// Returns the address of a request upstream; `None` for a path that could lead elsewhere.
    pub(crate) fn address(&self, uri: &Uri) -> Option<Uri> {
        let given = uri.path_and_query()?;
        let path = given.path();
        // `*` of OPTIONS has no place below a prefix, and `..` would lead out of it.
        let leads_out = !self.prefix.is_empty() && has_dot_segments(path);
        if !path.starts_with('/') || leads_out {
            return None;
        }
        let target: PathAndQuery = if self.prefix.is_empty() {
            given.clone()
        } else {
            format!("{}{given}", self.prefix).parse().ok()?
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(target);
        Uri::from_parts(parts).ok()
    }

    /// Sends a request with the caller's own credentials, or as `user`, whom the proxy has
    /// authenticated.
    pub(crate) async fn send(
        &self,
        mut request: Request<ResponseBody>,
        user: Option<&User>,
    ) -> Result<Response<ResponseBody>, Unanswered> {
        *request.uri_mut() = self.address(request.uri()).ok_or(Unanswered::Path)?;
        let Some(user) = user else {
            let caller = self.proven.caller(request.headers());
            let transport = if self.proven.contain(caller) { &self.bare } else { &self.unproven };
            let response = transport.forward(request).await.map_err(Unanswered::Transport)?;
            self.proven.answered(caller, response.status());
            return Ok(response);
        };
        match &self.identified {
            Identified::FrontProxy(transport, others) => {
                headers::name_user(request.headers_mut(), user, others).ok_or(Unanswered::Unnameable)?;
                transport.forward(request).await.map_err(Unanswered::Transport)
            }
            Identified::Impersonation { transport, credentials } => {
                act_as(request.headers_mut(), user)?;
                let authorized = credentials.authorize(request.headers_mut()).await;
                let ticket = authorized.map_err(|error| Unanswered::Credentials(error.to_string()))?;
                let response = transport.forward(request).await.map_err(Unanswered::Transport)?;
                if response.status() == StatusCode::UNAUTHORIZED {
                    // The caller was authenticated: these are the proxy's credentials.
                    credentials.rejected(ticket);
                    return Err(Unanswered::Credentials("the API server does not accept them".to_owned()));
                }
                Ok(response)
            }
        }
    }
}

fn act_as(headers: &mut HeaderMap, user: &User) -> Result<(), Unanswered> {
    headers::act_as(headers, user).ok_or(Unanswered::Unnameable)
}

/// Returns true if a segment of the path is `.` or `..`, also in another spelling.
fn has_dot_segments(path: &str) -> bool {
    let lower = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace(['\\'], "/");
    lower.replace("%5c", "/").split('/').any(|it| matches!(it, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(server: &str) -> Arc<Upstream> {
        let Ok(upstream) = Upstream::new(&Config::new(server.parse().unwrap()), None, &[]) else {
            panic!("{server}")
        };
        upstream
    }

    #[tokio::test]
    async fn a_request_never_leaves_the_server_or_its_prefix() {
        let rancher = upstream("http://127.0.0.1:1/k8s/clusters/c-1/");
        let address = |of: &Upstream, path: &str| {
            let uri = if path == "*" { Uri::from_static("*") } else { path.parse().unwrap() };
            of.address(&uri).map(|it| it.to_string())
        };
        assert_eq!(address(&rancher, "/api?x=%20").unwrap(), "http://127.0.0.1:1/k8s/clusters/c-1/api?x=%20");
        for outside in ["/../c-2/api", "/api/%2E%2e/x", "/api/..%2f..%2fc-2", "/a\\..\\..", "*"] {
            assert_eq!(address(&rancher, outside), None, "{outside}");
        }
        let plain = upstream("http://127.0.0.1:1");
        assert_eq!(address(&plain, "http://evil.test/api").unwrap(), "http://127.0.0.1:1/api");
        assert_eq!(address(&plain, "*"), None);
        assert_eq!(address(&plain, "/a//b/%2F").unwrap(), "http://127.0.0.1:1/a//b/%2F");
    }
}
