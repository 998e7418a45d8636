//! Programs that tasks start: cargo itself, peers written in Go, and servers that run until they are dropped.
//!
//! Small on purpose: `cargo xtask` is built from it before every check.

#![allow(clippy::print_stderr, reason = "a task shows the commands it runs")]

pub mod cargo;
pub mod go;
pub mod process;
