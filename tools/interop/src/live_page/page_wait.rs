//! Waiting inside of the page: expressions that are promises, resolved when a condition holds.
//!
//! The page checks the condition itself, whenever its document changes. So a wait costs nothing
//! while nothing happens, however slow the machine is, and the time from a click to its effect is
//! the page's own, without the way to this program and back.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// The interval of further checks, for conditions that do not depend on the document alone.
const FURTHER_CHECKS: Duration = Duration::from_millis(250);

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    /// False if the limit was reached.
    pub(super) holds: bool,
    pub(super) time: Duration,
    /// The number of snapshots that the page drew meanwhile.
    pub(super) snapshots: u64,
}

/// Returns an expression that waits until a condition holds. `first` is run before the first check,
/// at which the time begins. A condition that throws does not hold: elements are missing while a
/// page loads.
pub(super) fn until(condition: &str, limit: Duration, first: &str) -> String {
    let (limit, checks) = (limit.as_millis(), FURTHER_CHECKS.as_millis());
    format!(
        "new Promise((resolve) => {{\
           const holds = () => {{ try {{ return !!({condition}) }} catch {{ return false }} }};\
           const newest = () => document.body?.dataset.snapshot;\
           let [drawn, snapshots] = [newest(), 0];\
           {first};\
           const begun = performance.now();\
           const end = (it) => {{\
             observer.disconnect(); clearInterval(checks); clearTimeout(limit);\
             resolve([it, performance.now() - begun, snapshots]);\
           }};\
           const check = () => {{\
             if (newest() !== drawn) {{ drawn = newest(); snapshots += 1; }}\
             if (holds()) end(true);\
           }};\
           const observer = new MutationObserver(check);\
           observer.observe(document, {{ subtree: true, childList: true, characterData: true, attributes: true }});\
           const checks = setInterval(check, {checks});\
           const limit = setTimeout(() => end(holds()), {limit});\
           check();\
         }})"
    )
}

/// Reads the value of an expression by [`until`].
pub(super) fn outcome(value: &Value) -> Result<Waited> {
    let holds = value[0].as_bool().context("the page returned no outcome of a wait")?;
    let milliseconds = value[1].as_f64().unwrap_or_default().max(0.0);
    let time = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default();
    Ok(Waited { holds, time, snapshots: value[2].as_u64().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_outcome_of_a_wait_is_read() {
        let expected = Waited { holds: true, time: Duration::from_micros(500_500), snapshots: 1 };
        assert_eq!(outcome(&json!([true, 500.5, 1])).expect("an outcome"), expected);
        assert!(!outcome(&json!([false, 60_000, 120])).expect("an outcome").holds);
        assert!(outcome(&json!(null)).is_err());
    }

    #[test]
    fn the_condition_and_the_first_step_are_part_of_the_expression() {
        let expression = until("1 > 0", Duration::from_secs(2), "button.click()");
        assert!(expression.contains("!!(1 > 0)") && expression.contains("button.click();"));
        assert!(expression.contains("2000)"), "{expression}");
    }
}
