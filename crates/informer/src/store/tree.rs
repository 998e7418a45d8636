//! A persistent ordered map: a B+-tree whose nodes are shared until they change.
//!
//! A clone costs one reference count. An edit copies the nodes on its path that another clone still
//! holds, and changes the others in place; so a batch of edits copies each node at most once. The
//! keys of a node are shared separately, because most edits are updates and do not change them.

use std::sync::Arc;

use smallvec::SmallVec;

use super::keys::Keys;

/// The maximal number of values of a leaf and of children of an inner node. One less than the
/// capacity, so that a node that becomes too wide can be split in place. Half this width was no
/// faster to write and slower to read.
pub(super) const WIDTH: usize = 31;

/// A map from byte strings to values, in the order of the bytes.
#[derive(Clone, Debug)]
pub(super) struct Tree<V> {
    root: Arc<Node<V>>,
}

#[derive(Clone, Debug)]
pub(super) enum Node<V> {
    Leaf(Leaf<V>),
    Inner(Inner<V>),
}

#[derive(Clone, Debug)]
pub(super) struct Leaf<V> {
    pub(super) keys: Arc<Keys>,
    /// As many values as keys.
    pub(super) values: SmallVec<[V; WIDTH + 1]>,
}

#[derive(Clone, Debug)]
pub(super) struct Inner<V> {
    /// One less than there are children. All keys of child `i` are below bound `i`; those of child
    /// `i + 1` are not.
    bounds: Arc<Keys>,
    /// At least one child, none of them empty.
    pub(super) children: Vec<Child<V>>,
}

#[derive(Clone, Debug)]
pub(super) struct Child<V> {
    pub(super) node: Arc<Node<V>>,
    /// The number of values below this child.
    len: usize,
}

/// The right half of a node that became too wide, and the bound between the halves.
struct Split<V> {
    bound: Vec<u8>,
    right: Arc<Node<V>>,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(Leaf { keys: Arc::default(), values: SmallVec::new() })) }
    }
}

impl<V> Tree<V> {
    pub(super) fn root(&self) -> &Node<V> {
        &self.root
    }

    pub(super) fn len(&self) -> usize {
        self.root.len()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Inner(inner) => node = &inner.children[inner.child_of(key)].node,
                Node::Leaf(leaf) => return leaf.keys.find(key).map(|at| &leaf.values[at]),
            }
        }
    }

    /// Returns the number of keys below this one, and its value.
    pub(super) fn locate(&self, key: &[u8]) -> (usize, Option<&V>) {
        let (mut node, mut rank) = (&*self.root, 0);
        loop {
            match node {
                Node::Inner(inner) => {
                    let at = inner.child_of(key);
                    rank += inner.children[..at].iter().map(|it| it.len).sum::<usize>();
                    node = &inner.children[at].node;
                }
                Node::Leaf(leaf) => {
                    return match leaf.keys.search(key) {
                        Ok(at) => (rank + at, Some(&leaf.values[at])),
                        Err(at) => (rank + at, None),
                    };
                }
            }
        }
    }

    /// Returns the number of keys from `from` on and below `to`.
    pub(super) fn count(&self, from: &[u8], to: &[u8]) -> usize {
        self.locate(to).0.saturating_sub(self.locate(from).0)
    }
}

impl<V: Clone> Tree<V> {
    /// Sets the value at a key, and returns the previous one.
    pub(super) fn insert(&mut self, key: &[u8], value: V) -> Option<V> {
        let (before, split) = insert(&mut self.root, key, value);
        if let Some(Split { bound, right }) = split {
            let mut bounds = Keys::default();
            bounds.insert(0, &bound);
            let children = vec![Child::new(self.root.clone()), Child::new(right)];
            self.root = Arc::new(Node::Inner(Inner { bounds: Arc::new(bounds), children }));
        }
        before
    }

    /// Removes a key, and returns its value.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        // Looked up first, so that no node is copied for a missing key.
        self.get(key)?;
        let before = remove(&mut self.root, key);
        while let Node::Inner(Inner { children, .. }) = &*self.root {
            match children.as_slice() {
                [] => *self = Self::default(),
                [only] => self.root = only.node.clone(),
                _ => break,
            }
        }
        before
    }
}

impl<V> Node<V> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.values.len(),
            Self::Inner(inner) => inner.children.iter().map(|it| it.len).sum(),
        }
    }

    /// Returns the number of values or children of this node itself.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.values.len(),
            Self::Inner(inner) => inner.children.len(),
        }
    }
}

impl<V> Inner<V> {
    /// Returns the position of the child that contains the key, if any does.
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        self.bounds.search(key).map_or_else(|at| at, |at| at + 1)
    }
}

impl<V> Child<V> {
    fn new(node: Arc<Node<V>>) -> Self {
        Self { len: node.len(), node }
    }
}

fn insert<V: Clone>(node: &mut Arc<Node<V>>, key: &[u8], value: V) -> (Option<V>, Option<Split<V>>) {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => leaf.insert(key, value),
        Node::Inner(inner) => inner.insert(key, value),
    }
}

impl<V: Clone> Leaf<V> {
    fn insert(&mut self, key: &[u8], value: V) -> (Option<V>, Option<Split<V>>) {
        let at = match self.keys.search(key) {
            Ok(at) => return (Some(std::mem::replace(&mut self.values[at], value)), None),
            Err(at) => at,
        };
        let keys = Arc::make_mut(&mut self.keys);
        keys.insert(at, key);
        self.values.insert(at, value);
        if self.values.len() <= WIDTH {
            return (None, None);
        }
        // Appending, as a list in order does, leaves full leaves behind instead of half-full ones.
        let middle = if at == WIDTH { WIDTH } else { WIDTH / 2 };
        let right =
            Self { keys: Arc::new(keys.split_off(middle)), values: self.values.drain(middle..).collect() };
        let bound = right.keys.get(0).to_vec();
        (None, Some(Split { bound, right: Arc::new(Node::Leaf(right)) }))
    }
}

impl<V: Clone> Inner<V> {
    fn insert(&mut self, key: &[u8], value: V) -> (Option<V>, Option<Split<V>>) {
        let at = self.child_of(key);
        let child = &mut self.children[at];
        let (before, split) = insert(&mut child.node, key, value);
        if before.is_none() {
            child.len += 1;
        }
        let Some(Split { bound, right }) = split else { return (before, None) };
        let right = Child::new(right);
        child.len -= right.len;
        let bounds = Arc::make_mut(&mut self.bounds);
        bounds.insert(at, &bound);
        self.children.insert(at + 1, right);
        if self.children.len() <= WIDTH {
            return (before, None);
        }
        let middle = if at + 1 == WIDTH { WIDTH } else { WIDTH / 2 };
        let right_bounds = bounds.split_off(middle);
        let bound = bounds.get(middle - 1).to_vec();
        bounds.remove(middle - 1);
        let right = Self { bounds: Arc::new(right_bounds), children: self.children.split_off(middle) };
        (before, Some(Split { bound, right: Arc::new(Node::Inner(right)) }))
    }

    /// Merges the child at `at` with a neighbour if it has become small and both fit into one node.
    fn join(&mut self, at: usize) {
        let width = |at: usize| self.children.get(at).map(|it| it.node.width());
        // The result is at most three quarters full, so that a few inserts do not split it again.
        let thin = width(at).is_some_and(|it| it < WIDTH / 4);
        let fits =
            |left: usize| width(left).zip(width(left + 1)).is_some_and(|(a, b)| a + b <= WIDTH * 3 / 4);
        let left = match at.checked_sub(1) {
            _ if !thin => return,
            Some(before) if fits(before) => before,
            _ if fits(at) => at,
            _ => return,
        };
        let bounds = Arc::make_mut(&mut self.bounds);
        let bound = bounds.get(left).to_vec();
        bounds.remove(left);
        let right = self.children.remove(left + 1);
        let child = &mut self.children[left];
        child.len += right.len;
        match (Arc::make_mut(&mut child.node), &*right.node) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                Arc::make_mut(&mut left.keys).append(&right.keys);
                left.values.extend(right.values.iter().cloned());
            }
            (Node::Inner(left), Node::Inner(right)) => {
                let bounds = Arc::make_mut(&mut left.bounds);
                bounds.insert(bounds.len(), &bound);
                bounds.append(&right.bounds);
                left.children.extend_from_slice(&right.children);
            }
            _ => unreachable!("all leaves are equally deep"),
        }
    }
}

/// Removes a key that exists.
fn remove<V: Clone>(node: &mut Arc<Node<V>>, key: &[u8]) -> Option<V> {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            let at = leaf.keys.search(key).ok()?;
            Arc::make_mut(&mut leaf.keys).remove(at);
            Some(leaf.values.remove(at))
        }
        Node::Inner(inner) => {
            let at = inner.child_of(key);
            let child = &mut inner.children[at];
            let before = remove(&mut child.node, key)?;
            child.len -= 1;
            if child.len == 0 {
                inner.children.remove(at);
                if inner.bounds.len() > 0 {
                    Arc::make_mut(&mut inner.bounds).remove(at.saturating_sub(1));
                }
            } else {
                inner.join(at);
            }
            Some(before)
        }
    }
}
