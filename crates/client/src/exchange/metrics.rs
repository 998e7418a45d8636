//! Metrics of requests, with client-go's names (rule RQ-17).

use std::time::Duration;

use http::{Method, StatusCode};
use metrics::{Label, counter, histogram};

/// A recorder of metrics for requests to one server. Every attempt counts.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    host: String,
}

impl RequestMetrics {
    /// Creates a recorder that labels all metrics with `host`.
    pub(crate) fn new(host: impl Into<String>) -> Self {
        Self { host: host.into() }
    }

    /// Records one attempt, counted from 0; `code` is `None` if there was no response.
    pub(crate) fn attempt(
        &self,
        method: &Method,
        attempt: u32,
        taken: Duration,
        sent: usize,
        code: Option<StatusCode>,
    ) {
        let code = Label::new("code", code.map_or_else(|| "<error>".to_owned(), |it| it.as_str().to_owned()));
        let by_method = vec![code.clone(), self.host_label(), Label::new("method", method.to_string())];
        counter!("rest_client_requests_total", by_method).increment(1);
        histogram!("rest_client_request_duration_seconds", self.labels(method)).record(taken.as_secs_f64());
        histogram!("rest_client_request_size_bytes", self.labels(method)).record(sent as f64);
        if attempt > 0 {
            let mut labels = self.labels(method);
            labels.push(code);
            counter!("rest_client_request_retries_total", labels).increment(1);
        }
    }

    /// Records a complete response of `received` bytes.
    pub(crate) fn response_read(&self, method: &Method, received: usize) {
        histogram!("rest_client_response_size_bytes", self.labels(method)).record(received as f64);
    }

    /// Records a wait for the client-side rate limit.
    pub(crate) fn throttled(&self, method: &Method, waited: Duration) {
        histogram!("rest_client_rate_limiter_duration_seconds", self.labels(method))
            .record(waited.as_secs_f64());
    }

    fn labels(&self, method: &Method) -> Vec<Label> {
        vec![Label::new("verb", method.to_string()), self.host_label()]
    }

    fn host_label(&self) -> Label {
        Label::new("host", self.host.clone())
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::DebuggingRecorder;

    use super::*;

    #[test]
    fn rq_17_every_attempt_counts_and_only_later_ones_are_retries() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let metrics_recorder = RequestMetrics::new("server:6443");
            metrics_recorder.attempt(
                &Method::GET,
                0,
                Duration::from_millis(5),
                0,
                Some(StatusCode::SERVICE_UNAVAILABLE),
            );
            metrics_recorder.attempt(&Method::GET, 1, Duration::from_millis(5), 0, None);
            metrics_recorder.response_read(&Method::GET, 10);
            metrics_recorder.throttled(&Method::GET, Duration::ZERO);
        });
        let mut names: Vec<_> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, ..)| {
                let (_, key) = key.into_parts();
                let labels: Vec<_> = key.labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
                format!("{} {}", key.name(), labels.join(","))
            })
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "rest_client_rate_limiter_duration_seconds verb=GET,host=server:6443",
                "rest_client_request_duration_seconds verb=GET,host=server:6443",
                "rest_client_request_retries_total verb=GET,host=server:6443,code=<error>",
                "rest_client_request_size_bytes verb=GET,host=server:6443",
                "rest_client_requests_total code=503,host=server:6443,method=GET",
                "rest_client_requests_total code=<error>,host=server:6443,method=GET",
                "rest_client_response_size_bytes verb=GET,host=server:6443",
            ]
        );
    }
}
