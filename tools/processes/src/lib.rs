//! Programs that tasks start: cargo itself, peers written in Go, and servers that run until they
//! are dropped.
//!
//! Kept small: `cargo xtask` depends on it, and is built before every check.

#![allow(clippy::print_stderr, reason = "a task shows the commands it runs")]

pub mod cargo;
pub mod go;
pub mod process;
