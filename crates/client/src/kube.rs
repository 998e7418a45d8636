//! Conversions from kube-rs: a `kube::Config` becomes a [`Config`] or a [`Client`], for programs
//! that migrate gradually.
//!
//! Behind the feature `kube`. The settings are converted to a kubeconfig first, so that its
//! validation applies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Request};
use serde_json::json;
use tower::util::MapRequest;

use crate::body::RequestBody;
use crate::client::{Client, HttpService};
use crate::config::{Config, ConfigError, Overrides};
use crate::error::Error;
use crate::transport::TransportOptions;

impl TryFrom<kube_client::Config> for Config {
    type Error = ConfigError;

    /// Converts the server, its CA, the credentials and impersonation.
    ///
    /// Read and write timeouts are dropped: HTTP/2 PING detects a dead connection. Extra headers
    /// are dropped too; convert to a [`Client`] to keep those.
    fn try_from(source: kube_client::Config) -> Result<Self, ConfigError> {
        let mut cluster = json!({
            "server": source.cluster_url.to_string(),
            "insecure-skip-tls-verify": source.accept_invalid_certs,
            "disable-compression": source.disable_compression,
        });
        if source.accept_invalid_certs {
            // Nothing is verified: roots are not needed, and a kubeconfig may not have both.
        } else if let Some(file) = &source.root_cert_file {
            cluster["certificate-authority"] = json!(file);
        } else if let Some(roots) = &source.root_cert {
            let pem: String = roots.iter().map(|it| certificate(it)).collect();
            cluster["certificate-authority-data"] = json!(STANDARD.encode(pem));
        }
        if let Some(proxy) = &source.proxy_url {
            cluster["proxy-url"] = json!(proxy.to_string());
        }
        if let Some(name) = &source.tls_server_name {
            cluster["tls-server-name"] = json!(name);
        }
        let unwritable = |error: serde_json::Error| ConfigError::Unwritable { reason: error.to_string() };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kube",
            "clusters": [{ "name": "kube", "cluster": cluster }],
            "users": [{ "name": "kube", "user": serde_json::to_value(&source.auth_info).map_err(unwritable)? }],
            "contexts": [{ "name": "kube", "context": { "cluster": "kube", "user": "kube", "namespace": source.default_namespace } }],
        });
        Self::from_kubeconfig_str(&kubeconfig.to_string(), &Overrides::default())
    }
}

impl TryFrom<kube_client::Config> for Client {
    type Error = Error;

    /// Like the conversion to [`Config`], but keeps the extra headers and the connect timeout.
    fn try_from(source: kube_client::Config) -> Result<Self, Error> {
        let headers = source.headers.clone();
        let mut options = TransportOptions::from_env(|name| std::env::var(name).ok());
        if let Some(timeout) = source.connect_timeout {
            options.dial_timeout = timeout;
        }
        let builder = Self::builder(source.try_into()?).transport_options(options);
        builder.layer(tower::layer::layer_fn(move |inner| with_headers(inner, headers.clone()))).build()
    }
}

fn with_headers(
    inner: HttpService,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> MapRequest<HttpService, impl Fn(Request<RequestBody>) -> Request<RequestBody> + Clone> {
    MapRequest::new(inner, move |mut request: Request<RequestBody>| {
        request.headers_mut().extend(headers.iter().cloned());
        request
    })
}

/// Encodes one certificate as PEM, in lines of 64 characters.
fn certificate(der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let lines =
        body.as_bytes().chunks(64).map(|it| String::from_utf8_lossy(it).into_owned()).collect::<Vec<_>>();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use crate::config::Pem;

    fn source() -> kube_client::Config {
        let mut source = kube_client::Config::new(http::Uri::from_static("https://server.test:6443/base"));
        source.default_namespace = "ours".to_owned();
        source.tls_server_name = Some("name.test".to_owned());
        source.root_cert = Some(vec![vec![1, 2, 3]]);
        source.auth_info.token = Some("secret".into());
        source.auth_info.impersonate = Some("jane".to_owned());
        source
    }

    #[test]
    fn the_settings_of_a_kube_client_carry_over() {
        let config = Config::try_from(source()).expect("valid settings");
        assert_eq!(config.server.as_str().trim_end_matches('/'), "https://server.test:6443/base");
        assert_eq!(config.default_namespace, "ours");
        assert_eq!(config.tls.server_name.as_deref(), Some("name.test"));
        assert_eq!(config.auth.token.as_ref().map(|it| it.expose_secret()), Some("secret"));
        assert_eq!(config.impersonate.user.as_deref(), Some("jane"));
        let Some(Pem::Data(pem)) = &config.tls.ca else { panic!("roots") };
        assert_eq!(pem.expose_secret(), "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    }

    #[test]
    fn an_unverified_server_carries_over_without_roots() {
        let mut source = source();
        source.accept_invalid_certs = true;
        let config = Config::try_from(source).expect("valid settings");
        assert!(config.tls.insecure_skip_verify && config.tls.ca.is_none());
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_reason() {
        let mut source = source();
        source.auth_info.username = Some("jane".to_owned());
        source.auth_info.password = Some("pass".into());
        let error = Config::try_from(source).expect_err("both a token and a password").to_string();
        assert!(error.contains("token") && !error.contains("secret") && !error.contains("pass\""), "{error}");
    }
}
