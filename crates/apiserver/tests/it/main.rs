//! Tests of the API server's parts from outside, one module per part.

mod recording;
mod builtin;
mod discovery;
mod openapi;
