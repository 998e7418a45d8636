//! The tests of the manifests of the book in one program. The chapter on operations is compared in
//! another one, since its test installs a global recorder of metrics.

mod manifests;
mod proxy_manifest;
