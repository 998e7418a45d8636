//! The checks of a scenario, and their verdicts.

use anyhow::{Result, ensure};

/// Checks with their verdicts. Each is printed when it is judged, below the figures it is about.
#[derive(Debug, Default)]
pub(super) struct Promises {
    broken: usize,
}

impl Promises {
    pub(super) fn add(&mut self, kept: bool, promise: &str) {
        println!("  {}: {promise}", if kept { "ok" } else { "FAILED" });
        self.broken += usize::from(!kept);
    }

    /// Fails if a check has failed.
    ///
    /// # Errors
    /// If a check has failed.
    pub(super) fn judge(&self) -> Result<()> {
        ensure!(self.broken == 0, "checks failed: {}", self.broken);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_is_enough_to_fail() {
        let mut promises = Promises::default();
        promises.add(true, "fine");
        assert!(promises.judge().is_ok());
        promises.add(false, "not");
        promises.add(true, "fine");
        assert_eq!(promises.judge().unwrap_err().to_string(), "checks failed: 1");
    }
}
