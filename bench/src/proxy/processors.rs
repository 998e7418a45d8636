//! The time for which the processors of this machine were busy, in all processes together.

use anyhow::{Context, Result};

/// The ticks of all processors since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ticks {
    busy: u64,
    all: u64,
}

impl Ticks {
    /// Reads the ticks of now.
    ///
    /// # Errors
    /// If the system does not report them. Linux does.
    pub(super) fn read() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&stat).context("unexpected content of /proc/stat")
    }

    /// Returns the share of the time since `earlier` in which the processors were busy, between 0
    /// and 1.
    pub(super) fn busy_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.busy.saturating_sub(earlier.busy) as f64 / all as f64
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|it| it.strip_prefix("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the others are parts of the first
        // two.
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|it| it.parse().ok()).collect();
        let all = ticks.iter().sum();
        Some(Self { busy: all - ticks.get(3)? - ticks.get(4)?, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() {
        let before = Ticks::parse("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n").unwrap();
        let after = Ticks::parse("cpu  150 10 120 800 100 5 5 10 90 0\n").unwrap();
        assert_eq!(before, Ticks { busy: 200, all: 1000 });
        assert_eq!(after.busy_since(before), 0.5);
        assert_eq!(after.busy_since(after), 0.0);
        assert_eq!(Ticks::parse("intr 1 2 3"), None);
    }
}
