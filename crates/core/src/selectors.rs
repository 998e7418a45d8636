//! The selectors of a request or a cache, in one value.
//!
//! The parameters of lists and watches contain it, and informers pass it on to them.

use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;

/// The selectors of a request or a cache: by labels, by fields, and of one shard. Selects
/// everything by default.
///
/// ```
/// use dogwatch_core::{ListParams, Selectors, WatchParams};
///
/// // The same objects for a list and for the watch that follows it.
/// let web = Selectors::default().labels("app=web".parse()?);
/// let list = ListParams::default().selectors(web.clone()).limit(500);
/// let watch = WatchParams::after("7").selectors(web);
/// assert_eq!(list.selectors, watch.selectors);
/// # Ok::<_, dogwatch_core::LabelSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Selectors {
    /// Selects objects by their labels.
    pub labels: LabelSelector,
    /// Selects objects by their fields.
    pub fields: FieldSelector,
    /// Selects the objects of one shard, in the server's syntax (alpha in Kubernetes 1.36).
    pub shard: Option<String>,
}

impl Selectors {
    /// Selects objects by their labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Selects objects by their fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// Selects the objects of one shard, for example `shardRange(object.metadata.uid,'0x0','0x8')`.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard = Some(selector.into());
        self
    }
}
