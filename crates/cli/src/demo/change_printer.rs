//! An event handler that prints an object when its state changes, and counts all events.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use dogwatch::Object;
use dogwatch::informer::{Change, EventHandler, Registration};

use super::task::Output;

/// Prints the changes of the objects of one kind.
pub(super) struct ChangePrinter<K> {
    kind: &'static str,
    output: Output,
    /// Formats the state of an object. An unchanged state is not printed again.
    state: fn(&K) -> String,
    /// Formats an addition to each line.
    aside: Box<dyn Fn(&K) -> String + Send>,
    /// The last printed state of each object.
    printed: HashMap<String, String>,
    tally: Tally,
}

/// The counts of a handler; a clone shows the same numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: Arc<Mutex<Counts>>,
    /// The registration of the handler with its informer, once it has one.
    pub(super) place: Arc<OnceLock<Registration>>,
}

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) made: u64,
    pub(super) gone: u64,
    /// The maximum number of pending changes, including the one being handled.
    pub(super) behind: usize,
}

impl<K: Object> ChangePrinter<K> {
    pub(super) fn new(kind: &'static str, output: Output, state: fn(&K) -> String) -> Self {
        let aside = Box::new(|_: &K| String::new());
        Self { kind, output, state, aside, printed: HashMap::new(), tally: Tally::default() }
    }

    /// Adds a text to each line.
    pub(super) fn aside(mut self, words: impl Fn(&K) -> String + Send + 'static) -> Self {
        self.aside = Box::new(words);
        self
    }

    /// Returns its counts.
    pub(super) fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// Returns the line for a change, if the state is new.
    fn line(&mut self, change: &Change<K>) -> Option<String> {
        let object = &**change.object();
        let name = format!("{} {}", self.kind, object.header().name);
        if matches!(change, Change::Deleted(_)) {
            self.printed.remove(&name)?;
            return Some(format!("{name} was deleted"));
        }
        let state = (self.state)(object);
        let line = format!("{name} {state}{}", (self.aside)(object));
        (self.printed.insert(name, state.clone()) != Some(state)).then_some(line)
    }
}

impl<K: Object> EventHandler<K> for ChangePrinter<K> {
    fn on_change(&mut self, change: &Change<K>) {
        self.tally.count(change);
        if let Some(line) = self.line(change) {
            self.output.print(line);
        }
    }
}

impl Tally {
    /// Returns the current counts.
    pub(super) fn counts(&self) -> Counts {
        *self.lock()
    }

    /// Returns the number of pending changes.
    pub(super) fn pending(&self) -> usize {
        self.place.get().map(|it| it.lag().pending).unwrap_or_default()
    }

    fn count<K>(&self, change: &Change<K>) {
        let pending = self.pending();
        let mut counts = self.lock();
        counts.events += 1;
        counts.made += u64::from(matches!(change, Change::Added { .. }));
        counts.gone += u64::from(matches!(change, Change::Deleted(_)));
        counts.behind = counts.behind.max(pending);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::informer::Deleted;
    use dogwatch::k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(state: &str) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.data = Some([("state".to_owned(), state.to_owned())].into());
        Arc::new(map)
    }

    fn state(map: &ConfigMap) -> String {
        map.data.as_ref().map(|it| it["state"].clone()).unwrap_or_default()
    }

    #[test]
    fn only_new_states_are_printed_and_all_events_are_counted() {
        let (output, mut printed) = Output::new();
        let mut change_printer = ChangePrinter::new("map", output, state).aside(|_| ", so far".to_owned());
        let tally = change_printer.tally();
        let updated = |to: &str| Change::Updated { old: map("waits"), new: map(to) };
        for change in [
            Change::Added { object: map("waits"), initial: true },
            updated("waits"),
            updated("runs"),
            Change::Deleted(Deleted::Seen(map("runs"))),
            Change::Deleted(Deleted::Seen(map("runs"))),
        ] {
            change_printer.on_change(&change);
        }
        drop(change_printer);
        let lines: Vec<_> = std::iter::from_fn(|| printed.blocking_recv()).collect();
        assert_eq!(lines, ["map a waits, so far", "map a runs, so far", "map a was deleted"]);
        assert_eq!(tally.counts(), Counts { events: 5, made: 1, gone: 2, ..Counts::default() });
    }
}
