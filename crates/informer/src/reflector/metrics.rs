//! The metrics of a reflector, with client-go's names.

use dogwatch_core::ResourceVersion;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};

use super::signals::Measure;

/// The number of trailing digits of a version that are exported, as a gauge cannot hold more (rule
/// IN-14).
const EXACT_DIGITS: usize = 15;

/// The metrics of one reflector, labelled with its name and its resource.
pub(super) struct ReflectorMetrics {
    lists: Counter,
    list_duration: Histogram,
    items_per_list: Histogram,
    watches: Counter,
    short_watches: Counter,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    last_version: Gauge,
    undecodable: Counter,
}

impl ReflectorMetrics {
    pub(super) fn new(name: &str, resource: &str) -> Self {
        let labels = vec![Label::new("name", name.to_owned()), Label::new("resource", resource.to_owned())];
        Self {
            lists: counter!("reflector_lists_total", labels.clone()),
            list_duration: histogram!("reflector_list_duration_seconds", labels.clone()),
            items_per_list: histogram!("reflector_items_per_list", labels.clone()),
            watches: counter!("reflector_watches_total", labels.clone()),
            short_watches: counter!("reflector_short_watches_total", labels.clone()),
            watch_duration: histogram!("reflector_watch_duration_seconds", labels.clone()),
            items_per_watch: histogram!("reflector_items_per_watch", labels.clone()),
            last_version: gauge!("reflector_last_resource_version", labels.clone()),
            undecodable: counter!("reflector_undecodable_total", labels),
        }
    }

    /// Counts a list, or a watch with initial events.
    pub(super) fn listing(&self) {
        self.lists.increment(1);
    }

    /// Counts a watch.
    pub(super) fn watching(&self) {
        self.watches.increment(1);
    }

    pub(super) fn measured(&self, measure: &Measure) {
        match measure {
            Measure::Listed(list) => {
                self.list_duration.record(list.took.as_secs_f64());
                self.items_per_list.record(list.objects as f64);
            }
            Measure::Watched { took, events, short } => {
                self.watch_duration.record(took.as_secs_f64());
                self.items_per_watch.record(*events as f64);
                self.short_watches.increment(u64::from(*short));
            }
            Measure::Interrupted(_) => {}
        }
    }

    pub(super) fn reached(&self, version: &ResourceVersion) {
        let text = version.as_str();
        let last = text.get(text.len().saturating_sub(EXACT_DIGITS)..);
        if let Some(number) = last.and_then(|it| it.parse::<u64>().ok()) {
            self.last_version.set(number as f64);
        }
    }

    pub(super) fn undecodable(&self, objects: u64) {
        self.undecodable.increment(objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version is opaque text: one that has no character boundary before its last fifteen bytes
    /// used to panic.
    #[test]
    fn in_14_a_version_of_any_characters_is_exported_or_skipped() {
        let metrics = ReflectorMetrics::new("a", "things");
        for version in [
            "",
            "7",
            "123456789012345678",
            "x\u{e9}123456789012345",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            metrics.reached(&ResourceVersion::new(version));
        }
    }
}
