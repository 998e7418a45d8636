//! The peak memory of an informer of realistic pods, compared with what it keeps: in the initial
//! list, and in a relist.
//!
//! The pods go through the decoder as a server sends them, in chunks; they are complete except for
//! their managed fields. Everything runs in one thread, whose allocations are counted. That needs a
//! program of its own: this one, built with the feature `heap`.

#[cfg(not(feature = "heap"))]
use anyhow::Result;

/// Runs the program that counts allocations.
///
/// # Errors
/// If a goal is missed.
#[cfg(not(feature = "heap"))]
pub(super) fn run(quick: bool) -> Result<()> {
    let mut arguments = vec!["run", "--quiet", "--release", "--package", "bench", "--features", "heap", "--"];
    arguments.extend(["informer", "memory"]);
    if quick {
        arguments.push("--quick");
    }
    processes::cargo::Cargo::new(arguments).run()
}

#[cfg(feature = "heap")]
pub(super) use self::heap::run;

#[cfg(feature = "heap")]
mod heap {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use allocation_counter::{AllocationInfo, measure};
    use anyhow::{Context, Result, ensure};
    use dogwatch::Error;
    use dogwatch_core::{Gvk, ListParams, Reason, ResourceType, Status, WatchParams};
    use dogwatch_informer::{Change, EventHandler, ListEvent, ListWatch, Lists, SharedInformer, Watches};
    use dogwatch_wire::{ListDecoder, WatchEvent};
    use futures_util::future::BoxFuture;
    use futures_util::{FutureExt, StreamExt, stream};
    use k8s_openapi::api::core::v1::Pod;
    use tokio::sync::oneshot;

    use crate::pods::Pods;

    /// The maximum of the peak, as a multiple of what is kept.
    const PEAK: f64 = 1.1;
    /// The maximum that a relist with few changes may allocate, as a multiple of the changed
    /// objects.
    const PROPORTION: f64 = 3.0;
    /// The size of one read from a socket.
    const CHUNK: usize = 32 * 1024;

    /// A server whose watches end on demand with 410 Gone.
    struct Source {
        resource: ResourceType,
        pods: Arc<Pods>,
        count: usize,
        /// One of this many pods is different in every list. Zero changes none.
        changed: Arc<AtomicUsize>,
        lists: Arc<AtomicUsize>,
        expire: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    }

    impl ListWatch<Pod> for Source {
        fn resource(&self) -> &ResourceType {
            &self.resource
        }

        fn list(&self, _: ListParams) -> Lists<Pod> {
            let list = self.lists.fetch_add(1, Ordering::Relaxed);
            let changed = self.changed.load(Ordering::Relaxed);
            let pods = Arc::clone(&self.pods);
            let body = (0..self.count).map(move |number| {
                let pod = pods.pod(number);
                match changed != 0 && number % changed == list % changed {
                    false => pod,
                    true => {
                        pod.replacen(r#""resourceVersion":""#, &format!(r#""resourceVersion":"{list}9"#), 1)
                    }
                }
            });
            let version = (100_000_000 + list).to_string();
            let end = Ok(ListEvent::End { version: version.into(), paginated: false });
            let pods = decoded(body).map(|it| Ok(ListEvent::Item(it)));
            stream::iter(pods.chain([end])).boxed()
        }

        fn watch(&self, _: WatchParams) -> BoxFuture<'static, Result<Watches<Pod>, Error>> {
            let (expire, expired) = oneshot::channel();
            if let Ok(mut it) = self.expire.lock() {
                *it = Some(expire);
            }
            let gone = || Ok(WatchEvent::Error(Status::failure(Reason::Expired, "too old")));
            let events = expired.map(move |_| stream::iter([gone()])).flatten_stream();
            async move { Ok(events.boxed()) }.boxed()
        }

        fn lacks_initial_events(&self) -> bool {
            true
        }
    }

    /// Decodes the pods of a list chunk by chunk.
    fn decoded(pods: impl Iterator<Item = String>) -> impl Iterator<Item = Pod> {
        let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#;
        let mut texts = pods.enumerate().map(|(number, it)| if number == 0 { it } else { format!(",{it}") });
        let mut decoder = ListDecoder::<Pod>::json();
        let (mut body, mut ready) = (head.as_bytes().to_vec(), Vec::new().into_iter());
        std::iter::from_fn(move || {
            loop {
                if let Some(pod) = ready.next() {
                    return Some(pod);
                }
                while body.len() < CHUNK {
                    match texts.next() {
                        Some(text) => body.extend_from_slice(text.as_bytes()),
                        None => break,
                    }
                }
                if body.is_empty() {
                    return None;
                }
                let mut pods = Vec::new();
                let piece = body.len().min(CHUNK);
                decoder.feed(&body[..piece], |it| pods.extend(it.ok())).ok()?;
                body.drain(..piece);
                ready = pods.into_iter();
            }
        })
    }

    /// A handler that keeps no objects.
    struct Count(Arc<AtomicUsize>);

    impl EventHandler<Pod> for Count {
        fn on_change(&mut self, _: &Change<Pod>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Prints the table.
    ///
    /// # Errors
    /// When a goal is missed.
    pub(in super::super) fn run(quick: bool) -> Result<()> {
        let count = if quick { 10_000 } else { 50_000 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (changed, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (expire, notified) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let source = Source {
            resource: ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods"),
            pods: Arc::new(Pods::new()?),
            count,
            changed: Arc::clone(&changed),
            lists: Arc::clone(&lists),
            expire: Arc::clone(&expire),
        };
        let mut informer = None;
        let first = measure(|| {
            let made = runtime.block_on(async {
                let made = SharedInformer::new(source);
                let handler = made.add_handler(Count(Arc::clone(&notified)))?;
                made.start();
                handler.synced().await?;
                anyhow::Ok(made)
            });
            informer = Some(made);
        });
        let informer = informer.context("the informer was not created")??;
        let steady = first.bytes_current as f64;
        println!("\n{count} pods, {:.1} KB each after their first sync; in MB", steady / count as f64 / 1e3);
        println!("{:40} {:>9} {:>9} {:>9}", "", "before", "at peak", "after");
        let mut missed = row("first sync", 0.0, &first, PEAK);
        let mut held = steady;
        for (name, part) in
            [("relist, nothing changed", 0), ("relist, 1 % changed", 100), ("relist, all changed", 1)]
        {
            changed.store(part, Ordering::Relaxed);
            let version = (100_000_000 + lists.load(Ordering::Relaxed)).to_string();
            let before = notified.load(Ordering::Relaxed);
            let taken =
                expire.lock().ok().and_then(|mut it| it.take()).context("the informer does not watch")?;
            let relist = measure(|| {
                runtime.block_on(async {
                    let _ = taken.send(());
                    let _ = informer.wait_until(&version.as_str().into()).await;
                    while part != 0 && notified.load(Ordering::Relaxed) < before + count / part {
                        tokio::task::yield_now().await;
                    }
                    // The handler releases the last notification when it waits for the next one.
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                });
            });
            let changes = notified.load(Ordering::Relaxed) - before;
            ensure!(part == 0 || changes == count / part, "{changes} changes with {name}");
            // Replacing all objects takes twice what is kept, unless readers release the old ones
            // first: no limit.
            let limit = match part {
                1 => f64::INFINITY,
                0 => PEAK,
                part => 1.0 + PROPORTION / part as f64,
            };
            missed |= row(name, held, &relist, limit);
            held += relist.bytes_current as f64;
        }
        runtime.block_on(informer.stop());
        ensure!(!missed, "a goal is missed");
        Ok(())
    }

    /// Prints a line. Returns true if the peak exceeds `limit` times what is kept.
    fn row(name: &str, before: f64, info: &AllocationInfo, limit: f64) -> bool {
        let (peak, after) = (before + info.bytes_max as f64, before + info.bytes_current as f64);
        let held = before.max(after);
        let verdict = match limit.is_finite() {
            true if peak <= limit * held => format!("met: at most {limit} times"),
            true => format!("MISSED: at most {limit} times"),
            false => String::new(),
        };
        println!(
            "{name:40} {:>9.1} {:>9.1} {:>9.1}   {:.3} times what is kept  {verdict}",
            before / 1e6,
            peak / 1e6,
            after / 1e6,
            peak / held
        );
        limit.is_finite() && peak > limit * held
    }
}
