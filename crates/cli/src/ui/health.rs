//! The health of the caches as text: for each watched kind, its informer's state and its size.
//! Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::kinds::Kinds;
use super::pane::Pane;
use crate::sanitize::without_controls;
use crate::watch::{status, view};

/// Returns the lines about every kind that is watched.
pub(super) fn lines(kinds: &Kinds, now: Instant) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, kind, pane) in kinds.watched() {
        let title = view::title(&kind.served, kinds.namespace_of(at));
        lines.extend(of_pane(&title, pane, now));
        lines.push(String::new());
    }
    if lines.is_empty() {
        lines.push("no kind is watched".to_owned());
    }
    lines.iter().map(|it| without_controls(it)).collect()
}

/// Returns a title that says how far the rows can be trusted.
pub(super) fn title(what: &str, pane: &Pane, now: Instant) -> String {
    status::title(what, pane.table.len(), &pane.report.health, pane.synced_since(now))
}

fn of_pane(what: &str, pane: &Pane, now: Instant) -> Vec<String> {
    let health = &pane.report.health;
    let mut lines = vec![title(what, pane, now)];
    let mut field = |name: &str, value: String| lines.push(format!("  {name:<12}{value}"));
    let version = health.last_version.to_string();
    field("version", if version.is_empty() { "none yet".to_owned() } else { version });
    let memory = pane.report.bytes.map(|it| format!(", {} of rows", size(it))).unwrap_or_default();
    field("objects", format!("{}{memory}", pane.report.objects));
    let relists = match pane.relisted_at {
        None => "not listed again since the start".to_owned(),
        Some(at) => format!("listed again {}, last {} ago", times(health.relists), elapsed(at, now)),
    };
    field("lists", relists);
    let received =
        health.last_event_at.map_or("nothing yet".to_owned(), |at| format!("{} ago", elapsed(at, now)));
    field("received", received);
    if health.rewinds > 0 {
        field("rewinds", format!("the history of the server went back {}", times(health.rewinds)));
    }
    if health.undecodable > 0 {
        field(
            "undecodable",
            format!("{} objects, shown in an older state or not at all", health.undecodable),
        );
    }
    if let Some(problem) = &health.problem {
        field("problem", format!("{} (for {})", problem.message, elapsed(problem.since, now)));
    }
    lines
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn elapsed(since: Instant, now: Instant) -> String {
    let passed = now.saturating_duration_since(since);
    let seconds = passed.as_secs();
    match passed {
        _ if passed < Duration::from_secs(120) => format!("{seconds}s"),
        _ if passed < Duration::from_secs(7200) => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::informer::HealthState;

    use super::super::kinds::tests::kinds;
    use super::super::pane::CacheReport;
    use super::*;

    #[test]
    fn each_cache_has_its_state_version_size_and_lists() {
        let (mut kinds, begin) = (kinds(Some("web")), Instant::now());
        assert_eq!(lines(&kinds, begin), ["no kind is watched"]);
        assert!(kinds.open(1).is_ok());
        let mut report = CacheReport { objects: 3, bytes: Some(2048), ..CacheReport::default() };
        report.health.state = HealthState::Synced;
        report.health.last_version = "41".into();
        report.health.relists = 2;
        let pane = kinds.pane_mut(1).expect("open");
        pane.report(report.clone(), begin);
        report.health.state = HealthState::NotServed;
        pane.report(report, begin);
        let later = begin + Duration::from_secs(30);
        assert_eq!(
            lines(&kinds, later),
            [
                "pods in web: NOT SYNCED for 30s, 0 objects as of then (not served)",
                "  version     41",
                "  objects     3, 2.0 KiB of rows",
                "  lists       listed again 2 times, last 30s ago",
                "  received    nothing yet",
                "",
            ]
        );
    }

    #[test]
    fn sizes_and_times_have_short_units() {
        assert_eq!([0, 1023, 1536, 3 << 20].map(size), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
        let begin = Instant::now();
        let shown = [5, 119, 600, 7200].map(|it| elapsed(begin, begin + Duration::from_secs(it)));
        assert_eq!(shown, ["5s", "119s", "10m", "2h"]);
    }
}
