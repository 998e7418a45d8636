//! What is served: every built-in kind, and the custom ones their definitions add.
//!
//! A [`Kind`] is one resource in one version, with all that reading and writing it needs; a [`Catalog`] is all kinds at
//! one moment. Definitions come and go, so the [`Registry`] holds the catalog of now.
//!
//! The `mod` lines below are in layer order.

mod kind;
mod catalog;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

pub use catalog::Catalog;
pub use kind::{Family, Kind};

/// The catalog of now. Clones of what it gives stay valid while definitions change.
#[derive(Debug, Default)]
pub struct Registry {
    catalog: ArcSwap<Catalog>,
}

impl Registry {
    /// The kinds that are served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Serves the kinds of these definitions, and no other custom ones.
    pub fn define<'a>(&self, definitions: impl IntoIterator<Item = &'a Value>) {
        self.catalog.store(Arc::new(Catalog::new(definitions)));
    }
}
