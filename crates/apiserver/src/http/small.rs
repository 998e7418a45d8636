//! The small endpoints: version, health, the list of paths, and numbers.

use bytes::Bytes;
use dogwatch_core::Reason;
use http::header::{ACCEPT, HeaderValue};
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

    /// `/`: all paths.
    pub(super) fn paths(&self, headers: &HeaderMap, query: &Query) -> Answer {
        let catalog = self.cluster.catalog();
        let mut paths: Vec<String> =
            ["/api", "/apis", "/apis/", "/metrics", "/openapi/v3", "/version"].map(str::to_owned).to_vec();
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
