//! What is promised of a scenario, and whether it was kept.

use anyhow::{Result, ensure};

/// Promises with their verdicts. Each is printed when it is judged, so that it stands below what it is about.
#[derive(Debug, Default)]
pub(super) struct Promises {
    broken: usize,
}

impl Promises {
    pub(super) fn add(&mut self, kept: bool, promise: &str) {
        println!("  {}: {promise}", if kept { "kept" } else { "BROKEN" });
        self.broken += usize::from(!kept);
    }

    /// # Errors
    /// When one was broken.
    pub(super) fn judge(&self) -> Result<()> {
        ensure!(self.broken == 0, "promises broken: {}", self.broken);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broken_promise_is_enough_to_fail() {
        let mut promises = Promises::default();
        promises.add(true, "fine");
        assert!(promises.judge().is_ok());
        promises.add(false, "not");
        promises.add(true, "fine");
        assert_eq!(promises.judge().unwrap_err().to_string(), "promises broken: 1");
    }
}
