//! Server-side sharding of a collection by the hash of a field (KEP-5866, alpha in Kubernetes
//! 1.36).
//!
//! The shards are fixed ranges: shard `index` of `count`. A server that does not know the parameter
//! ignores it and sends everything, so [`ShardSelector::selects`] applies the same selection on the
//! client.

use std::fmt;

use dogwatch_core::{ListParams, Object, WatchParams};

/// The field by which a server shards.
///
/// ```
/// use dogwatch_controller::sharding::{ShardField, ShardSelector};
///
/// // All objects of a namespace are in the same shard.
/// let shard = ShardSelector::new(ShardField::Namespace, 0, 2).expect("0 is below 2");
/// println!("namespace shop is in shard {}", if shard.has("shop") { 0 } else { 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardField {
    /// Each object on its own.
    Uid,
    /// The objects of a namespace stay together.
    Namespace,
}

/// One of several shards of equal size. Displays as the value of the parameter `shardSelector`.
///
/// ```
/// use dogwatch_controller::sharding::{ShardField, ShardSelector};
///
/// let shard = |index| ShardSelector::new(ShardField::Uid, index, 4);
/// let shards: Vec<_> = (0..4).filter_map(shard).collect();
/// let holders = shards.iter().filter(|it| it.has("5f0c9c3e-8a71-4c5d-9d0b-2f6f3f1a7b11")).count();
/// assert_eq!((shards.len(), holders), (4, 1)); // every object is in one shard
/// assert_eq!(shard(4), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    field: ShardField,
    index: u32,
    count: u32,
}

impl ShardSelector {
    /// Creates the selector of shard `index`, from 0, of `count`. Returns `None` if there is no
    /// such shard.
    pub fn new(field: ShardField, index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { field, index, count })
    }

    /// Restricts a list to this shard, if the server supports it.
    pub fn list(&self, params: ListParams) -> ListParams {
        params.shard(self.to_string())
    }

    /// Restricts a watch to this shard, if the server supports it.
    pub fn watch(&self, params: WatchParams) -> WatchParams {
        params.shard(self.to_string())
    }

    /// Returns true if an object belongs to the shard. From a server that supports sharding, all
    /// objects do.
    pub fn selects(&self, object: &impl Object) -> bool {
        let header = object.header();
        self.has(match self.field {
            ShardField::Uid => header.uid,
            ShardField::Namespace => header.namespace.unwrap_or_default(),
        })
    }

    /// Returns true if an object with this value of the field belongs to the shard.
    pub fn has(&self, value: &str) -> bool {
        let (from, to) = self.range();
        (from..to).contains(&u128::from(fnv_1a(value)))
    }

    /// Returns the first hash of the shard, and the first of the next.
    fn range(&self) -> (u128, u128) {
        let bound = |index: u32| (u128::from(index) << 64) / u128::from(self.count);
        (bound(self.index), bound(self.index + 1))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.field {
            ShardField::Uid => "object.metadata.uid",
            ShardField::Namespace => "object.metadata.namespace",
        };
        let (from, to) = self.range();
        write!(f, "shardRange({field}, '0x{from:016x}', '0x{to:016x}')")
    }
}

/// Returns the 64-bit FNV-1a hash, which servers use for sharding.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_syntax_of_the_server_and_the_last_shard_ends_at_two_to_the_64() {
        let part = |index, count| ShardSelector::new(ShardField::Uid, index, count).map(|it| it.to_string());
        assert_eq!(
            part(0, 2).as_deref(),
            Some("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")
        );
        assert_eq!(
            part(1, 2).as_deref(),
            Some("shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')")
        );
        assert_eq!(part(2, 2), None);
    }

    #[test]
    fn every_value_is_in_exactly_one_shard() {
        for count in [1, 2, 3, 7, 100] {
            let parts =
                (0..count).map(|it| ShardSelector::new(ShardField::Namespace, it, count).expect("a part"));
            let parts: Vec<_> = parts.collect();
            for value in 0..200 {
                let value = format!("value-{value}");
                assert_eq!(parts.iter().filter(|it| it.has(&value)).count(), 1, "{value} of {count}");
            }
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // The published values of the hash.
        assert_eq!((fnv_1a(""), fnv_1a("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        assert_eq!(fnv_1a("foobar"), 0x8594_4171_f739_67e8);
    }
}
