//! Generates the tables of the API server and of the decoders from the data in
//! `crates/apimachinery/data`.
//!
//! It reads the data files and writes `generated/` next to them, and the table of protobuf messages
//! in `crates/wire/data`. With `--check` it writes nothing,
//! and fails if a file would change. The output is reproducible. The modules below decide the
//! contents of a table; this one handles files only.

mod definitions;
mod resources;
mod protobuf;
mod descriptions;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write nothing, and fail if a table is out of date
    #[arg(long)]
    check: bool,
}

/// A generated file: its path in `crates`, and its content. A file whose path ends in `.gz` is
/// compressed. Compressed files are compared by their content, since another version of gzip may
/// produce other bytes.
type Table = (&'static str, String);

/// Writes the tables, or checks them.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/apimachinery/data");
    for (name, text) in tables(&folder)? {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name);
        let compressed = name.ends_with(".gz");
        let current = std::fs::read(&path).unwrap_or_default();
        if if compressed { descriptions::decompress(&current) == text } else { current == text.as_bytes() } {
            continue;
        }
        if options.check {
            bail!("{name} is out of date; run `cargo xtask gen`");
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).context("cannot create the directory for the tables")?;
        }
        let bytes = if compressed { descriptions::compress(&text)? } else { text.into_bytes() };
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {name}");
    }
    Ok(())
}

/// Fails if a checked-in table is out of date.
pub(crate) fn check() -> anyhow::Result<()> {
    run(&Options { check: true })
}

fn tables(folder: &Path) -> anyhow::Result<Vec<Table>> {
    let resources = read(folder.join("resources.json"))?;
    let columns = read(folder.join("table-columns.json"))?;
    let values = read(folder.join("openapi-values.json"))?;
    let definitions = definitions::normalise(&read(folder.join("openapi-definitions.json"))?, &values)?;
    let fields = text(folder.join("proto-fields.tsv"))?;
    let omissions = text(folder.join("field-omissions.tsv"))?;
    let descriptions_data = text(folder.join("openapi-prose.tsv"))?;
    let kinds = definitions::kinds(&definitions);
    let served = definitions::served(&definitions, &resources::group_versions(&resources)?);
    Ok(vec![
        ("apimachinery/data/generated/definitions.txt", definitions::lines(&served)?),
        ("apimachinery/data/generated/resources.json", resources::table(&resources, &kinds, &served)?),
        ("apimachinery/data/generated/columns.json", resources::columns(&columns)?),
        ("wire/data/protobuf.txt", protobuf::lines(&fields, &omissions)?),
        ("apimachinery/data/generated/prose.gz", descriptions::lines(&descriptions_data, &served)?),
    ])
}

fn read(path: PathBuf) -> anyhow::Result<Value> {
    serde_json::from_str(&text(path.clone())?).with_context(|| format!("{} is not JSON", path.display()))
}

fn text(path: PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_is_reproducible_and_the_checked_in_tables_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/apimachinery/data");
        let first = tables(&folder).unwrap();
        assert_eq!(first, tables(&folder).unwrap());
        check().unwrap();
    }
}
