//! Paths into a document: `$.a.b[0]`, `[*]`, `[name=x]`, `['a.b/c']`, `$..anywhere`.

use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// A path, read.
#[derive(Debug)]
pub(crate) struct Path(Vec<Part>);

#[derive(Debug)]
enum Part {
    Key(String),
    /// From the end when negative.
    Index(i64),
    /// Every item of a list, or every field.
    All,
    /// The items of a list whose field, or that of their metadata, has a value.
    Where(String, String),
    /// Fields of this name, however deep; not below one that was found.
    Anywhere(String),
}

/// One step down from a value.
#[derive(Clone, Debug)]
enum Down {
    Key(String),
    Index(usize),
}

/// The way to one value of a document.
type Way = Vec<Down>;

static PART: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"^(?:\.\.([\w\-]+)|\.([\w\-$:]+)|\['([^']*)'\]|\[(\*|-?\d+)\]|\[([A-Za-z]+)=([^\]]*)\])";
    Regex::new(part).expect("it is a constant")
});

impl Path {
    /// Reads a path. Panics when it is none: scenarios are ours.
    pub(crate) fn new(text: &str) -> Self {
        let mut rest = text.strip_prefix('$').unwrap_or_else(|| panic!("{text} does not begin with $"));
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let found = PART.captures(rest).unwrap_or_else(|| panic!("{text}: cannot read {rest}"));
            let group = |index| found.get(index).map(|it: regex::Match<'_>| it.as_str().to_owned());
            parts.push(match (group(1), group(2).or(group(3)), group(4), group(5)) {
                (Some(name), ..) => Part::Anywhere(name),
                (_, Some(key), ..) => Part::Key(key),
                (_, _, Some(index), _) => index.parse().map_or(Part::All, Part::Index),
                (_, _, _, key) => Part::Where(key.unwrap_or_default(), group(6).unwrap_or_default()),
            });
            rest = &rest[found[0].len()..];
        }
        Self(parts)
    }

    /// The first value it leads to.
    pub(crate) fn first<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.ways(document).first().and_then(|it| follow(document, it))
    }

    /// The value it leads to, null when there is none; a list of values when it may lead to several.
    pub(crate) fn pick(&self, document: &Value) -> Value {
        let ways = self.ways(document);
        let mut values = ways.iter().filter_map(|it| follow(document, it).cloned());
        if self.0.iter().any(|it| matches!(it, Part::All | Part::Anywhere(_))) {
            Value::Array(values.collect())
        } else {
            values.next().unwrap_or_default()
        }
    }

    /// Takes every value it leads to out of a document.
    pub(crate) fn remove(&self, document: &mut Value) {
        // From the back, so that the indexes of the others stay right.
        for way in self.ways(document).iter().rev() {
            let Some((last, above)) = way.split_last() else { continue };
            match (follow_mut(document, above), last) {
                (Some(Value::Object(fields)), Down::Key(key)) => drop(fields.remove(key)),
                (Some(Value::Array(items)), Down::Index(index)) => drop(items.remove(*index)),
                _ => {}
            }
        }
    }

    /// The name of the field it leads to, and whether that is a field of metadata.
    pub(crate) fn field(&self) -> (Option<&str>, bool) {
        let key = |it: &'_ Part| matches!(it, Part::Key(_) | Part::Anywhere(_));
        let mut keys = self.0.iter().rev().filter(|it| key(it)).map(|it| match it {
            Part::Key(key) | Part::Anywhere(key) => key.as_str(),
            _ => "",
        });
        let last = keys.next();
        (last, keys.next() == Some("metadata"))
    }

    fn ways(&self, document: &Value) -> Vec<Way> {
        let mut ways = vec![Way::new()];
        for part in &self.0 {
            let down = |way: &Way| {
                let mut found = Vec::new();
                if let Some(value) = follow(document, way) {
                    part.find(value, way, &mut found);
                }
                found
            };
            ways = ways.iter().flat_map(down).collect();
        }
        ways
    }
}

impl Part {
    /// Adds the ways that go on from `way`, at which `value` is.
    fn find(&self, value: &Value, way: &Way, found: &mut Vec<Way>) {
        let mut add = |down| found.push(way.iter().cloned().chain([down]).collect());
        match (self, value) {
            (Self::Key(key), Value::Object(fields)) if fields.contains_key(key) => {
                add(Down::Key(key.clone()))
            }
            (Self::Index(index), Value::Array(items)) => {
                let index = if *index < 0 { index + items.len() as i64 } else { *index };
                if let Some(index) = usize::try_from(index).ok().filter(|it| *it < items.len()) {
                    add(Down::Index(index));
                }
            }
            (Self::All, Value::Array(items)) => (0..items.len()).map(Down::Index).for_each(add),
            (Self::All, Value::Object(fields)) => fields.keys().cloned().map(Down::Key).for_each(add),
            (Self::Where(key, wanted), Value::Array(items)) => {
                let has = |it: &Value| {
                    let own = it.get(key).filter(|it| !it.is_null());
                    let value = own.or_else(|| it.get("metadata")?.get(key).filter(|_| key == "name"));
                    value.is_some_and(|it| {
                        it.as_str().map_or_else(|| it.to_string(), str::to_owned) == *wanted
                    })
                };
                let matching = items.iter().enumerate().filter(|(_, it)| has(it));
                matching.map(|(index, _)| Down::Index(index)).for_each(add);
            }
            (Self::Anywhere(name), Value::Object(fields)) => {
                for (key, below) in fields {
                    let way: Way = way.iter().cloned().chain([Down::Key(key.clone())]).collect();
                    if key == name {
                        found.push(way);
                    } else {
                        self.find(below, &way, found);
                    }
                }
            }
            (Self::Anywhere(_), Value::Array(items)) => {
                for (index, below) in items.iter().enumerate() {
                    let way: Way = way.iter().cloned().chain([Down::Index(index)]).collect();
                    self.find(below, &way, found);
                }
            }
            _ => {}
        }
    }
}

fn follow<'a>(document: &'a Value, way: &[Down]) -> Option<&'a Value> {
    way.iter().try_fold(document, |at, down| match down {
        Down::Key(key) => at.get(key),
        Down::Index(index) => at.get(index),
    })
}

fn follow_mut<'a>(document: &'a mut Value, way: &[Down]) -> Option<&'a mut Value> {
    way.iter().try_fold(document, |at, down| match down {
        Down::Key(key) => at.get_mut(key),
        Down::Index(index) => at.get_mut(index),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_fields_items_and_named_items() {
        let document = json!({
            "items": [{"metadata": {"name": "x", "n": 1}}, {"name": "y", "a.b/c": [1, 2]}],
        });
        let cases = [
            ("$.items[0].metadata.n", json!(1)),
            ("$.items[-1].name", json!("y")),
            ("$.items[name=x].metadata.n", json!(1)),
            ("$.items[name=y]['a.b/c'][1]", json!(2)),
            ("$.items[*].name", json!(["y"])),
            ("$..name", json!(["x", "y"])),
            ("$.nothing", json!(null)),
            ("$.items[7]", json!(null)),
            ("$.items[7].metadata[*]", json!([])),
        ];
        for (path, expected) in cases {
            assert_eq!(Path::new(path).pick(&document), expected, "{path}");
        }
    }

    #[test]
    fn removing_takes_every_match_and_nothing_else() {
        let mut document = json!({"a": [{"x": 1, "y": 2}, {"x": {"x": 3}}], "x": 4, "z": [1, 2]});
        Path::new("$..x").remove(&mut document);
        assert_eq!(document, json!({"a": [{"y": 2}, {}], "z": [1, 2]}));
        Path::new("$.z[*]").remove(&mut document);
        assert_eq!(document, json!({"a": [{"y": 2}, {}], "z": []}));
    }

    #[test]
    fn the_field_of_a_path_knows_whether_it_is_in_metadata() {
        assert_eq!(Path::new("$.items[*].metadata.resourceVersion").field(), (Some("resourceVersion"), true));
        assert_eq!(Path::new("$.rows[*].cells").field(), (Some("cells"), false));
        assert_eq!(Path::new("$").field(), (None, false));
    }
}
