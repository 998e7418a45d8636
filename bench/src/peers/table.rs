//! The costs of all contenders: their reports, the columns that are shown of them, and the table.

use std::fmt::Write as _;

use super::report::Report;
use super::spread::Spread;

/// One cost in a report, and how it is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    of: fn(&Report) -> Option<f64>,
    decimals: usize,
}

pub(super) const SYNC_CPU: Column = Column { heading: "sync CPU s", of: |it| it.cpu_s, decimals: 3 };
const SYNC_WALL: Column = Column { heading: "sync wall s", of: |it| it.sync_s, decimals: 3 };
pub(super) const PEAK: Column = Column { heading: "peak RSS MB", of: |it| it.rss_peak_mb, decimals: 1 };
pub(super) const STEADY: Column = Column { heading: "steady RSS MB", of: |it| it.rss_mb, decimals: 1 };
pub(super) const LIVE: Column = Column {
    heading: "live B/object",
    of: |it| it.live_bytes.filter(|_| it.objects > 0).map(|bytes| bytes / it.objects as f64),
    decimals: 0,
};
pub(super) const EVENT: Column =
    Column { heading: "CPU us/event", of: |it| it.cpu_us_per_event, decimals: 1 };
const RELIST: Column = Column { heading: "relist CPU s", of: |it| it.relist_cpu_s, decimals: 3 };

/// The columns of the table, in their order.
const COLUMNS: &[Column] = &[SYNC_CPU, SYNC_WALL, PEAK, STEADY, LIVE, EVENT, RELIST];

/// The reports of all contenders, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Results(Vec<(String, Vec<Report>)>);

impl Results {
    /// Adds the report of one run of a contender.
    pub(super) fn add(&mut self, contender: &str, report: Report) {
        match self.0.iter_mut().find(|(name, _)| name == contender) {
            Some((_, reports)) => reports.push(report),
            None => self.0.push((contender.to_owned(), vec![report])),
        }
    }

    /// Returns the median of a cost; `None` if the contender or the cost was not measured.
    pub(super) fn median(&self, contender: &str, column: Column) -> Option<f64> {
        let (_, reports) = self.0.iter().find(|(name, _)| name == contender)?;
        Spread::of(reports.iter().filter_map(column.of)).map(|it| it.median)
    }

    /// Formats the table: a line for each contender, with the median and the spread of each cost. A
    /// dash stands for a cost that was not measured.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:22}", "");
        for column in COLUMNS {
            let _ = write!(table, " {:>15}", column.heading);
        }
        for (name, reports) in &self.0 {
            let _ = write!(table, "\n{name:22}");
            for column in COLUMNS {
                let spread = Spread::of(reports.iter().filter_map(column.of));
                let cell = spread.map_or_else(|| "-".to_owned(), |it| cell(&it, column.decimals));
                let _ = write!(table, " {cell:>15}");
            }
        }
        table
    }
}

fn cell(spread: &Spread, decimals: usize) -> String {
    format!("{:.decimals$} ±{:.0}%", spread.median, spread.percent())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_medians_and_dashes() {
        let mut results = Results::default();
        for cpu in [0.9, 1.0, 1.1] {
            results.add("ours", Report { objects: 10, cpu_s: Some(cpu), ..Report::default() });
        }
        results.add("ours", Report { objects: 10, live_bytes: Some(12_340.0), ..Report::default() });
        results.add("floor", Report { objects: 10, sync_s: Some(0.25), ..Report::default() });
        let table = results.table();
        let lines: Vec<_> = table.lines().map(|it| it.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], ["ours", "1.000", "±10%", "-", "-", "-", "1234", "±0%", "-", "-"]);
        assert_eq!(lines[2], ["floor", "-", "0.250", "±0%", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn a_median_is_that_of_one_contender() {
        let mut results = Results::default();
        results.add("a", Report { objects: 2, live_bytes: Some(100.0), ..Report::default() });
        assert_eq!(results.median("a", LIVE), Some(50.0));
        assert_eq!(results.median("a", EVENT), None);
        assert_eq!(results.median("b", LIVE), None);
    }

    #[test]
    fn bytes_of_no_objects_are_not_divided() {
        let mut results = Results::default();
        results.add("a", Report { live_bytes: Some(100.0), ..Report::default() });
        assert_eq!(results.median("a", LIVE), None);
    }
}
