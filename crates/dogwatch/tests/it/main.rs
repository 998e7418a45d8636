//! Tests of the whole pipeline, on a server in the same process.

mod follow;
