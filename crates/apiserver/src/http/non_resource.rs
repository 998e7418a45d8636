//! The non-resource endpoints: version, health, token issuer, list of paths, and metrics.

use bytes::Bytes;
use dogwatch_core::Reason;
use http::header::{ACCEPT, CACHE_CONTROL, HOST, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::body::ResponseBody;
use super::negotiated::Negotiated;
use super::parsed_request::method_not_allowed;
use super::pieces::Pieces;
use super::query::Query;
use super::service::Service;
use crate::cluster::Cluster;
use crate::{ApiError, KUBERNETES_VERSION};

/// The checks of every health endpoint, by the names of kube-apiserver's checks.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
/// The additional checks of `/readyz`.
const READY_CHECKS: [&str; 2] = ["informer-sync", "shutdown"];

/// The failure text of a controller's check. The panic itself is only in the log, since the health
/// endpoints may be public.
const DOWN: &str = "it panicked and restarts after a back-off";
/// The failure text of a check that was added to the server.
const NOT_READY: &str = "it is not ready";

/// One health check.
struct Check {
    name: String,
    /// The reason of the failure, or `None` if the check passes.
    failure: Option<&'static str>,
}

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

impl Service {
    /// Serves `/version`.
    pub(super) fn version(
        &self,
        method: &Method,
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Answer, ApiError> {
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
        // The fields are in the order of kube-apiserver. Some clients ask for the Go version but
        // none depends on it.
        let version = format!(
            r#"{{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"36","minCompatibilityMajor":"1","minCompatibilityMinor":"35","gitVersion":"v{KUBERNETES_VERSION}","gitCommit":"","gitTreeState":"clean","buildDate":"1970-01-01T00:00:00Z","goVersion":"go1.26","compiler":"gc","platform":"{platform}"}}"#
        );
        Ok(answer::document(StatusCode::OK, Pieces::from(version.into_bytes()), &negotiated, &self.settings))
    }

    /// Serves `/healthz`, `/livez`, `/readyz` and the paths below them; returns `None` for others.
    ///
    /// The texts are those of k8s.io/apiserver v0.36.4 pkg/server/healthz/healthz.go.
    pub(super) fn health(&self, path: &str, query: &Query) -> Option<Answer> {
        let mut segments = path.strip_prefix('/')?.splitn(2, '/');
        let endpoint = segments.next().filter(|it| matches!(*it, "healthz" | "livez" | "readyz"))?;
        let checks = self.checks(endpoint);
        let failed = |it: &Check| it.failure.is_some();
        match segments.next().unwrap_or_default() {
            "" => {}
            name => {
                return Some(match checks.iter().find(|it| it.name == name) {
                    None => answer::page_not_found(),
                    Some(Check { failure: None, .. }) => answer::text(StatusCode::OK, "ok"),
                    Some(Check { failure: Some(why), .. }) => {
                        let text = format!("internal server error: {why}\n");
                        answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
                    }
                });
            }
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let is_excluded = |it: &Check| excluded.contains(&it.name.as_str());
        let passed = !checks.iter().any(|it| failed(it) && !is_excluded(it));
        if passed && query.flag("verbose").is_none() {
            return Some(answer::text(StatusCode::OK, "ok"));
        }
        let mut text = String::new();
        for check in &checks {
            let name = &check.name;
            text.push_str(&match check {
                check if is_excluded(check) => format!("[+]{name} excluded: ok\n"),
                check if failed(check) => format!("[-]{name} failed: reason withheld\n"),
                _ => format!("[+]{name} ok\n"),
            });
        }
        let unknown: Vec<String> = excluded
            .iter()
            .filter(|it| !checks.iter().any(|known| known.name == **it))
            .map(|it| format!("{it:?}"))
            .collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(",");
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {unknown}\n"
            ));
        }
        let (code, outcome) = match passed {
            true => (StatusCode::OK, "passed"),
            false => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        text.push_str(&format!("{endpoint} check {outcome}\n"));
        Some(answer::text(code, text))
    }

    /// Returns the checks of an endpoint. Controllers and added checks count for readiness and not
    /// for liveness: one that is down restarts by itself, while restarting the process would lose
    /// every object.
    fn checks(&self, endpoint: &str) -> Vec<Check> {
        let check = |name: &&str| Check { name: (*name).to_owned(), failure: None };
        let mut checks: Vec<Check> = CHECKS.iter().map(check).collect();
        if endpoint == "readyz" {
            checks.extend(READY_CHECKS.iter().map(check));
            checks.extend(self.cluster.background().loops().into_iter().map(|(name, health)| Check {
                name: format!("controller/{name}"),
                failure: health.down.map(|_| DOWN),
            }));
            let added = self.cluster.background().checks().into_iter();
            checks.extend(
                added.map(|(name, is_ready)| Check { name, failure: (!is_ready).then_some(NOT_READY) }),
            );
        }
        checks
    }

    /// Serves the issuer of service account tokens and its keys, for verifiers outside the cluster.
    pub(super) fn issuer(&self, path: &str, parts: &Parts) -> Option<Result<Answer, ApiError>> {
        let (content_type, text) = match path {
            "/.well-known/openid-configuration" => {
                let host = parts.uri.authority().map(Authority::as_str);
                let host = host.or_else(|| parts.headers.get(HOST)?.to_str().ok()).unwrap_or("localhost");
                let issuer = self.cluster.tokens().issuer().0;
                let algorithm = "EdDSA";
                // A Host header may have any characters, and only JSON may be made of them.
                let keys = Value::from(format!("https://{host}/openid/v1/jwks"));
                // The fields are in the order of kube-apiserver.
                let text = format!(
                    r#"{{"issuer":"{issuer}","jwks_uri":{keys},"response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["{algorithm}"]}}"#
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
            paths.push(format!("/{endpoint}"));
            paths.extend(self.checks(endpoint).iter().map(|it| format!("/{endpoint}/{}", it.name)));
        }
        paths.sort_unstable();
        paths.dedup();
        let negotiated = Negotiated { pretty: true, ..Negotiated::plain(headers, query) };
        answer::value(StatusCode::OK, &json!({ "paths": paths }), &negotiated, &self.settings)
    }

    /// Serves `/metrics`.
    pub(super) fn metrics(&self) -> Answer {
        let text = [self.counters.text(), self.panics.text(), background(&self.cluster)].concat();
        let body = ResponseBody::whole(Pieces::from_iter([Bytes::from(text)]));
        let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer::of(StatusCode::OK, Some(content_type), body)
    }
}

/// Returns the health of controllers in the Prometheus text format.
fn background(cluster: &Cluster) -> String {
    let loops = cluster.background().loops();
    let mut text = "# HELP apiserver_controller_panics_total Counter of panics of each controller.\n\
                    # TYPE apiserver_controller_panics_total counter\n"
        .to_owned();
    for (name, health) in &loops {
        text.push_str(&format!("apiserver_controller_panics_total{{name=\"{name}\"}} {}\n", health.panics));
    }
    text.push_str(
        "# HELP apiserver_controller_up Whether each controller runs: 0 during the back-off after a panic.\n\
         # TYPE apiserver_controller_up gauge\n",
    );
    for (name, health) in &loops {
        let up = u8::from(health.down.is_none());
        text.push_str(&format!("apiserver_controller_up{{name=\"{name}\"}} {up}\n"));
    }
    text
}

/// Returns the architecture by its Go name.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;

    use super::*;
    use crate::auth::Authenticator;
    use crate::cluster::Source;

    #[tokio::test]
    async fn a_controller_that_is_down_makes_the_server_not_ready_but_live() {
        let cluster = Arc::new(Cluster::new(Source::real()));
        let service = Service::new(Arc::clone(&cluster), Authenticator::new());
        let get = async |path: &str, query: &str| {
            let answer = service.health(path, &Query::parse(Some(query))).expect("it is a check");
            let code = answer.status().as_u16();
            let text = answer.into_body().collect().await.expect("not cut").to_bytes();
            (code, String::from_utf8(text.to_vec()).expect("text"))
        };
        let ok = (200, "ok".to_owned());
        cluster.background().up("tidy");
        cluster.background().up("garbage");
        assert_eq!(get("/readyz", "").await, ok);
        assert_eq!(get("/readyz/controller/tidy", "").await, ok);

        cluster.background().down("tidy", "a secret");
        let (code, text) = get("/readyz", "").await;
        assert_eq!(code, 500);
        assert!(
            text.contains("[+]controller/garbage ok\n[-]controller/tidy failed: reason withheld\n"),
            "{text}"
        );
        assert!(text.ends_with("readyz check failed\n"), "{text}");
        let (code, text) = get("/readyz/controller/tidy", "").await;
        assert_eq!((code, text.contains("secret")), (500, false), "{text}");
        assert_eq!(get("/readyz", "exclude=controller/tidy").await, ok);
        for alive in ["/livez", "/healthz"] {
            assert_eq!(get(alive, "").await, ok);
        }
        let metrics = background(&cluster);
        assert!(metrics.contains("\napiserver_controller_panics_total{name=\"tidy\"} 1\n"), "{metrics}");
        assert!(metrics.contains("\napiserver_controller_up{name=\"tidy\"} 0\n"), "{metrics}");

        cluster.background().up("tidy");
        assert_eq!(get("/readyz", "").await, ok);
    }

    #[tokio::test]
    async fn an_added_check_counts_for_readiness() {
        let cluster = Arc::new(Cluster::new(Source::real()));
        let service = Service::new(Arc::clone(&cluster), Authenticator::new());
        let code =
            |path: &str| service.health(path, &Query::parse(None)).expect("it is a check").status().as_u16();
        for is_ready in [true, false] {
            cluster.background().add_check("simulator/kubelet".to_owned(), Box::new(move || is_ready));
            let expected = if is_ready { 200 } else { 500 };
            assert_eq!((code("/readyz"), code("/readyz/simulator/kubelet")), (expected, expected));
            assert_eq!(code("/livez"), 200);
        }
    }
}
