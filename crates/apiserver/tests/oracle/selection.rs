//! Selects the parts of a response that are compared: some headers, and the body without ignored
//! paths or reduced to selected ones.
//!
//! The version of a list, a Table or a bookmark is not that of an object: it may lie anywhere
//! between two of them. Such versions are marked here, where the whole document is known, and
//! replaced by symbols later.

use std::collections::BTreeMap;

use serde_json::Value;

use super::paths::Path;
use super::scenario::{Scenario, Step};

/// The prefix of a version of which only the rank among the objects' versions is compared. No real
/// version begins with it.
pub(crate) const BETWEEN: char = '\u{1}';
/// The prefix of a version of a list that must equal that of an object.
pub(crate) const EXACT: char = '\u{2}';

/// The headers that are compared in every step, including their absence.
const ALWAYS: [&str; 4] = ["content-type", "warning", "content-encoding", "retry-after"];

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    Reply(Reply),
    /// The events of a stream since the last collection, and its state: `open`, `eof`, `refused` or
    /// an error.
    Events {
        events: Vec<Value>,
        end: String,
    },
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The headers by lower-case name; several values of one name are joined by line feeds.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content: Content,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Content {
    /// The response is a stream, which is read separately.
    None,
    Json(Value),
    Text(String),
}

/// The part of an outcome that is compared.
#[derive(Debug)]
pub(crate) enum Selection {
    Reply { status: u16, headers: Vec<(String, String)>, body: Body },
    Events { events: Vec<Value>, end: String },
}

/// The part of a body that is compared.
#[derive(Debug)]
pub(crate) enum Body {
    Nothing,
    Whole(Value),
    /// The values at selected paths, in the order and the notation of the scenario.
    Picked(Vec<(String, Value)>),
    Text(String),
}

/// Selects the parts of an outcome that the step compares. `resolve` substitutes the variables of a
/// path.
pub(crate) fn select(
    scenario: &Scenario,
    step: &Step,
    outcome: &Outcome,
    resolve: &dyn Fn(&str) -> String,
) -> Selection {
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
            Selection::Events { events, end: end.clone() }
        }
        Outcome::Reply(reply) => {
            let also = step.check_headers.iter().map(|it| it.to_ascii_lowercase());
            let wanted = ALWAYS.map(str::to_owned).into_iter().chain(also);
            let header = |name: String| reply.headers.get(&name).map(|it| (name.clone(), it.clone()));
            let headers = wanted.filter_map(header).collect();
            let body = body(step, &reply.content, &ignored, resolve);
            Selection::Reply { status: reply.status, headers, body }
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

/// Marks the versions of lists and Tables, and all versions in a bookmark.
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

    fn selected(step: Value, content: Value) -> Body {
        let step: Step = serde_json::from_value(step).unwrap();
        let scenario = json!({"title": "", "area": "", "ignore": ["$.gone"], "steps": []});
        let scenario: Scenario = serde_json::from_value(scenario).unwrap();
        let reply = Reply { status: 200, headers: BTreeMap::new(), content: Content::Json(content) };
        let resolve = |it: &str| it.replace("${id}", "x");
        match select(&scenario, &step, &Outcome::Reply(reply), &resolve) {
            Selection::Reply { body, .. } => body,
            Selection::Events { .. } => panic!("the outcome is not a stream"),
        }
    }

    #[test]
    fn managed_fields_and_ignored_paths_are_left_out() {
        let content = json!({"gone": 1, "metadata": {"managedFields": [], "name": "a"}, "n": 1});
        let Body::Whole(body) = selected(json!({"ignore": ["$.n"], "expect": {}}), content.clone()) else {
            panic!()
        };
        assert_eq!(body, json!({"metadata": {"name": "a"}}));
        let Body::Whole(body) = selected(json!({"managedFields": true, "expect": {}}), content) else {
            panic!()
        };
        assert_eq!(body, json!({"metadata": {"managedFields": [], "name": "a"}, "n": 1}));
    }

    #[test]
    fn selected_values_are_named_by_the_path_as_written() {
        let step = json!({"select": ["$.b[name=${id}].n", "$.a"], "expect": {}});
        let Body::Picked(picked) = selected(step, json!({"b": [{"name": "x", "n": 1}]})) else { panic!() };
        assert_eq!(picked, [("$.b[name=${id}].n".to_owned(), json!(1)), ("$.a".to_owned(), json!(null))]);
    }

    #[test]
    fn only_versions_of_lists_are_marked() {
        let content =
            json!({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"resourceVersion": "5"}}]});
        let Body::Whole(body) = selected(json!({"expect": {}}), content) else { panic!() };
        assert_eq!(body["metadata"]["resourceVersion"], "\u{1}9");
        assert_eq!(body["items"][0]["metadata"]["resourceVersion"], "5");
    }
}
