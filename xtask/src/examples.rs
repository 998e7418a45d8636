//! Runs the examples, so that none rots: each is a program, not a listing.

use anyhow::Context;

use crate::cargo::{self, Cargo};

/// Runs every example of every crate, one after the other, and stops at the first that fails.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut count = 0;
    for package in cargo::packages()? {
        for example in &package.examples {
            Cargo::new(["run", "--quiet", "--package", &package.name, "--example", example])
                .run()
                .with_context(|| format!("the example `{example}` fails"))?;
            count += 1;
        }
    }
    eprintln!("{count} examples ran");
    Ok(())
}
