//! Whole calls: real tonic servers on the loopback, a set of endpoints in the test's hand, and tonic's own client above the channel.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod echo;
mod pods;
mod calling;
mod failing;
mod rolling;
mod idling;
mod emptiness;
mod loading;
mod judging;
mod tls;
mod churning;
