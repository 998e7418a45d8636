//! The number of requests served and of open watches, for `/metrics`.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The verbs that are counted by name. A method can be any token of up to 60 KB, chosen by the
/// client, so all others count as `other`, as in k8s.io/apiserver v0.36.4
/// pkg/endpoints/metrics/metrics.go.
const VERBS: [&str; 14] = [
    "CONNECT",
    "CREATE",
    "DELETE",
    "DELETECOLLECTION",
    "GET",
    "HEAD",
    "LIST",
    "OPTIONS",
    "PATCH",
    "POST",
    "PUT",
    "TRACE",
    "UPDATE",
    "WATCH",
];
const OTHER: &str = "other";

/// The maximum number of series of one metric. Groups and resources are only those that are served,
/// but CustomResourceDefinitions come and go.
const MAX_SERIES: usize = 10_000;

/// The number of requests served and of open watches. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct ServingMetrics {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Keyed by verb, group, resource with subresource, and status code.
    requests: BTreeMap<(&'static str, String, String, u16), u64>,
    /// Keyed by group and resource.
    watches: BTreeMap<(String, String), u64>,
}

/// An open watch, counted until this is dropped.
#[derive(Debug)]
pub(super) struct CountedWatch {
    metrics: ServingMetrics,
    of: (String, String),
}

impl ServingMetrics {
    /// Counts a request.
    pub(super) fn request(&self, verb: &str, group: &str, resource: &str, code: u16) {
        let verb = VERBS.into_iter().find(|it| it.eq_ignore_ascii_case(verb)).unwrap_or(OTHER);
        let mut key = (verb, group.to_owned(), resource.to_owned(), code);
        let mut counts = self.counts();
        if counts.requests.len() >= MAX_SERIES && !counts.requests.contains_key(&key) {
            (key.1, key.2) = (OTHER.to_owned(), OTHER.to_owned());
        }
        *counts.requests.entry(key).or_default() += 1;
    }

    /// Counts an open watch until the result is dropped.
    pub(super) fn watch(&self, group: &str, resource: &str) -> CountedWatch {
        let of = (group.to_owned(), resource.to_owned());
        *self.counts().watches.entry(of.clone()).or_default() += 1;
        CountedWatch { metrics: self.clone(), of }
    }

    /// Returns the number of open watches.
    pub(super) fn watches(&self) -> u64 {
        self.counts().watches.values().sum()
    }

    /// Returns all counters in the Prometheus text format.
    pub(super) fn text(&self) -> String {
        let counts = self.counts();
        let mut out = String::from(
            "# HELP apiserver_request_total Counter of apiserver requests broken out for each verb, group, resource and \
             HTTP response code.\n# TYPE apiserver_request_total counter\n",
        );
        // Writing to a string does not fail.
        for ((verb, group, resource, code), count) in &counts.requests {
            let _ = writeln!(
                out,
                "apiserver_request_total{{code=\"{code}\",group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\"}} {count}"
            );
        }
        out.push_str(
            "# HELP apiserver_longrunning_requests Gauge of all active long-running apiserver requests broken out by verb, \
             group and resource.\n# TYPE apiserver_longrunning_requests gauge\n",
        );
        for ((group, resource), count) in &counts.watches {
            let _ = writeln!(
                out,
                "apiserver_longrunning_requests{{group=\"{group}\",resource=\"{resource}\",verb=\"WATCH\"}} {count}"
            );
        }
        out
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let mut counts = self.metrics.counts();
        let Some(count) = counts.watches.get_mut(&self.of) else { return };
        *count = count.saturating_sub(1);
        let is_over = *count == 0;
        if is_over && counts.watches.len() > MAX_SERIES {
            counts.watches.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_add_up_and_watches_are_a_gauge() {
        let metrics = ServingMetrics::default();
        metrics.request("get", "apps", "deployments", 200);
        metrics.request("get", "apps", "deployments", 200);
        let watch = metrics.watch("", "pods");
        let text = metrics.text();
        let request =
            r#"apiserver_request_total{code="200",group="apps",resource="deployments",verb="GET"} 2"#;
        assert!(text.contains(request), "{text}");
        let gauge = r#"apiserver_longrunning_requests{group="",resource="pods",verb="WATCH"} "#;
        assert!(text.contains(&format!("{gauge}1")), "{text}");
        drop(watch);
        assert!(metrics.text().contains(&format!("{gauge}0")));
    }

    proptest! {
        /// For all methods that callers send, and any number of definitions: the page stays short.
        #[test]
        fn labels_are_of_a_fixed_set_or_bounded(verbs in prop::collection::vec("[!-~]{1,300}", 1..50)) {
            let metrics = ServingMetrics::default();
            for verb in &verbs {
                metrics.request(verb, "", "", 401);
            }
            let text = metrics.text();
            prop_assert!(text.lines().count() <= VERBS.len() + 1 + 4, "{text}");
            prop_assert!(text.lines().all(|it| it.len() < 200), "{text}");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded_while_definitions_come_and_go() {
        let metrics = ServingMetrics::default();
        for at in 0..MAX_SERIES + 500 {
            let group = format!("group-{at}.example");
            metrics.request("list", &group, "widgets", 200);
            drop(metrics.watch(&group, "widgets"));
        }
        let text = metrics.text();
        assert!(text.lines().count() <= 2 * (MAX_SERIES + 1) + 4, "{}", text.lines().count());
        let rest = r#"apiserver_request_total{code="200",group="other",resource="other",verb="LIST"} 500"#;
        assert!(text.contains(rest), "all further series are counted together");
    }
}
