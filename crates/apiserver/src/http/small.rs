//! The small endpoints: version, health, the signer of tokens, the list of paths, and numbers.

use bytes::Bytes;
use dogwatch_core::Reason;
use http::header::{ACCEPT, CACHE_CONTROL, HOST, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use serde_json::json;

use super::answer::{self, Answer};
use super::asked::method_not_allowed;
use super::body::AnswerBody;
use super::pieces::Pieces;
use super::query::Query;
use super::service::Service;
use super::wish::Wish;
use crate::refusal::Refusal;

/// What is checked, by the names that scripts know.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
/// What is checked besides before the server is ready.
const READY_CHECKS: [&str; 2] = ["informer-sync", "shutdown"];

/// What there is besides resources and checks.
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

impl Service {
    /// `/version`
    pub(super) fn version(
        &self,
        method: &Method,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Answer, Refusal> {
        if method != Method::GET {
            return Err(method_not_allowed());
        }
        let accepted = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let takes =
            |it: &str| matches!(it.split(';').next().map(str::trim), Some("application/json" | "*/*"));
        if !accepted.is_empty() && !accepted.split(',').any(takes) {
            let message = "406: Not Acceptable\n\nAvailable representations: application/json";
            return Err(Refusal::new(Reason::NotAcceptable, message));
        }
        let wish = Wish { pretty: true, ..Wish::plain(headers, query) };
        let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
        // In the order of the original; what it is compiled with is asked for by some clients and believed by none.
        let version = format!(
            r#"{{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36","minCompatibilityMajor":"1","minCompatibilityMinor":"35","gitVersion":"v1.36.4","gitCommit":"","gitTreeState":"clean","buildDate":"1970-01-01T00:00:00Z","goVersion":"go1.26","compiler":"gc","platform":"{platform}"}}"#
        );
        Ok(answer::document(StatusCode::OK, Pieces::from(version.into_bytes()), &wish, &self.settings))
    }

    /// `/healthz`, `/livez`, `/readyz` and what is below them, if this is one.
    pub(super) fn health(&self, path: &str, query: &Query) -> Option<Answer> {
        let mut segments = path.strip_prefix('/')?.splitn(2, '/');
        let endpoint = segments.next().filter(|it| matches!(*it, "healthz" | "livez" | "readyz"))?;
        let more: &[&str] = if endpoint == "readyz" { &READY_CHECKS } else { &[] };
        let checks = || CHECKS.iter().chain(more);
        match segments.next().unwrap_or_default() {
            "" => {}
            check if checks().any(|it| *it == check) => return Some(answer::text(StatusCode::OK, "ok")),
            _ => return Some(answer::page_not_found()),
        }
        if query.flag("verbose").is_none() {
            return Some(answer::text(StatusCode::OK, "ok"));
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut text = String::new();
        for check in checks() {
            let how = if excluded.contains(check) { "excluded: ok" } else { "ok" };
            text.push_str(&format!("[+]{check} {how}\n"));
        }
        let unknown: Vec<String> = excluded
            .iter()
            .filter(|it| !checks().any(|known| known == *it))
            .map(|it| format!("{it:?}"))
            .collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(",");
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {unknown}\n"
            ));
        }
        text.push_str(&format!("{endpoint} check passed\n"));
        Some(answer::text(StatusCode::OK, text))
    }

    /// Who signs the tokens of service accounts, and with which keys: for those outside who are shown one.
    pub(super) fn issuer(&self, parts: &Parts) -> Option<Result<Answer, Refusal>> {
        let (content_type, text) = match parts.uri.path() {
            "/.well-known/openid-configuration" => {
                let host = parts.uri.authority().map(Authority::as_str);
                let host = host.or_else(|| parts.headers.get(HOST)?.to_str().ok()).unwrap_or("localhost");
                let issuer = self.cluster.token_issuer().0;
                let algorithm = "EdDSA";
                // In the order of the original.
                let text = format!(
                    r#"{{"issuer":"{issuer}","jwks_uri":"https://{host}/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["{algorithm}"]}}"#
                );
                ("application/json", text)
            }
            "/openid/v1/jwks" => ("application/jwk-set+json", self.cluster.token_issuer().1.to_string()),
            _ => return None,
        };
        if parts.method != Method::GET {
            return Some(Err(method_not_allowed()));
        }
        let body = AnswerBody::whole(Pieces::from_iter([Bytes::from(text)]));
        let mut answer = answer::of(StatusCode::OK, Some(HeaderValue::from_static(content_type)), body);
        let an_hour = HeaderValue::from_static("public, max-age=3600");
        answer.headers_mut().insert(CACHE_CONTROL, an_hour);
        Some(Ok(answer))
    }

    /// `/`: all paths.
    pub(super) fn paths(&self, headers: &HeaderMap, query: &Query) -> Answer {
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
        for endpoint in ["healthz", "livez", "readyz"] {
            let more: &[&str] = if endpoint == "readyz" { &READY_CHECKS } else { &[] };
            paths.push(format!("/{endpoint}"));
            paths.extend(CHECKS.iter().chain(more).map(|check| format!("/{endpoint}/{check}")));
        }
        paths.sort_unstable();
        paths.dedup();
        let wish = Wish { pretty: true, ..Wish::plain(headers, query) };
        answer::value(StatusCode::OK, &json!({ "paths": paths }), &wish, &self.settings)
    }

    /// `/metrics`
    pub(super) fn metrics(&self) -> Answer {
        let body = AnswerBody::whole(Pieces::from_iter([Bytes::from(self.counters.text())]));
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer::of(StatusCode::OK, Some(content_type), body)
    }
}

/// The architecture by the name clients know.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
