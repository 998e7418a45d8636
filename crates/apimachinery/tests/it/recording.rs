//! Recorded responses of kube-apiserver: loads them, and selects the parts of a document that they
//! contain.

use std::path::Path;

use serde_json::{Map, Value};

/// One request and its recorded response.
pub(crate) struct Step {
    pub(crate) path: String,
    pub(crate) aggregated: bool,
    pub(crate) status: u64,
    step: Value,
}

/// Loads the steps of a recording.
pub(crate) fn steps(name: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/scenarios").join(name);
    let recording: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let steps = recording["steps"].as_array().unwrap();
    let step = |it: &Value| Step {
        path: it["path"].as_str().unwrap().to_owned(),
        aggregated: it["headers"]["Accept"]
            .as_str()
            .is_some_and(|it| it.contains("as=APIGroupDiscoveryList")),
        status: it["expect"]["status"].as_u64().unwrap(),
        step: it.clone(),
    };
    steps.iter().map(step).collect()
}

impl Step {
    /// Panics unless the recorded parts of `body` are equal to the recording.
    pub(crate) fn check(&self, body: &Value) {
        let expected = &self.step["expect"]["body"];
        let mut got = match self.step["select"].as_array() {
            None => body.clone(),
            Some(paths) => {
                let pick = |path: &Value| {
                    let path = path.as_str().unwrap();
                    let found = select(body, path).unwrap_or_else(|| panic!("{path} is missing"));
                    (path.to_owned(), found.clone())
                };
                Value::Object(paths.iter().map(pick).collect::<Map<_, _>>())
            }
        };
        let ignored = self.step["ignore"].as_array().into_iter().flatten().filter_map(Value::as_str);
        ignored
            .filter_map(|path| path.strip_prefix("$.."))
            .for_each(|field| drop_everywhere(&mut got, field));
        assert_eq!(&got, expected, "{}", self.path);
    }
}

fn drop_everywhere(value: &mut Value, field: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(field);
            fields.values_mut().for_each(|it| drop_everywhere(it, field));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| drop_everywhere(it, field)),
        _ => {}
    }
}

/// Returns the value at a path such as `$.a.b[0].c[name=x]['d.e']`. An item is matched by its own
/// field or by that of its metadata.
pub(crate) fn select<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    let mut rest = path.strip_prefix('$')?;
    let mut at = body;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix("['") {
            let (key, after) = inside.split_once("']")?;
            (at, rest) = (at.get(key)?, after);
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (index, after) = inside.split_once(']')?;
            at = match index.split_once('=') {
                Some((key, value)) => {
                    at.as_array()?.iter().find(|it| it[key] == value || it["metadata"][key] == value)?
                }
                None => at.get(index.parse::<usize>().ok()?)?,
            };
            rest = after;
        } else {
            let inside = rest.strip_prefix('.')?;
            let end = inside.find(['.', '[']).unwrap_or(inside.len());
            (at, rest) = (at.get(&inside[..end])?, &inside[end..]);
        }
    }
    Some(at)
}
