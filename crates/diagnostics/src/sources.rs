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
use crate::manager_label::{ManagerLabel, ManagerNumbers};

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
    /// The number of managers that were added.
    managers: u64,
    /// With the manager of each factory, if exactly one manager has it.
    factories: Vec<(FactoryMonitor, Option<ManagerLabel>)>,
    informers: Vec<Member<InformerMonitor>>,
    controllers: Vec<Member<ControllerMonitor>>,
    queues: Vec<(u64, QueueReader)>,
    #[cfg(feature = "grpc")]
    channels: Vec<(u64, Arc<str>, ChannelMonitor)>,
    actions: Vec<Arc<Action>>,
}

/// An informer or a controller, and the manager that it belongs to.
#[derive(Clone)]
struct Member<M> {
    id: u64,
    monitor: M,
    manager: Option<ManagerLabel>,
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
        self.add_factory_of(factory, None);
    }

    fn add_factory_of(&self, factory: FactoryMonitor, manager: Option<ManagerLabel>) {
        let mut registry = self.registry.lock();
        match registry.factories.iter_mut().find(|it| it.0 == factory) {
            // A factory that several managers share belongs to none of them.
            Some((_, known)) if *known != manager => *known = None,
            Some(_) => {}
            None => registry.factories.push((factory, manager)),
        }
        drop(registry);
        self.discover();
    }

    pub(crate) fn add_controller(&self, controller: ControllerMonitor) {
        self.add_controller_of(controller, None);
    }

    fn add_controller_of(&self, monitor: ControllerMonitor, manager: Option<ManagerLabel>) {
        // Read outside the lock, and only to find out whether it exists.
        let known = self.registry.lock().controllers.clone();
        let gone = known.iter().filter(|it| it.monitor.stats(0).is_none());
        let gone: Vec<_> = gone.map(|it| it.id).collect();
        let mut registry = self.registry.lock();
        registry.controllers.retain(|it| !gone.contains(&it.id) && it.monitor != monitor);
        let id = registry.next_id();
        registry.controllers.push(Member { id, monitor, manager });
    }

    /// Adds what a manager has; `identity` is that in its leader election.
    pub(crate) fn add_manager(
        &self,
        identity: Option<&str>,
        factory: FactoryMonitor,
        controllers: Vec<ControllerMonitor>,
    ) {
        let mut registry = self.registry.lock();
        registry.managers += 1;
        let label = ManagerLabel::new(registry.managers, identity);
        drop(registry);
        self.add_factory_of(factory, Some(label.clone()));
        controllers.into_iter().for_each(|it| self.add_controller_of(it, Some(label.clone())));
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
        for (factory, manager) in factories {
            match factory.informers() {
                Some(informers) => found.extend(informers.into_iter().map(|it| (it, manager.clone()))),
                None => gone.push(factory),
            }
        }
        let mut registry = self.registry.lock();
        registry.factories.retain(|it| !gone.contains(&it.0));
        registry.add_informers(found.iter().map(|it| it.0.clone()));
        for (informer, manager) in found {
            if let Some(known) = registry.informers.iter_mut().find(|it| it.monitor == informer) {
                known.manager = manager;
            }
        }
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
        let managers = registry.managers_shown();
        let mut informers = Vec::new();
        for Member { id, monitor, manager } in registry.informers.iter().take(MAX_SOURCES) {
            let stats = monitor.stats();
            present(*id, stats.is_some());
            let manager = manager.as_ref().and_then(|it| it.text(&managers));
            informers.extend(stats.map(|it| Informer::new(*id, manager, it, now)));
        }
        let mut controllers = Vec::new();
        for Member { id, monitor, manager } in registry.controllers.iter().take(MAX_SOURCES) {
            let stats = monitor.stats(MAX_KEYS);
            present(*id, stats.is_some());
            let Some(stats) = stats else { continue };
            let sources = registry.ids_of(&stats.sources);
            let is_elected = manager.as_ref().is_some_and(ManagerLabel::is_elected);
            let manager = manager.as_ref().and_then(|it| it.text(&managers));
            controllers.push(Controller::new(*id, manager, is_elected, sources, stats));
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
        self.informers.retain(|it| !it.monitor.is_gone());
        for monitor in informers {
            if !monitor.is_gone() && self.informers.iter().all(|it| it.monitor != monitor) {
                let id = self.next_id();
                self.informers.push(Member { id, monitor, manager: None });
            }
        }
    }

    /// Returns the numbers of the managers that have an informer or a controller here.
    fn managers_shown(&self) -> ManagerNumbers {
        let informers = self.informers.iter().filter_map(|it| it.manager.as_ref());
        informers.chain(self.controllers.iter().filter_map(|it| it.manager.as_ref())).collect()
    }

    /// Returns the ids of these informers; those that were not added have none.
    fn ids_of(&self, informers: &[InformerMonitor]) -> Vec<u64> {
        let known = self.informers.iter().filter(|it| informers.contains(&it.monitor));
        known.map(|it| it.id).collect()
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
        self.informers.retain(|it| !gone.contains(&it.id));
        self.controllers.retain(|it| !gone.contains(&it.id));
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
