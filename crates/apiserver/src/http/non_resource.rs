//! The non-resource endpoints other than discovery: version, health, OpenAPI, token issuer, list of
//! paths, and metrics.

use bytes::Bytes;
use dogwatch_core::Reason;
use http::header::{ACCEPT, CACHE_CONTROL, HOST, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::body::ResponseBody;
use super::guard::Panics;
use super::health_checks::HealthChecks;
use super::metrics::ServingMetrics;
use super::negotiated::Negotiated;
use super::openapi::OpenApi;
use super::parsed_request::{RoutingError, method_not_allowed};
use super::pieces::Pieces;
use super::query::Query;
use super::settings::Settings;
use crate::cluster::Cluster;
use crate::request::decode_path;
use crate::{ApiError, KUBERNETES_VERSION};

/// The paths other than resources and health checks.
const OTHER_PATHS: [&str; 10] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
];

/// The endpoints about the server itself.
#[derive(Debug)]
pub(super) struct NonResource<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) settings: &'a Settings,
    pub(super) metrics: &'a ServingMetrics,
    pub(super) panics: &'a Panics,
}

impl NonResource<'_> {
    /// Serves a request to one of these endpoints.
    ///
    /// # Errors
    ///
    /// Returns [`RoutingError::PlainNotFound`] for any other path.
    pub(super) fn serve(&self, parts: &Parts, query: &Query) -> Result<Answer, RoutingError> {
        let path = &*decode_path(parts.uri.path());
        let documents = || OpenApi::of(self.cluster.catalog(), self.cluster.source().now());
        let answer =
            self.health().serve(path, query).or_else(|| documents().serve(path, &parts.headers, query));
        if let Some(answer) = answer {
            return Ok(answer);
        }
        if let Some(answered) = self.issuer(path, parts) {
            return answered.map_err(RoutingError::Refused);
        }
        match path {
            "/" => Ok(self.paths(&parts.headers, query)),
            "/version" | "/version/" => {
                self.version(&parts.method, &parts.headers, query).map_err(RoutingError::Refused)
            }
            "/metrics" => Ok(self.metrics()),
            _ => Err(RoutingError::PlainNotFound),
        }
    }

    fn health(&self) -> HealthChecks<'_> {
        HealthChecks::of(self.cluster.background())
    }

    /// Serves `/version`.
    fn version(&self, method: &Method, headers: &HeaderMap, query: &Query) -> Result<Answer, ApiError> {
        if method != Method::GET {
            return Err(method_not_allowed());
        }
        let accepted = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let takes =
            |it: &str| matches!(it.split(';').next().map(str::trim), Some("application/json" | "*/*"));
        if !accepted.is_empty() && !accepted.split(',').any(takes) {
            let message = "406: Not Acceptable\n\nAvailable representations: application/json";
            return Err(ApiError::new(Reason::NotAcceptable, message));
        }
        let negotiated = Negotiated { pretty: true, ..Negotiated::plain(headers, query) };
        let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
        // The fields are in the order of `Info` in k8s.io/apimachinery v0.36.4
        // pkg/version/types.go. Some clients ask for the Go version but none depends on it.
        let version = format!(
            r#"{{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36","minCompatibilityMajor":"1","minCompatibilityMinor":"35","gitVersion":"v{KUBERNETES_VERSION}","gitCommit":"","gitTreeState":"clean","buildDate":"1970-01-01T00:00:00Z","goVersion":"go1.26","compiler":"gc","platform":"{platform}"}}"#
        );
        Ok(answer::document(StatusCode::OK, Pieces::from(version.into_bytes()), &negotiated, self.settings))
    }

    /// Serves the issuer of service account tokens and its keys, for verifiers outside the cluster.
    fn issuer(&self, path: &str, parts: &Parts) -> Option<Result<Answer, ApiError>> {
        let (content_type, text) = match path {
            "/.well-known/openid-configuration" => {
                let host = parts.uri.authority().map(Authority::as_str);
                let host = host.or_else(|| parts.headers.get(HOST)?.to_str().ok()).unwrap_or("localhost");
                let tokens = self.cluster.tokens();
                let (issuer, algorithms) = (Value::from(tokens.issuer().0), Value::from(tokens.algorithms()));
                // A Host header may have any characters, and only JSON may be made of them.
                let keys = Value::from(format!("https://{host}/openid/v1/jwks"));
                // The fields are in the order of `openIDMetadata` in k8s.io/kubernetes v1.36.4
                // pkg/serviceaccount/openidmetadata.go.
                let text = format!(
                    r#"{{"issuer":{issuer},"jwks_uri":{keys},"response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":{algorithms}}}"#
                );
                ("application/json", text)
            }
            "/openid/v1/jwks" => ("application/jwk-set+json", self.cluster.tokens().issuer().1.to_string()),
            _ => return None,
        };
        if parts.method != Method::GET {
            return Some(Err(method_not_allowed()));
        }
        let body = ResponseBody::whole(Pieces::from_iter([Bytes::from(text)]));
        let mut answer = answer::of(StatusCode::OK, Some(HeaderValue::from_static(content_type)), body);
        let an_hour = HeaderValue::from_static("public, max-age=3600");
        answer.headers_mut().insert(CACHE_CONTROL, an_hour);
        Some(Ok(answer))
    }

    /// Serves `/`: the list of all paths.
    fn paths(&self, headers: &HeaderMap, query: &Query) -> Answer {
        let catalog = self.cluster.catalog();
        let mut paths: Vec<String> = OTHER_PATHS.map(str::to_owned).to_vec();
        for def in catalog.served().resources() {
            if def.group.is_empty() {
                paths.push(format!("/api/{}", def.version));
            } else {
                paths.push(format!("/apis/{}", def.group));
                paths.push(format!("/apis/{}/{}", def.group, def.version));
            }
        }
        paths.extend(self.health().paths());
        paths.sort_unstable();
        paths.dedup();
        let negotiated = Negotiated { pretty: true, ..Negotiated::plain(headers, query) };
        answer::value(StatusCode::OK, &json!({ "paths": paths }), &negotiated, self.settings)
    }

    /// Serves `/metrics`.
    fn metrics(&self) -> Answer {
        let text = [self.metrics.text(), self.panics.text(), self.health().metrics()].concat();
        let body = ResponseBody::whole(Pieces::from_iter([Bytes::from(text)]));
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer::of(StatusCode::OK, Some(content_type), body)
    }
}

/// Returns the architecture by its Go name.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
