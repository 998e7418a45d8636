//! The health endpoints, and the health of controllers among the metrics.

use http::StatusCode;

use super::answer::{self, Answer};
use super::query::Query;
use crate::health::BackgroundHealth;

/// The checks of every health endpoint, by the names of kube-apiserver's checks (k8s.io/apiserver
/// v0.36.4 pkg/server/config.go and pkg/server/options/etcd.go).
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

/// The health checks of a server.
#[derive(Debug)]
pub(super) struct HealthChecks<'a> {
    background: &'a BackgroundHealth,
}

impl<'a> HealthChecks<'a> {
    /// Returns the checks of a server with these controllers and components.
    pub(super) fn of(background: &'a BackgroundHealth) -> Self {
        Self { background }
    }
}

impl HealthChecks<'_> {
    /// Serves `/healthz`, `/livez`, `/readyz` and the paths below them; returns `None` for others.
    ///
    /// The texts are those of k8s.io/apiserver v0.36.4 pkg/server/healthz/healthz.go.
    pub(super) fn serve(&self, path: &str, query: &Query) -> Option<Answer> {
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
            checks.extend(self.background.loops().into_iter().map(|(name, health)| Check {
                name: format!("controller/{name}"),
                failure: health.down.map(|_| DOWN),
            }));
            let added = self.background.checks().into_iter();
            checks.extend(
                added.map(|(name, is_ready)| Check { name, failure: (!is_ready).then_some(NOT_READY) }),
            );
        }
        checks
    }

    /// Returns the path of every check.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for endpoint in ["healthz", "livez", "readyz"] {
            paths.push(format!("/{endpoint}"));
            paths.extend(self.checks(endpoint).iter().map(|it| format!("/{endpoint}/{}", it.name)));
        }
        paths
    }

    /// Returns the health of controllers in the Prometheus text format.
    pub(super) fn metrics(&self) -> String {
        let loops = self.background.loops();
        let mut text = "# HELP apiserver_controller_panics_total Counter of panics of each controller.\n\
                    # TYPE apiserver_controller_panics_total counter\n"
            .to_owned();
        for (name, health) in &loops {
            text.push_str(&format!(
                "apiserver_controller_panics_total{{name=\"{name}\"}} {}\n",
                health.panics
            ));
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
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_controller_that_is_down_makes_the_server_not_ready_but_live() {
        let background = BackgroundHealth::default();
        let get = async |path: &str, query: &str| {
            let answer =
                HealthChecks::of(&background).serve(path, &Query::parse(Some(query))).expect("it is a check");
            let code = answer.status().as_u16();
            let text = answer.into_body().collect().await.expect("not cut").to_bytes();
            (code, String::from_utf8(text.to_vec()).expect("text"))
        };
        let ok = (200, "ok".to_owned());
        background.up("tidy");
        background.up("garbage");
        assert_eq!(get("/readyz", "").await, ok);
        assert_eq!(get("/readyz/controller/tidy", "").await, ok);

        background.down("tidy", "a secret");
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
        let metrics = HealthChecks::of(&background).metrics();
        assert!(metrics.contains("\napiserver_controller_panics_total{name=\"tidy\"} 1\n"), "{metrics}");
        assert!(metrics.contains("\napiserver_controller_up{name=\"tidy\"} 0\n"), "{metrics}");

        background.up("tidy");
        assert_eq!(get("/readyz", "").await, ok);
    }

    #[tokio::test]
    async fn an_added_check_counts_for_readiness() {
        let background = BackgroundHealth::default();
        let code = |path: &str| {
            let checks = HealthChecks::of(&background);
            checks.serve(path, &Query::parse(None)).expect("it is a check").status().as_u16()
        };
        for is_ready in [true, false] {
            background.add_check("simulator/kubelet".to_owned(), Box::new(move || is_ready));
            let expected = if is_ready { 200 } else { 500 };
            assert_eq!((code("/readyz"), code("/readyz/simulator/kubelet")), (expected, expected));
            assert_eq!(code("/livez"), 200);
        }
    }
}
