//! The parts of the server that need no socket, tested from outside.

mod patch;
