//! Paths into a document: `$.a.b[0]`, `[*]`, `[name=x]`, `['a.b/c']`, `$..anywhere`.

use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// A parsed path.
#[derive(Debug)]
pub(crate) struct Path(Vec<Part>);

#[derive(Debug)]
enum Part {
    Key(String),
    /// An index, from the end if negative.
    Index(i64),
    /// Every item of a list, or every field of an object.
    All,
    /// The items of a list with this value in a field, or in that field of their metadata.
    Where(String, String),
    /// Fields of this name at any depth, but not below another match.
    Anywhere(String),
}

/// A key or an index below a value.
#[derive(Clone, Debug)]
enum Segment {
    Key(String),
    Index(usize),
}

/// The location of one value in a document.
type Location = Vec<Segment>;

static PART: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"^(?:\.\.([\w\-]+)|\.([\w\-$:]+)|\['([^']*)'\]|\[(\*|-?\d+)\]|\[([A-Za-z]+)=([^\]]*)\])";
    Regex::new(part).expect("a valid pattern")
});

impl Path {
    /// Parses a path. Panics if it is invalid: scenarios are part of the repository.
    pub(crate) fn new(text: &str) -> Self {
        let mut rest = text.strip_prefix('$').unwrap_or_else(|| panic!("{text} does not begin with $"));
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let found = PART.captures(rest).unwrap_or_else(|| panic!("{text}: cannot parse {rest}"));
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

    /// Returns the first match.
    pub(crate) fn first<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.locations(document).first().and_then(|it| follow(document, it))
    }

    /// Returns the match, or null if there is none; a list of matches if the path can have several.
    pub(crate) fn pick(&self, document: &Value) -> Value {
        let locations = self.locations(document);
        let mut values = locations.iter().filter_map(|it| follow(document, it).cloned());
        if self.0.iter().any(|it| matches!(it, Part::All | Part::Anywhere(_))) {
            Value::Array(values.collect())
        } else {
            values.next().unwrap_or_default()
        }
    }

    /// Removes every match from a document.
    pub(crate) fn remove(&self, document: &mut Value) {
        // In reverse, so that the indexes of earlier matches stay valid.
        for location in self.locations(document).iter().rev() {
            let Some((last, above)) = location.split_last() else { continue };
            match (follow_mut(document, above), last) {
                (Some(Value::Object(fields)), Segment::Key(key)) => drop(fields.remove(key)),
                (Some(Value::Array(items)), Segment::Index(index)) => drop(items.remove(*index)),
                _ => {}
            }
        }
    }

    /// Returns the name of the field that the path ends in, and true if that is a field of
    /// metadata.
    pub(crate) fn field(&self) -> (Option<&str>, bool) {
        let key = |it: &'_ Part| matches!(it, Part::Key(_) | Part::Anywhere(_));
        let mut keys = self.0.iter().rev().filter(|it| key(it)).map(|it| match it {
            Part::Key(key) | Part::Anywhere(key) => key.as_str(),
            _ => "",
        });
        let last = keys.next();
        (last, keys.next() == Some("metadata"))
    }

    fn locations(&self, document: &Value) -> Vec<Location> {
        let mut locations = vec![Location::new()];
        for part in &self.0 {
            let step_down = |location: &Location| {
                let mut found = Vec::new();
                if let Some(value) = follow(document, location) {
                    part.find(value, location, &mut found);
                }
                found
            };
            locations = locations.iter().flat_map(step_down).collect();
        }
        locations
    }
}

impl Part {
    /// Adds the locations below `location`, whose value is `value`.
    fn find(&self, value: &Value, location: &Location, found: &mut Vec<Location>) {
        let mut add = |segment| found.push(location.iter().cloned().chain([segment]).collect());
        match (self, value) {
            (Self::Key(key), Value::Object(fields)) if fields.contains_key(key) => {
                add(Segment::Key(key.clone()))
            }
            (Self::Index(index), Value::Array(items)) => {
                let index = if *index < 0 { index + items.len() as i64 } else { *index };
                if let Some(index) = usize::try_from(index).ok().filter(|it| *it < items.len()) {
                    add(Segment::Index(index));
                }
            }
            (Self::All, Value::Array(items)) => (0..items.len()).map(Segment::Index).for_each(add),
            (Self::All, Value::Object(fields)) => fields.keys().cloned().map(Segment::Key).for_each(add),
            (Self::Where(key, wanted), Value::Array(items)) => {
                let has = |it: &Value| {
                    let own = it.get(key).filter(|it| !it.is_null());
                    let value = own.or_else(|| it.get("metadata")?.get(key).filter(|_| key == "name"));
                    value.is_some_and(|it| {
                        it.as_str().map_or_else(|| it.to_string(), str::to_owned) == *wanted
                    })
                };
                let matching = items.iter().enumerate().filter(|(_, it)| has(it));
                matching.map(|(index, _)| Segment::Index(index)).for_each(add);
            }
            (Self::Anywhere(name), Value::Object(fields)) => {
                for (key, below) in fields {
                    let location: Location =
                        location.iter().cloned().chain([Segment::Key(key.clone())]).collect();
                    if key == name {
                        found.push(location);
                    } else {
                        self.find(below, &location, found);
                    }
                }
            }
            (Self::Anywhere(_), Value::Array(items)) => {
                for (index, below) in items.iter().enumerate() {
                    let location: Location =
                        location.iter().cloned().chain([Segment::Index(index)]).collect();
                    self.find(below, &location, found);
                }
            }
            _ => {}
        }
    }
}

fn follow<'a>(document: &'a Value, location: &[Segment]) -> Option<&'a Value> {
    location.iter().try_fold(document, |at, segment| match segment {
        Segment::Key(key) => at.get(key),
        Segment::Index(index) => at.get(index),
    })
}

fn follow_mut<'a>(document: &'a mut Value, location: &[Segment]) -> Option<&'a mut Value> {
    location.iter().try_fold(document, |at, segment| match segment {
        Segment::Key(key) => at.get_mut(key),
        Segment::Index(index) => at.get_mut(index),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_finds_fields_items_and_named_items() {
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
    fn removing_removes_every_match_and_nothing_else() {
        let mut document = json!({"a": [{"x": 1, "y": 2}, {"x": {"x": 3}}], "x": 4, "z": [1, 2]});
        Path::new("$..x").remove(&mut document);
        assert_eq!(document, json!({"a": [{"y": 2}, {}], "z": [1, 2]}));
        Path::new("$.z[*]").remove(&mut document);
        assert_eq!(document, json!({"a": [{"y": 2}, {}], "z": []}));
    }

    #[test]
    fn the_field_of_a_path_reports_if_it_is_in_metadata() {
        assert_eq!(Path::new("$.items[*].metadata.resourceVersion").field(), (Some("resourceVersion"), true));
        assert_eq!(Path::new("$.rows[*].cells").field(), (Some("cells"), false));
        assert_eq!(Path::new("$").field(), (None, false));
    }
}
