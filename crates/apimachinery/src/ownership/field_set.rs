//! A set of field paths as a trie: the fields that one manager owns.
//!
//! The JSON form is `fieldsV1`: an object for each step, with a `.` for a path that ends where
//! others continue. Knows nothing of schemas or objects.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};

use super::element::{BadElement, Element};
use super::merge_join::{Pair, merge_join};

/// A set of field paths.
///
/// Invariant: every node is a member or has members below it, so a set without nodes is the only
/// empty one, and equal sets are equal trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Invariant: sorted by element, without duplicates. Sets are small and mostly built in order.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    element: Element,
    /// True if the path to this node is in the set, and not only paths below it.
    member: bool,
    below: FieldSet,
}

/// A path from the root of an object, as messages show it: `.spec.containers[name="a"].image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<Element>);

/// The limits of the paths in a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathRoom {
    /// The number of paths.
    pub(super) paths: usize,
    /// The number of bytes of all paths.
    pub(super) bytes: usize,
}

/// An error of decoding `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFields {
    /// A key is not a path element.
    #[error("a key of fieldsV1 cannot be read")]
    Element(#[from] BadElement),
    /// A value is not an object.
    #[error("a value of fieldsV1 is not an object")]
    NotAnObject,
}

impl FieldSet {
    /// Returns the empty set.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Returns a set of paths of named fields, each written with dots: `metadata.name`.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Vec<Element> = path.split('.').map(Element::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Decodes `fieldsV1`. Elements of unknown kinds are skipped.
    ///
    /// # Errors
    /// An error if a key is not a path element, or a value is not an object.
    pub fn from_json(fields: &Value) -> Result<Self, BadFields> {
        Ok(Self::read(fields)?.1)
    }

    /// Returns true if the decoded path itself is a member, and the set below it.
    fn read(fields: &Value) -> Result<(bool, Self), BadFields> {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => return Ok((true, Self::new())),
            _ => return Err(BadFields::NotAnObject),
        };
        let mut member = false;
        let mut nodes = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            if key == "." {
                member = true;
            } else if let Some(element) = Element::parse(key)? {
                let (member, below) = Self::read(value)?;
                nodes.push(Node { element, member, below });
            }
        }
        let all = Self::from_nodes(nodes);
        Ok((member || all.is_empty(), all))
    }

    /// Returns the set of these nodes, which may be in any order, and several of which may have the
    /// same element. Each must be a member or have members below it.
    fn from_nodes(mut nodes: Vec<Node>) -> Self {
        if nodes.is_sorted_by(|a, b| a.element < b.element) {
            return Self { nodes };
        }
        // Inserting them one by one would move all nodes behind each.
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut merged: Vec<Node> = Vec::with_capacity(nodes.len());
        let mut rest = nodes.into_iter().peekable();
        while let Some(mut node) = rest.next() {
            let mut below = Vec::new();
            while let Some(same) = rest.next_if(|next| next.element == node.element) {
                node.member |= same.member;
                below.extend(same.below.nodes);
            }
            if !below.is_empty() {
                below.splice(0..0, std::mem::take(&mut node.below.nodes));
                node.below = Self::from_nodes(below);
            }
            merged.push(node);
        }
        Self { nodes: merged }
    }

    /// Returns the paths in any of the sets.
    pub(super) fn union_of(sets: impl IntoIterator<Item = Self>) -> Self {
        Self::from_nodes(sets.into_iter().flat_map(|set| set.nodes).collect())
    }

    /// Encodes the set as `fieldsV1`.
    pub fn to_json(&self) -> Value {
        self.write(false)
    }

    fn write(&self, with_self: bool) -> Value {
        let mut fields = Map::new();
        if with_self && !self.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for node in &self.nodes {
            fields.insert(node.element.to_key(), node.below.write(node.member));
        }
        Value::Object(fields)
    }

    /// Returns true if no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path. The path without elements is the object itself, which has no owner: it is
    /// ignored.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((last, way)) = path.split_last() else { return };
        let mut set = self;
        for element in way {
            set = &mut set.node_mut(element).below;
        }
        set.node_mut(last).member = true;
    }

    /// Returns the index of the node of an element as `Ok`, or as `Err` the index at which to
    /// insert it.
    fn find(&self, element: &Element) -> Result<usize, usize> {
        match self.nodes.last().map(|last| last.element.cmp(element)) {
            None | Some(Ordering::Less) => Err(self.nodes.len()),
            Some(Ordering::Equal) => Ok(self.nodes.len() - 1),
            Some(Ordering::Greater) => self.nodes.binary_search_by(|node| node.element.cmp(element)),
        }
    }

    fn node(&self, element: &Element) -> Option<&Node> {
        self.find(element).ok().map(|at| &self.nodes[at])
    }

    /// Returns the node of an element, created if absent. The caller must make a new node a member,
    /// or add one below it.
    fn node_mut(&mut self, element: &Element) -> &mut Node {
        let at = self.find(element).unwrap_or_else(|at| {
            self.nodes.insert(at, Node { element: element.clone(), member: false, below: Self::new() });
            at
        });
        &mut self.nodes[at]
    }

    /// Adds an element and everything below it. Does nothing if it is not a member and has none
    /// below.
    pub(super) fn put(&mut self, element: Element, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        match self.find(&element) {
            Ok(at) => {
                let node = &mut self.nodes[at];
                node.member |= member;
                node.below.absorb(below);
            }
            Err(at) => self.nodes.insert(at, Node { element, member, below }),
        }
    }

    /// Adds all paths of the other set.
    fn absorb(&mut self, other: Self) {
        if self.is_empty() || other.is_empty() {
            self.nodes.extend(other.nodes);
            return;
        }
        let (left, right) = (std::mem::take(&mut self.nodes), other.nodes);
        self.nodes.reserve(left.len().max(right.len()));
        for pair in merge_join(left, right, |a, b| a.element.cmp(&b.element)) {
            self.nodes.push(match pair {
                Pair::Left(node) | Pair::Right(node) => node,
                Pair::Both(mut node, same) => {
                    node.member |= same.member;
                    node.below.absorb(same.below);
                    node
                }
            });
        }
    }

    /// Returns true if the path is in the set.
    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((last, way)) = path.split_last() else { return false };
        let mut set = self;
        for element in way {
            match set.node(element) {
                Some(node) => set = &node.below,
                None => return false,
            }
        }
        set.has(last)
    }

    /// Returns true if the path of this one element is in the set.
    pub(super) fn has(&self, element: &Element) -> bool {
        self.node(element).is_some_and(|node| node.member)
    }

    /// Returns true if the path of this element is a member, and the set below it; `None` if there
    /// is nothing at the element.
    pub(super) fn at(&self, element: &Element) -> Option<(bool, &Self)> {
        self.node(element).map(|node| (node.member, &node.below))
    }

    /// Returns the first elements, each with true if it is a member, and the set below it.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.nodes.iter().map(|node| (&node.element, node.member, &node.below))
    }

    /// Returns the paths in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.clone().joined(other.clone())
    }

    /// Returns the paths in both sets. The smaller set is walked, and the larger one searched:
    /// each of many managers may own only a few of many changed fields.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.nodes.len() <= other.nodes.len() {
            Self::common(self.nodes.iter().filter_map(|a| Some((a, other.node(&a.element)?))))
        } else {
            Self::common(other.nodes.iter().filter_map(|b| Some((self.node(&b.element)?, b))))
        }
    }

    /// Returns the paths in both nodes of each pair.
    fn common<'a>(pairs: impl Iterator<Item = (&'a Node, &'a Node)>) -> Self {
        let mut nodes = Vec::new();
        for (a, b) in pairs {
            let (member, below) = (a.member && b.member, a.below.intersection(&b.below));
            if member || !below.is_empty() {
                nodes.push(Node { element: a.element.clone(), member, below });
            }
        }
        Self { nodes }
    }

    /// Returns the paths in this set and not in the other, which is only searched.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        for node in &self.nodes {
            let Some(same) = other.node(&node.element) else {
                nodes.push(node.clone());
                continue;
            };
            let (member, below) = (node.member && !same.member, node.below.difference(&same.below));
            if member || !below.is_empty() {
                nodes.push(Node { element: node.element.clone(), member, below });
            }
        }
        Self { nodes }
    }

    /// Returns the paths in either set, consuming both.
    #[must_use]
    pub(super) fn joined(mut self, other: Self) -> Self {
        self.absorb(other);
        self
    }

    /// Returns the paths that are neither in the other set nor below one of its paths.
    #[must_use]
    pub fn without_trees(&self, trees: &Self) -> Self {
        self.cut_along(trees, false)
    }

    /// Returns the paths that are in the other set, below one of its paths, or on the way to one.
    #[must_use]
    pub fn within_trees(&self, trees: &Self) -> Self {
        self.cut_along(trees, true)
    }

    /// Keeps the paths inside of the trees, or those outside; the paths to a tree count as both.
    fn cut_along(&self, trees: &Self, inside: bool) -> Self {
        let mut kept = Self::new();
        for node in &self.nodes {
            let tree = trees.node(&node.element);
            match tree {
                Some(way) if !way.member => {
                    kept.put(node.element.clone(), node.member, node.below.cut_along(&way.below, inside));
                }
                _ if tree.is_some() == inside => kept.nodes.push(node.clone()),
                _ => {}
            }
        }
        kept
    }

    /// Returns the paths that no other path continues.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut leaves = Self::new();
        for (element, member, below) in self.nodes() {
            leaves.put(element.clone(), member && below.is_empty(), below.leaves());
        }
        leaves
    }

    /// Returns the paths that are not in the set, but lead to paths that are.
    pub(super) fn ways(&self) -> Self {
        let mut ways = Self::new();
        for node in &self.nodes {
            ways.put(node.element.clone(), !node.member, node.below.ways());
        }
        ways
    }

    /// Returns the number of paths.
    pub(super) fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Returns the first paths as messages show them: at most `room.paths`, and no more when they
    /// exceed `room.bytes`. Both are reduced by those that are returned.
    pub(super) fn first_paths(&self, room: &mut PathRoom) -> Vec<String> {
        let mut paths = Vec::new();
        self.format(&mut String::new(), room, &mut paths);
        paths
    }

    fn format(&self, way: &mut String, room: &mut PathRoom, paths: &mut Vec<String>) {
        let here = way.len();
        let step = |way: &mut String, element: &Element| {
            way.truncate(here);
            _ = write!(way, "{element}");
        };
        for node in self.nodes.iter().filter(|node| node.member) {
            if room.paths == 0 || room.bytes == 0 {
                return;
            }
            step(way, &node.element);
            room.paths -= 1;
            room.bytes = room.bytes.saturating_sub(way.len());
            paths.push(way.clone());
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            if room.paths == 0 || room.bytes == 0 {
                return;
            }
            step(way, &node.element);
            node.below.format(way, room, paths);
        }
        way.truncate(here);
    }

    /// Returns all paths in the order of messages: those that end at a step before those that
    /// continue.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, way: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for (element, _, _) in self.nodes().filter(|(_, member, _)| *member) {
            paths.push(Path(way.iter().chain([element]).cloned().collect()));
        }
        for (element, _, below) in self.nodes() {
            way.push(element.clone());
            below.collect(way, paths);
            way.pop();
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_json(&fields).unwrap()
    }

    fn element() -> impl Strategy<Value = Element> {
        prop_oneof![
            "[a-c]{1,2}".prop_map(Element::field),
            ("[a-c<]", 0..3_i64).prop_map(|(name, port)| {
                Element::key([("port".to_owned(), json!(port)), ("name".to_owned(), json!(name))])
            }),
            prop_oneof![
                Just(json!(true)),
                (0..4_i64).prop_map(|n| json!(n)),
                "[a-c\"]{0,2}".prop_map(Value::from)
            ]
            .prop_map(|value| Element::Value(super::super::element::Datum(value))),
            (0..3_i64).prop_map(Element::Index),
        ]
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8).prop_map(|paths| {
            let mut set = FieldSet::new();
            paths.iter().for_each(|path| set.insert(path));
            set
        })
    }

    proptest! {
        #[test]
        fn a_set_survives_a_round_trip_through_json(a in any_set()) {
            prop_assert_eq!(FieldSet::from_json(&a.to_json()), Ok(a));
        }

        #[test]
        fn operations_agree_with_sets_of_paths(a in any_set(), b in any_set()) {
            for path in a.union(&b).paths() {
                let (in_a, in_b) = (a.contains(&path.0), b.contains(&path.0));
                prop_assert!(in_a || in_b);
                prop_assert_eq!(a.intersection(&b).contains(&path.0), in_a && in_b);
                prop_assert_eq!(a.difference(&b).contains(&path.0), in_a && !in_b);
            }
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&a).is_empty() && a.without_trees(&a).is_empty());
            prop_assert_eq!(FieldSet::union_of([a.clone(), b.clone()]), a.union(&b));
            prop_assert_eq!(a.clone().joined(b.clone()), a.union(&b));
            prop_assert_eq!(a.within_trees(&a), a);
        }

        #[test]
        fn any_json_is_a_set_or_an_error(text in r#"\{("[fkvi.]:?[a-z{}"]{0,4}":(\{\}|null|1),?){0,3}\}"#) {
            if let Ok(fields) = serde_json::from_str(&text) {
                let _ = FieldSet::from_json(&fields);
            }
        }
    }

    #[test]
    fn elements_in_any_order_and_spelling_are_one_sorted_set() {
        let spelled =
            set(json!({"v:1": {"f:b": {}}, "v:1.0": {"f:a": {}}, "i:10": {}, "i:9": {}, "f:x": {}}));
        let paths: Vec<String> = spelled.paths().iter().map(ToString::to_string).collect();
        assert_eq!(paths, [".x", "[9]", "[10]", "[=1].a", "[=1].b"]);
        let mut inserted = FieldSet::new();
        spelled.paths().iter().rev().for_each(|path| inserted.insert(&path.0));
        assert_eq!(inserted, spelled);
    }

    #[test]
    fn operations_of_many_small_sets_with_a_large_one_take_little_time() {
        let names: Vec<String> = (0..20_000).map(|it| format!("a.k{it}")).collect();
        let large = FieldSet::of_fields(names.iter().map(String::as_str));
        // Walking the large set for each small one is quadratic.
        for name in &names {
            let small = FieldSet::of_fields([name.as_str()]);
            assert!(small.difference(&large).is_empty());
            assert_eq!((small.intersection(&large), large.intersection(&small)), (small.clone(), small));
        }
    }

    #[test]
    fn only_the_first_paths_are_formatted() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}}));
        let first = |paths: usize, bytes: usize| all.first_paths(&mut PathRoom { paths, bytes });
        let every: Vec<String> = all.paths().iter().map(ToString::to_string).collect();
        assert_eq!((first(9, 99), all.len()), (every.clone(), 4));
        assert_eq!(first(3, 99), every[..3]);
        assert_eq!(first(9, 5), every[..3], "the path that exceeds the limit is the last one");
    }

    #[test]
    fn a_dot_marks_a_path_that_others_continue() {
        let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
        let paths: Vec<String> = both.paths().iter().map(ToString::to_string).collect();
        assert_eq!(paths, [".a", ".a.b"]);
        assert_eq!(set(json!({"f:a": {"f:b": {}}})).paths().len(), 1);
        assert_eq!(both.leaves(), set(json!({"f:a": {"f:b": {}}})));
    }

    #[test]
    fn unknown_elements_are_skipped_and_null_is_a_member() {
        assert_eq!(
            set(json!({"x:y": {"f:b": {}}, "f:a": {"x:z": {}}, "f:c": null})),
            set(json!({"f:a": {}, "f:c": {}}))
        );
        assert_eq!(FieldSet::from_json(&json!({"f:a": 1})), Err(BadFields::NotAnObject));
    }

    #[test]
    fn trees_are_cut_and_kept_whole() {
        let all = set(json!({"f:spec": {".": {}, "f:a": {}}, "f:status": {"f:b": {}}, "f:x": {}}));
        let status = FieldSet::of_fields(["status"]);
        assert_eq!(all.without_trees(&status), set(json!({"f:spec": {".": {}, "f:a": {}}, "f:x": {}})));
        assert_eq!(all.within_trees(&status), set(json!({"f:status": {"f:b": {}}})));
        assert_eq!(
            all.within_trees(&FieldSet::of_fields(["spec.a"])),
            set(json!({"f:spec": {".": {}, "f:a": {}}}))
        );
    }
}
