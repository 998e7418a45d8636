//! The rules for the README at the root: short enough to be read, with programs of the promised
//! size.
//!
//! It works on a text that the caller has read. The programs are compiled and run as doctests of
//! the facade.

/// The maximum number of lines.
const LINES: usize = 114;

/// The maximum number of columns, also of code. Tables, and images with their paths, are wider.
const COLUMNS: usize = 100;

/// The programs in their order, and the maximum number of their lines that are not blank.
const PROGRAMS: [(&str, usize); 2] = [("informer", 12), ("controller", 20)];

/// Returns the violations in the README.
pub(crate) fn violations(readme: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let count = readme.lines().count();
    if count > LINES {
        problems.push(format!("has {count} lines, more than {LINES}"));
    }
    for (index, line) in readme.lines().enumerate() {
        if line.chars().count() > COLUMNS && !line.starts_with(['|', '!']) {
            problems.push(format!("line {} has more than {COLUMNS} columns", index + 1));
        }
    }
    let programs: Vec<_> = programs(readme).collect();
    if programs.len() != PROGRAMS.len() {
        problems.push(format!("has {} programs, not {}", programs.len(), PROGRAMS.len()));
    }
    for ((name, maximum), program) in PROGRAMS.iter().zip(programs) {
        let count = program.lines().filter(|it| !it.trim().is_empty()).count();
        if count > *maximum {
            problems.push(format!("the {name} has {count} lines, more than {maximum}"));
        }
        if !program.contains("fn main()") {
            problems.push(format!("the {name} is not a whole program"));
        }
    }
    problems.into_iter().map(|it| format!("README.md: {it}")).collect()
}

/// Returns the rows of the table in the README whose numbers are not in the guide that it links to.
pub(crate) fn unknown_numbers(readme: &str, guide: &str) -> Vec<String> {
    let rows = readme.lines().filter(|it| it.starts_with("| ") && it.contains(" MB |"));
    let numbers = rows.filter_map(|it| it.strip_prefix("| ")?.split_once(" | "));
    let unknown = numbers.filter(|(_, numbers)| !guide.contains(numbers));
    unknown.map(|(name, _)| format!("README.md: the numbers of {name} are not in the memory guide")).collect()
}

/// Returns the names of the crates that a document installs from a checkout with `cargo install`,
/// and that do not have the command. `commands` are the folders of crates with a program
/// `dogwatch`.
pub(crate) fn wrong_installations(document: &str, commands: &[&str]) -> Vec<String> {
    let installed = document.split("cargo install --locked --path ").skip(1);
    let folders = installed.filter_map(|it| it.split(|it: char| it.is_whitespace() || it == '`').next());
    folders.filter(|it| !commands.contains(it)).map(|it| format!("{it} has no program `dogwatch`")).collect()
}

/// Returns the blocks of Rust.
fn programs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```rust\n").skip(1).filter_map(|it| it.split_once("\n```").map(|(program, _)| program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readme(informer: usize, controller: usize) -> String {
        let program =
            |lines: usize| format!("\n```rust\nfn main() {{\n{}}}\n```\n", "    a();\n\n".repeat(lines - 2));
        format!("# dogwatch\n{}{}", program(informer), program(controller))
    }

    #[test]
    fn programs_of_the_promised_size_are_accepted_and_longer_ones_reported() {
        assert_eq!(violations(&readme(12, 20)), [] as [&str; 0]);
        assert_eq!(violations(&readme(13, 20)), ["README.md: the informer has 13 lines, more than 12"]);
        assert_eq!(violations(&readme(12, 21)), ["README.md: the controller has 21 lines, more than 20"]);
    }

    #[test]
    fn a_missing_program_and_a_fragment_are_reported() {
        let text = readme(12, 20);
        let (first, _) = text.rsplit_once("\n```rust").expect("there are two");
        assert_eq!(violations(first), ["README.md: has 1 programs, not 2"]);
        let found = violations(&text.replacen("fn main()", "fn a()", 1));
        assert_eq!(found, ["README.md: the informer is not a whole program"]);
    }

    #[test]
    fn numbers_that_are_not_in_the_guide_are_reported() {
        let readme = "| | memory |\n|---|---:|\n| a | 1 s | 2 MB |\n";
        assert_eq!(unknown_numbers(readme, "| a, b | 1 s | 2 MB |"), [] as [&str; 0]);
        assert_eq!(unknown_numbers(readme, "| a | 1 s | 3 MB |").len(), 1);
    }

    #[test]
    fn the_crate_that_is_installed_has_the_command() {
        let text = "`cargo install --locked --path crates/cli` and more";
        assert_eq!(wrong_installations(text, &["crates/cli"]), [] as [&str; 0]);
        assert_eq!(wrong_installations(text, &["crates/other"]), ["crates/cli has no program `dogwatch`"]);
    }

    #[test]
    fn long_lines_and_a_long_text_are_reported() {
        let wide = "x".repeat(COLUMNS + 1);
        assert_eq!(violations(&(readme(12, 20) + &wide)).len(), 1);
        assert_eq!(violations(&format!("{}| {wide} |\n![{wide}](a.png)\n", readme(12, 20))), [] as [&str; 0]);
        assert_eq!(violations(&(readme(12, 20) + &"a\n".repeat(LINES))).len(), 1);
    }
}
