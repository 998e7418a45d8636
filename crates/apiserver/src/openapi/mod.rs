//! OpenAPI v3: an index of documents, and one document for each group and version.
//!
//! kubectl reads them to validate, to explain, and to choose how to patch. Paths are made from the list of resources, schemas
//! are the tables' own text; nothing is made before it is asked for. Prose is left out.
//!
//! Documents of built-in groups are made once and kept. Those of custom groups are made by [`custom_document`] each time a
//! definition changes; whoever does so keeps them and hands them to [`index`].

mod component;
mod operation;
mod path;
mod document;

pub use document::{CustomKind, Document, builtin_document, custom_document, index};
