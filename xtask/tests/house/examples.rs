//! The rule for examples: a compiled example shows every public type of the libraries that programs
//! call.
//!
//! An example shows a type if it is in the documentation of the type, or of one of its methods, or
//! if its code names the type. Code that compiles is that of the documentation of all crates and of
//! the programs in `examples` directories. Where a method returns a type whose name no program
//! writes, such as a builder, the documentation of the type has the example.

use std::collections::BTreeSet;

/// The types that the examples of all files show.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The words of their code.
    words: BTreeSet<String>,
    /// The types whose documentation, or that of a method, has an example.
    documented: BTreeSet<String>,
}

impl Shown {
    /// Adds the examples in the documentation of a source file, which is formatted by rustfmt.
    pub(crate) fn add_source(&mut self, text: &str) {
        let (mut documentation, mut current, mut in_attribute) = (String::new(), None, false);
        for line in text.lines() {
            let content = line.trim_start();
            if let Some(text) = content.strip_prefix("///").or_else(|| content.strip_prefix("//!")) {
                documentation.push_str(text);
                documentation.push('\n');
                continue;
            }
            if in_attribute || content.starts_with("#[") {
                in_attribute = !content.ends_with(']');
                continue;
            }
            if let Some(name) = defined(content).or_else(|| implemented(line)) {
                current = Some(name);
            }
            let code = code(&std::mem::take(&mut documentation));
            if !code.is_empty() {
                self.add_program(&code);
                let is_item = defined(content).is_some() || content.contains("fn ");
                self.documented.extend(current.filter(|_| is_item).map(str::to_owned));
            }
        }
    }

    /// Adds a program: all of it is an example.
    pub(crate) fn add_program(&mut self, text: &str) {
        let words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
        self.words.extend(words.filter(|it| !it.is_empty()).map(str::to_owned));
    }

    /// Returns true if an example shows the type.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.words.contains(name) || self.documented.contains(name)
    }
}

/// Returns the name of the public type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let rest = kinds.iter().find_map(|it| line.strip_prefix(it))?;
    rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()
}

/// Returns the name of the type whose `impl` block begins in a line.
fn implemented(line: &str) -> Option<&str> {
    let header = line.strip_prefix("impl")?;
    let (mut depth, mut start) = (0_usize, 0);
    // The generic parameters, whose `>` may be part of an arrow.
    for (at, letter) in header.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !header[..at].ends_with('-') => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                start = at;
                break;
            }
            _ => {}
        }
    }
    let of = header[start..].rsplit_once(" for ").map_or(&header[start..], |it| it.1);
    let path = of.trim().split(|it: char| !it.is_alphanumeric() && it != '_' && it != ':').next()?;
    path.rsplit("::").next()
}

/// Returns the code of the Rust blocks of a text that are compiled.
fn code(text: &str) -> String {
    let (mut code, mut block) = (String::new(), None);
    for line in text.lines() {
        let line = line.trim();
        match (line.strip_prefix("```"), block) {
            (Some(info), None) => {
                let compiles = |it: &str| matches!(it.trim(), "" | "rust" | "no_run" | "should_panic");
                block = Some(info.split(',').all(compiles));
            }
            (Some(_), Some(_)) => block = None,
            (None, Some(true)) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, _) => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
/// A queue.
///
/// ```
/// let queue: Other = Queue::new();
/// ```
#[allow(
    dead_code
)]
pub struct Queue;
/// An item.
pub struct Item<F>(F);
impl<F: Fn() -> u8> dyn_free::Item<F> {
    /// Ends it.
    ///
    /// ```no_run
    /// end(Third);
    /// ```
    pub fn end(&self) {}
}
/// A text.
///
/// ```text
/// Fourth
/// ```
pub struct Text;
";

    #[test]
    fn a_type_is_shown_by_its_documentation_by_that_of_a_method_and_by_name() {
        let mut shown = Shown::default();
        shown.add_source(SOURCE);
        shown.add_program("fn main() { Fifth::run(); }");
        for name in ["Queue", "Item", "Other", "Third", "Fifth"] {
            assert!(shown.contains(name), "{name}");
        }
        for name in ["Text", "Fourth", "Sixth"] {
            assert!(!shown.contains(name), "{name}");
        }
    }

    #[test]
    fn the_type_of_an_impl_block_is_found_behind_parameters_and_traits() {
        assert_eq!(implemented("impl Queue {"), Some("Queue"));
        assert_eq!(implemented("impl<K: Eq, F: Fn() -> u8> Queue<K, F> {"), Some("Queue"));
        assert_eq!(implemented("impl<T> From<T> for error::Error"), Some("Error"));
        assert_eq!(implemented("    fn run() {"), None);
    }
}
