//! The checks of a scenario, and their verdicts.

use anyhow::{Result, ensure};

/// Checks with their verdicts. Each is printed when it is judged, below the figures it is about.
#[derive(Debug, Default)]
pub(super) struct Checks {
    failed: usize,
}

impl Checks {
    pub(super) fn add(&mut self, passed: bool, description: &str) {
        println!("  {}: {description}", if passed { "ok" } else { "FAILED" });
        self.failed += usize::from(!passed);
    }

    /// Fails if a check has failed.
    ///
    /// # Errors
    /// If a check has failed.
    pub(super) fn judge(&self) -> Result<()> {
        ensure!(self.failed == 0, "checks failed: {}", self.failed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_is_enough_to_fail() {
        let mut checks = Checks::default();
        checks.add(true, "fine");
        assert!(checks.judge().is_ok());
        checks.add(false, "not");
        checks.add(true, "fine");
        assert_eq!(checks.judge().unwrap_err().to_string(), "checks failed: 1");
    }
}
