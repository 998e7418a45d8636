//! OpenAPI: what there is to ask this server for, in the forms that tools read.
//!
//! Version 3 is an index of documents, and one document for each group and version: kubectl reads them to validate, to
//! explain, and to choose how to patch. Version 2 is one document of everything, for those who are older. Paths are made from
//! the list of resources, schemas are the tables' own text with the words about them; nothing is made before it is asked for.
//!
//! Documents of built-in groups are made whenever they are asked for, and only their fingerprints are kept. Those of custom
//! groups are made by [`custom_document`] each time a definition changes; whoever does so keeps them and hands them to
//! [`index`].

mod component;
mod custom;
mod operation;
mod path;
mod document;
mod message;
mod swagger;

pub use custom::CustomKind;
pub use document::{Document, builtin_document, builtin_hash, custom_document, index};
pub use swagger::Swagger;
