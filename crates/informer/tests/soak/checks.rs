//! The checks: which changes each member may receive next, and which state everything must have in
//! the end.
//!
//! Pure. Violations are collected as messages, so that one run can report all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dogwatch_core::Object;
use dogwatch_informer::{Change, Overflow};

use crate::sample::Sample;
use crate::schedule::{Manner, Member, Watched};

/// The compared part of an object's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    uid: String,
    version: u64,
}

/// Objects by their keys.
pub(crate) type Picture = BTreeMap<String, State>;

/// Returns the key of an object and its state.
pub(crate) fn entry(object: &Sample) -> (String, State) {
    entry_of(object)
}

/// Returns the key and the state of an object of any type.
pub(crate) fn entry_of(object: &impl Object) -> (String, State) {
    let header = object.header();
    let key = object.key().map(String::from).expect("stored objects have names");
    (key, State { uid: header.uid.to_owned(), version: header.version.parse().expect("a number") })
}

/// Returns true for the objects that pass the filter of [`Manner::Filtered`].
pub(crate) fn passes(object: &Sample) -> bool {
    is_on(object)
}

/// Returns true if an object of any type carries the label.
pub(crate) fn is_on(object: &impl Object) -> bool {
    object.header().labels.get("set") == Some("on")
}

/// One change that a member received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Added { key: String, state: State, initial: bool },
    Updated { key: String, old: State, new: State },
    Deleted { key: String, last: State, missed: bool },
}

impl Received {
    fn of(change: &Change<Sample>) -> Self {
        let (key, state) = entry(change.object());
        match change {
            Change::Added { initial, .. } => Self::Added { key, state, initial: *initial },
            Change::Updated { old, .. } => Self::Updated { key, old: entry(old).1, new: state },
            Change::Deleted(last) => Self::Deleted { key, last: state, missed: last.is_missed() },
            other => panic!("unknown change: {other:?}"),
        }
    }

    fn key(&self) -> &str {
        match self {
            Self::Added { key, .. } | Self::Updated { key, .. } | Self::Deleted { key, .. } => key,
        }
    }

    fn is_initial(&self) -> bool {
        matches!(self, Self::Added { initial: true, .. })
    }

    /// Applies the change to a picture.
    fn apply(&self, picture: &mut Picture) {
        match self {
            Self::Added { key, state, .. } => picture.insert(key.clone(), state.clone()),
            Self::Updated { key, new, .. } => picture.insert(key.clone(), new.clone()),
            Self::Deleted { key, .. } => picture.remove(key),
        };
    }
}

/// The circumstances under which a member received a change.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    /// True if the member had received everything that existed when it joined.
    pub(crate) synced: bool,
    /// The version of the store.
    pub(crate) store: Option<u64>,
}

/// The changes that one member received, applied to a picture, and those that were wrong.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) member: Member,
    /// The version of the store when the member joined.
    joined_at: Option<u64>,
    pub(crate) picture: Picture,
    /// The newest version of each key, including those of deleted objects.
    newest: BTreeMap<String, u64>,
    /// The uids of the objects that were reported as deleted.
    gone: BTreeSet<String>,
    log: Vec<Received>,
    /// Set if versions went back or started again: only consistency between consecutive changes is
    /// checked then.
    pub(crate) rewound: bool,
    pub(crate) wrong: Vec<String>,
    /// Set when the member must not receive anything any more.
    pub(crate) left: bool,
}

impl Witness {
    pub(crate) fn new(member: Member, joined_at: Option<u64>) -> Self {
        let (picture, newest, gone) = (Picture::new(), BTreeMap::new(), BTreeSet::new());
        let (log, wrong) = (Vec::new(), Vec::new());
        Self { member, joined_at, picture, newest, gone, log, rewound: false, wrong, left: false }
    }

    /// Records one change and everything that is wrong with it.
    pub(crate) fn receive(&mut self, change: &Change<Sample>, at: &Circumstances) {
        let received = Received::of(change);
        if let Some(problem) = self.problem(change, &received, at) {
            self.wrong.push(format!("{:?}: {problem}: {received:?} at {at:?}", self.member));
        }
        received.apply(&mut self.picture);
        let (key, state) = entry(change.object());
        if matches!(received, Received::Deleted { .. }) {
            self.gone.insert(state.uid.clone());
        }
        self.newest.insert(key, state.version);
        self.log.push(received);
    }

    fn problem(
        &self,
        change: &Change<Sample>,
        received: &Received,
        at: &Circumstances,
    ) -> Option<&'static str> {
        let (key, state) = entry(change.object());
        let (known, newest) = (self.picture.get(&key), self.newest.get(&key));
        if self.left {
            return Some("received after it left");
        }
        if self.rewound {
            return self.contradiction(received);
        }
        if at.store.is_some_and(|store| store < state.version) && self.member.of != Watched::TwoNamespaces {
            return Some("the store does not show it yet");
        }
        match received {
            Received::Added { .. } if known.is_some() => Some("added twice"),
            Received::Added { .. } if newest.is_some_and(|it| *it >= state.version) => {
                Some("added again with an old version")
            }
            Received::Added { .. } if self.deletions_are_final() && self.gone.contains(&state.uid) => {
                Some("exists again after its deletion")
            }
            Received::Added { initial: true, .. } if at.synced => Some("initial after the initial list"),
            Received::Added { initial: false, .. }
                if self.joined_at.is_some_and(|it| it >= state.version) =>
            {
                Some("existed before it joined, and is not initial")
            }
            Received::Added { .. } => None,
            Received::Updated { old, new, .. } => match known {
                None => Some("updated, but unknown"),
                Some(known) if known != old => Some("updated from another state"),
                Some(_) if old.uid != new.uid => Some("updated into another object"),
                Some(_) if new.version > old.version => None,
                Some(_) if new == old && self.is_received_again() => None,
                Some(_) => Some("updated to the same or an older state"),
            },
            Received::Deleted { last, missed, .. } => match known {
                None => Some("deleted, but unknown"),
                Some(known) if known.uid != last.uid => Some("another object was deleted"),
                Some(known) if known.version > last.version => Some("deleted in an older state"),
                Some(known) if *missed && self.hears_all() && known != last => {
                    Some("missed in a state that was never delivered")
                }
                Some(_) => None,
            },
        }
    }

    /// Returns a contradiction to the changes before, regardless of versions.
    fn contradiction(&self, received: &Received) -> Option<&'static str> {
        match received {
            Received::Added { key, .. } if self.picture.contains_key(key) => Some("added twice"),
            Received::Added { .. } => None,
            Received::Updated { key, old, new } => match self.picture.get(key) {
                None => Some("updated, but unknown"),
                Some(known) if known != old => Some("updated from another state"),
                Some(_) if old.uid != new.uid => Some("updated into another object"),
                Some(_) => None,
            },
            Received::Deleted { key, last, .. } => match self.picture.get(key) {
                None => Some("deleted, but unknown"),
                Some(known) if known.uid != last.uid => Some("another object was deleted"),
                Some(_) => None,
            },
        }
    }

    /// Returns true if an object that was reported as deleted must be deleted on the server: it
    /// cannot just have stopped matching a selector, and no older state of the server was restored.
    fn deletions_are_final(&self) -> bool {
        !self.rewound && self.member.of != Watched::Labelled && self.member.manner != Manner::Filtered
    }

    /// Returns the key of an object that was reported as deleted although the server has it.
    pub(crate) fn received_too_much<'t>(&self, truth: &'t Truth) -> Option<&'t str> {
        let mut there = truth.objects.iter().filter(|_| self.deletions_are_final());
        there.find(|(_, it)| self.gone.contains(&it.uid)).map(|(key, _)| key.as_str())
    }

    fn is_received_again(&self) -> bool {
        matches!(self.member.manner, Manner::Again(_))
    }

    /// Returns true if the member receives every change, one by one.
    fn hears_all(&self) -> bool {
        let own = matches!(self.member.manner, Manner::Filtered | Manner::Again(_));
        self.member.overflow != Overflow::Coalesce && !own
    }

    /// Returns true if its changes are consistent with those of the member that received everything
    /// from the start: first everything that existed at some moment, as initial additions, and from
    /// then on the same changes in the same order; to the end, unless it left.
    ///
    /// A merged backlog may drop updates, and nothing else: every addition and every deletion of
    /// each key must be there, in order.
    pub(crate) fn agrees_with(&self, reference: &Self) -> bool {
        if matches!(self.member.manner, Manner::Filtered | Manner::Again(_)) {
            return true;
        }
        if self.member.overflow == Overflow::Coalesce {
            return self.lives().all(|(key, mine)| {
                let all = reference.lives_of(key);
                // It joined later, so it may lack the first ones; a member that left may lack the
                // last ones.
                if self.left { all.windows(mine.len()).any(|it| it == mine) } else { all.ends_with(&mine) }
            }) && (self.left || self.picture.keys().eq(reference.picture.keys()))
                && (self.left || self.lost(reference).is_none());
        }
        continues(&self.log, &reference.log, !self.left)
    }

    /// Returns the uid of an object whose deletion the reference received after this member joined,
    /// and this member did not.
    fn lost<'r>(&self, reference: &'r Self) -> Option<&'r str> {
        // The version of several namespaces is the oldest of them: it does not say which states the
        // store showed of the others.
        if self.member.of == Watched::TwoNamespaces || self.rewound {
            return None;
        }
        let joined = self.joined_at.unwrap_or(0);
        let mut deletions = reference.log.iter().filter_map(|it| match it {
            Received::Deleted { last, .. } if last.version > joined => Some(last.uid.as_str()),
            _ => None,
        });
        deletions.find(|uid| !self.gone.contains(*uid))
    }

    /// Returns the additions and deletions of each key, which a merged backlog must keep.
    fn lives(&self) -> impl Iterator<Item = (&str, Vec<(bool, &str)>)> {
        let keys: std::collections::BTreeSet<_> = self.log.iter().map(Received::key).collect();
        keys.into_iter().map(|key| (key, self.lives_of(key)))
    }

    fn lives_of(&self, key: &str) -> Vec<(bool, &str)> {
        self.log
            .iter()
            .filter(|it| it.key() == key)
            .filter_map(|it| match it {
                Received::Added { state, .. } => Some((true, state.uid.as_str())),
                Received::Deleted { last, .. } => Some((false, last.uid.as_str())),
                Received::Updated { .. } => None,
            })
            .collect()
    }

    pub(crate) fn events(&self) -> usize {
        self.log.len()
    }

    /// Returns the number of deletions that were only inferred from a list.
    pub(crate) fn missed(&self) -> usize {
        self.log.iter().filter(|it| matches!(it, Received::Deleted { missed: true, .. })).count()
    }

    /// Returns the last change.
    pub(crate) fn last(&self) -> Option<&Received> {
        self.log.last()
    }
}

/// Returns true if a log is a replay of the picture at some point of the reference, followed by the
/// reference from there on.
fn continues(log: &[Received], reference: &[Received], to_the_end: bool) -> bool {
    let mut picture = Picture::new();
    for at in 0..=reference.len() {
        let (replay, rest) = log.split_at(picture.len().min(log.len()));
        let follows = match to_the_end {
            true => *rest == reference[at..],
            false => reference[at..].starts_with(rest),
        };
        let replayed = || {
            let mut replayed = Picture::new();
            replay.iter().for_each(|it| it.apply(&mut replayed));
            // A member that left during the replay has received a part of it.
            let whole = replayed == picture
                || !to_the_end
                    && rest.is_empty()
                    && replayed.iter().all(|(key, it)| picture.get(key) == Some(it));
            whole && replay.iter().all(Received::is_initial)
        };
        if follows && replayed() {
            return true;
        }
        if let Some(next) = reference.get(at) {
            next.apply(&mut picture);
        }
    }
    false
}

/// Returns the objects as a picture.
pub(crate) fn picture<'o>(objects: impl IntoIterator<Item = &'o Arc<Sample>>) -> Picture {
    objects.into_iter().map(|it| entry(it)).collect()
}

/// Describes the difference between two pictures; `None` if they are equal.
pub(crate) fn difference(what: &str, have: &Picture, expected: &Picture) -> Option<String> {
    if have == expected {
        return None;
    }
    let keys = have.keys().chain(expected.keys().filter(|it| !have.contains_key(*it)));
    let differ = keys.filter(|it| have.get(*it) != expected.get(*it));
    let shown: Vec<_> =
        differ.map(|it| format!("{it}: {:?} instead of {:?}", have.get(it), expected.get(it))).collect();
    Some(format!("{what} is not as expected: {}", shown.join(", ")))
}

/// The state of the server, as far as an informer covers it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) objects: Picture,
    /// The keys of the undecodable objects.
    pub(crate) poisoned: BTreeSet<String>,
}

/// Returns the violations of a store: decodable objects must be shown as they are, and undecodable
/// ones must be marked, and shown in an older state or not at all. Which older state is right is
/// checked for handlers: the store shows the state that they received last.
pub(crate) fn judge(
    what: &str,
    store: &Picture,
    undecodable: &BTreeSet<String>,
    truth: &Truth,
) -> Vec<String> {
    let sound = |picture: &Picture| -> Picture {
        let sound = picture.iter().filter(|(key, _)| !truth.poisoned.contains(*key));
        sound.map(|(key, it)| (key.clone(), it.clone())).collect()
    };
    let mut wrong: Vec<_> = difference(what, &sound(store), &sound(&truth.objects)).into_iter().collect();
    for key in &truth.poisoned {
        if !undecodable.contains(key) {
            wrong.push(format!("{what} does not mark {key}, which cannot be decoded"));
        }
        if store.get(key).is_some_and(|it| Some(it) == truth.objects.get(key)) {
            wrong.push(format!("{what} shows {key} in a state that cannot be decoded"));
        }
    }
    wrong
}
