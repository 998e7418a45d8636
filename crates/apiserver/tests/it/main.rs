//! Tests of the server's parts against recorded answers of the original.

mod kinds;
