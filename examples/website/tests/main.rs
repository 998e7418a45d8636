//! The tests of the operator in one program, which links faster than two.

mod permissions;
mod website;
