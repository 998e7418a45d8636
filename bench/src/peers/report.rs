//! The lines that a contender prints: one when its cache is synced, and one with its costs.
//!
//! The contenders in this program write them; the handle on a contender's process reads them, and
//! the table is made from them.

use serde::{Deserialize, Serialize};

/// The first line: the number of objects in a cache that has just been synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Synced {
    pub(super) synced: usize,
}

/// The last line: the costs of one run. A cost that was not measured is absent.
///
/// The names are those of `dogwatch bench sync`, and two more.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) objects: usize,
    /// Seconds until the cache was synced, by the clock on the wall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sync_s: Option<f64>,
    /// Seconds of processor time until the cache was synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpu_s: Option<f64>,
    /// The peak of the resident memory until then, in megabytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rss_peak_mb: Option<f64>,
    /// The resident memory of the synced cache before the changes, in megabytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rss_mb: Option<f64>,
    /// Microseconds of processor time for each change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpu_us_per_event: Option<f64>,
    /// The bytes of the heap that the synced cache keeps alive, with its connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) live_bytes: Option<f64>,
    /// Seconds of processor time to list all again when nothing has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) relist_cpu_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_bench_sync_is_a_report() {
        let line = r#"{"objects":3,"sync_s":0.5,"cpu_s":0.25,"rss_peak_mb":12.5,"rss_mb":null}"#;
        let report: Report = serde_json::from_str(line).unwrap();
        let expected = Report {
            objects: 3,
            sync_s: Some(0.5),
            cpu_s: Some(0.25),
            rss_peak_mb: Some(12.5),
            ..Report::default()
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report =
            Report { objects: 1, live_bytes: Some(2e9), relist_cpu_s: Some(0.1), ..Report::default() };
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(line, r#"{"objects":1,"live_bytes":2000000000.0,"relist_cpu_s":0.1}"#);
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
    }

    #[test]
    fn a_line_without_objects_is_not_a_report() {
        assert!(serde_json::from_str::<Report>(r#"{"cpu_s":0.25}"#).is_err());
        assert!(serde_json::from_str::<Synced>(r#"{"cpu_s":0.25}"#).is_err());
    }
}
