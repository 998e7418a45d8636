//! The names after the resource: only these objects are shown.

use dogwatch::Object;
use dogwatch::api::FieldSelector;

/// The names of the objects to show; none for all.
#[derive(Clone, Debug, Default)]
pub(super) struct NameFilter(Vec<String>);

impl NameFilter {
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut unique = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        Self(unique)
    }

    /// Returns the selector by which the server filters for us: there is one for a single name
    /// only.
    pub(super) fn selector(&self) -> Option<FieldSelector> {
        match &self.0[..] {
            [name] => Some(FieldSelector::name(name)),
            _ => None,
        }
    }

    /// Returns true if all objects are shown.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an object is to be shown.
    pub(super) fn wants(&self, object: &impl Object) -> bool {
        self.0.is_empty() || self.0.iter().any(|it| it == object.header().name)
    }

    /// Returns the names of objects that do not exist.
    pub(super) fn missing(&self, exists: impl Fn(&str) -> bool) -> Vec<&str> {
        self.0.iter().map(String::as_str).filter(|it| !exists(it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::api::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> PartialObjectMeta {
        serde_json::from_value(json!({ "metadata": { "name": name } })).expect("metadata")
    }

    #[test]
    fn without_names_everything_is_shown() {
        let all = NameFilter::default();
        assert!(all.wants(&object("a")) && all.selector().is_none());
        assert_eq!(all.missing(|_| false), [] as [&str; 0]);
    }

    #[test]
    fn the_server_filters_by_one_name_and_we_by_several() {
        let one = NameFilter::new(["a", "a"].map(str::to_owned));
        assert_eq!(one.selector().map(|it| it.to_string()).as_deref(), Some("metadata.name=a"));
        let two = NameFilter::new(["a", "b"].map(str::to_owned));
        assert!(two.selector().is_none() && two.wants(&object("b")) && !two.wants(&object("c")));
        assert_eq!(two.missing(|it| it == "a"), ["b"]);
    }
}
