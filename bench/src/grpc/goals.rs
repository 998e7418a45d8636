//! Goals and their verdicts; and the median on which they are judged.

use anyhow::{Result, ensure};

/// Goals with their verdicts, in the order they were judged.
#[derive(Debug, Default)]
pub(super) struct Goals(Vec<(bool, String)>);

impl Goals {
    pub(super) fn add(&mut self, met: bool, goal: String) {
        self.0.push((met, goal));
    }

    /// Prints all goals.
    ///
    /// # Errors
    /// If a goal is missed.
    pub(super) fn judge(&self) -> Result<()> {
        for (met, goal) in &self.0 {
            println!("{}: {goal}", if *met { "met" } else { "MISSED" });
        }
        ensure!(self.0.iter().all(|it| it.0), "a goal is missed");
        Ok(())
    }
}

/// Returns the median, or the higher of the two middle values. `None` without values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(4.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn one_missed_goal_is_enough_to_fail() {
        let mut goals = Goals::default();
        assert!(goals.judge().is_ok());
        goals.add(true, "fine".to_owned());
        assert!(goals.judge().is_ok());
        goals.add(false, "not".to_owned());
        goals.add(true, "fine".to_owned());
        assert!(goals.judge().is_err());
    }
}
