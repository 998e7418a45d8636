//! The book in `docs/book`, built by mdBook. Its code is checked by `cargo test`, and its structure
//! and its links by the tests of this crate, so that CI needs no mdBook.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use processes::cargo::Cargo;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Compile the code of other libraries that the book shows, instead of building the book: of
    /// all, or of those that are named.
    #[arg(long, value_enum, value_name = "PEER", num_args = 0.., default_missing_values = ["kube-rs", "client-go"])]
    peers: Option<Vec<Peer>>,
}

/// A library whose code the book compares with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// kube-rs, with a lock file of its own
    KubeRs,
    /// client-go; needs Go 1.26, or a Go that downloads it
    ClientGo,
}

/// The output of mdBook below the root of the repository, as `docs/book/book.toml` sets it.
const OUTPUT: &str = "target/docs/book";

/// The beginning of a link to a file of the repository outside of the book.
const OUTSIDE: &str = "href=\"../../../";

/// Builds the book and prints where it is. Fails if mdBook is not installed, with the command to
/// install it.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(peers) = &options.peers {
        return peers.iter().try_for_each(|it| compile(*it));
    }
    if !is_installed() {
        bail!("mdbook is missing; install it with `cargo install mdbook` (a few minutes on 2 cores)");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent directory")?;
    let (folder, output) = (root.join("docs/book"), root.join(OUTPUT));
    let status = Command::new("mdbook").arg("build").arg(&folder).status().context("cannot run mdbook")?;
    if !status.success() {
        bail!("mdbook cannot build {}: see its output above", folder.display());
    }
    for entry in std::fs::read_dir(&output).with_context(|| format!("cannot read {}", output.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "html") {
            std::fs::write(&path, with_outside_links(&std::fs::read_to_string(&path)?))?;
        }
    }
    println!("open {}", output.join("index.html").display());
    Ok(())
}

/// Compiles the programs of another library that chapters show. They are outside of the workspace.
fn compile(peer: Peer) -> anyhow::Result<()> {
    match peer {
        Peer::KubeRs => {
            let manifest = "bench/peers/kube-rs/Cargo.toml";
            Cargo::new(["check", "--locked", "--examples", "--manifest-path", manifest]).run()
        }
        Peer::ClientGo => {
            let root =
                Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent directory")?;
            eprintln!("$ go vet ./guide/... (in bench/peers/client-go)");
            let mut vet = Command::new("go");
            vet.args(["vet", "./guide/..."]).current_dir(root.join("bench/peers/client-go"));
            let status = vet.status().context("cannot run go; install Go 1.26")?;
            if !status.success() {
                bail!("the code of client-go in the book does not compile");
            }
            Ok(())
        }
    }
}

fn is_installed() -> bool {
    Command::new("mdbook").arg("--version").output().is_ok_and(|it| it.status.success())
}

/// Restores the names of Markdown files outside of the book in links: mdBook turns each `.md` into
/// `.html`, also where it renders nothing.
fn with_outside_links(html: &str) -> String {
    let mut parts = html.split(OUTSIDE);
    let mut restored = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once('"').unwrap_or((part, ""));
        let target = target.strip_suffix(".html").map_or(target.to_owned(), |it| format!("{it}.md"));
        restored.push_str(&format!("{OUTSIDE}{target}\"{rest}"));
    }
    restored
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn all_peers_are_compiled_or_those_that_are_named() {
        let peers = |arguments: &[&str]| {
            Flags::try_parse_from([&["book"], arguments].concat()).expect("valid flags").options.peers
        };
        assert_eq!(peers(&[]), None);
        assert_eq!(peers(&["--peers"]), Some(vec![Peer::KubeRs, Peer::ClientGo]));
        assert_eq!(peers(&["--peers", "client-go"]), Some(vec![Peer::ClientGo]));
    }

    #[test]
    fn links_to_files_outside_of_the_book_keep_their_names() {
        let built = r#"<a href="../../../README.html">a</a> <a href="../../../examples">b</a> <a href="c.html">c</a>"#;
        let fixed =
            r#"<a href="../../../README.md">a</a> <a href="../../../examples">b</a> <a href="c.html">c</a>"#;
        assert_eq!(with_outside_links(built), fixed);
    }
}
