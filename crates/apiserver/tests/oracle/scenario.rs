//! The format of a scenario: requests, and the responses recorded from kube-apiserver.
//!
//! Read from `conformance/scenarios`; `conformance/README.md` describes the format. This module
//! knows nothing about sending requests or comparing responses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A sequence of requests to one server, with the expected responses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) title: String,
    /// The area of the API that the scenario covers.
    pub(crate) area: String,
    /// True if managed fields are compared. Otherwise they are dropped.
    #[serde(default, rename = "managedFields")]
    pub(crate) managed_fields: bool,
    /// The features that the server must have: `auth` for tokens, `rbac` for the authorization mode
    /// RBAC.
    #[serde(default)]
    pub(crate) requires: Vec<String>,
    /// Paths that are dropped from every body.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// Objects that are deleted at the end, also after a failure.
    #[serde(default)]
    pub(crate) cleanup: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

/// One request, the start of a watch, or the collection of its events; see [`Step::action`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// A note for readers of the scenario.
    pub(crate) note: Option<String>,

    method: Option<String>,
    watch: Option<String>,
    #[serde(default)]
    pub(crate) path: String,
    /// Headers to send; null removes one that is sent by default.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    /// The body as JSON; `raw` is a body that is not valid JSON.
    body: Option<Box<RawValue>>,
    raw: Option<String>,
    pub(crate) poll: Option<Poll>,

    collect: Option<String>,
    /// The number of events to wait for, unless `until` is `eof`.
    #[serde(default)]
    count: usize,
    until: Option<String>,
    /// The seconds to wait for them. Defaults to 10.
    timeout: Option<f64>,
    /// The seconds to wait for further events, which must not come.
    #[serde(default)]
    settle: f64,
    /// `collapse` keeps one of each run of periodic bookmarks; otherwise they are dropped.
    bookmarks: Option<String>,

    /// Variables, and the paths of their values in the response.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    /// Variables, and the response headers that hold their values.
    #[serde(default)]
    pub(crate) save_header: BTreeMap<String, String>,

    /// Headers to compare in addition to those that always are.
    #[serde(default)]
    pub(crate) check_headers: Vec<String>,
    /// True if only the status and the headers are compared.
    #[serde(default)]
    pub(crate) discard_body: bool,
    /// True if the version of a list must equal that of an object.
    #[serde(default)]
    pub(crate) exact_rv: bool,
    /// Paths that are dropped before the comparison.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// The only paths that are compared. Defaults to the whole body.
    pub(crate) select: Option<Vec<String>>,
    /// True if managed fields are compared in this step.
    #[serde(default, rename = "managedFields")]
    pub(crate) managed_fields: bool,
    pub(crate) expect: Value,
}

/// The action of a step.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    /// Sends a request and reads the response.
    Request { method: &'a str },
    /// Opens a watch under a name.
    Watch { name: &'a str },
    /// Collects the events of a watch.
    Collect(Collect<'a>),
}

/// The events to collect from a watch.
#[derive(Debug)]
pub(crate) struct Collect<'a> {
    pub(crate) name: &'a str,
    /// The number of events, or `None` to collect until the stream ends.
    pub(crate) count: Option<usize>,
    pub(crate) timeout: f64,
    pub(crate) settle: f64,
    pub(crate) collapse_bookmarks: bool,
}

/// The condition that a request is repeated for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Poll {
    pub(crate) timeout: f64,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    pub(crate) path: Option<String>,
    pub(crate) equals: Option<Value>,
}

fn ok() -> u16 {
    200
}

impl Scenario {
    /// Loads a scenario. Panics with the reason if it does not follow the format.
    pub(crate) fn load(name: &str) -> Self {
        let path = directory().join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|it| panic!("{}: {it}", path.display()))
    }

    /// Returns true if the scenario needs a namespace of its own.
    pub(crate) fn needs_namespace(&self) -> bool {
        self.steps.iter().any(Step::mentions_namespace)
    }
}

impl Step {
    pub(crate) fn action(&self) -> Action<'_> {
        match (&self.watch, &self.collect) {
            (Some(name), _) => Action::Watch { name },
            (None, None) => Action::Request { method: self.method.as_deref().unwrap_or("GET") },
            (None, Some(name)) => Action::Collect(Collect {
                name,
                count: (self.until.as_deref() != Some("eof")).then_some(self.count),
                timeout: self.timeout.unwrap_or(10.0),
                settle: self.settle,
                collapse_bookmarks: self.bookmarks.as_deref() == Some("collapse"),
            }),
        }
    }

    /// Returns the body as text, before variables are substituted. Error messages depend on the
    /// order of fields, so that of the file is kept.
    pub(crate) fn body(&self) -> Option<String> {
        self.raw.clone().or_else(|| self.body.as_ref().map(|it| on_one_line(it.get())))
    }

    fn mentions_namespace(&self) -> bool {
        let variable = "${ns}";
        self.path.contains(variable) || self.body().is_some_and(|it| it.contains(variable))
    }
}

/// Returns the JSON on one line, with a space after each comma and colon, as it was sent for the
/// recording.
fn on_one_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for letter in json.chars() {
        if in_text || !letter.is_ascii_whitespace() {
            line.push(letter);
        }
        if !in_text && matches!(letter, ',' | ':') {
            line.push(' ');
        }
        if letter == '"' && !escaped {
            in_text = !in_text;
        }
        escaped = in_text && letter == '\\' && !escaped;
    }
    line
}

/// Returns the names of all scenarios, sorted.
pub(crate) fn all() -> Vec<String> {
    let files = std::fs::read_dir(directory()).unwrap();
    let name = |it: PathBuf| Some(it.file_name()?.to_str()?.strip_suffix(".json")?.to_owned());
    let mut names: Vec<_> = files.filter_map(|it| name(it.unwrap().path())).collect();
    names.sort();
    names
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_sent_on_one_line_in_the_order_of_the_file() {
        let step = r#"{"expect": {}, "body": {
            "b": [1,
              {"c: d, e": "x  \" ,y:\\"}],
            "a": null}}"#;
        let step: Step = serde_json::from_str(step).unwrap();
        assert_eq!(step.body().unwrap(), r#"{"b": [1, {"c: d, e": "x  \" ,y:\\"}], "a": null}"#);
    }
}
