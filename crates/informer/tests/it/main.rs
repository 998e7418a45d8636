//! Integration tests of the informer. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not their helpers")]

mod script;
mod queue;
mod reflector_initial;
mod reflector_list;
mod reflector_watch;
mod reflector_undecodable;
mod reflector_health;
mod reflector_lifecycle;
mod reflector_property;
mod reflector_served;
mod store;
mod store_indexes;
mod store_readers;
mod store_namespaces;
mod live;
mod informer;
mod informer_merging;
mod informer_gone;
mod informer_restart;
mod informer_bounds;
mod informer_health;
mod informer_threads;
mod factory;
