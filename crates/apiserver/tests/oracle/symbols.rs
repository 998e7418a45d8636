//! Symbols in place of values that differ from server to server: versions, uids, times, generated
//! names, tokens, addresses.
//!
//! A version becomes its rank among those of the scenario (`rv1`, `rv2`…), a uid is numbered in
//! order of appearance: equality and order are compared, the values are not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::paths::Path;
use super::selection::{BETWEEN, Body, EXACT, Selection};

/// The largest distance from now of a time that the server may just have set.
const NEAR: SignedDuration = SignedDuration::from_hours(24);
/// The number of characters that a generated name keeps of its base; five random ones follow.
/// k8s.io/apiserver v0.36.4 pkg/storage/names/generate.go.
const BASE: usize = 58;

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|[+-]\d\d:\d\d)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:\d+[smhdy]){1,2}$"));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(r"^\d+\.\d+\.\d+\.\d+$"));
static NODE_PORT: LazyLock<Regex> = LazyLock::new(|| regex(r":3\d{4}/"));
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| regex(r"^[bcdfghjklmnpqrstvwxz2456789]{5}$"));
static TAG: LazyLock<Regex> = LazyLock::new(|| regex(r#"^(W/)?"[^"]+"$"#));
static INVALID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)^(.*? is invalid: \[)(.*)\]$"));
/// Patterns of volatile values in messages, with their replacements.
static MESSAGES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    vec![
        (regex(r"(too old resource version: )\d+ \(\d+\)"), "${1}<n> (<n>)"),
        (regex(r"(Too large resource version: )\d+, current: \d+"), "${1}<n>, current: <n>"),
        (regex(r"(ResourceVersion in the precondition \()\d+(\))"), "${1}<rv>${2}"),
        (regex(r"(ResourceVersion in record \()\d+(\))"), "${1}<rv>${2}"),
        (regex(r"hash=[0-9A-Fa-f]{16,}"), "hash=<hash>"),
        (regex(r#"(Invalid value: )"\{(?:[^"\\]|\\.)*\}""#), r#"${1}"<object>""#),
        (regex(r#"(in scheme )"[^"]*""#), r#"${1}"<scheme>""#),
        (regex(r"\((?:\d+[smhdy]){1,2} ago\)"), "(<age> ago)"),
    ]
});

/// The values of one run and their symbols.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Names that are replaced first, the longest first.
    names: Vec<(String, String)>,
    versions: BTreeSet<u64>,
    uids: BTreeMap<String, String>,
    /// The creation time that was seen first, by uid.
    created: BTreeMap<String, String>,
    now: Timestamp,
}

/// The position of a value, as far as it determines the kind of value.
#[derive(Clone, Copy, Default)]
struct Position<'a> {
    key: Option<&'a str>,
    parent: Option<&'a Map<String, Value>>,
    in_metadata: bool,
    in_cells: bool,
}

/// Replaces the volatile values of all steps of a run. `own` are the names that the run chose, with
/// their symbols.
pub(crate) fn transcript(steps: &[Selection], own: &[(String, String)]) -> Vec<Value> {
    let now = Timestamp::now();
    let mut symbols = Symbols {
        names: Vec::new(),
        versions: BTreeSet::new(),
        uids: BTreeMap::new(),
        created: BTreeMap::new(),
        now,
    };
    steps.iter().for_each(|it| symbols.gather_step(it));
    symbols.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    symbols.names.extend_from_slice(own);
    steps.iter().map(|it| symbols.step(it)).collect()
}

/// The first pass: collects versions and generated names, which need the whole run.
impl Symbols {
    fn gather_step(&mut self, step: &Selection) {
        match step {
            Selection::Events { events, .. } => events.iter().for_each(|it| self.gather(it, false)),
            Selection::Reply { body: Body::Whole(value), .. } => self.gather(value, false),
            Selection::Reply { body: Body::Picked(values), .. } => {
                for (path, value) in values {
                    self.gather_picked(&Path::new(path), value);
                }
            }
            Selection::Reply { .. } => {}
        }
    }

    fn gather_picked(&mut self, path: &Path, value: &Value) {
        let (key, in_metadata) = path.field();
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            self.gather(value, key == Some("metadata"));
            if in_metadata && key == Some("resourceVersion") {
                self.gather_version(value);
            }
        }
    }

    fn gather(&mut self, value: &Value, is_metadata: bool) {
        match value {
            Value::Object(fields) => {
                if is_metadata {
                    self.gather_name(fields);
                    fields.get("resourceVersion").into_iter().for_each(|it| self.gather_version(it));
                }
                for (key, value) in sorted(fields) {
                    self.gather(value, key == "metadata");
                }
            }
            Value::Array(items) => items.iter().for_each(|it| self.gather(it, false)),
            _ => {}
        }
    }

    fn gather_version(&mut self, value: &Value) {
        let number: Option<u64> = value.as_str().and_then(|it| it.parse().ok());
        self.versions.extend(number.filter(|it| *it != 0));
    }

    fn gather_name(&mut self, metadata: &Map<String, Value>) {
        let text = |key| metadata.get(key).and_then(Value::as_str).filter(|it: &&str| !it.is_empty());
        let (Some(base), Some(name)) = (text("generateName"), text("name")) else { return };
        let base = &base[..base.len().min(BASE)];
        let generated = name.strip_prefix(base).is_some_and(|it| SUFFIX.is_match(it));
        if generated && self.names.iter().all(|(it, _)| it != name) {
            let symbol = format!("{base}<gen{}>", self.names.len() + 1);
            self.names.push((name.to_owned(), symbol));
        }
    }
}

/// The second pass: replaces each value.
impl Symbols {
    fn step(&mut self, step: &Selection) -> Value {
        match step {
            Selection::Events { events, end } => {
                let events: Vec<_> = events.iter().map(|it| self.value(it, Position::default())).collect();
                json!({"events": events, "end": end})
            }
            Selection::Reply { status, headers, body } => {
                let mut shown = Map::new();
                shown.insert("status".to_owned(), json!(status));
                match body {
                    Body::Nothing => None,
                    Body::Whole(value) => {
                        shown.insert("body".to_owned(), self.value(value, Position::default()))
                    }
                    Body::Picked(values) => shown.insert("body".to_owned(), self.picked(values)),
                    Body::Text(text) => shown.insert("text".to_owned(), json!(self.text(text))),
                };
                let header = |(name, value): &(String, String)| (name.clone(), self.header(name, value));
                let headers: Map<_, _> = headers.iter().map(header).collect();
                shown.insert("headers".to_owned(), Value::Object(headers));
                Value::Object(shown)
            }
        }
    }

    fn picked(&mut self, values: &[(String, Value)]) -> Value {
        let mut shown = Map::new();
        for (path, value) in values {
            let read = Path::new(path);
            let (key, in_metadata) = read.field();
            let position = Position { key, in_metadata, ..Position::default() };
            shown.insert(path.clone(), self.value(value, position));
        }
        Value::Object(shown)
    }

    fn value(&mut self, value: &Value, position: Position<'_>) -> Value {
        match value {
            Value::Object(fields) => self.fields(&in_order(fields), position),
            Value::Array(items) => {
                let in_cells = position.in_cells || position.key == Some("cells");
                items.iter().map(|it| self.value(it, Position { in_cells, ..position })).collect()
            }
            Value::String(text) => Value::String(self.string(text, position)),
            Value::Number(number) => {
                let port = matches!(position.key, Some("nodePort" | "healthCheckNodePort"))
                    && number.as_u64().is_some_and(|it| (30_000..=32_767).contains(&it));
                if port { json!("<port>") } else { value.clone() }
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, above: Position<'_>) -> Value {
        let mut shown = Map::new();
        for (key, value) in sorted(fields) {
            let name = self.text(key);
            let position = Position {
                key: Some(key),
                parent: Some(fields),
                in_metadata: above.key == Some("metadata"),
                in_cells: above.in_cells,
            };
            shown.insert(name, self.value(value, position));
        }
        Value::Object(shown)
    }

    fn string(&mut self, text: &str, position: Position<'_>) -> String {
        let managed = || position.parent.is_some_and(|it| it.contains_key("manager"));
        match position.key {
            Some("resourceVersion") if position.in_metadata => self.version(text),
            Some("continue") if position.in_metadata && !text.is_empty() => "<continue>".to_owned(),
            Some("clusterIP" | "clusterIPs") if ADDRESS.is_match(text) => "<ip>".to_owned(),
            _ if position.in_cells && AGE.is_match(text) => "<age>".to_owned(),
            _ if position.in_cells && ADDRESS.is_match(text) => "<ip>".to_owned(),
            _ if position.in_cells => self.text(&NODE_PORT.replace_all(text, ":<port>/")),
            Some("creationTimestamp") if is_time(text) => self.creation(text, position.parent),
            Some("deletionTimestamp" | "lastTransitionTime") => TIME.replace(text, time_symbol).into_owned(),
            Some("time") if managed() => TIME.replace(text, time_symbol).into_owned(),
            _ => self.text(text),
        }
    }

    /// Returns the rank of an object's version, or the rank below another version.
    fn version(&self, text: &str) -> String {
        let rank = |number| self.versions.range(..=number).count();
        let marked = text.strip_prefix([BETWEEN, EXACT]);
        match (marked, marked.unwrap_or(text).parse::<u64>()) {
            (Some(rest), Err(_) | Ok(0)) => rest.to_owned(),
            (Some(_), Ok(number)) if text.starts_with(EXACT) && self.versions.contains(&number) => {
                format!("rv{}", rank(number))
            }
            (Some(_), Ok(number)) => format!("rv{}+", rank(number)),
            (None, Ok(number)) if self.versions.contains(&number) => format!("rv{}", rank(number)),
            (None, _) => text.to_owned(),
        }
    }

    /// Returns the symbol of a creation time, which must not change.
    fn creation(&mut self, text: &str, metadata: Option<&Map<String, Value>>) -> String {
        if let Some(uid) = metadata.and_then(|it| it.get("uid")).and_then(Value::as_str) {
            let first = self.created.entry(uid.to_owned()).or_insert_with(|| text.to_owned());
            if first != text {
                return "<time: changed>".to_owned();
            }
        }
        TIME.replace(text, time_symbol).into_owned()
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, symbol) in &self.names {
            text = text.replace(name, symbol);
        }
        let uids = &mut self.uids;
        let text = UUID.replace_all(&text, |found: &Captures<'_>| {
            let next = format!("<uid{}>", uids.len() + 1);
            uids.entry(found[0].to_owned()).or_insert(next).clone()
        });
        let text = TIME.replace_all(&text, |found: &Captures<'_>| {
            let near = |it: Timestamp| it.duration_since(self.now).abs() <= NEAR;
            let time: Option<Timestamp> = format!("{}Z", &found[1]).parse().ok();
            if time.is_some_and(near) { time_symbol(found) } else { found[0].to_owned() }
        });
        let replace =
            |text: String, (found, with): &(Regex, &str)| found.replace_all(&text, *with).into_owned();
        MESSAGES.iter().fold(text.into_owned(), replace)
    }

    fn header(&mut self, name: &str, value: &str) -> Value {
        match name {
            "audit-id" if UUID.find(value).is_some_and(|it| it.as_str() == value) => json!("<audit-id>"),
            "audit-id" => json!(value),
            "etag" => json!(if TAG.is_match(value) { "<etag>" } else { value }),
            "date" | "expires" => json!("<date>"),
            "warning" => {
                let mut warnings: Vec<_> = value.split('\n').map(|it| self.text(it)).collect();
                warnings.sort();
                json!(warnings)
            }
            _ => json!(self.text(value)),
        }
    }
}

fn is_time(text: &str) -> bool {
    TIME.find(text).is_some_and(|it| it.as_str() == text)
}

/// Returns the symbol of a time, with its number of decimals.
fn time_symbol(found: &Captures<'_>) -> String {
    match found.get(2) {
        None => "<time>".to_owned(),
        Some(decimals) => format!("<time.{}>", decimals.len() - 1),
    }
}

/// Returns the fields sorted by name: the order of a map depends on the features of serde_json.
fn sorted(fields: &Map<String, Value>) -> BTreeMap<&str, &Value> {
    fields.iter().map(|(key, value)| (key.as_str(), value)).collect()
}

/// Returns the fields with the causes of a Status sorted: kube-apiserver reports them in no fixed
/// order.
fn in_order(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut status = fields.clone();
    let is_status = status.get("kind").is_some_and(|it| it == "Status");
    let causes = status.get_mut("details").and_then(|it| it.get_mut("causes")).and_then(Value::as_array_mut);
    let Some(causes) = causes.filter(|it| is_status && it.len() > 1) else { return status };
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or("None").to_owned();
    causes.sort_by_key(|it| (text(it, "field"), text(it, "reason"), text(it, "message")));
    let cause_text = |it: &Value| format!("{}: {}", text(it, "field"), text(it, "message"));
    let parts: Vec<_> = causes.iter().map(cause_text).collect();
    let Some(Value::String(message)) = status.get_mut("message") else { return status };
    let sorted = INVALID.captures(message).and_then(|found| {
        let joined = parts.join(", ");
        let same = parts.iter().all(|it| found[2].contains(it.as_str())) && joined.len() == found[2].len();
        same.then(|| format!("{}{joined}]", &found[1]))
    });
    message.clone_from(&sorted.unwrap_or_else(|| message.clone()));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bodies: &[Value]) -> Vec<Value> {
        let step =
            |it: &Value| Selection::Reply { status: 200, headers: Vec::new(), body: Body::Whole(it.clone()) };
        let steps: Vec<_> = bodies.iter().map(step).collect();
        let own = [("orc-q".to_owned(), "${ns}".to_owned())];
        transcript(&steps, &own).into_iter().map(|it| it["body"].clone()).collect()
    }

    fn one(body: Value) -> Value {
        shown(&[body]).remove(0)
    }

    #[test]
    fn versions_are_ranked_and_those_of_lists_lie_between_ranks() {
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let shown = shown(&[
            object("12"),
            object("7"),
            object("12"),
            object("\u{1}9"),
            object("\u{2}12"),
            object("0"),
        ]);
        let versions: Vec<_> =
            shown.iter().map(|it| it["metadata"]["resourceVersion"].as_str().unwrap()).collect();
        assert_eq!(versions, ["rv2", "rv1", "rv2", "rv1+", "rv2", "0"]);
    }

    #[test]
    fn uids_are_numbered_also_inside_messages() {
        let (a, b) = ("0b7b4c1e-0000-4000-8000-000000000001", "0b7b4c1e-0000-4000-8000-000000000002");
        let shown = one(json!({"a": a, "b": format!("uid {b} is not {a}")}));
        assert_eq!(shown, json!({"a": "<uid1>", "b": "uid <uid2> is not <uid1>"}));
    }

    #[test]
    fn only_times_near_now_are_symbols_and_decimals_count() {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.123456Z").to_string();
        let shown =
            one(json!({"a": now, "b": "2001-02-03T04:05:06Z", "deletionTimestamp": "2001-02-03T04:05:06Z"}));
        assert_eq!(
            shown,
            json!({"a": "<time.6>", "b": "2001-02-03T04:05:06Z", "deletionTimestamp": "<time>"})
        );
    }

    #[test]
    fn a_creation_time_that_changes_is_reported() {
        let object = |time: &str| json!({"uid": "u", "creationTimestamp": time});
        let shown = shown(&[object("2026-01-01T00:00:00Z"), object("2026-01-01T00:00:01Z")]);
        assert_eq!(shown[0]["creationTimestamp"], "<time>");
        assert_eq!(shown[1]["creationTimestamp"], "<time: changed>");
    }

    #[test]
    fn generated_names_are_replaced_everywhere() {
        let shown =
            one(json!({"metadata": {"generateName": "x-", "name": "x-b2c4d"}, "at": "/orc-q/x-b2c4d"}));
        assert_eq!(
            shown,
            json!({"metadata": {"generateName": "x-", "name": "x-<gen1>"}, "at": "/${ns}/x-<gen1>"})
        );
        let odd = json!({"metadata": {"generateName": "x-", "name": "x-aaaaa"}});
        assert_eq!(one(odd.clone()), odd, "the alphabet has no a");
    }

    #[test]
    fn cells_and_allocated_values_are_symbols() {
        let body = json!({
            "rows": [{"cells": ["web", "5m", "10.0.0.7", "80:30123/TCP", 3]}],
            "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"nodePort": 30123, "port": 30123}]},
        });
        let expected = json!({
            "rows": [{"cells": ["web", "<age>", "<ip>", "80:<port>/TCP", 3]}],
            "spec": {"clusterIP": "<ip>", "clusterIPs": ["<ip>"], "ports": [{"nodePort": "<port>", "port": 30123}]},
        });
        assert_eq!(one(body), expected);
    }

    #[test]
    fn the_causes_of_a_status_are_sorted_and_its_message_with_them() {
        let status = |causes: [&str; 2]| {
            let cause = |field: &str| json!({"field": field, "message": "no", "reason": "r"});
            let message = format!("x is invalid: [{}: no, {}: no]", causes[0], causes[1]);
            json!({"kind": "Status", "message": message, "details": {"causes": causes.map(cause)}})
        };
        assert_eq!(one(status(["b", "a"])), status(["a", "b"]));
    }

    #[test]
    fn numbers_and_objects_inside_messages_are_symbols() {
        let body = json!({"message": "too old resource version: 5 (17)", "also": r#"spec: Invalid value: "{\"a\":1}": no"#});
        let expected = json!({"message": "too old resource version: <n> (<n>)", "also": r#"spec: Invalid value: "<object>": no"#});
        assert_eq!(one(body), expected);
    }
}
