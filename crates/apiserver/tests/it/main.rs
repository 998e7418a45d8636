//! Tests of the API server from the outside, one module for each area.

mod custom_definition;
mod custom_object;
mod custom_properties;
mod custom_shown;
