//! `cargo xtask bench wire`: the speed of decoding, compared with serde_json on the whole body.
//!
//! These are two programs in one. The default build measures CPU time, and then runs a second build
//! with the feature `heap`, whose counting allocator measures memory and would distort the times.

use std::any::Any;
#[cfg(not(feature = "heap"))]
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use dogwatch_core::Meta;
use dogwatch_wire::{ListDecoder, WatchDecoder, WatchEvent};
use k8s_openapi::api::core::v1::Pod;
use kube_core::ObjectList;
use kube_core::metadata::PartialObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::pods::Pods;

const PODS: usize = 10_000;
const EVENTS: usize = 2_000;
#[cfg(not(feature = "heap"))]
const ROUNDS: usize = 5;
/// The minimum CPU time of a case in one pass. A fast case needs more rounds than a slow one to
/// find a quiet moment of the machine: with the same number of rounds, its best time was up to
/// twice the true one.
#[cfg(not(feature = "heap"))]
const SECONDS: f64 = 2.0;
/// The number of passes over all cases, so that a slow period of the machine does not affect one
/// case alone.
#[cfg(not(feature = "heap"))]
const PASSES: usize = 3;
/// The size of one read from a socket: the largest TLS record is 16 KiB, and hyper reads several at
/// once.
const CHUNK: usize = 32 * 1024;
/// The maximum of the peak, as a multiple of the result.
#[cfg(feature = "heap")]
const PEAK: f64 = 1.1;
/// The environment variable with which a child process is given its one case.
#[cfg(not(feature = "heap"))]
const CASE: &str = "DOGWATCH_BENCH_CASE";

/// Five fields of a pod.
#[derive(Debug, Deserialize)]
struct PodView {
    #[expect(dead_code, reason = "decoding it is the point")]
    metadata: Meta,
    #[serde(default)]
    #[expect(dead_code, reason = "decoding it is the point")]
    spec: SpecView,
    #[serde(default)]
    #[expect(dead_code, reason = "decoding it is the point")]
    status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecView {
    #[expect(dead_code, reason = "decoding it is the point")]
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct StatusView {
    #[serde(rename = "podIP")]
    #[expect(dead_code, reason = "decoding it is the point")]
    pod_ip: Option<String>,
    #[expect(dead_code, reason = "decoding it is the point")]
    phase: Option<String>,
}

/// A decoded body, kept alive while memory is counted.
type Decoded = Box<dyn Any>;

/// One line of the table: a body and the way to decode it.
struct Case {
    name: &'static str,
    body: fn(&Pods) -> Vec<u8>,
    objects: usize,
    /// Decodes the whole body.
    decode: fn(&[u8], &mut Clock) -> Result<Decoded>,
    /// True if it needs the whole body in memory.
    #[cfg_attr(not(feature = "heap"), expect(dead_code, reason = "only memory is counted by it"))]
    whole: bool,
    /// The case it is compared with, and the maximum share of its CPU time.
    #[cfg_attr(feature = "heap", expect(dead_code, reason = "only times are compared"))]
    baseline: Option<(usize, f64)>,
}

fn cases() -> Vec<Case> {
    let case = |name,
                body: fn(&Pods) -> Vec<u8>,
                objects,
                decode: fn(&[u8], &mut Clock) -> _,
                baseline: Option<_>| {
        Case { name, body, objects, decode, whole: baseline.is_none(), baseline }
    };
    let list = |pods: &Pods| pods.list(PODS);
    let metadata = |pods: &Pods| pods.metadata_list(PODS);
    let watch = |pods: &Pods| pods.watch(EVENTS);
    vec![
        case("list: serde_json, whole body", list, PODS, whole_list::<Pod>, None),
        case("list: full pods", list, PODS, stream_list::<Pod>, Some((0, 0.5))),
        case("list: five-field view", list, PODS, stream_list::<PodView>, Some((0, 0.1))),
        case("metadata: serde_json, whole body", metadata, PODS, whole_list::<PartialObjectMeta<Pod>>, None),
        case(
            "metadata: partial objects",
            metadata,
            PODS,
            stream_list::<PartialObjectMeta<Pod>>,
            Some((3, 0.5)),
        ),
        case("watch: serde_json, line by line", watch, EVENTS, watch_lines, None),
        case("watch: full pods", watch, EVENTS, stream_watch::<Pod>, Some((5, 0.5))),
        case("watch: five-field view", watch, EVENTS, stream_watch::<PodView>, Some((5, 0.1))),
    ]
}

/// Decodes the whole body at once, as kube-rs does.
fn whole_list<T: DeserializeOwned + Clone + 'static>(body: &[u8], clock: &mut Clock) -> Result<Decoded> {
    let list: ObjectList<T> = clock.time(|| serde_json::from_slice(body))?;
    ensure!(list.items.len() == PODS, "{} pods", list.items.len());
    Ok(Box::new(list))
}

fn stream_list<T: DeserializeOwned + 'static>(body: &[u8], clock: &mut Clock) -> Result<Decoded> {
    let mut decoder = ListDecoder::<T>::json();
    let mut items = Vec::new();
    let mut bad = None;
    feed_in_chunks(body, |chunk| {
        clock.time(|| {
            decoder.feed(chunk, |item| match item {
                Ok(item) => items.push(Arc::new(item)),
                Err(error) => bad = Some(error),
            })
        })
    })?;
    decoder.finish()?;
    bad.map_or(Ok(()), Err)?;
    ensure!(items.len() == PODS, "{} pods", items.len());
    Ok(Box::new(items))
}

fn watch_lines(body: &[u8], clock: &mut Clock) -> Result<Decoded> {
    let lines = body.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let decode = lines.map(serde_json::from_slice::<kube_core::WatchEvent<Pod>>);
    let events = clock.time(|| decode.collect::<Result<Vec<_>, _>>())?;
    ensure!(events.len() == EVENTS, "{} events", events.len());
    Ok(Box::new(events))
}

fn stream_watch<T: DeserializeOwned + 'static>(body: &[u8], clock: &mut Clock) -> Result<Decoded> {
    let mut decoder = WatchDecoder::<T>::json();
    let mut items = Vec::new();
    feed_in_chunks(body, |chunk| {
        clock.time(|| {
            decoder.feed(chunk, |event| {
                if let Ok(WatchEvent::Modified(item)) = event {
                    items.push(Arc::new(item));
                }
            })
        })
    })?;
    decoder.finish()?;
    ensure!(items.len() == EVENTS, "{} events", items.len());
    Ok(Box::new(items))
}

/// Passes a body on as a socket does: each chunk has just been copied into one small buffer, so it
/// is in the CPU cache.
fn feed_in_chunks<E>(body: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut buffer = Vec::with_capacity(CHUNK);
    for chunk in body.chunks(CHUNK) {
        buffer.clear();
        buffer.extend_from_slice(chunk);
        take(&buffer)?;
    }
    Ok(())
}

/// Adds up the CPU time of the closures it runs.
#[derive(Default)]
struct Clock {
    #[cfg(not(feature = "heap"))]
    seconds: f64,
}

impl Clock {
    #[cfg(not(feature = "heap"))]
    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = cpu_time::ThreadTime::now();
        let result = work();
        self.seconds += start.elapsed().as_secs_f64();
        result
    }

    #[cfg(feature = "heap")]
    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// Prints the tables.
///
/// # Errors
/// If a body does not decode, a child process fails, or a goal is missed.
pub(crate) fn run() -> Result<()> {
    #[cfg(feature = "heap")]
    return memory();
    #[cfg(not(feature = "heap"))]
    match std::env::var(CASE) {
        Ok(case) => one_case(&cases()[case.parse::<usize>()?]),
        Err(_) => times(),
    }
}

/// Runs every case in a process of its own, so that none inherits the heap of another.
#[cfg(not(feature = "heap"))]
fn times() -> Result<()> {
    let cases = cases();
    let mut measured: Vec<CaseTimes> = cases.iter().map(|_| CaseTimes::default()).collect();
    for _ in 0..PASSES {
        for (number, case) in cases.iter().enumerate() {
            measured[number].add(run_in_process(number, case)?);
        }
    }
    out(format!(
        "{PODS} pods, chunks of {CHUNK} bytes, CPU time of the thread, {PASSES} passes of {SECONDS} s or {ROUNDS} rounds"
    ))?;
    out(format!(
        "{:32} {:>8} {:>9} {:>9} {:>6} {:>13}  goal",
        "", "best ms", "median ms", "us/object", "MB/s", "of serde_json"
    ))?;
    let mut missed = false;
    for (case, times) in cases.iter().zip(&measured) {
        let (best, median) = (times.best(), times.median());
        let verdict = match case.baseline {
            Some((other, goal)) => {
                let share = best / measured[other].best();
                missed |= share > goal;
                format!("{:>12.1}%  at most {}%: {}", share * 100.0, goal * 100.0, met(share <= goal))
            }
            None => String::new(),
        };
        let each = best * 1e6 / case.objects as f64;
        let speed = times.bytes / best / 1e6;
        let (best, median) = (best * 1e3, median * 1e3);
        out(format!("{:32} {best:>8.1} {median:>9.1} {each:>9.2} {speed:>6.0} {verdict}", case.name))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let memory = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "bench", "--features", "heap", "--", "wire"])
        .status()
        .context("cannot start cargo for the memory measurement")?;
    ensure!(!missed && memory.success(), "a goal is missed");
    Ok(())
}

/// The size of a body, and the time of each round.
#[cfg(not(feature = "heap"))]
#[derive(Default)]
struct CaseTimes {
    bytes: f64,
    /// In seconds, sorted.
    rounds: Vec<f64>,
}

#[cfg(not(feature = "heap"))]
impl CaseTimes {
    fn add(&mut self, more: Self) {
        self.bytes = more.bytes;
        self.rounds.extend(more.rounds);
        self.rounds.sort_by(f64::total_cmp);
    }

    /// The best time: other load on the machine can only add to it.
    fn best(&self) -> f64 {
        self.rounds.first().copied().unwrap_or(f64::INFINITY)
    }

    /// The median time. Its distance from the best time shows how quiet the machine was.
    fn median(&self) -> f64 {
        self.rounds.get(self.rounds.len() / 2).copied().unwrap_or(f64::INFINITY)
    }
}

/// Runs one case in a process of its own.
#[cfg(not(feature = "heap"))]
fn run_in_process(number: usize, case: &Case) -> Result<CaseTimes> {
    let child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(CASE, number.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(child.status.success(), "{} failed", case.name);
    let text = String::from_utf8(child.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let (bytes, rounds) = numbers.split_first().context("the case printed no numbers")?;
    Ok(CaseTimes { bytes: *bytes, rounds: rounds.to_vec() })
}

/// Prints the size of the body and the time of each round.
#[cfg(not(feature = "heap"))]
fn one_case(case: &Case) -> Result<()> {
    let body = (case.body)(&Pods::new()?);
    let mut line = body.len().to_string();
    let (mut rounds, mut seconds) = (0, 0.0);
    while rounds < ROUNDS || seconds < SECONDS {
        let mut clock = Clock::default();
        let result = (case.decode)(&body, &mut clock)?;
        drop(result);
        rounds += 1;
        seconds += clock.seconds;
        line += &format!(" {}", clock.seconds);
    }
    out(line)
}

#[cfg(feature = "heap")]
fn memory() -> Result<()> {
    out(format!("\n{:32} {:>14} {:>10} {:>12}  goal", "", "allocs/object", "KB/object", "peak/result"))?;
    let mut missed = false;
    for case in cases() {
        let body = (case.body)(&Pods::new()?);
        let mut result = None;
        let used = allocation_counter::measure(|| {
            // A decoder that needs the whole body also pays for the memory of the body.
            let owned = case.whole.then(|| body.to_vec());
            result = Some((case.decode)(owned.as_deref().unwrap_or(&body), &mut Clock::default()));
        });
        result.context("the closure did not run")??;
        let peak = used.bytes_max as f64 / used.bytes_current as f64;
        let verdict = if case.whole {
            String::new()
        } else {
            missed |= peak > PEAK;
            format!("at most {PEAK}: {}", met(peak <= PEAK))
        };
        let count = used.count_total as f64 / case.objects as f64;
        let each = used.bytes_current as f64 / 1000.0 / case.objects as f64;
        out(format!("{:32} {count:>14.1} {each:>10.1} {peak:>12.2}  {verdict}", case.name))?;
    }
    ensure!(!missed, "a goal is missed");
    Ok(())
}

fn met(goal: bool) -> &'static str {
    if goal { "met" } else { "MISSED" }
}

fn out(line: String) -> Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}
