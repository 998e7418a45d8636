//! Tests of the API server's parts from outside, one module for each area.

mod ownership;
