//! The deltas that a reflector produces, in the order in which it learned of them. They travel
//! through the queue to the store.

use dogwatch_core::{ObjectKey, ResourceVersion};

/// One piece of information about a collection, from a reflector to a store.
///
/// A list consists of `Begin`, its objects as `Item`, `Dropped` and `Nameless`, and `End` or
/// `Abort`; nothing else comes in between. The store shows its readers the state before `Begin`
/// until `End`, and the state of the list from then on.
///
/// A list may be a stream of events (WatchList): an object can change or be deleted while the list
/// is being received. So an `Item` replaces an earlier one of the same key, and `Dropped` takes it
/// out again.
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{Delta, StoreWriter};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("settings".to_owned());
/// let end = Delta::End { version: ResourceVersion::new("7"), undecodable: Vec::new() };
/// let mut writer = StoreWriter::new();
/// let mut changes = Vec::new();
/// writer.apply([Delta::Begin, Delta::Item(map)], &mut changes);
/// assert!(writer.store().is_empty(), "the list is not complete");
/// writer.apply([end], &mut changes);
/// assert_eq!(writer.store().len(), 1);
/// assert_eq!(changes.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta<T> {
    /// A list begins. A second `Begin` discards everything since the first one.
    Begin,
    /// An object of the list. Replaces an earlier item of the same key.
    Item(T),
    /// The object of this key does not exist any more, and its last state is not known.
    ///
    /// Inside a list, the earlier item of this key is discarded. Outside a list, the server
    /// reported a deletion that could not be decoded: the known object is removed, and an unknown
    /// key is ignored. A `Bookmark` with the version follows.
    Dropped(ObjectKey),
    /// The object of this key exists, but its newest state, of this version, could not be decoded.
    ///
    /// Never occurs inside a list, where `End` carries this information. The known state of the
    /// object stays, marked as out of date until the object is decoded again or deleted. A
    /// `Bookmark` with the version follows.
    Undecodable {
        /// The key of the object.
        key: ObjectKey,
        /// The version that could not be decoded.
        version: ResourceVersion,
    },
    /// The list contains an object that could not be decoded and whose name is not known either. No
    /// object may be inferred to be deleted from this list. Occurs only inside a list.
    Nameless,
    /// The list is complete: an object that it did not contain does not exist.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// The objects that exist but could not be decoded, each with the version of the
        /// undecodable state, which is unset if it is not known. They are not deleted: their known
        /// states stay, marked as out of date.
        undecodable: Vec<(ObjectKey, ResourceVersion)>,
    },
    /// The list cannot be read to its end. Its items are discarded, and the known state stays.
    Abort,
    /// The server reported that an object was created or changed.
    Applied(T),
    /// The server reported that an object was deleted, with its last state.
    Deleted(T),
    /// All changes up to this version have been sent.
    Bookmark(ResourceVersion),
    /// The server's history was reset to an earlier point, for example by restoring a backup: a
    /// version that was seen before may now belong to a different state.
    ///
    /// Never occurs inside a list. The known state stays until the next list ends; in that list,
    /// equal versions do not prove that two states are equal. Until then
    /// [`StoreProgress::is_rewound`](crate::StoreProgress::is_rewound) is true.
    Rewound,
    /// A resync: every object is delivered again to the handlers whose resync is due. Nothing
    /// changed.
    Resync,
}
