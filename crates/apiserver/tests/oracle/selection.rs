//! What of an answer is compared: the wanted headers, the body without what is ignored or down to what is selected.
//!
//! The version of a list, a Table or a bookmark is not that of an object: it may be anything between two of them. Such versions
//! are marked here, since only here the whole document is at hand, and made symbols later.

use std::collections::BTreeMap;

use serde_json::Value;

use super::paths::Path;
use super::scenario::{Scenario, Step};

/// Begins a version of which only the place among those of objects counts. No version begins so.
pub(crate) const BETWEEN: char = '\u{1}';
/// Begins a version of a list that should be that of an object.
pub(crate) const EXACT: char = '\u{2}';

/// The headers whose presence, absence and value are compared in every step.
const ALWAYS: [&str; 4] = ["content-type", "warning", "content-encoding", "retry-after"];

/// What came of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(Answer),
    /// The events of a stream since the last look, and how it stands: `open`, `eof`, `refused` or an error.
    Events {
        events: Vec<Value>,
        end: String,
    },
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By name in lower case; values of one name are lines of one text.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content: Content,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// Still to come: a stream.
    None,
    Json(Value),
    Text(String),
}

/// The part of an outcome that is compared.
#[derive(Debug)]
pub(crate) enum Kept {
    Answer { status: u16, headers: Vec<(String, String)>, body: Body },
    Events { events: Vec<Value>, end: String },
}

/// The part of a body that is compared.
#[derive(Debug)]
pub(crate) enum Body {
    Nothing,
    Whole(Value),
    /// By path, in the order of the scenario, as the scenario writes it.
    Picked(Vec<(String, Value)>),
    Text(String),
}

/// Keeps what the step wants compared. `resolve` puts variables into a path.
pub(crate) fn keep(
    scenario: &Scenario,
    step: &Step,
    outcome: &Outcome,
    resolve: &dyn Fn(&str) -> String,
) -> Kept {
    let mut ignored: Vec<_> = scenario.ignore.iter().chain(&step.ignore).map(|it| Path::new(it)).collect();
    if !(scenario.managed_fields || step.managed_fields) {
        ignored.push(Path::new("$..managedFields"));
    }
    match outcome {
        Outcome::Events { events, end } => {
            let mut events = events.clone();
            for event in &mut events {
                let bookmark = event["type"] == "BOOKMARK";
                let Some(object) = event.get_mut("object") else { continue };
                mark(object, BETWEEN, bookmark);
                ignored.iter().for_each(|it| it.remove(object));
            }
            Kept::Events { events, end: end.clone() }
        }
        Outcome::Answer(answer) => {
            let also = step.check_headers.iter().map(|it| it.to_ascii_lowercase());
            let wanted = ALWAYS.map(str::to_owned).into_iter().chain(also);
            let header = |name: String| answer.headers.get(&name).map(|it| (name.clone(), it.clone()));
            let headers = wanted.filter_map(header).collect();
            let body = body(step, &answer.content, &ignored, resolve);
            Kept::Answer { status: answer.status, headers, body }
        }
    }
}

fn body(step: &Step, content: &Content, ignored: &[Path], resolve: &dyn Fn(&str) -> String) -> Body {
    match content {
        _ if step.discard_body => Body::Nothing,
        Content::None => Body::Nothing,
        Content::Text(text) => Body::Text(text.clone()),
        Content::Json(value) => {
            let mut value = value.clone();
            mark(&mut value, if step.exact_rv { EXACT } else { BETWEEN }, false);
            ignored.iter().for_each(|it| it.remove(&mut value));
            match &step.select {
                None => Body::Whole(value),
                Some(paths) => {
                    let pick = |it: &String| (it.clone(), Path::new(&resolve(it)).pick(&value));
                    Body::Picked(paths.iter().map(pick).collect())
                }
            }
        }
    }
}

/// Marks the versions of lists and Tables, and in a bookmark all.
fn mark(value: &mut Value, with: char, bookmark: bool) {
    match value {
        Value::Object(fields) => {
            let list = fields.get("items").is_some_and(Value::is_array);
            let table = fields.get("kind").is_some_and(|it| it == "Table");
            let metadata = fields.get_mut("metadata").and_then(|it| it.get_mut("resourceVersion"));
            if let Some(Value::String(version)) = metadata
                && (bookmark || list || table)
                && !version.starts_with([BETWEEN, EXACT])
            {
                version.insert(0, with);
            }
            fields.values_mut().for_each(|it| mark(it, with, bookmark));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| mark(it, with, bookmark)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(step: Value, content: Value) -> Body {
        let step: Step = serde_json::from_value(step).unwrap();
        let scenario = json!({"title": "", "area": "", "ignore": ["$.gone"], "steps": []});
        let scenario: Scenario = serde_json::from_value(scenario).unwrap();
        let answer = Answer { status: 200, headers: BTreeMap::new(), content: Content::Json(content) };
        let resolve = |it: &str| it.replace("${id}", "x");
        match keep(&scenario, &step, &Outcome::Answer(answer), &resolve) {
            Kept::Answer { body, .. } => body,
            Kept::Events { .. } => panic!("it was no stream"),
        }
    }

    #[test]
    fn managed_fields_and_what_is_ignored_are_left_out() {
        let content = json!({"gone": 1, "metadata": {"managedFields": [], "name": "a"}, "n": 1});
        let Body::Whole(body) = kept(json!({"ignore": ["$.n"], "expect": {}}), content.clone()) else {
            panic!()
        };
        assert_eq!(body, json!({"metadata": {"name": "a"}}));
        let Body::Whole(body) = kept(json!({"managedFields": true, "expect": {}}), content) else { panic!() };
        assert_eq!(body, json!({"metadata": {"managedFields": [], "name": "a"}, "n": 1}));
    }

    #[test]
    fn what_is_selected_goes_by_the_path_as_written() {
        let step = json!({"select": ["$.b[name=${id}].n", "$.a"], "expect": {}});
        let Body::Picked(picked) = kept(step, json!({"b": [{"name": "x", "n": 1}]})) else { panic!() };
        assert_eq!(picked, [("$.b[name=${id}].n".to_owned(), json!(1)), ("$.a".to_owned(), json!(null))]);
    }

    #[test]
    fn only_versions_of_lists_are_marked() {
        let content =
            json!({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"resourceVersion": "5"}}]});
        let Body::Whole(body) = kept(json!({"expect": {}}), content) else { panic!() };
        assert_eq!(body["metadata"]["resourceVersion"], "\u{1}9");
        assert_eq!(body["items"][0]["metadata"]["resourceVersion"], "5");
    }
}
