//! How many requests there were and how many watches there are, for `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many requests there were and how many watches there are. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    shared: Arc<Mutex<Counted>>,
}

#[derive(Debug, Default)]
struct Counted {
    /// By verb, group, resource with part, and code.
    requests: BTreeMap<(String, String, String, u16), u64>,
    /// By group and resource.
    watches: BTreeMap<(String, String), u64>,
}

/// A watch that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct CountedWatch {
    counters: Counters,
    of: (String, String),
}

impl Counters {
    /// One more request.
    pub(super) fn request(&self, verb: &str, group: &str, resource: &str, code: u16) {
        let key = (verb.to_uppercase(), group.to_owned(), resource.to_owned(), code);
        *self.counted().requests.entry(key).or_default() += 1;
    }

    /// One more watch, until what this gives is dropped.
    pub(super) fn watch(&self, group: &str, resource: &str) -> CountedWatch {
        let of = (group.to_owned(), resource.to_owned());
        *self.counted().watches.entry(of.clone()).or_default() += 1;
        CountedWatch { counters: self.clone(), of }
    }

    /// All of it in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let counted = self.counted();
        let mut out = String::from(
            "# HELP apiserver_request_total Counter of apiserver requests broken out for each verb, group, resource and \
             HTTP response code.\n# TYPE apiserver_request_total counter\n",
        );
        // Writing to a string does not fail.
        for ((verb, group, resource, code), count) in &counted.requests {
            let _ = writeln!(
                out,
                "apiserver_request_total{{code=\"{code}\",group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\"}} {count}"
            );
        }
        out.push_str(
            "# HELP apiserver_longrunning_requests Gauge of all active long-running apiserver requests broken out by verb, \
             group and resource.\n# TYPE apiserver_longrunning_requests gauge\n",
        );
        for ((group, resource), count) in &counted.watches {
            let _ = writeln!(
                out,
                "apiserver_longrunning_requests{{group=\"{group}\",resource=\"{resource}\",verb=\"WATCH\"}} {count}"
            );
        }
        out
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        if let Some(count) = self.counters.counted().watches.get_mut(&self.of) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_up_and_watches_go() {
        let counters = Counters::default();
        counters.request("get", "apps", "deployments", 200);
        counters.request("get", "apps", "deployments", 200);
        let watch = counters.watch("", "pods");
        let text = counters.text();
        let request =
            r#"apiserver_request_total{code="200",group="apps",resource="deployments",verb="GET"} 2"#;
        assert!(text.contains(request), "{text}");
        let gauge = r#"apiserver_longrunning_requests{group="",resource="pods",verb="WATCH"} "#;
        assert!(text.contains(&format!("{gauge}1")), "{text}");
        drop(watch);
        assert!(counters.text().contains(&format!("{gauge}0")));
    }
}
