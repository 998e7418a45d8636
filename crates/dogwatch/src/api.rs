//! Everything that [`Api`](crate::Api) takes and returns: parameters, selectors, lists, watches,
//! patches, kinds, statuses.

pub use dogwatch_client::api::{
    ApplyConflict, ApplyError, ConflictRetries, Deletion, List, LogParams, Patch, Representation, RowObject,
    StaticScope, Table, TableColumn, TableMeta, TableRow, retry_on_conflict,
};
pub use dogwatch_client::{
    ConditionResult, DEFAULT_PAGE_SIZE, EventCondition, ListEvent, ListStream, RetryWatcher, UntilError,
    WatchStream, in_order, until,
};
pub use dogwatch_core::{
    Cause, DeleteParams, Details, FieldSelector, FieldSelectorError, FieldValidation, GetParams, Gvk, Gvr,
    Header, InvalidParams, InvalidPath, LabelSelector, LabelSelectorError, Labels, ListParams, Meta,
    ObjectKeyError, Operator, PatchParams, Preconditions, Propagation, Reason, Requirement, ResourcePath,
    ResourceType, ResourceVersion, Scope, Segment, SelectorError, Selectors, SharedStr, Status, VersionMatch,
    WatchParams, WriteParams,
};
#[cfg(feature = "zstd")]
pub use dogwatch_wire::Compressor;
pub use dogwatch_wire::{Bookmark, EventKind, ListMeta, Packed, UndecodableItem, WatchEvent};
pub use kube_core::{DynamicObject, PartialObjectMeta, Resource};
