//! The endpoint for operators: readiness by resource, and metrics in the format of Prometheus.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::answer::{Answer, error, with_body};
use crate::cached_reads::CachedReads;
use crate::forward::Peer;
use crate::listener::Handler;

/// The numbers of requests.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    pub(crate) forwarded: AtomicU64,
}

/// The handler of the endpoint for operators.
pub(crate) struct StatusPage {
    pub(crate) cache: Arc<CachedReads>,
    pub(crate) counts: Arc<RequestCounts>,
}

impl Handler for StatusPage {
    async fn respond(&self, request: Request<Incoming>, _: &Peer) -> Answer {
        if request.method() != Method::GET {
            return error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is served here");
        }
        match request.uri().path() {
            "/livez" => with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
            "/readyz" => self.readiness(),
            "/metrics" => {
                with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.metrics())
            }
            _ => error(StatusCode::NOT_FOUND, "NotFound", "served here: /livez, /readyz, /metrics"),
        }
    }
}

impl StatusPage {
    /// Returns 200 if every resource can be answered from memory, and a line for each.
    fn readiness(&self) -> Answer {
        let (mut lines, mut code) = (String::new(), StatusCode::OK);
        let mut all: Vec<_> = self.cache.collections().collect();
        all.sort_by_key(|(name, _)| *name);
        for ((group, version, resource), collection) in all {
            let state = if collection.is_ready() { "ok" } else { "not ready" };
            if !collection.is_ready() {
                code = StatusCode::SERVICE_UNAVAILABLE;
            }
            let problem = collection.problem().map(|it| format!(": {it}")).unwrap_or_default();
            let _ = writeln!(lines, "{group}/{version} {resource} {state}{problem}");
        }
        lines.push_str(if code == StatusCode::OK { "ready\n" } else { "not ready\n" });
        with_body(code, "text/plain; charset=utf-8", lines)
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        let mut single = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let load = |it: &AtomicU64| it.load(Ordering::Relaxed);
        single(
            "dogwatch_proxy_cached_reads_total",
            "counter",
            "Requests answered from memory.",
            self.cache.answered(),
        );
        single(
            "dogwatch_proxy_forwarded_requests_total",
            "counter",
            "Requests passed on.",
            load(&self.counts.forwarded),
        );
        single("dogwatch_proxy_reviews_total", "counter", "Reviews sent upstream.", self.cache.reviews());
        for (name, help) in [
            ("dogwatch_proxy_objects", "Objects in memory."),
            ("dogwatch_proxy_bytes", "Bytes of the objects in memory."),
            ("dogwatch_proxy_watches", "Open watches answered from memory."),
            ("dogwatch_proxy_resource_ready", "1 if the resource can be answered from memory."),
        ] {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
            for ((group, version, resource), collection) in self.cache.collections() {
                let usage = collection.usage();
                let value = match name {
                    "dogwatch_proxy_objects" => usage.objects as u64,
                    "dogwatch_proxy_bytes" => usage.bytes as u64,
                    "dogwatch_proxy_watches" => usage.watches,
                    _ => u64::from(collection.is_ready()),
                };
                let _ = writeln!(
                    text,
                    "{name}{{group=\"{group}\",version=\"{version}\",resource=\"{resource}\"}} {value}"
                );
            }
        }
        text
    }
}
