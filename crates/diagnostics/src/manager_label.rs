//! The manager that an informer or a controller belongs to, and its text on the page.
//!
//! Made when a program adds a manager, read by every snapshot. Replicas of one program in a
//! process, as in a test or a demo, have informers and controllers of equal names: the label
//! distinguishes them.

use std::collections::BTreeSet;
use std::sync::Arc;

/// A manager of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerLabel {
    /// The place in the order in which managers were added, from 1 on.
    number: u64,
    /// The identity in its leader election, if it takes part in one.
    identity: Option<Arc<str>>,
}

impl ManagerLabel {
    pub(crate) fn new(number: u64, identity: Option<&str>) -> Self {
        Self { number, identity: identity.map(Into::into) }
    }

    /// Returns true if it takes part in a leader election.
    pub(crate) fn is_elected(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns its text: the identity, or a number where others are on the page.
    pub(crate) fn text(&self, shown: &ManagerNumbers) -> Option<String> {
        match &self.identity {
            Some(identity) => Some(identity.to_string()),
            None => (shown.0.len() > 1).then(|| format!("manager {}", self.number)),
        }
    }
}

/// The numbers of the managers in one snapshot.
#[derive(Debug, Default)]
pub(crate) struct ManagerNumbers(BTreeSet<u64>);

impl<'a> FromIterator<&'a ManagerLabel> for ManagerNumbers {
    fn from_iter<I: IntoIterator<Item = &'a ManagerLabel>>(labels: I) -> Self {
        Self(labels.into_iter().map(|it| it.number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_without_an_identity_has_a_number_if_it_is_not_the_only_one() {
        let (elected, plain) = (ManagerLabel::new(1, Some("pod-a")), ManagerLabel::new(2, None));
        let (both, alone) = ([&elected, &plain].into_iter().collect(), [&plain].into_iter().collect());
        assert_eq!((elected.text(&both).as_deref(), elected.is_elected()), (Some("pod-a"), true));
        assert_eq!((plain.text(&both).as_deref(), plain.is_elected()), (Some("manager 2"), false));
        assert_eq!(plain.text(&alone), None);
    }
}
