//! The rules for the book in `docs/book`: its table of contents is complete, its links lead
//! somewhere, and its code is checked.
//!
//! It works on texts that the caller has read.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The beginning of the line before a code block that shows a file of the repository.
const FILE_MARK: &str = "<!-- file: ";

/// A chapter: its path relative to the root of the repository, and its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chapter<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

/// A fenced code block, without its fences.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    /// The words after the opening fence, such as `rust,no_run`.
    info: &'a str,
    /// The file that the block shows, if the line before it names one.
    file: Option<&'a str>,
    code: String,
}

/// Returns the chapters that a list does not name, and the names in it without a chapter. The list
/// is the table of contents, or the source that includes the chapters as documentation; both name
/// files between parentheses or quotes.
pub(crate) fn unlisted(chapters: &[Chapter<'_>], list: &str, list_name: &str) -> Vec<String> {
    let named: BTreeSet<_> = list.split(['(', ')', '"']).filter(|it| is_chapter_name(it)).collect();
    let existing: BTreeSet<_> = chapters.iter().filter_map(|it| it.path.file_name()?.to_str()).collect();
    let unlisted = existing.difference(&named).map(|it| format!("{list_name} does not name {it}"));
    let missing =
        named.difference(&existing).map(|it| format!("{list_name} names {it}: there is no such chapter"));
    unlisted.chain(missing).collect()
}

/// Returns true if a chapter has code that is tested as documentation.
pub(crate) fn has_doctests(chapter: &Chapter<'_>) -> bool {
    blocks(chapter.text).iter().any(|it| it.info.starts_with("rust") && it.file.is_none())
}

/// Returns the relative links of a chapter that lead nowhere: to a file that does not exist, or to
/// a heading that its chapter does not have.
pub(crate) fn broken_links(
    chapter: Chapter<'_>,
    chapters: &[Chapter<'_>],
    exists: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let prose: String = prose_lines(chapter.text).map(|(_, line)| format!("{line}\n")).collect();
    let targets = prose.split("](").skip(1).filter_map(|it| it.split_once(')')).map(|(target, _)| target);
    let mut broken = Vec::new();
    for target in targets.filter(|it| !it.contains("://")) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => chapter.path.to_owned(),
            file => normal(&chapter.path.parent().unwrap_or(Path::new("")).join(file)),
        };
        let known = chapters.iter().find(|it| it.path == path);
        let has_anchor = anchor.is_empty() || known.is_some_and(|it| anchors(it.text).contains(anchor));
        if !exists(&path) {
            broken.push(format!("{}: the link {target} leads nowhere", chapter.path.display()));
        } else if !has_anchor {
            broken.push(format!("{}: no heading for the link {target}", chapter.path.display()));
        }
    }
    broken
}

/// The languages of blocks that have to show a file, which is compiled, or loaded by a test.
const OF_FILES: [&str; 2] = ["go", "yaml"];

/// Returns the code blocks of a chapter that no test checks: blocks of Rust that are ignored
/// without a file, manifests and Go without a file, and blocks that differ from their file. `read`
/// returns the text of a file of the repository.
pub(crate) fn unchecked_code(chapter: Chapter<'_>, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut violations = Vec::new();
    let shown = chapter.path.display();
    for block in blocks(chapter.text) {
        match block.file {
            Some(file) => match read(file) {
                None => violations.push(format!("{shown}: shows {file}, which does not exist")),
                Some(text) if text != block.code => {
                    violations.push(format!("{shown}: the block is not equal to {file}"));
                }
                Some(_) => {}
            },
            None if block.info.starts_with("rust") && block.info.contains("ignore") => {
                violations.push(format!("{shown}: a block of Rust is ignored and shows no file"));
            }
            None if OF_FILES.contains(&block.info) => {
                violations.push(format!("{shown}: a block of {} shows no file", block.info));
            }
            None if block.info.is_empty() => {
                violations.push(format!("{shown}: a code block without a language would be tested as Rust"));
            }
            None => {}
        }
    }
    violations
}

fn is_chapter_name(text: &str) -> bool {
    text.strip_suffix(".md").is_some_and(|it| !it.is_empty() && !it.contains(['/', '\n', ' ']))
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((index + 1, line))
    })
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open, mut previous) = (Vec::new(), None::<Block<'_>>, "");
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.code.push_str(line);
                block.code.push('\n');
            }
            (None, Some(info)) => {
                let file = previous.strip_prefix(FILE_MARK).and_then(|it| it.strip_suffix(" -->"));
                open = Some(Block { info, file, code: String::new() });
            }
            (None, None) => {}
        }
        previous = line;
    }
    blocks
}

/// Returns the anchors of the headings, as mdBook and GitHub derive them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose_lines(text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings.map(|it| anchor(it.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
    kept.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect()
}

/// Resolves `..` in a path without looking at the disk.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter<'a>(name: &'a str, text: &'a str) -> Chapter<'a> {
        Chapter { path: Path::new(name), text }
    }

    fn links(text: &str) -> usize {
        let other = chapter("book/b.md", "# Two words\n");
        let this = chapter("book/a.md", text);
        broken_links(this, &[this, other], |it| {
            [Path::new("book/b.md"), Path::new("README.md")].contains(&it)
        })
        .len()
    }

    #[test]
    fn a_chapter_that_is_not_listed_is_reported_and_so_is_a_missing_one() {
        let chapters = [chapter("book/a.md", ""), chapter("book/b.md", "")];
        assert_eq!(unlisted(&chapters, "[A](a.md) [B](b.md)", "list"), [] as [&str; 0]);
        assert_eq!(unlisted(&chapters, "\"a.md\"", "list"), ["list does not name b.md"]);
        assert_eq!(unlisted(&chapters[..1], "(a.md) (c.md)", "list").len(), 1);
    }

    #[test]
    fn links_to_files_and_headings_have_to_exist() {
        assert_eq!(links("[b](b.md) [b](b.md#two-words) [r](../README.md) [w](https://example.com)"), 0);
        assert_eq!(links("[c](c.md) [b](b.md#three) [r](../MISSING.md)"), 3);
        assert_eq!(links("```text\n[c](c.md)\n```\n"), 0);
    }

    #[test]
    fn the_anchor_of_a_heading_has_hyphens_and_no_punctuation() {
        assert_eq!(anchor("If you come from client-go, read on"), "if-you-come-from-client-go-read-on");
    }

    #[test]
    fn a_block_that_shows_a_file_is_equal_to_it() {
        let read = |it: &str| (it == "a.rs").then(|| "fn a() {}\n".to_owned());
        let found = |text: &str| unchecked_code(chapter("a.md", text), read).len();
        assert_eq!(found("<!-- file: a.rs -->\n```rust,ignore\nfn a() {}\n```\n"), 0);
        assert_eq!(found("<!-- file: a.rs -->\n```rust,ignore\nfn b() {}\n```\n"), 1);
        assert_eq!(found("<!-- file: b.rs -->\n```rust,ignore\nfn a() {}\n```\n"), 1);
    }

    #[test]
    fn a_block_of_rust_is_a_doctest_or_shows_a_file() {
        let found = |text: &str| unchecked_code(chapter("a.md", text), |_| None).len();
        assert_eq!(found("```rust\nfn a() {}\n```\n```sh\nls\n```\n"), 0);
        assert_eq!(found("```rust,ignore\nfn a() {}\n```\n"), 1);
        assert_eq!(found("```\nsome text\n```\n"), 1);
    }

    #[test]
    fn a_block_of_go_and_a_manifest_show_a_file() {
        let found = |text: &str| unchecked_code(chapter("a.md", text), |_| Some("a: b\n".to_owned())).len();
        assert_eq!(found("<!-- file: a.yaml -->\n```yaml\na: b\n```\n"), 0);
        assert_eq!(found("```yaml\na: b\n```\n"), 1);
        assert_eq!(found("```go\nfunc a() {}\n```\n"), 1);
    }

    #[test]
    fn a_block_that_shows_a_file_is_no_doctest() {
        assert!(has_doctests(&chapter("a.md", "```rust,no_run\nfn a() {}\n```\n")));
        assert!(!has_doctests(&chapter("a.md", "<!-- file: a.rs -->\n```rust,ignore\nfn a() {}\n```\n")));
        assert!(!has_doctests(&chapter("a.md", "```sh\nls\n```\n")));
    }
}
