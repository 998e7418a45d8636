//! Named health checks and their report, in the wording of kube-apiserver
//! (`k8s.io/apiserver v0.36.4 pkg/server/healthz/healthz.go`).

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::Arc;

use dogwatch_core::ErrorChain;
use futures_core::future::BoxFuture;

use crate::action::BoxError;

/// The checks of one endpoint, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Checks(Vec<(String, Check)>);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// The response of a health endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HealthReport {
    pub(crate) ok: bool,
    pub(crate) text: String,
}

/// The query parameters of a health request.
#[derive(Debug, Default)]
pub(crate) struct HealthQuery {
    /// Lists each check, also when all of them pass.
    pub(crate) verbose: bool,
    /// The names of the checks to skip.
    pub(crate) exclude: BTreeSet<String>,
}

impl Checks {
    /// Adds a check, or replaces the check of the same name.
    pub(crate) fn add<F, E>(&mut self, name: impl Into<String>, check: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let name = name.into();
        let check: Check = Arc::new(move || {
            let checking = check();
            Box::pin(async move { checking.await.map_err(Into::into) })
        });
        match self.0.iter_mut().find(|it| it.0 == name) {
            Some(known) => known.1 = check,
            None => self.0.push((name, check)),
        }
    }

    /// Returns true if there is a check with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.0 == name)
    }

    /// Runs all checks in order. The reason of a failure goes to the log and is withheld from the
    /// response, because the endpoint is unauthenticated.
    pub(crate) async fn all(&self, endpoint: &str, mut query: HealthQuery) -> HealthReport {
        let mut text = String::new();
        let mut failed = Vec::new();
        for (name, check) in &self.0 {
            let outcome = if query.exclude.remove(name) {
                "excluded: ok"
            } else if let Err(error) = check().await {
                failed.push(format!("{name}: {}", ErrorChain(&*error)));
                let _ = writeln!(text, "[-]{name} failed: reason withheld");
                continue;
            } else {
                "ok"
            };
            let _ = writeln!(text, "[+]{name} {outcome}");
        }
        if !query.exclude.is_empty() {
            let unknown: Vec<_> = query.exclude.iter().map(|it| format!("{it:?}")).collect();
            let unknown = unknown.join(", ");
            let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {unknown}");
        }
        if !failed.is_empty() {
            tracing::warn!(endpoint, failed = failed.join("; "), "a health check failed");
            let _ = writeln!(text, "{endpoint} check failed");
        } else if query.verbose {
            let _ = writeln!(text, "{endpoint} check passed");
        } else {
            text = "ok".to_owned();
        }
        HealthReport { ok: failed.is_empty(), text }
    }

    /// Runs one check. Returns `None` if there is no check with this name.
    pub(crate) async fn one(&self, name: &str) -> Option<HealthReport> {
        let (_, check) = self.0.iter().find(|it| it.0 == name)?;
        Some(match check().await {
            Ok(()) => HealthReport { ok: true, text: "ok".to_owned() },
            Err(error) => {
                HealthReport { ok: false, text: format!("internal server error: {}\n", ErrorChain(&*error)) }
            }
        })
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| &it.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(names: &[(&str, bool)]) -> Checks {
        let mut checks = Checks::default();
        for (name, good) in names {
            let good = *good;
            checks.add(*name, move || async move { if good { Ok(()) } else { Err("the password is x") } });
        }
        checks
    }

    fn query(verbose: bool, exclude: &[&str]) -> HealthQuery {
        HealthQuery { verbose, exclude: exclude.iter().map(|it| (*it).to_owned()).collect() }
    }

    #[tokio::test]
    async fn the_report_has_the_wording_of_kube_apiserver() {
        let good = [("ping", true), ("db", true)];
        let bad = [("ping", true), ("db", false)];
        for (names, verbose, exclude, ok, text) in [
            (good, false, &[] as &[&str], true, "ok"),
            (good, true, &[], true, "[+]ping ok\n[+]db ok\nreadyz check passed\n"),
            (bad, false, &[], false, "[+]ping ok\n[-]db failed: reason withheld\nreadyz check failed\n"),
            (bad, true, &["db"], true, "[+]ping ok\n[+]db excluded: ok\nreadyz check passed\n"),
            (
                good,
                true,
                &["x", "db", "y"],
                true,
                "[+]ping ok\n[+]db excluded: ok\nwarn: some health checks cannot be excluded: \
                 no matches for \"x\", \"y\"\nreadyz check passed\n",
            ),
        ] {
            let report = checks(&names).all("readyz", query(verbose, exclude)).await;
            assert_eq!(report, HealthReport { ok, text: text.to_owned() });
        }
    }

    #[tokio::test]
    async fn a_single_check_reports_its_reason() {
        let checks = checks(&[("ping", true), ("db", false)]);
        assert_eq!(checks.one("ping").await.map(|it| it.text).as_deref(), Some("ok"));
        let report = checks.one("db").await.expect("there is one");
        let text = "internal server error: the password is x\n".to_owned();
        assert_eq!(report, HealthReport { ok: false, text });
        assert_eq!(checks.one("other").await, None);
    }

    #[tokio::test]
    async fn a_check_replaces_the_check_of_the_same_name() {
        let mut checks = checks(&[("ping", false), ("db", true)]);
        checks.add("ping", || async { Ok::<(), BoxError>(()) });
        let report = checks.all("healthz", query(true, &[])).await;
        assert_eq!(report.text, "[+]ping ok\n[+]db ok\nhealthz check passed\n");
    }
}
