//! The `pattern` of a schema: a Go regular expression, compiled when it is first used and shared by
//! all schemas with the same one.
//!
//! The definitions that one project installs repeat a few expressions hundreds of times, and most
//! are never used on a test server. Compiling an expression takes about a thousand times as long as
//! parsing it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use regex::{Regex, RegexBuilder};

use super::go_syntax::{LARGEST, translate};

/// A Go regular expression. Clones, and patterns of the same text, share the compiled form.
#[derive(Clone, Debug)]
pub struct Pattern {
    shared: Arc<CompiledOnce>,
}

#[derive(Debug)]
struct CompiledOnce {
    text: String,
    /// Compiled when first needed; `None` if it is not valid.
    regex: OnceLock<Option<Regex>>,
}

/// The patterns in use, by their text. Patterns of removed definitions are dropped as the map
/// grows.
static IN_USE: LazyLock<Mutex<InUse>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct InUse {
    patterns: HashMap<String, Weak<CompiledOnce>>,
    /// The size at which unused patterns are dropped.
    sweep_at: usize,
}

impl Pattern {
    /// Returns the pattern of this text, valid or not.
    pub fn new(text: &str) -> Self {
        let mut in_use = IN_USE.lock();
        if let Some(shared) = in_use.patterns.get(text).and_then(Weak::upgrade) {
            return Self { shared };
        }
        if in_use.patterns.len() >= in_use.sweep_at {
            in_use.patterns.retain(|_, it| it.strong_count() > 0);
            in_use.sweep_at = 2 * in_use.patterns.len() + 64;
        }
        let shared = Arc::new(CompiledOnce { text: text.to_owned(), regex: OnceLock::new() });
        in_use.patterns.insert(text.to_owned(), Arc::downgrade(&shared));
        Self { shared }
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.shared.text
    }

    /// Returns the reason why a text is not a regular expression, in Go's words; `None` if it is
    /// one. Does not compile it.
    pub fn mistake(text: &str) -> Option<String> {
        translate(text).err().map(|it| it.to_string())
    }

    /// Returns true if any part of a text matches. An invalid pattern matches nothing.
    pub fn is_match(&self, text: &str) -> bool {
        let regex = self.shared.regex.get_or_init(|| compile(&self.shared.text));
        regex.as_ref().is_some_and(|it| it.is_match(text))
    }

    /// Returns true if the pattern was used, and so compiled.
    pub fn is_compiled(&self) -> bool {
        self.shared.regex.get().is_some()
    }
}

fn compile(text: &str) -> Option<Regex> {
    let translated = translate(text).ok()?;
    // Twice the limit that the translation checks against, since that only estimates the size: in
    // practice the compiled form is never larger.
    let most = usize::try_from(2 * LARGEST).unwrap_or(usize::MAX);
    let compiled = RegexBuilder::new(&translated).size_limit(most).nest_limit(400).build();
    if let Err(error) = &compiled {
        tracing::warn!(pattern = text, %error, "cannot compile a pattern; it matches nothing");
    }
    compiled.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_one_text_are_compiled_once_and_only_when_they_are_used() {
        let (one, two) = (Pattern::new("^shared-[a-z]+$"), Pattern::new("^shared-[a-z]+$"));
        assert!(!one.is_compiled());
        assert!(one.is_match("shared-a"));
        assert!(two.is_compiled() && !two.is_match("shared-1"));
    }

    #[test]
    fn an_invalid_expression_matches_nothing_and_has_a_reason() {
        assert!(!Pattern::new("[a").is_match("a"));
        let mistake = Pattern::mistake("[a");
        assert_eq!(mistake.as_deref(), Some("error parsing regexp: missing closing ]: `[a`"));
        assert_eq!(Pattern::mistake("^[\\w-]{1,253}$"), None);
    }

    #[test]
    fn unused_patterns_are_dropped() {
        for at in 0..1_000 {
            Pattern::new(&format!("^gone-{at}$"));
        }
        let in_use = IN_USE.lock();
        let gone = in_use.patterns.keys().filter(|it| it.starts_with("^gone-")).count();
        assert!(gone < 1_000, "{gone}");
    }

    #[test]
    fn groups_at_the_depth_limit_compile() {
        let nested = format!("^{}a{}$", "(".repeat(50), ")*".repeat(50));
        assert_eq!(Pattern::mistake(&nested), None);
        assert!(Pattern::new(&nested).is_match("aa"));
    }

    #[test]
    fn letters_of_all_scripts_can_be_repeated() {
        let pattern = Pattern::new(r"^[\p{L}\p{N}_.-]{1,256}$");
        assert!(pattern.is_match("åß漢9") && !pattern.is_match(" "));
    }
}
