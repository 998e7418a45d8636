//! Tests of the rules through the public API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod recording;

mod autoscaling;
mod builtin;
mod custom_definition;
mod custom_object;
mod custom_properties;
mod custom_representations;
mod discovery;
mod kinds;
mod openapi;
mod ownership;
mod patch;
mod protobuf;
