//! The sources of the page, held weakly, and the snapshot of all of them.
//!
//! Filled by the program at any time, read by the snapshot task. A source that has ended is dropped
//! by the next snapshot or the next addition, so that a page that is never opened does not grow.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dogwatch_controller::ControllerMonitor;
use dogwatch_core::ObjectKey;
#[cfg(feature = "grpc")]
use dogwatch_grpc::ChannelMonitor;
use dogwatch_informer::{FactoryMonitor, InformerMonitor};
use dogwatch_workqueue::{Note, WorkQueue};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::action::Action;
use crate::document::{self, Channel, Controller, Document, Informer, Program, Queue};

/// The number of sources of each kind that are shown.
const MAX_SOURCES: usize = 200;

/// The number of keys of a queue that are shown.
const MAX_KEYS: usize = 50;

/// Everything that a page shows.
#[derive(Debug)]
pub(crate) struct Sources {
    started: Instant,
    program: Mutex<String>,
    registry: Mutex<Registry>,
}

/// The sources by kind, each with its id on the page, in the order in which they were added.
#[derive(Clone, Default)]
struct Registry {
    last_id: u64,
    factories: Vec<FactoryMonitor>,
    informers: Vec<(u64, InformerMonitor)>,
    controllers: Vec<(u64, ControllerMonitor)>,
    queues: Vec<(u64, QueueReader)>,
    #[cfg(feature = "grpc")]
    channels: Vec<(u64, Arc<str>, ChannelMonitor)>,
    actions: Vec<Arc<Action>>,
}

/// Reads a queue of any type; `None` if it is gone.
type QueueReader = Arc<dyn Fn(u64) -> Option<Queue> + Send + Sync>;

impl Sources {
    pub(crate) fn new(program: String) -> Self {
        Self { started: Instant::now(), program: Mutex::new(program), registry: Mutex::default() }
    }

    pub(crate) fn set_program(&self, name: String) {
        *self.program.lock() = name;
    }

    pub(crate) fn add_informer(&self, informer: InformerMonitor) {
        self.registry.lock().add_informers([informer]);
    }

    pub(crate) fn add_factory(&self, factory: FactoryMonitor) {
        let mut registry = self.registry.lock();
        if !registry.factories.contains(&factory) {
            registry.factories.push(factory);
        }
        drop(registry);
        self.discover();
    }

    pub(crate) fn add_controller(&self, controller: ControllerMonitor) {
        // Read outside the lock, and only to find out whether it exists.
        let known = self.registry.lock().controllers.clone();
        let gone: Vec<_> = known.iter().filter(|(_, it)| it.stats(0).is_none()).map(|(id, _)| *id).collect();
        let mut registry = self.registry.lock();
        registry.controllers.retain(|(id, it)| !gone.contains(id) && *it != controller);
        let id = registry.next_id();
        registry.controllers.push((id, controller));
    }

    /// Adds a queue. Its keys and notes are shown as text.
    pub(crate) fn add_queue<K, N>(&self, name: String, queue: &WorkQueue<K, N>)
    where
        K: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static,
        N: Note + Clone + fmt::Debug,
    {
        let queue = queue.downgrade();
        let read: QueueReader = Arc::new(move |id| {
            let snapshot = queue.upgrade()?.snapshot(MAX_KEYS).map_keys(|it| text_of(&it));
            Some(Queue::new(id, &name, snapshot, text_of_note))
        });
        let known = self.registry.lock().queues.clone();
        let gone: Vec<_> = known.iter().filter(|(id, it)| it(*id).is_none()).map(|(id, _)| *id).collect();
        let mut registry = self.registry.lock();
        registry.queues.retain(|(id, _)| !gone.contains(id));
        let id = registry.next_id();
        registry.queues.push((id, read));
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn add_channel(&self, name: &str, channel: ChannelMonitor) {
        let known = self.registry.lock().channels.clone();
        let gone: Vec<_> =
            known.iter().filter(|(_, _, it)| it.stats().is_none()).map(|(id, ..)| *id).collect();
        let mut registry = self.registry.lock();
        registry.channels.retain(|(id, _, it)| !gone.contains(id) && *it != channel);
        let id = registry.next_id();
        registry.channels.push((id, name.into(), channel));
    }

    pub(crate) fn add_action(&self, action: Action) {
        self.registry.lock().actions.push(Arc::new(action));
    }

    pub(crate) fn action(&self, id: usize) -> Option<Arc<Action>> {
        self.registry.lock().actions.get(id).cloned()
    }

    /// Adds the informers of factories that are not known yet, and drops factories that are gone.
    fn discover(&self) {
        let factories = self.registry.lock().factories.clone();
        let (mut found, mut gone) = (Vec::new(), Vec::new());
        // Outside the lock: dropping the last handle of an informer runs code of the program.
        for factory in factories {
            match factory.informers() {
                Some(informers) => found.extend(informers),
                None => gone.push(factory),
            }
        }
        let mut registry = self.registry.lock();
        registry.factories.retain(|it| !gone.contains(it));
        registry.add_informers(found);
    }

    /// Returns the state of all sources, and drops those that have ended.
    pub(crate) fn document(&self, interval: Duration) -> Document {
        self.discover();
        let registry = self.registry.lock().clone();
        let now = Instant::now();
        let mut gone = Vec::new();
        let mut present = |id: u64, is_present: bool| {
            if !is_present {
                gone.push(id);
            }
        };
        let mut informers = Vec::new();
        for (id, monitor) in registry.informers.iter().take(MAX_SOURCES) {
            let stats = monitor.stats();
            present(*id, stats.is_some());
            informers.extend(stats.map(|it| Informer::new(*id, it, now)));
        }
        let mut controllers = Vec::new();
        for (id, monitor) in registry.controllers.iter().take(MAX_SOURCES) {
            let stats = monitor.stats(MAX_KEYS);
            present(*id, stats.is_some());
            controllers.extend(stats.map(|it| Controller::new(*id, it)));
        }
        let mut queues = Vec::new();
        for (id, read) in registry.queues.iter().take(MAX_SOURCES) {
            let queue = read(*id);
            present(*id, queue.is_some());
            queues.extend(queue);
        }
        let channels = registry.channels(&mut present);
        let actions = registry.actions.iter().enumerate().map(|(id, it)| document::Action {
            id,
            name: document::bounded(&it.name),
            running: it.is_running(),
        });
        let (actions, omitted) = (actions.collect(), registry.omitted());
        self.registry.lock().forget(&gone);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Document {
            program: self.program(),
            time_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            informers,
            controllers,
            queues,
            channels,
            actions,
            omitted,
        }
    }

    fn program(&self) -> Program {
        Program {
            name: document::bounded(&self.program.lock()),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Registry {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds the informers that are not known yet, and drops those that are gone.
    fn add_informers(&mut self, informers: impl IntoIterator<Item = InformerMonitor>) {
        self.informers.retain(|(_, it)| !it.is_gone());
        for informer in informers {
            if !informer.is_gone() && self.informers.iter().all(|(_, it)| *it != informer) {
                let id = self.next_id();
                self.informers.push((id, informer));
            }
        }
    }

    #[cfg(feature = "grpc")]
    fn channels(&self, present: &mut impl FnMut(u64, bool)) -> Vec<Channel> {
        let mut channels = Vec::new();
        for (id, name, monitor) in self.channels.iter().take(MAX_SOURCES) {
            let stats = monitor.stats();
            present(*id, stats.is_some());
            channels.extend(stats.map(|it| Channel::new(*id, name, it)));
        }
        channels
    }

    #[cfg(not(feature = "grpc"))]
    fn channels(&self, _: &mut impl FnMut(u64, bool)) -> Vec<Channel> {
        Vec::new()
    }

    /// Returns the number of sources that are not shown.
    fn omitted(&self) -> usize {
        let kinds = [self.informers.len(), self.controllers.len(), self.queues.len()];
        kinds.into_iter().map(|it| it.saturating_sub(MAX_SOURCES)).sum()
    }

    fn forget(&mut self, gone: &[u64]) {
        self.informers.retain(|(id, _)| !gone.contains(id));
        self.controllers.retain(|(id, _)| !gone.contains(id));
        self.queues.retain(|(id, _)| !gone.contains(id));
        #[cfg(feature = "grpc")]
        self.channels.retain(|(id, ..)| !gone.contains(id));
    }
}

/// Returns the text of a key: that of its `Display` for the common types, and of `Debug` for
/// others.
fn text_of<K: fmt::Debug + 'static>(key: &K) -> String {
    let any: &dyn Any = key;
    let known = any.downcast_ref::<ObjectKey>().map(ToString::to_string);
    let known = known.or_else(|| any.downcast_ref::<String>().cloned());
    let known = known.or_else(|| any.downcast_ref::<&'static str>().map(|it| (*it).to_owned()));
    known.unwrap_or_else(|| format!("{key:?}"))
}

/// Returns the text of a note; none for queues without notes.
fn text_of_note<N: fmt::Debug + 'static>(note: &N) -> String {
    let any: &dyn Any = note;
    if any.is::<()>() { String::new() } else { format!("{note:?}") }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("factories", &self.factories.len())
            .field("informers", &self.informers.len())
            .field("controllers", &self.controllers.len())
            .field("queues", &self.queues.len())
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_are_gone_leave_nothing_behind_although_no_browser_looks() {
        let sources = Sources::new("test".to_owned());
        for number in 0..1000 {
            sources.add_queue(number.to_string(), &WorkQueue::<u32>::new());
        }
        assert!(sources.registry.lock().queues.len() <= 1);
        assert!(sources.document(Duration::ZERO).queues.is_empty());
        assert!(sources.registry.lock().queues.is_empty());
    }

    #[test]
    fn keys_and_notes_are_shown_as_their_owners_write_them() {
        assert_eq!(text_of(&ObjectKey::namespaced("shop", "web")), "shop/web");
        assert_eq!((text_of(&"plain"), text_of(&"owned".to_owned())), ("plain".into(), "owned".into()));
        assert_eq!(text_of(&(7, 'x')), "(7, 'x')");
        assert_eq!((text_of_note(&()), text_of_note(&7)), (String::new(), "7".to_owned()));
    }
}
