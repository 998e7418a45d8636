//! Tests of the end of an informer that share its private parts.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_client::Error;
use dogwatch_core::{Gvk, ListParams, WatchParams};
use futures_core::future::BoxFuture;
use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::runtime::{Builder, Runtime};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::list_watch::{ListWatch, Lists, Watches};

/// A source that never answers.
struct Silent(ResourceType);

impl ListWatch<ConfigMap> for Silent {
    fn resource(&self) -> &ResourceType {
        &self.0
    }

    fn list(&self, _: ListParams) -> Lists<ConfigMap> {
        Box::pin(stream::pending())
    }

    fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<ConfigMap>, Error>> {
        Box::pin(pending())
    }
}

/// Counts events that are logged at warning level or above.
#[derive(Clone, Default)]
struct Alarms(Arc<AtomicUsize>);

impl Subscriber for Alarms {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime can be made")
}

/// When a runtime of several threads shuts down, one thread may drop the reflector's task while
/// another still runs the informer's.
#[test]
fn a_reflector_dropped_with_its_runtime_logs_no_warning() {
    for asked in [false, true] {
        let maps = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        let informer = SharedInformer::new(Silent(maps));
        let mut pump = informer.handle.take_pump().expect("it was not started");
        let first = runtime();
        first.block_on(async {
            pump.feeds.iter_mut().for_each(|it| it.start());
            tokio::task::yield_now().await;
        });
        drop(first);
        informer.state().stop.send_replace(asked);
        let alarms = Alarms::default();
        tracing::subscriber::with_default(alarms.clone(), || {
            runtime().block_on(pump.run(StoppedGuard(Arc::clone(informer.state()))));
            tracing::warn!("a control event, so that the counter is known to work");
        });
        assert_eq!(alarms.0.load(Ordering::Relaxed), 1, "asked: {asked}");
        assert!(informer.is_stopped());
    }
}
