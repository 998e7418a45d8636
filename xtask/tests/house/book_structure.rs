//! Mistakes in the book that mdBook would reject or show differently, found without it: in the
//! table of contents, in the settings, and text that would be an HTML element or an instruction of
//! a preprocessor.
//!
//! It works on texts that the caller has read.

/// Returns the violations of the grammar of a table of contents.
///
/// It begins with a title. Then come chapters without a number, numbered ones as list items,
/// perhaps below titles of parts, and again chapters without a number. No chapter is there twice.
pub(crate) fn contents_violations(text: &str) -> Vec<String> {
    let (mut problems, mut seen) = (Vec::new(), Vec::new());
    let (mut has_numbered, mut has_suffix, mut depth) = (false, false, 0);
    let mut lines = text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty());
    if lines.next().is_none_or(|(_, it)| it != "# Summary") {
        problems.push("the first line is not `# Summary`".to_owned());
    }
    for (at, line) in lines {
        let mut problem = |text: &str| problems.push(format!("line {}: {text}", at + 1));
        let indent = line.len() - line.trim_start().len();
        let item = line.trim_start().strip_prefix("- ");
        let link = item.unwrap_or(line).strip_prefix('[').and_then(|it| it.strip_suffix(')'));
        let Some((title, file)) = link.and_then(|it| it.split_once("](")) else {
            if !line.starts_with("# ") && line != "---" {
                problem("neither a chapter nor the title of a part");
            }
            continue;
        };
        if title.is_empty() || file.is_empty() {
            problem("a chapter has a title and a file");
        }
        if seen.contains(&file) {
            problem("the chapter is there twice");
        }
        seen.push(file);
        match item {
            Some(_) if has_suffix => problem("a numbered chapter follows one without a number"),
            Some(_) if indent > depth + 2 || indent % 2 > 0 => problem("the chapter is indented too far"),
            Some(_) => (has_numbered, depth) = (true, indent),
            None if indent > 0 => problem("a chapter without a number is indented"),
            None => has_suffix = has_numbered,
        }
    }
    problems
}

/// Returns the files that the settings name and that do not exist. `exists` takes a path relative
/// to the folder of the settings.
pub(crate) fn missing_files(settings: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missing = Vec::new();
    for line in settings.lines() {
        let Some((key, value)) = line.split_once(" = ") else { continue };
        if ["src", "theme", "additional-css", "additional-js"].contains(&key) {
            let files = value.split('"').skip(1).step_by(2);
            missing.extend(files.filter(|it| !exists(it)).map(|it| format!("{key} names {it}")));
        }
    }
    missing
}

/// Returns the lines of a chapter that mdBook would not show as they are.
pub(crate) fn misread_lines(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("# ") {
        problems.push("line 1: a chapter begins with its title".to_owned());
    }
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        // Also within code, where `\{{#include` would be needed.
        if line.contains("{{#") {
            problems.push(format!("line {}: an instruction of a preprocessor", at + 1));
        }
        if !in_code && !is_fence && has_element(line) {
            problems.push(format!("line {}: text between < and > would be an HTML element", at + 1));
        }
    }
    if in_code {
        problems.push("a code block has no end".to_owned());
    }
    problems
}

/// Returns true for a line with `<` before a letter, outside of code, addresses and comments.
fn has_element(line: &str) -> bool {
    let prose: String = line.split('`').step_by(2).collect();
    let after = prose.split('<').skip(1);
    after
        .into_iter()
        .any(|it| it.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/') && !it.starts_with("http"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENTS: &str = "# Summary\n\n[Introduction](i.md)\n\n# Guide\n\n- [A](a.md)\n  - [B](b.md)\n- [C](c.md)\n\n---\n\n[End](e.md)\n";

    #[test]
    fn a_table_of_contents_has_the_grammar_of_mdbook() {
        assert_eq!(contents_violations(CONTENTS), [] as [&str; 0]);
        for (from, to, problem) in [
            ("# Summary\n", "", "the first line is not `# Summary`"),
            ("[End](e.md)", "[End](a.md)", "line 13: the chapter is there twice"),
            ("[End](e.md)", "End", "line 13: neither a chapter nor the title of a part"),
            (
                "[End](e.md)",
                "[End](e.md)\n- [F](f.md)",
                "line 14: a numbered chapter follows one without a number",
            ),
            ("  - [B]", "      - [B]", "line 8: the chapter is indented too far"),
            ("[C](c.md)", "[C]()", "line 9: a chapter has a title and a file"),
        ] {
            let changed = CONTENTS.replacen(from, to, 1);
            assert_eq!(contents_violations(&changed).first().map(String::as_str), Some(problem), "{changed}");
        }
    }

    #[test]
    fn the_settings_name_existing_files() {
        let settings = "[book]\ntitle = \"T\"\nsrc = \"src\"\nadditional-css = [\"a.css\", \"b.css\"]\n";
        assert_eq!(missing_files(settings, |it| it != "b.css"), ["additional-css names b.css"]);
    }

    #[test]
    fn text_that_would_disappear_is_reported() {
        assert_eq!(
            misread_lines("# T\n`Api<Pod>` <!-- x --> 1 < 2 <https://a.b>\n```rust\nApi<Pod>\n```\n"),
            [] as [&str; 0]
        );
        assert_eq!(misread_lines("# T\nan Api<Pod>\n").len(), 1);
        assert_eq!(misread_lines("T\n```text\n{{#include a}}\n").len(), 3);
    }
}
