//! The log of a controller: one line for a failed reconcile, in a span that names the key.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dogwatch_controller::{Action, BoxError, Context, Controller, Terminal};
use dogwatch_core::ObjectKey;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::test_cluster::{Running, SECOND, TestCluster};

/// Keeps the log lines of this crate from `warn` on, each with its span.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<Mutex<Vec<String>>>,
    entered: Arc<AtomicU64>,
}

/// Fields as text.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("dogwatch_controller")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let mut spans = self.spans.lock().unwrap();
        spans.push(format!("{} {}", span.metadata().name(), fields.0));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() > Level::WARN {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let entered = usize::try_from(self.entered.load(Ordering::Relaxed)).unwrap();
        let spans = self.spans.lock().unwrap();
        let span = entered.checked_sub(1).map_or("", |it| &spans[it]);
        self.lines.lock().unwrap().push(format!("{span}| {} {}", event.metadata().level(), fields.0));
    }

    fn enter(&self, span: &Id) {
        self.entered.store(span.into_u64(), Ordering::Relaxed);
    }

    fn exit(&self, _: &Id) {
        self.entered.store(0, Ordering::Relaxed);
    }
}

/// Sets the subscriber of this thread, until the result is dropped.
///
/// A second subscriber exists meanwhile. While there is only one, tracing asks the thread that
/// first reaches a statement whether it is enabled, and that may be the thread of another test,
/// which has no subscriber.
fn capture(log: &Log) -> (DefaultGuard, Dispatch) {
    let other = Dispatch::new(NoSubscriber::new());
    (tracing::subscriber::set_default(log.clone()), other)
}

#[tokio::test(start_paused = true)]
async fn a_failed_reconcile_logs_one_line_with_its_key_and_reason() {
    let cluster = TestCluster::with(&["error", "good", "panic", "slow", "terminal"]).await;
    let log = Log::default();
    let logging = capture(&log);
    let controller =
        Controller::of(&cluster.informer()).named("tested").workers(5).reconcile_timeout(SECOND).build(
            |key: ObjectKey, context: Context| async move {
                // Another test may have been registering one of these log statements while the
                // subscriber was set, and tracing then takes it for disabled.
                tracing::callsite::rebuild_interest_cache();
                match (key.name(), context.attempt()) {
                    ("error", 0) => Err(BoxError::from("busy")),
                    ("terminal", _) => Err(Terminal::new("never").into()),
                    ("panic", 0) => panic!("once"),
                    ("slow", 0) => std::future::pending().await,
                    _ => Ok(Action::Done),
                }
            },
        );
    let running = Running::new(controller);
    tokio::time::sleep(5 * SECOND).await;
    running.stop().await.expect("clean shutdown");
    drop(logging);
    let lines = std::mem::take(&mut *log.lines.lock().unwrap());
    for (key, level, said) in [
        ("error", "WARN", "message=reconcile failed, retrying error=busy attempt=0 "),
        ("panic", "ERROR", "message=reconcile panicked, retrying panic=\"once\" attempt=0 "),
        (
            "terminal",
            "ERROR",
            "message=reconcile failed permanently error=never: the key is not retried attempt=0 ",
        ),
        ("slow", "WARN", "message=reconcile timed out, retrying limit=1s attempt=0 "),
    ] {
        let its: Vec<_> = lines.iter().filter(|it| it.contains(&format!("key=\"default/{key}\""))).collect();
        let [line] = its[..] else { panic!("{key}: {lines:?}") };
        let (span, event) = line.split_once("| ").expect("a span and an event");
        assert!(span.starts_with("reconcile controller=\"tested\" key="), "{span}");
        let id = span.split_once("reconcile_id=").map(|(_, id)| id.trim_end()).expect("an id");
        assert!(id.len() == 16 && u64::from_str_radix(id, 16).is_ok(), "{id}");
        assert_eq!(event, format!("{level} {said}"));
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_reconcile_shows_its_causes() {
    let cluster = TestCluster::with(&["a"]).await;
    let log = Log::default();
    let logging = capture(&log);
    let reconcile = |_: ObjectKey, context: Context| async move {
        // As above: the statement may have been registered without a subscriber.
        tracing::callsite::rebuild_interest_cache();
        if context.attempt() < 2 { Err(BoxError::from("busy")) } else { Ok(Action::Done) }
    };
    let running = Running::new(Controller::of(&cluster.informer()).named("causes").build(reconcile));
    tokio::time::sleep(SECOND).await;
    running.stop().await.expect("clean shutdown");
    drop(logging);
    let spans = std::mem::take(&mut *log.spans.lock().unwrap());
    let last = spans.iter().rfind(|it| it.contains("causes\"")).expect("a span of this controller");
    assert!(last.contains(" causes=retry after: busy reconcile_id="), "{last}");
}
