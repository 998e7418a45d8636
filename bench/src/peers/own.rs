//! Our own contenders. Each runs in a process of its own, which the benchmark starts as
//! `bench peers contend NAME …`: an informer of pods with one type of payload.
//!
//! They are in this program and not in the `dogwatch` command because this one is compiled as users
//! compile theirs.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dogwatch::View;
use dogwatch::api::{Compressor, Packed, PartialObjectMeta, Resource};
use dogwatch::informer::InformerBuilder;
use informer_cost::PodView;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;

#[cfg(feature = "heap")]
use super::heap;
use super::names::{FULL, METADATA, PACKED, PACKED_ZSTD, VIEW, VIEW_LIST};
use super::task::{Prepare, Task};
use super::times;

/// A contender of ours: a name, and [`contend`] with its payload.
#[derive(Debug)]
pub(super) struct OwnContender {
    pub(super) name: &'static str,
    run: fn(&Task) -> Result<()>,
}

/// Our contenders, in the order of the table.
pub(super) const OWN: &[OwnContender] = &[
    OwnContender { name: FULL, run: |task| contend::<Pod>(task, plain) },
    OwnContender { name: PACKED, run: |task| contend::<Packed<Pod>>(task, plain) },
    OwnContender { name: PACKED_ZSTD, run: |task| contend::<Packed<Pod>>(task, compressed) },
    OwnContender { name: VIEW, run: |task| contend::<PodView>(task, plain) },
    OwnContender { name: VIEW_LIST, run: |task| contend::<PodView>(task, listed) },
    OwnContender { name: METADATA, run: |task| contend::<PartialObjectMeta<Pod>>(task, plain) },
];

fn plain<T: View>(builder: InformerBuilder<T>) -> InformerBuilder<T> {
    builder
}

/// Reads one body with all objects, as curl does, instead of an event for each object.
fn listed<T: View>(builder: InformerBuilder<T>) -> InformerBuilder<T> {
    builder.reflector(|options| options.without_watch_list())
}

fn compressed<K: View>(builder: InformerBuilder<Packed<K>>) -> InformerBuilder<Packed<K>> {
    let compressor = Compressor::new();
    builder.transform(move |object| compressor.compress(object))
}

/// Runs the contender whose name and arguments these are.
///
/// # Errors
/// If there is none of that name, or it fails.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let (name, arguments) = arguments.split_first().context("the name of the contender is missing")?;
    let contender = OWN.iter().find(|it| it.name == name);
    let contender = contender.with_context(|| format!("there is no contender {name:?}"))?;
    (contender.run)(&Task::parse_from(std::iter::once(name).chain(arguments)))
}

/// Measures an informer with this payload.
fn contend<T: View>(task: &Task, prepare: Prepare<T>) -> Result<()>
where
    T::Of: Resource<Scope = NamespaceResourceScope>,
{
    #[cfg(feature = "heap")]
    if task.heap {
        return heap::measure(task, prepare);
    }
    ensure!(!task.heap, "this program was built without the feature `heap`");
    testbed::runtime::run(times::measure(task, prepare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_contender_is_an_error() {
        assert!(run(&["nonsense".to_owned()]).is_err_and(|it| it.to_string().contains("nonsense")));
        assert!(run(&[]).is_err());
    }
}
