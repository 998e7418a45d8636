//! The format of a scenario: requests, and the answers a real server gave to them.
//!
//! Read from `conformance/scenarios`, whose README describes it. Knows nothing of how a request is sent or an answer compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A sequence of requests to one server, with what must come back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) title: String,
    /// The part of the protocol it is about.
    pub(crate) area: String,
    /// Whether managed fields are compared; elsewhere they are dropped.
    #[serde(default, rename = "managedFields")]
    pub(crate) managed_fields: bool,
    /// What the server must have: only `auth` is known.
    #[serde(default)]
    pub(crate) requires: Vec<String>,
    /// Paths that are dropped from every body.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// Objects that are deleted at the end, whatever happened.
    #[serde(default)]
    pub(crate) cleanup: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

/// One request, the beginning of a watch, or a look at what a watch has brought: [`Step::action`] says which.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// What somebody who reads the scenario should know.
    pub(crate) note: Option<String>,

    method: Option<String>,
    watch: Option<String>,
    #[serde(default)]
    pub(crate) path: String,
    /// Headers to send; null takes away one that is sent otherwise.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    /// The body, as JSON; `raw` is a body that is no JSON, or not quite.
    body: Option<Box<RawValue>>,
    raw: Option<String>,
    pub(crate) poll: Option<Poll>,

    collect: Option<String>,
    /// How many events to wait for, unless `until` says `eof`.
    #[serde(default)]
    count: usize,
    until: Option<String>,
    /// Seconds to wait for them.
    timeout: Option<f64>,
    /// Seconds to wait for more, which should not come.
    #[serde(default)]
    settle: f64,
    /// `collapse` keeps one of each run of periodic bookmarks; otherwise they are dropped.
    bookmarks: Option<String>,

    /// Variables, and where in the answer their values are.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    /// Variables, and the headers of the answer they are taken from.
    #[serde(default)]
    pub(crate) save_header: BTreeMap<String, String>,

    /// Headers to compare beyond those that always are.
    #[serde(default)]
    pub(crate) check_headers: Vec<String>,
    /// Compares the status and the headers alone.
    #[serde(default)]
    pub(crate) discard_body: bool,
    /// The version of a list must be that of one of the objects.
    #[serde(default)]
    pub(crate) exact_rv: bool,
    /// Paths that are dropped before comparing.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// The only paths that are compared; all of the body when absent.
    pub(crate) select: Option<Vec<String>>,
    /// Compares managed fields in this step.
    #[serde(default, rename = "managedFields")]
    pub(crate) managed_fields: bool,
    pub(crate) expect: Value,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    /// Sends a request and reads the answer.
    Request { method: &'a str },
    /// Opens a stream of events under a name.
    Watch { name: &'a str },
    /// Takes what has come on a stream.
    Collect(Collect<'a>),
}

/// What to take from a stream, and for how long.
#[derive(Debug)]
pub(crate) struct Collect<'a> {
    pub(crate) name: &'a str,
    /// None: until the stream ends.
    pub(crate) count: Option<usize>,
    pub(crate) timeout: f64,
    pub(crate) settle: f64,
    pub(crate) collapse_bookmarks: bool,
}

/// Repeats a request until its answer is as described.
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
    /// Reads one. Panics with the reason when it does not follow the format.
    pub(crate) fn load(name: &str) -> Self {
        let path = directory().join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|it| panic!("{}: {it}", path.display()))
    }

    /// Whether it wants a namespace of its own.
    pub(crate) fn wants_namespace(&self) -> bool {
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

    /// The body as text, before variables are put in. What is wrong with a body is told in its own order and words, so the order
    /// of the file is kept.
    pub(crate) fn body(&self) -> Option<String> {
        self.raw.clone().or_else(|| self.body.as_ref().map(|it| on_one_line(it.get())))
    }

    fn mentions_namespace(&self) -> bool {
        let variable = "${ns}";
        self.path.contains(variable) || self.body().is_some_and(|it| it.contains(variable))
    }
}

/// JSON on one line, with a space after each comma and colon: as it was when the answers were recorded.
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

/// The names of all scenarios there are, sorted.
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
