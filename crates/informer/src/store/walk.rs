//! In-order iteration over a tree, from any key on.

use std::slice;

use smallvec::SmallVec;

use super::tree::{Inner, Leaf, Node, Tree};

/// An in-order iterator over the rest of a tree. It yields leaves as slices, or keys and values one
/// by one.
#[derive(Debug)]
pub(super) struct Walk<'t, V> {
    /// The inner nodes above the leaf, each with the position of its next child.
    above: SmallVec<[(&'t Inner<V>, usize); 4]>,
    leaf: Option<&'t Leaf<V>>,
    /// The next position in the leaf.
    at: usize,
}

impl<V> Tree<V> {
    /// Returns an iterator over everything from this key on.
    pub(super) fn walk_from<'t>(&'t self, key: &[u8]) -> Walk<'t, V> {
        let mut above = SmallVec::new();
        let mut node = self.root();
        loop {
            match node {
                Node::Inner(inner) => {
                    let at = inner.child_of(key);
                    above.push((inner, at + 1));
                    node = &inner.children[at].node;
                }
                Node::Leaf(leaf) => {
                    let at = leaf.keys.search(key).unwrap_or_else(|at| at);
                    return Walk { above, leaf: Some(leaf), at };
                }
            }
        }
    }

    /// Returns an iterator over everything.
    pub(super) fn walk(&self) -> Walk<'_, V> {
        self.walk_from(b"")
    }

    /// Returns the values from `from` on and below `to`, one slice per leaf. It compares keys only
    /// in the first and the last leaf.
    #[inline]
    pub(super) fn slices<'t>(&'t self, from: &[u8], to: &[u8]) -> impl Iterator<Item = &'t [V]> + use<'t, V> {
        let mut left = self.count(from, to);
        let mut walk = self.walk_from(from);
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let values = walk.next_leaf()?;
            let values = &values[..left.min(values.len())];
            left -= values.len();
            Some(values)
        })
    }
}

/// The values of slices, one by one.
///
/// [`Iterator::flatten`] visits them through a reference to the closure. Without link-time
/// optimisation that is a call for each value, which takes three times as long as the rest
/// (`cargo xtask bench informer store`, "visit, each").
#[derive(Debug)]
pub(super) struct Values<'t, V, I> {
    slice: slice::Iter<'t, V>,
    rest: I,
}

impl<'t, V, I: Iterator<Item = &'t [V]>> Values<'t, V, I> {
    #[inline]
    pub(super) fn of(slices: I) -> Self {
        Self { slice: [].iter(), rest: slices }
    }
}

impl<'t, V, I: Iterator<Item = &'t [V]>> Iterator for Values<'t, V, I> {
    type Item = &'t V;

    #[inline]
    fn next(&mut self) -> Option<&'t V> {
        loop {
            if let Some(value) = self.slice.next() {
                return Some(value);
            }
            self.slice = self.rest.next()?.iter();
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, &'t V) -> B>(self, init: B, mut visit: F) -> B {
        let mut result = init;
        for value in self.slice {
            result = visit(result, value);
        }
        for slice in self.rest {
            for value in slice {
                result = visit(result, value);
            }
        }
        result
    }
}

impl<'t, V> Walk<'t, V> {
    /// Returns the rest of the current leaf.
    #[inline]
    fn next_leaf(&mut self) -> Option<&'t [V]> {
        let rest = &self.leaf?.values.as_slice()[self.at..];
        self.advance();
        Some(rest)
    }

    /// Moves to the start of the next leaf.
    #[inline]
    fn advance(&mut self) {
        self.at = 0;
        self.leaf = None;
        while let Some((inner, next)) = self.above.last_mut() {
            let Some(child) = inner.children.get(*next) else {
                self.above.pop();
                continue;
            };
            *next += 1;
            match &*child.node {
                Node::Inner(inner) => self.above.push((inner, 0)),
                Node::Leaf(leaf) => {
                    self.leaf = Some(leaf);
                    return;
                }
            }
        }
    }
}

impl<'t, V> Iterator for Walk<'t, V> {
    type Item = (&'t [u8], &'t V);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(leaf) = self.leaf {
            if let Some(value) = leaf.values.get(self.at) {
                self.at += 1;
                return Some((leaf.keys.get(self.at - 1), value));
            }
            self.advance();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<Vec<u8>, u32>;

    #[derive(Clone, Debug)]
    enum Edit {
        Insert(u16, u16),
        Remove(u16, u16),
        /// Takes a snapshot, which must not change afterwards.
        Keep,
    }

    /// Generates runs of keys, so that few edits fill and empty many nodes.
    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let run = || (0u16..4000, 1u16..600);
        let edit = prop_oneof![
            4 => run().prop_map(|(from, len)| Edit::Insert(from, len)),
            3 => run().prop_map(|(from, len)| Edit::Remove(from, len)),
            1 => Just(Edit::Keep),
        ];
        prop::collection::vec(edit, 1..40)
    }

    /// Returns keys of several lengths, spread over the order.
    fn key(number: u16) -> Vec<u8> {
        let spread = u32::from(number).wrapping_mul(2_654_435_761) % 4099;
        format!("{}/{number:x}", spread % 7).into_bytes()
    }

    fn contents(tree: &Tree<u32>) -> Vec<(Vec<u8>, u32)> {
        tree.walk().map(|(key, value)| (key.to_vec(), *value)).collect()
    }

    fn check(tree: &Tree<u32>, model: &Model) -> Result<(), TestCaseError> {
        prop_assert_eq!(tree.len(), model.len());
        prop_assert_eq!(
            contents(tree),
            model.iter().map(|(key, value)| (key.clone(), *value)).collect::<Vec<_>>()
        );
        for (rank, (key, value)) in model.iter().enumerate().step_by(17) {
            prop_assert_eq!(tree.get(key), Some(value));
            prop_assert_eq!(tree.locate(key), (rank, Some(value)));
        }
        let (from, to) = (b"2/5".to_vec(), b"5/a".to_vec());
        let expected: Vec<_> = model.range(from.clone()..to.clone()).map(|(_, value)| *value).collect();
        prop_assert_eq!(tree.count(&from, &to), expected.len());
        prop_assert_eq!(tree.slices(&from, &to).flatten().copied().collect::<Vec<_>>(), &*expected);
        for taken in [0, 1, expected.len() / 2] {
            let mut values = Values::of(tree.slices(&from, &to));
            let mut all: Vec<u32> = values.by_ref().take(taken).copied().collect();
            values.for_each(|it| all.push(*it));
            prop_assert_eq!(all, &*expected);
        }
        prop_assert_eq!(
            tree.walk_from(&from).next().map(|it| it.0.to_vec()),
            model.range(from..).next().map(|it| it.0.clone())
        );
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn edits_behave_as_those_of_a_btree_map_and_clones_never_change(edits in edits()) {
            let (mut tree, mut model, mut kept) = (Tree::default(), Model::new(), Vec::new());
            for (number, edit) in edits.into_iter().enumerate() {
                match edit {
                    Edit::Insert(from, len) => for it in from..from + len {
                        let value = number as u32 * 10_000 + u32::from(it);
                        prop_assert_eq!(tree.insert(&key(it), value), model.insert(key(it), value));
                    },
                    Edit::Remove(from, len) => for it in from..from + len {
                        prop_assert_eq!(tree.remove(&key(it)), model.remove(&key(it)));
                    },
                    Edit::Keep => kept.push((tree.clone(), model.clone())),
                }
            }
            kept.push((tree, model));
            for (tree, model) in &kept {
                check(tree, model)?;
            }
        }
    }

    #[test]
    fn a_list_in_order_leaves_full_leaves() {
        let mut tree = Tree::default();
        for number in 0..1000u32 {
            tree.insert(format!("{number:04}").as_bytes(), number);
        }
        let leaves = std::iter::successors(Some(tree.walk()), |_| None)
            .flat_map(|mut walk| std::iter::from_fn(move || walk.next_leaf().map(<[_]>::len)));
        assert_eq!(leaves.collect::<Vec<_>>(), [vec![31; 32], vec![8]].concat());
    }
}
