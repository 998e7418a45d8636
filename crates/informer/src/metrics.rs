//! The metrics of an informer and of its handlers, with client-go's names where it has one (rule
//! IN-14).

use dogwatch_core::{ResourceType, ResourceVersion};
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The number of trailing digits of a version that are exported: as many as an `f64` holds exactly.
const VERSION_DIGITS: usize = 15;

/// The metrics of one informer.
#[derive(Debug)]
pub(crate) struct InformerMetrics {
    labels: Vec<Label>,
    queued: Gauge,
    processing: Histogram,
    version: Gauge,
    memory: Gauge,
}

/// The metrics of one handler.
pub(crate) struct HandlerMetrics {
    pending: Gauge,
    latency: Histogram,
    panics: Counter,
}

impl InformerMetrics {
    pub(crate) fn new(name: &str, resource: &ResourceType) -> Self {
        let labels = vec![
            Label::new("name", name.to_owned()),
            Label::new("group", resource.gvk.group.to_string()),
            Label::new("version", resource.gvk.version.to_string()),
            Label::new("resource", resource.plural.to_string()),
        ];
        Self {
            queued: gauge!("informer_queued_items", labels.clone()),
            processing: histogram!("informer_processing_latency_seconds", labels.clone()),
            version: gauge!("informer_store_resource_version", labels.clone()),
            memory: gauge!("informer_store_bytes", labels.clone()),
            labels,
        }
    }

    /// Records the number of deltas that wait for the store.
    pub(crate) fn queued(&self, count: usize) {
        self.queued.set(count as f64);
    }

    /// Records that a batch was applied and delivered.
    pub(crate) fn processed(&self, taken: Duration) {
        self.processing.record(taken);
    }

    /// Records the version of the store, and the memory of its objects if it is known.
    pub(crate) fn stored(&self, version: &ResourceVersion, memory: Option<usize>) {
        if let Some(memory) = memory {
            self.memory.set(memory as f64);
        }
        if let Some(version) = version_number(version) {
            self.version.set(version);
        }
    }

    /// Creates the metrics of a handler of this informer.
    pub(crate) fn handler(&self, name: &Arc<str>) -> HandlerMetrics {
        let mut labels = self.labels.clone();
        labels.push(Label::new("handler", name.to_string()));
        HandlerMetrics {
            pending: gauge!("informer_handler_pending_items", labels.clone()),
            latency: histogram!("informer_handler_latency_seconds", labels.clone()),
            panics: counter!("informer_handler_panics_total", labels),
        }
    }
}

impl HandlerMetrics {
    /// Records the number of changes that the handler has not processed yet.
    pub(crate) fn pending(&self, count: usize) {
        self.pending.set(count as f64);
    }

    /// Records that the handler takes changes, of which the oldest has waited since `oldest`.
    pub(crate) fn taken(&self, left: usize, oldest: Option<Instant>) {
        self.pending(left);
        if let Some(oldest) = oldest {
            self.latency.record(oldest.elapsed());
        }
    }

    pub(crate) fn panicked(&self) {
        self.panics.increment(1);
    }
}

/// Returns the last digits of a version as a number; `None` if it is not one.
fn version_number(version: &ResourceVersion) -> Option<f64> {
    let text = version.as_str();
    let digits = text.len().saturating_sub(VERSION_DIGITS);
    text.get(digits..)?.parse::<u64>().ok().map(|it| it as f64)
}

impl std::fmt::Debug for HandlerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_14_the_metric_of_a_version_is_its_last_fifteen_digits() {
        for (version, number) in [
            ("42", Some(42.0)),
            ("123456789012345678", Some(456789012345678.0)),
            ("", None),
            ("not-a-number", None),
        ] {
            assert_eq!(version_number(&ResourceVersion::new(version)), number, "{version}");
        }
    }
}
