//! The chapters of the book as documentation, so that `cargo test --doc` compiles and runs their
//! code.
//!
//! Blocks that show a file of the repository are not tested here: `xtask/tests/house/book.rs`
//! checks that they are equal to the file, which is compiled and tested in its own crate. That test
//! also checks that every chapter with other blocks of Rust is named here.

/// Includes one chapter, in doctests only.
macro_rules! chapter {
    ($name:ident, $path:literal) => {
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../docs/book/src/", $path))]
        pub struct $name;
    };
}

chapter!(Introduction, "introduction.md");
chapter!(FromKubeRs, "from-kube-rs.md");
chapter!(FromClientGo, "from-client-go.md");
chapter!(Caches, "caches.md");
chapter!(Memory, "memory.md");
chapter!(Testing, "testing.md");
chapter!(Grpc, "grpc.md");
chapter!(ApiServer, "api-server.md");
chapter!(Operations, "operations.md");
