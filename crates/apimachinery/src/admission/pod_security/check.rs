//! The parts that all checks share: the pod that is checked, and the words of a violation.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::json_access::{at, flag, items, text};

/// A rule that a pod breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

/// A function that looks for one sort of violation.
pub(super) type CheckPod = fn(PodToCheck<'_>) -> Option<Violation>;

/// A pod, or the template of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodToCheck<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> PodToCheck<'a> {
    /// Returns the containers in the order in which messages name them.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Value> {
        let lists = ["/initContainers", "/containers", "/ephemeralContainers"];
        lists.into_iter().flat_map(move |it| items(self.spec, it))
    }

    /// Returns the names of the containers that `is_bad` is true for.
    pub(super) fn bad_containers(self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|it| is_bad(it)).map(|it| text(it, "/name")).collect()
    }

    /// Returns those that have a bad security context: `pod`, and `containers "a", "b"`. Contexts
    /// that are absent are not bad.
    pub(super) fn bad_setters(self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<String> {
        let mut bad = |it: &'a Value| at(it, "/securityContext").is_some_and(&mut is_bad);
        let of_pod = bad(self.spec).then(|| "pod".to_owned());
        let containers = self.bad_containers(bad);
        of_pod.into_iter().chain((!containers.is_empty()).then(|| named_containers(&containers))).collect()
    }

    /// Returns true for a pod of Windows, for which some fields must not be set.
    pub(super) fn is_windows(self) -> bool {
        text(self.spec, "/os/name") == "windows"
    }

    /// Returns true for a pod with a user namespace of its own.
    pub(super) fn has_user_namespace(self) -> bool {
        at(self.spec, "/hostUsers").is_some() && !flag(self.spec, "/hostUsers")
    }

    /// Returns the annotation of a name.
    pub(super) fn annotation(self, name: &str) -> Option<&'a str> {
        at(self.metadata, "/annotations")?.get(name)?.as_str()
    }
}

impl Violation {
    /// Returns the violation with these words.
    pub(super) fn new(reason: impl Into<String>, detail: String) -> Option<Self> {
        Some(Self { reason: reason.into(), detail })
    }
}

/// Returns `container "a"` or `containers "a", "b"`.
pub(super) fn named_containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Returns texts in quotes, separated by commas; quotes in them are not escaped, as upstream.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|it| format!("\"{}\"", it.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Returns a set of texts, which messages list in alphabetical order.
pub(super) fn sorted<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    texts.into_iter().collect()
}

/// Returns one of two forms of a word.
pub(super) fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}
