//! The pods of a whole cluster, the same on every run.
//!
//! Ten pods that kube-apiserver returned (`bench/data/sample-pods.json`) are the templates; names,
//! uids, versions, labels, nodes and addresses differ from pod to pod. Some have annotations with
//! escapes, non-ASCII text or digests of various lengths. A pod has 12 to 14 KB, about half of it
//! managed fields.

use anyhow::{Context, Result};

const SAMPLE: &str = include_str!("../data/sample-pods.json");
/// The beginning of every item of the sample, which occurs nowhere inside an item.
const ITEM: &str = r#"{"metadata":{"name":"#;

/// Generates pods from templates.
pub(crate) struct Pods {
    patterns: Vec<Pattern>,
}

/// One pod of the sample and the values in it that are replaced.
struct Pattern {
    text: &'static str,
    name: &'static str,
    uid: &'static str,
    version: &'static str,
    node: &'static str,
    address: &'static str,
}

impl Pods {
    /// Reads the sample.
    pub(crate) fn new() -> Result<Self> {
        let (_, items) = SAMPLE.split_once(r#""items":["#).context("the sample has no items")?;
        let items = items.trim_end().strip_suffix("]}").context("the sample does not end with its items")?;
        let starts: Vec<_> = items.match_indices(ITEM).map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).map(|at| at - 1).chain([items.len()]);
        let patterns = starts.iter().zip(ends).map(|(start, end)| Pattern::new(&items[*start..end]));
        Ok(Self { patterns: patterns.collect::<Result<_>>()? })
    }

    /// Returns the JSON of one pod.
    pub(crate) fn pod(&self, number: usize) -> String {
        let pattern = &self.patterns[number % self.patterns.len()];
        let service = format!("svc-{:03}", number / 50);
        let mark = spread(number as u64);
        let address = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        pattern
            .text
            .replace(pattern.name, &format!("{service}-6c8f7d9b5c-{number:06}"))
            .replace("svc-000", &service)
            .replace(pattern.uid, &format!("{mark:016x}-{number:08x}-4a4c-a089"))
            .replace(pattern.version, &format!("{}", 1_000_000 + number * 7))
            .replace(pattern.node, &format!("node-{:04}", mark % 1000))
            .replace(pattern.address, &address)
            .replace(
                r#""tier":"backend""#,
                &format!(r#""tier":"{}""#, ["backend", "frontend", "cache"][number % 3]),
            )
            .replace(r#""annotations":{"#, &format!(r#""annotations":{{{}"#, extra_annotation(number, mark)))
    }

    /// Returns a `PodList` of `count` pods, as a server sends it.
    pub(crate) fn list(&self, count: usize) -> Vec<u8> {
        list("PodList", "v1", (0..count).map(|number| self.pod(number)))
    }

    /// Returns the metadata of `count` pods, as a server sends a `PartialObjectMetadataList`.
    pub(crate) fn metadata_list(&self, count: usize) -> Vec<u8> {
        let partial = |number| {
            let pod = self.pod(number);
            let metadata =
                pod.split_once(r#","spec":{"volumes":"#).map_or(pod.as_str(), |(before, _)| before);
            format!(r#"{metadata},"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"}}"#)
        };
        list("PartialObjectMetadataList", "meta.k8s.io/v1", (0..count).map(partial))
    }

    /// Returns the body of a watch with `count` modified pods.
    pub(crate) fn watch(&self, count: usize) -> Vec<u8> {
        let mut body = Vec::new();
        for number in 0..count {
            let pod = self.pod(number).replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1);
            body.extend_from_slice(format!("{{\"type\":\"MODIFIED\",\"object\":{pod}}}\n").as_bytes());
        }
        body
    }
}

impl Pattern {
    fn new(text: &'static str) -> Result<Self> {
        let value = |key: &str| {
            let (_, rest) = text.split_once(&format!("\"{key}\":\"")).with_context(|| format!("no {key}"))?;
            rest.split_once('"').map(|(value, _)| value).with_context(|| format!("no end of {key}"))
        };
        Ok(Self {
            text,
            name: value("name")?,
            uid: value("uid")?,
            version: value("resourceVersion")?,
            node: value("nodeName")?,
            address: value("podIP")?,
        })
    }
}

fn list(kind: &str, version: &str, items: impl Iterator<Item = String>) -> Vec<u8> {
    let head = format!(
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"99999999"}},"items":["#
    );
    let mut body = head.into_bytes();
    for (number, item) in items.enumerate() {
        if number > 0 {
            body.push(b',');
        }
        body.extend_from_slice(item.as_bytes());
    }
    body.extend_from_slice(b"]}\n");
    body
}

/// Returns an annotation that only some pods have.
fn extra_annotation(number: usize, mark: u64) -> String {
    match number % 10 {
        0 => r#""kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{},\"name\":\"x\"},\"spec\":{\"containers\":[{\"args\":[\"-c\",\"a \u003e b \u0026\u0026 c\"],\"name\":\"app\"}]}}\n","#.to_owned(),
        1 => r#""owner":"Zoë Ångström, 東京, \"platform\"","#.to_owned(),
        3 | 6 => format!(r#""build.example.com/digest":"{}","#, "0f1e2d3c".repeat((mark % 40) as usize)),
        _ => String::new(),
    }
}

/// Hashes a number with the finalizer of splitmix64: scattered, and the same on every run.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
