//! The width of prose: lines of comments and of Markdown end at column 100.
//!
//! Works on texts that the caller has read. Code blocks, tables and lines of a single word, such as
//! a link, may be longer, since they cannot be wrapped.

use std::path::Path;

/// The number of columns of prose. rustfmt keeps code within 110.
pub(crate) const COLUMNS: usize = 100;

/// Returns the lines of comments that are too long, as messages. `path` is relative to the root of
/// the repository.
pub(crate) fn long_comments(path: &Path, source: &str) -> Vec<String> {
    let comments = source.lines().map(|line| {
        let text = line.trim_start().strip_prefix("//");
        text.map(|it| (line, it.trim_start_matches(['/', '!']).trim()))
    });
    long_lines(path, comments)
}

/// Returns the lines of a Markdown document that are too long, as messages.
pub(crate) fn long_prose(path: &Path, document: &str) -> Vec<String> {
    long_lines(path, document.lines().map(|line| Some((line, line.trim()))))
}

/// Checks lines with the text in them. `None` is a line without prose, which ends a code block.
fn long_lines<'a>(path: &Path, lines: impl Iterator<Item = Option<(&'a str, &'a str)>>) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for (index, line) in lines.enumerate() {
        let Some((line, text)) = line else {
            in_code = false;
            continue;
        };
        let is_fence = text.starts_with("```");
        in_code ^= is_fence;
        let may_be_long = in_code || is_fence || text.starts_with('|') || !text.contains(' ');
        if !may_be_long && line.chars().count() > COLUMNS {
            found.push(format!("{}:{}: more than {COLUMNS} columns", path.display(), index + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_prose_is_reported_with_its_number() {
        let long = "x ".repeat(COLUMNS);
        assert_eq!(
            long_prose(Path::new("a.md"), &format!("# A\n\n{long}\n")),
            ["a.md:3: more than 100 columns"]
        );
        for comment in ["//", "///", "//!", "    //"] {
            assert_eq!(
                long_comments(Path::new("a.rs"), &format!("{comment} {long}\n")).len(),
                1,
                "{comment}"
            );
        }
        assert_eq!(long_comments(Path::new("a.rs"), &format!("let {long};\n")), [] as [&str; 0]);
    }

    #[test]
    fn a_line_of_as_many_columns_is_accepted() {
        let line = format!("// {} {}", "ä".repeat(40), "ö".repeat(COLUMNS - 44));
        assert_eq!(line.chars().count(), COLUMNS);
        assert_eq!(long_comments(Path::new("a.rs"), &line), [] as [&str; 0]);
        assert_eq!(long_comments(Path::new("a.rs"), &format!("{line}!")).len(), 1);
    }

    #[test]
    fn tables_code_and_links_may_be_longer() {
        let long = "x ".repeat(COLUMNS);
        let link = format!("[it]: https://{}", "x".repeat(COLUMNS));
        for text in [format!("| {long} |"), format!("```text\n{long}\n```"), link.replace(": ", ":")] {
            assert_eq!(long_prose(Path::new("a.md"), &text), [] as [&str; 0], "{text}");
            let comment: String = text.lines().map(|it| format!("/// {it}\n")).collect();
            assert_eq!(long_comments(Path::new("a.rs"), &comment), [] as [&str; 0], "{text}");
        }
        let unfinished = format!("/// ```\nfn f() {{}}\n/// {long}\n");
        assert_eq!(long_comments(Path::new("a.rs"), &unfinished).len(), 1);
    }
}
