//! Status conditions: set with the transition time and the observed generation that the Kubernetes
//! API conventions ask for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The conditions of an object's status, while a reconcile sets them.
///
/// A condition's transition time changes only if its status does, and nothing changes if the
/// condition is already as it should be. Each setter returns true if it changed anything, so that a
/// reconciler can skip the write otherwise. The order of the list is kept.
///
/// ```
/// use dogwatch_controller::conditions::Conditions;
///
/// let mut list = Vec::new(); // `document.status.conditions`
/// let generation = Some(3); // `document.metadata.generation`
/// let mut conditions = Conditions::new(&mut list, generation);
/// assert!(conditions.set_true("Ready", "Published", "3 pages are published"));
/// assert!(!conditions.set_true("Ready", "Published", "3 pages are published"));
/// assert!(conditions.is_true("Ready"));
/// assert_eq!(list[0].observed_generation, Some(3));
/// ```
#[derive(Debug)]
pub struct Conditions<'a> {
    list: &'a mut Vec<Condition>,
    generation: Option<i64>,
    now: Time,
}

impl<'a> Conditions<'a> {
    /// Conditions that are about this generation of the object, its `metadata.generation`.
    pub fn new(list: &'a mut Vec<Condition>, generation: Option<i64>) -> Self {
        Self { list, generation, now: Time(Timestamp::now()) }
    }

    /// Uses this time for transitions. Defaults to the time at which the value was made.
    #[must_use]
    pub fn at(mut self, now: Time) -> Self {
        self.now = now;
        self
    }

    /// Sets a condition to `True`. Returns true if that changed anything.
    pub fn set_true(&mut self, name: &str, reason: &str, message: impl Into<String>) -> bool {
        self.set(name, "True", reason, message.into())
    }

    /// Sets a condition to `False`. Returns true if that changed anything.
    pub fn set_false(&mut self, name: &str, reason: &str, message: impl Into<String>) -> bool {
        self.set(name, "False", reason, message.into())
    }

    /// Sets a condition to `Unknown`. Returns true if that changed anything.
    pub fn set_unknown(&mut self, name: &str, reason: &str, message: impl Into<String>) -> bool {
        self.set(name, "Unknown", reason, message.into())
    }

    /// Removes a condition. Returns true if there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.list.len();
        self.list.retain(|it| it.type_ != name);
        self.list.len() < before
    }

    /// Returns a condition.
    pub fn get(&self, name: &str) -> Option<&Condition> {
        self.list.iter().find(|it| it.type_ == name)
    }

    /// Returns true if the condition is `True`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|it| it.status == "True")
    }

    fn set(&mut self, name: &str, status: &str, reason: &str, message: String) -> bool {
        let mut next = Condition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: self.now.clone(),
        };
        match self.list.iter_mut().find(|it| it.type_ == name) {
            Some(held) => {
                if held.status == next.status {
                    next.last_transition_time = held.last_transition_time.clone();
                }
                let changed = *held != next;
                *held = next;
                changed
            }
            None => {
                self.list.push(next);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let mut list = Vec::new();
        assert!(Conditions::new(&mut list, Some(1)).at(time(1)).set_false(
            "Ready",
            "Starting",
            "no page yet"
        ));
        assert!(Conditions::new(&mut list, Some(1)).at(time(2)).set_false("Ready", "Starting", "one page"));
        assert_eq!((list[0].message.as_str(), &list[0].last_transition_time), ("one page", &time(1)));
        assert!(Conditions::new(&mut list, Some(1)).at(time(3)).set_true("Ready", "Published", ""));
        assert_eq!(list[0].last_transition_time, time(3));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn another_generation_is_a_change_and_the_same_state_is_none() {
        let mut list = Vec::new();
        assert!(Conditions::new(&mut list, Some(1)).at(time(1)).set_unknown("Ready", "Starting", ""));
        assert!(!Conditions::new(&mut list, Some(1)).at(time(2)).set_unknown("Ready", "Starting", ""));
        assert!(Conditions::new(&mut list, Some(2)).at(time(2)).set_unknown("Ready", "Starting", ""));
        assert_eq!((list[0].observed_generation, &list[0].last_transition_time), (Some(2), &time(1)));
    }

    #[test]
    fn conditions_keep_their_order_and_can_be_removed() {
        let mut list = Vec::new();
        let mut conditions = Conditions::new(&mut list, None);
        conditions.set_true("A", "R", "");
        conditions.set_false("B", "R", "");
        conditions.set_false("A", "R", "");
        assert!(!conditions.is_true("A") && conditions.get("B").is_some() && conditions.get("C").is_none());
        assert!(conditions.remove("A") && !conditions.remove("A"));
        assert_eq!(list.iter().map(|it| it.type_.as_str()).collect::<Vec<_>>(), ["B"]);
    }
}
