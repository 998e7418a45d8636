//! Tests of the API server from the outside, one module for each area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod custom_definition;
mod custom_object;
mod custom_properties;
mod custom_shown;
