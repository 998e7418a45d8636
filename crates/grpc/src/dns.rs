//! The endpoints of a host by DNS, for programs that run without a cluster, or next to one.
//!
//! DNS does not report changes, so the name is resolved again every half minute, and sooner after a
//! failure. The last known addresses stay while resolution fails. DNS knows no readiness either:
//! every address is usable.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::endpoints::{EndpointSet, Unavailable};
use crate::random;
use crate::time::scaled;

/// The interval between resolutions: grpc-go's `MinResolutionInterval` (grpc v1.85.0
/// `internal/resolver/dns/dns_resolver.go`).
const INTERVAL: Duration = Duration::from_secs(30);

/// The first retry delay after a failure. Doubles with each failure, up to [`INTERVAL`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The minimum interval between two resolutions, also when [`DnsWatch::renew`] asks for one.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The timeout of one resolution.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A resolution in progress.
type Lookup = BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

/// A host whose addresses are followed until this is dropped.
#[derive(Debug)]
pub(crate) struct DnsWatch {
    name: String,
    receiver: watch::Receiver<Arc<EndpointSet>>,
    problem: Arc<Mutex<Option<String>>>,
    asked: Arc<Notify>,
    task: AbortHandle,
}

impl DnsWatch {
    /// Starts resolving the host, on the current runtime.
    pub(crate) fn start(host: &str, port: u16) -> Self {
        let host: Arc<str> = host.into();
        let name = format!("{host}:{port}");
        Self::with(name, move || {
            let host = Arc::clone(&host);
            Box::pin(async move { Ok(tokio::net::lookup_host((&*host, port)).await?.collect()) })
        })
    }

    fn with(name: String, lookup: impl Fn() -> Lookup + Send + Sync + 'static) -> Self {
        let (sender, receiver) = watch::channel(Arc::default());
        let (problem, asked) = (Arc::default(), Arc::new(Notify::new()));
        let resolving = resolve(name.clone(), lookup, sender, Arc::clone(&problem), Arc::clone(&asked));
        let task = tokio::spawn(resolving).abort_handle();
        Self { name, receiver, problem, asked, task }
    }

    /// Returns `host:port`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<Arc<EndpointSet>> {
        self.receiver.clone()
    }

    /// Resolves the name again, as soon as five seconds have passed since the last resolution.
    pub(crate) fn renew(&self) {
        self.asked.notify_one();
    }

    /// Returns the error of the last resolution, if it failed.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }
}

impl Drop for DnsWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Resolves the name in a loop, until the task is aborted.
async fn resolve(
    name: String,
    lookup: impl Fn() -> Lookup + Send + Sync,
    sender: watch::Sender<Arc<EndpointSet>>,
    problem: Arc<Mutex<Option<String>>>,
    asked: Arc<Notify>,
) {
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let known = Arc::clone(&sender.borrow());
        let (set, wait) = match timeout(TIMEOUT, lookup()).await {
            Ok(Ok(addresses)) => {
                failures = 0;
                *problem.lock() = None;
                (Some(EndpointSet::at(addresses)), INTERVAL)
            }
            failed => {
                let why = match failed {
                    Ok(Err(error)) => format!("{name}: {error}"),
                    _ => format!("{name}: no answer within {TIMEOUT:?}"),
                };
                tracing::debug!(why, "cannot resolve a host name");
                *problem.lock() = Some(why.clone());
                failures += 1;
                let unavailable = Some(Unavailable::HostNotFound(why));
                // Known addresses stay: a DNS server that does not answer says nothing about the
                // host.
                let unknown = known.endpoints.is_empty();
                let set = unknown.then(|| EndpointSet { unavailable, ..EndpointSet::default() });
                (set, INTERVAL.min(FIRST_RETRY * 2u32.saturating_pow(failures.min(6) - 1)))
            }
        };
        if let Some(next) = set.and_then(|it| it.after(&known)) {
            sender.send_replace(Arc::new(next));
        }
        let soon = async {
            asked.notified().await;
            sleep_until(began + MIN_INTERVAL).await;
        };
        tokio::select! {
            () = soon => {}
            () = sleep(scaled(wait, 1.0 + random::unit() / 5.0)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A DNS server under the test's control: its answer, and the number of queries.
    #[derive(Default)]
    struct Names {
        answer: Mutex<Option<Vec<u16>>>,
        asked: AtomicUsize,
    }

    impl Names {
        fn watch(self: &Arc<Self>) -> DnsWatch {
            let names = Arc::clone(self);
            DnsWatch::with("greeter:80".to_owned(), move || {
                names.asked.fetch_add(1, Ordering::SeqCst);
                let answer = names.answer.lock().clone();
                let addresses = |it: Vec<u16>| it.into_iter().map(|it| ([127, 0, 0, 1], it).into()).collect();
                let answer = answer.map(addresses).ok_or_else(|| io::Error::other("no such host"));
                Box::pin(async move { answer })
            })
        }

        fn say(&self, ports: &[u16]) {
            *self.answer.lock() = Some(ports.to_vec());
        }
    }

    async fn known(watch: &DnsWatch, holds: impl FnMut(&Arc<EndpointSet>) -> bool) -> Arc<EndpointSet> {
        let mut receiver = watch.receiver();
        let waiting = timeout(Duration::from_secs(600), receiver.wait_for(holds));
        Arc::clone(
            &*waiting
                .await
                .expect("the set was not published within ten minutes")
                .expect("the task is running"),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_followed_and_keeps_its_last_addresses_during_a_failure() {
        let names = Arc::new(Names::default());
        let watch = names.watch();
        let set = known(&watch, |it| it.is_known()).await;
        let why = set.unavailable.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(why, "its name could not be resolved yet: greeter:80: no such host");
        names.say(&[2, 1]);
        let first = known(&watch, |it| it.usable().count() == 2).await;
        assert_eq!((first.endpoints[0].id.as_str(), watch.problem()), ("127.0.0.1:1", None));
        *names.answer.lock() = None;
        sleep(Duration::from_secs(120)).await;
        assert!(watch.problem().is_some_and(|it| it.contains("no such host")));
        assert_eq!(watch.receiver().borrow().generation, first.generation, "the addresses are kept");
        names.say(&[3]);
        known(&watch, |it| it.endpoints.len() == 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_resolved_every_half_minute_and_on_demand_at_most_every_five_seconds() {
        let names = Arc::new(Names::default());
        names.say(&[1]);
        let watch = names.watch();
        sleep(Duration::from_secs(600)).await;
        let asked = names.asked.load(Ordering::SeqCst);
        assert!((16..=21).contains(&asked), "{asked} times in ten minutes");
        for _ in 0..100 {
            watch.renew();
            sleep(Duration::from_millis(100)).await;
        }
        let more = names.asked.load(Ordering::SeqCst) - asked;
        assert!((1..=3).contains(&more), "{more} times in ten seconds");
        drop(watch);
        let asked = names.asked.load(Ordering::SeqCst);
        sleep(Duration::from_secs(600)).await;
        assert_eq!(names.asked.load(Ordering::SeqCst), asked, "dropping the watch stops resolving");
    }

    #[tokio::test]
    async fn localhost_is_resolved_by_the_system() {
        let watch = DnsWatch::start("localhost", 50051);
        let set = known(&watch, |it| it.is_known()).await;
        assert!(set.usable().count() > 0, "{:?}", set.unavailable);
        let local = set.endpoints.iter().all(|it| it.addresses[0].ip().is_loopback());
        assert!(local && set.endpoints[0].addresses[0].port() == 50051, "{set:?}");
    }
}
