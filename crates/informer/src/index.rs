//! What an index is: a name, and a function that says under which values an object is found.
//!
//! The store calls the function and keeps what it said; nothing here knows how.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use compact_str::CompactString;
use dogwatch_core::Object;
use smallvec::SmallVec;

/// The name of the index by namespace, which every store has. Cluster-scoped objects are under the empty value.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The values of one object in one index: sorted, none twice.
pub(crate) type Values = SmallVec<[CompactString; 2]>;

/// Says under which values an object is found: none, one or several.
///
/// The function must be pure, because it is asked for the old state of an object again when the object changes: what it
/// answers may depend on the object alone. It runs where the store is written, so it should be quick, and must not add or
/// remove indexes of that store. When it panics, the object is not found by this index; that is logged and counted, and
/// harms nothing else.
///
/// ```
/// use dogwatch_informer::Index;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let by_node = Index::new("node", |pod: &Pod| pod.spec.as_ref().and_then(|it| it.node_name.clone()));
/// let by_tier = Index::<Pod>::label("tier");
/// # let _ = (by_node, by_tier);
/// ```
pub struct Index<T> {
    name: CompactString,
    by: By<T>,
}

type Visit<T> = dyn Fn(&T, &mut dyn FnMut(&str)) + Send + Sync;

enum By<T> {
    Function(Box<Visit<T>>),
    /// The value of this label. Selectors that ask for the label use the index on their own.
    Label(CompactString),
}

/// Why an index cannot be added or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Choose another name, or remove the other index first.
    #[error("an index with the name {0:?} exists already")]
    Taken(String),
    /// Add the index before reading it.
    #[error("an index with the name {0:?} does not exist")]
    Unknown(String),
}

impl<T: Object> Index<T> {
    /// An index by whatever the function returns: an `Option`, a `Vec`, any number of values.
    pub fn new<V>(name: &str, values: impl Fn(&T) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item: AsRef<str>>,
    {
        Self::visiting(name, move |object, found| {
            values(object).into_iter().for_each(|it| found(it.as_ref()))
        })
    }

    /// An index by every value that the function hands on. It need not copy them, which [`Self::new`] must.
    pub fn visiting(name: &str, visit: impl Fn(&T, &mut dyn FnMut(&str)) + Send + Sync + 'static) -> Self {
        Self { name: name.into(), by: By::Function(Box::new(visit)) }
    }

    /// An index by the value of one label, with the name of the label.
    ///
    /// [`Lister::list`](crate::Lister::list) uses it for every selector that asks for certain values of the label.
    pub fn label(key: &str) -> Self {
        Self { name: key.into(), by: By::Label(key.into()) }
    }

    /// The name by which it is read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it holds every object that has this label, by the label's value.
    pub(crate) fn is_of_label(&self, key: &str) -> bool {
        matches!(&self.by, By::Label(it) if it == key)
    }

    /// The values of an object, or `None` when the function panicked.
    pub(crate) fn values(&self, object: &T) -> Option<Values> {
        let mut values = Values::new();
        match &self.by {
            By::Label(key) => values.extend(object.header().labels.get(key).map(CompactString::from)),
            By::Function(visit) => {
                let mut found = |value: &str| values.push(value.into());
                // What the function leaves half-done when it panics is `values`, and that is thrown away.
                catch_unwind(AssertUnwindSafe(|| visit(object, &mut found))).ok()?;
                values.sort_unstable();
                values.dedup();
            }
        }
        Some(values)
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("name", &self.name).finish_non_exhaustive()
    }
}
