//! A view: the members that count as live, and the owner of each key among them.

use std::collections::BTreeSet;

use xxhash_rust::xxh64::xxh64;

/// A set of members, and its identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    members: BTreeSet<String>,
    /// Equal for equal members, on every machine.
    id: String,
}

impl View {
    pub(super) fn of(members: impl IntoIterator<Item = String>) -> Self {
        let members: BTreeSet<_> = members.into_iter().collect();
        // Identities contain no newlines; the builder checks that.
        let text = members.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        let id = format!("{:016x}{:016x}", xxh64(text.as_bytes(), 0), xxh64(text.as_bytes(), 1));
        Self { members, id }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(String::as_str)
    }

    /// Returns the owner of a key: the member with the highest hash for it. When a member joins or
    /// leaves, the keys of the others stay where they are.
    pub(super) fn owner(&self, key: &str) -> Option<&str> {
        self.members().max_by_key(|member| xxh64(key.as_bytes(), xxh64(member.as_bytes(), 0)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn view(members: usize) -> View {
        View::of((0..members).map(|it| format!("member-{it}")))
    }

    #[test]
    fn the_id_of_a_view_does_not_depend_on_the_order_of_its_members() {
        let named = |members: &[&str]| View::of(members.iter().map(|it| (*it).to_owned()));
        assert_eq!(named(&["a", "b"]).id(), named(&["b", "a", "a"]).id());
        assert_ne!(named(&["a", "b"]).id(), named(&["a"]).id());
        assert_eq!(named(&[]).owner("key"), None);
    }

    #[test]
    fn keys_are_spread_evenly() {
        let mut shares = BTreeMap::<_, u32>::new();
        for key in 0..10_000 {
            *shares
                .entry(view(5).owner(&format!("ns/object-{key}")).expect("an owner").to_owned())
                .or_default() += 1;
        }
        assert!(shares.len() == 5 && shares.values().all(|it| (1_700..2_300).contains(it)), "{shares:?}");
    }

    proptest! {
        #[test]
        fn a_member_that_joins_takes_keys_and_moves_no_others(key in "[a-z/-]{1,20}", members in 1usize..10) {
            let (before, after) = (view(members), view(members + 1));
            let newcomer = format!("member-{members}");
            let owner = after.owner(&key).expect("an owner");
            prop_assert!(owner == newcomer || Some(owner) == before.owner(&key));
        }
    }
}
