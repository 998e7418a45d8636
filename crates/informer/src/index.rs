//! Indexes: a name, and a function that returns the values under which an object is found.
//!
//! The store calls the function and keeps the entries.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use compact_str::CompactString;
use dogwatch_core::Object;
use smallvec::SmallVec;

/// The name of the index by namespace, which every store has. Cluster-scoped objects are under the
/// empty value.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The values of one object in one index, sorted and without duplicates.
pub(crate) type Values = SmallVec<[CompactString; 2]>;

/// A named function from an object to the values under which it is found: none, one or several.
///
/// The function must be pure: its result may depend on the object alone, because it is called again
/// with the old state of an object when the object changes. It runs in the task that writes the
/// store, so it should be quick, and it must not add or remove indexes of that store. If it panics,
/// the object is not found by this index; the panic is logged and counted and has no other effect.
///
/// ```
/// use dogwatch_informer::Index;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let by_node = Index::new("node", |pod: &Pod| pod.spec.as_ref().and_then(|it| it.node_name.clone()));
/// let by_tier = Index::<Pod>::label("tier");
/// assert_eq!((by_node.name(), by_tier.name()), ("node", "tier"));
/// ```
pub struct Index<T> {
    name: CompactString,
    extractor: Extractor<T>,
}

type Visit<T> = dyn Fn(&T, &mut dyn FnMut(&str)) + Send + Sync;

enum Extractor<T> {
    Function(Box<Visit<T>>),
    /// The value of this label. Selectors with a requirement on the label use the index
    /// automatically.
    Label(CompactString),
}

/// An error from adding or reading an index.
///
/// ```
/// use dogwatch_informer::{Index, IndexError, StoreWriter};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let store = StoreWriter::<Pod>::new().store();
/// store.add_index(Index::label("tier"))?;
/// let error = store.add_index(Index::label("tier")).expect_err("the name is taken");
/// assert!(matches!(error, IndexError::Taken(name) if name == "tier"));
/// let error = store.by_index("node", "n1").expect_err("it was not added");
/// assert!(matches!(error, IndexError::Unknown(name) if name == "node"));
/// # Ok::<(), IndexError>(())
/// ```
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
    /// Creates an index by the values that the function returns: an `Option`, a `Vec` or any other
    /// iterable.
    pub fn new<V>(name: &str, values: impl Fn(&T) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item: AsRef<str>>,
    {
        Self::visiting(name, move |object, found| {
            values(object).into_iter().for_each(|it| found(it.as_ref()))
        })
    }

    /// Creates an index by the values that the function passes to its second argument. Unlike
    /// [`Self::new`], it does not need to copy them.
    pub fn visiting(name: &str, visit: impl Fn(&T, &mut dyn FnMut(&str)) + Send + Sync + 'static) -> Self {
        Self { name: name.into(), extractor: Extractor::Function(Box::new(visit)) }
    }

    /// Creates an index by the value of one label. The index is named after the label.
    ///
    /// [`Lister::list`](crate::Lister::list) uses it for every selector that requires certain
    /// values of the label.
    pub fn label(key: &str) -> Self {
        Self { name: key.into(), extractor: Extractor::Label(key.into()) }
    }

    /// Returns the name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if this is the index by the value of this label.
    pub(crate) fn is_of_label(&self, key: &str) -> bool {
        matches!(&self.extractor, Extractor::Label(it) if it == key)
    }

    /// Returns the values of an object, or `None` if the function panicked.
    pub(crate) fn values(&self, object: &T) -> Option<Values> {
        let mut values = Values::new();
        match &self.extractor {
            Extractor::Label(key) => values.extend(object.header().labels.get(key).map(CompactString::from)),
            Extractor::Function(visit) => {
                let mut found = |value: &str| values.push(value.into());
                // Unwind safe: the only thing that a panicking function leaves half done is
                // `values`, which is discarded.
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
