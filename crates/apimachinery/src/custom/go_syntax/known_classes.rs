//! The classes of characters that have a name.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;
use regex_automata::nfa::thompson;

/// A Unicode class that the crate knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnicodeClass {
    /// The property that has the name as a value: a general category or a script.
    pub(super) property: &'static str,
    /// The approximate number of bytes of the compiled class.
    pub(super) size: u64,
}

impl UnicodeClass {
    /// Returns the class of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        // The crate takes 10 µs to look a class up, and an expression can have one for every third
        // byte. The number of names without what it ignores is limited, unlike that of spellings.
        static KNOWN: LazyLock<RwLock<HashMap<String, UnicodeClass>>> = LazyLock::new(RwLock::default);
        if !name.bytes().all(|it| it.is_ascii_alphanumeric() || b"_- ".contains(&it)) {
            return None;
        }
        let ignored = |it: &char| matches!(it, '_' | '-' | ' ');
        let name: String = name.chars().filter(|it| !ignored(it)).map(|it| it.to_ascii_lowercase()).collect();
        if let Some(known) = KNOWN.read().get(&name) {
            return Some(*known);
        }
        let found = ["gc", "sc"].into_iter().find_map(|property| {
            let class = format!("\\p{{{property}={name}}}");
            let config = thompson::Config::new().which_captures(thompson::WhichCaptures::None);
            let nfa = thompson::Compiler::new().configure(config).build(&class).ok()?;
            // A search needs a third as much again.
            Some(Self { property, size: nfa.memory_usage() as u64 / 3 * 4 })
        })?;
        KNOWN.write().insert(name, found);
        Some(found)
    }
}

/// The named ASCII classes, which both dialects have.
pub(super) const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

pub(super) fn perl_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0c\r\x20]",
        'S' => r"[^\t\n\x0c\r\x20]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}
