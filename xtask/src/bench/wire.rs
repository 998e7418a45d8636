//! `cargo xtask bench wire`: how fast bytes become objects, beside serde_json reading the whole body.
//!
//! Two programs in one. Built plainly it measures CPU time, and then runs itself once more, built with the feature
//! `heap`, whose counting allocator measures memory and would spoil the times.

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
const ROUNDS: usize = 5;
/// What a read from a socket brings: the largest TLS record is 16 KiB, and hyper reads several at once.
const CHUNK: usize = 32 * 1024;

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

/// One line of the table: what to decode, and how.
struct Case {
    name: &'static str,
    body: fn(&Bodies) -> &[u8],
    objects: usize,
    /// Decodes the whole body; what it returns is kept while memory is counted.
    decode: fn(&[u8]) -> Result<Box<dyn std::any::Any>>,
    /// The case it is compared with, and how much of its CPU time it may use.
    beside: Option<(usize, f64)>,
    /// How much more than the result may be held at the peak.
    peak_goal: Option<f64>,
}

struct Bodies {
    list: Vec<u8>,
    watch: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let list = |name, decode, beside| Case {
        name,
        body: |it| &it.list,
        objects: PODS,
        decode,
        beside,
        peak_goal: beside.map(|_| 1.1),
    };
    let watch =
        |name, decode, beside| Case { name, body: |it| &it.watch, objects: EVENTS, decode, beside, peak_goal: None };
    vec![
        list("list: serde_json, whole body", whole_list, None),
        list("list: full pods", stream_list::<Pod>, Some((0, 0.5))),
        list("list: five-field view", stream_list::<PodView>, Some((0, 0.1))),
        list("list: metadata only", stream_list::<PartialObjectMeta<Pod>>, Some((0, 0.5))),
        watch("watch: serde_json, by line", watch_lines, None),
        watch("watch: full pods", stream_watch::<Pod>, Some((4, 0.5))),
        watch("watch: five-field view", stream_watch::<PodView>, Some((4, 0.1))),
    ]
}

/// What kube-rs does: the whole body, then all of it at once.
fn whole_list(body: &[u8]) -> Result<Box<dyn std::any::Any>> {
    let list: ObjectList<Pod> = serde_json::from_slice(body)?;
    ensure!(list.items.len() == PODS, "{} pods", list.items.len());
    Ok(Box::new(list))
}

fn stream_list<T: DeserializeOwned + 'static>(body: &[u8]) -> Result<Box<dyn std::any::Any>> {
    let mut decoder = ListDecoder::<T>::json();
    let mut items = Vec::new();
    let mut bad = None;
    for chunk in body.chunks(CHUNK) {
        decoder.feed(chunk, |item| match item {
            Ok(item) => items.push(Arc::new(item)),
            Err(error) => bad = Some(error),
        })?;
    }
    decoder.finish()?;
    bad.map_or(Ok(()), Err)?;
    ensure!(items.len() == PODS, "{} pods", items.len());
    Ok(Box::new(items))
}

fn watch_lines(body: &[u8]) -> Result<Box<dyn std::any::Any>> {
    let lines = body.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let events: Vec<_> = lines.map(serde_json::from_slice::<kube_core::WatchEvent<Pod>>).collect::<Result<_, _>>()?;
    ensure!(events.len() == EVENTS, "{} events", events.len());
    Ok(Box::new(events))
}

fn stream_watch<T: DeserializeOwned + 'static>(body: &[u8]) -> Result<Box<dyn std::any::Any>> {
    let mut decoder = WatchDecoder::<T>::json();
    let mut items = Vec::new();
    for chunk in body.chunks(CHUNK) {
        decoder.feed(chunk, |event| {
            if let Ok(WatchEvent::Modified(item)) = event {
                items.push(Arc::new(item));
            }
        })?;
    }
    decoder.finish()?;
    ensure!(items.len() == EVENTS, "{} events", items.len());
    Ok(Box::new(items))
}

/// Prints the tables, and fails when a goal is missed.
///
/// # Errors
/// When something does not decode, the second program cannot be run, or a goal is missed.
pub(crate) fn run() -> Result<()> {
    let pods = Pods::new()?;
    let bodies = Bodies { list: pods.list(PODS), watch: pods.watch(EVENTS) };
    #[cfg(feature = "heap")]
    return memory(&bodies);
    #[cfg(not(feature = "heap"))]
    return times(&bodies);
}

#[cfg(not(feature = "heap"))]
fn times(bodies: &Bodies) -> Result<()> {
    let cases = cases();
    let size = bodies.list.len();
    out(format!("{PODS} pods, {:.1} KB each; chunks of {CHUNK} bytes; median of {ROUNDS} rounds, CPU time of the thread", kilo(size, PODS)))?;
    out(format!("{:32} {:>9} {:>9} {:>9} {:>14}  goal", "", "CPU ms", "us/object", "MB/s", "of serde_json"))?;
    let mut medians = Vec::new();
    let mut missed = false;
    for case in &cases {
        let body = (case.body)(bodies);
        let mut seconds = (0..ROUNDS).map(|_| timed(case, body)).collect::<Result<Vec<_>>>()?;
        seconds.sort_by(f64::total_cmp);
        let median = seconds[ROUNDS / 2];
        medians.push(median);
        let verdict = match case.beside {
            Some((other, goal)) => {
                let share = median / medians[other];
                missed |= share > goal;
                format!("{:>13.1}%  at most {}%: {}", share * 100.0, goal * 100.0, met(share <= goal))
            }
            None => String::new(),
        };
        let each = median * 1e6 / case.objects as f64;
        let speed = body.len() as f64 / median / 1e6;
        out(format!("{:32} {:>9.1} {each:>9.2} {speed:>9.0} {verdict}", case.name, median * 1e3))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let memory = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--package", "xtask", "--features", "heap", "--", "bench", "wire"])
        .status()
        .context("cargo, for the second program")?;
    ensure!(!missed && memory.success(), "a goal is missed");
    Ok(())
}

#[cfg(not(feature = "heap"))]
fn timed(case: &Case, body: &[u8]) -> Result<f64> {
    let start = cpu_time::ThreadTime::now();
    let result = (case.decode)(body)?;
    let seconds = start.elapsed().as_secs_f64();
    drop(result);
    Ok(seconds)
}

#[cfg(feature = "heap")]
fn memory(bodies: &Bodies) -> Result<()> {
    out(format!("\n{:32} {:>14} {:>10} {:>12}  goal", "", "allocs/object", "KB/object", "peak/result"))?;
    let mut missed = false;
    for case in cases() {
        let body = (case.body)(bodies);
        let mut result = None;
        let used = allocation_counter::measure(|| {
            // serde_json needs the body in one piece, so that piece is part of what it costs.
            let owned = case.peak_goal.is_none().then(|| body.to_vec());
            result = Some((case.decode)(owned.as_deref().unwrap_or(body)));
        });
        result.context("the closure ran")??;
        let peak = used.bytes_max as f64 / used.bytes_current as f64;
        let verdict = case.peak_goal.map(|goal| {
            missed |= peak > goal;
            format!("at most {goal}: {}", met(peak <= goal))
        });
        let count = used.count_total as f64 / case.objects as f64;
        let each = kilo(used.bytes_current as usize, case.objects);
        out(format!("{:32} {count:>14.1} {each:>10.1} {peak:>12.2}  {}", case.name, verdict.unwrap_or_default()))?;
    }
    ensure!(!missed, "a goal is missed");
    Ok(())
}

fn kilo(bytes: usize, objects: usize) -> f64 {
    bytes as f64 / 1000.0 / objects as f64
}

fn met(goal: bool) -> &'static str {
    if goal { "met" } else { "MISSED" }
}

fn out(line: String) -> Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}").context("standard output")
}
