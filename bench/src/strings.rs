//! `cargo xtask bench strings`: the memory and the CPU time of views of pods by the type of their
//! strings, to see for which fields sharing equal strings pays.
//!
//! The pods are those of a cluster with [`NODES`] nodes, [`NAMESPACES`] namespaces and [`IMAGES`]
//! images, as a list in protobuf. These are two programs in one, as in `wire.rs`: the default build
//! measures CPU time, and then runs a second build with the feature `heap`, which counts
//! allocations.

use anyhow::{Context, Result, ensure};
use compact_str::CompactString;
use dogwatch_core::SharedStr;
use dogwatch_wire::{Envelope, ListDecoder, list_entry, to_protobuf};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pods::Pods;

const PODS: usize = 10_000;
const NODES: usize = 500;
const NAMESPACES: usize = 50;
const IMAGES: usize = 200;
/// The size of one read from a socket.
const CHUNK: usize = 32 * 1024;
#[cfg(not(feature = "heap"))]
const ROUNDS: usize = 15;

/// A view of a pod: its identity, its node, and the images of its containers, with a type of string
/// for namespaces, one for nodes and one for images.
#[derive(Debug, Deserialize)]
#[cfg_attr(not(test), expect(dead_code, reason = "decoding the fields is the point"))]
struct PodView<N, O, I> {
    metadata: Identity<N>,
    spec: Spec<O, I>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "decoding the fields is the point")]
struct Identity<N> {
    name: CompactString,
    namespace: N,
    uid: CompactString,
    resource_version: CompactString,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(test), expect(dead_code, reason = "decoding the fields is the point"))]
struct Spec<O, I> {
    node_name: O,
    containers: Box<[Container<I>]>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(not(test), expect(dead_code, reason = "decoding the fields is the point"))]
struct Container<I> {
    image: I,
}

/// One line of the table: the fields that are shared, and a measurement with these types.
struct Case {
    name: &'static str,
    /// Measures the whole list: seconds of CPU time, or bytes with the feature `heap`.
    measure: fn(&[u8]) -> Result<f64>,
}

impl Case {
    fn new<T: DeserializeOwned + 'static>(name: &'static str) -> Self {
        Self { name, measure: measure::<T> }
    }
}

/// A string that fits into 24 bytes is in the object, a longer one in a heap of its own.
type Own = CompactString;

fn cases() -> Vec<Case> {
    vec![
        Case::new::<PodView<String, String, String>>("String"),
        Case::new::<PodView<Own, Own, Own>>("CompactString"),
        Case::new::<PodView<SharedStr, Own, Own>>("  shared namespaces"),
        Case::new::<PodView<Own, SharedStr, Own>>("  shared nodes"),
        Case::new::<PodView<Own, Own, SharedStr>>("  shared images"),
        Case::new::<PodView<SharedStr, SharedStr, SharedStr>>("  all of them shared"),
    ]
}

/// Prints the table.
///
/// # Errors
/// If the list does not decode, or the second program fails.
pub(crate) fn run() -> Result<()> {
    let (body, cases) = (body()?, cases());
    #[cfg(feature = "heap")]
    return memory(&body, &cases);
    #[cfg(not(feature = "heap"))]
    times(&body, &cases)
}

/// Returns a list of pods in protobuf, without managed fields.
fn body() -> Result<Vec<u8>> {
    let (pods, mut entries) = (Pods::new()?, Vec::new());
    for number in 0..PODS {
        let mut pod: Value = serde_json::from_str(&pods.pod(number))?;
        place(&mut pod, number)?;
        let pod = to_protobuf(&serde_json::from_value::<Pod>(pod)?)?;
        entries.extend_from_slice(&pod[list_entry(&pod).context("not an object")?]);
    }
    let mut body = Envelope::head("v1", "PodList", entries.len());
    body.extend_from_slice(&entries);
    body.extend_from_slice(Envelope::TAIL);
    Ok(body)
}

/// Gives a pod the namespace, the node and the images that it would have in a cluster. Pods of one
/// service follow one another, as in a list, and are on any nodes.
fn place(pod: &mut Value, number: usize) -> Result<()> {
    let (service, node) = (number / 50, number.wrapping_mul(7919) % NODES);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata
            .insert("namespace".to_owned(), format!("team-{:02}-production", service % NAMESPACES).into());
    }
    let name = format!("ip-10-{}-{}-{}.eu-west-1.compute.internal", node / 100, node % 100, node % 97);
    pod["spec"]["nodeName"] = name.into();
    let containers = pod["spec"]["containers"].as_array_mut().context("no containers")?;
    for (index, container) in containers.iter_mut().enumerate() {
        // A program of the service first, and then one that many services have.
        let image = if index == 0 { service % (IMAGES - 20) } else { IMAGES - 1 - service % 20 };
        container["image"] =
            format!("registry.example.com/team/service-{image:03}:v1.24.{image}-0f3a9c1d").into();
    }
    Ok(())
}

fn decoded<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>> {
    let mut decoder = ListDecoder::<T>::protobuf();
    let (mut items, mut bad) = (Vec::with_capacity(PODS), None);
    for chunk in body.chunks(CHUNK) {
        decoder.feed(chunk, |item| match item {
            Ok(item) => items.push(item),
            Err(error) => bad = Some(error),
        })?;
    }
    decoder.finish()?;
    bad.map_or(Ok(()), Err)?;
    ensure!(items.len() == PODS, "{} pods", items.len());
    Ok(items)
}

/// Returns the CPU time to decode all pods and to release them.
#[cfg(not(feature = "heap"))]
fn measure<T: DeserializeOwned>(body: &[u8]) -> Result<f64> {
    let start = cpu_time::ThreadTime::now();
    drop(decoded::<T>(body)?);
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the memory of all pods.
#[cfg(feature = "heap")]
fn measure<T: DeserializeOwned>(body: &[u8]) -> Result<f64> {
    let mut items = None;
    let used = allocation_counter::measure(|| items = Some(decoded::<T>(body)));
    items.context("the closure did not run")??;
    Ok(used.bytes_current as f64)
}

/// Measures the cases in turns, and prints the best time of each: other load can only add to it.
#[cfg(not(feature = "heap"))]
fn times(body: &[u8], cases: &[Case]) -> Result<()> {
    let mut best = vec![f64::INFINITY; cases.len()];
    for _ in 0..ROUNDS {
        for (best, case) in best.iter_mut().zip(cases) {
            *best = best.min((case.measure)(body)?);
        }
    }
    println!(
        "{PODS} pods on {NODES} nodes in {NAMESPACES} namespaces with {IMAGES} images; CPU to decode and release one"
    );
    for (case, best) in cases.iter().zip(best) {
        println!("{:24} {:>8.2} us", case.name, best * 1e6 / PODS as f64);
    }
    let arguments =
        ["run", "--quiet", "--release", "--package", "bench", "--features", "heap", "--", "strings"];
    processes::cargo::Cargo::new(arguments).run()
}

#[cfg(feature = "heap")]
fn memory(body: &[u8], cases: &[Case]) -> Result<()> {
    println!("\nheap of one");
    for case in cases {
        println!("{:24} {:>8.0} B", case.name, (case.measure)(body)? / PODS as f64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_a_place_in_a_cluster() {
        let mut pod = serde_json::from_str(&Pods::new().unwrap().pod(123)).unwrap();
        place(&mut pod, 123).unwrap();
        let view: PodView<String, String, SharedStr> = serde_json::from_value(pod).unwrap();
        assert_eq!(view.metadata.namespace, "team-02-production");
        assert_eq!(view.spec.node_name, "ip-10-0-37-37.eu-west-1.compute.internal");
        let images: Vec<_> = view.spec.containers.iter().map(|it| &*it.image).collect();
        assert_eq!(images[0], "registry.example.com/team/service-002:v1.24.2-0f3a9c1d");
        assert_eq!(images[1], "registry.example.com/team/service-197:v1.24.197-0f3a9c1d");
    }
}
