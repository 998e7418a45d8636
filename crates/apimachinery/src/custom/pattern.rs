//! The `pattern` of a schema: a Go regular expression, compiled when it is first used and shared by
//! all schemas with the same one.
//!
//! The definitions that one project installs repeat a few expressions hundreds of times, and most
//! are never used on a test server. Compiling an expression takes about a thousand times as long as
//! parsing it. A few bytes can become megabytes, so the compiled forms of all definitions share a
//! limit: beyond it the oldest are dropped, and compiled again when they are needed.
//!
//! The caller decides whether it affords the steps of a compilation and of a search.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Weak};

use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::syntax;

use super::go_syntax::{LARGEST, translate};
use super::nfa_search;

/// The number of bytes that the compiled forms of all patterns may take. Those of one definition
/// take a quarter of it at most, so that the patterns of an object do not displace each other.
const MOST_COMPILED: u64 = 128 << 20;

/// The number of bytes of a compiled form that take as long as one step of a search.
const BYTES_PER_STEP: u64 = 32;

/// A Go regular expression. Clones, and patterns of the same text, share the compiled form.
#[derive(Clone, Debug)]
pub struct Pattern {
    shared: Arc<SharedPattern>,
}

#[derive(Debug)]
struct SharedPattern {
    text: String,
    form: Mutex<Form>,
}

/// The form of a pattern.
#[derive(Debug)]
enum Form {
    /// It was not used yet, or its compiled form was dropped.
    Text,
    /// It is not valid.
    Invalid,
    Compiled(NFA),
}

/// The patterns that are compiled.
static COMPILED: Mutex<CompiledPatterns> = Mutex::new(CompiledPatterns::new(MOST_COMPILED));

struct CompiledPatterns {
    /// The patterns, oldest first, with the approximate number of bytes of each.
    patterns: VecDeque<(Weak<SharedPattern>, u64)>,
    /// The sum of all sizes.
    bytes: u64,
    /// The limit of the sum.
    most: u64,
}

/// The patterns in use, by their text. Patterns of removed definitions are dropped as the map
/// grows.
static IN_USE: LazyLock<Mutex<InUse>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct InUse {
    patterns: HashMap<String, Weak<SharedPattern>>,
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
        let shared = Arc::new(SharedPattern { text: text.to_owned(), form: Mutex::new(Form::Text) });
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

    /// Returns the approximate number of bytes of a text as a compiled expression; `None` if it is
    /// not a regular expression. Does not compile it.
    pub fn compiled_size(text: &str) -> Option<u64> {
        translate(text).ok().map(|it| it.size)
    }

    /// Returns true if any part of a text matches. An invalid pattern matches nothing.
    pub fn is_match(&self, text: &str) -> bool {
        self.is_match_within(text, |_| true).unwrap_or(false)
    }

    /// Returns true if any part of a text matches, or `None` if that takes a number of steps that
    /// `afford` refuses. It is called again and again, with the steps since the last call.
    pub(super) fn is_match_within(&self, text: &str, mut afford: impl FnMut(usize) -> bool) -> Option<bool> {
        match self.compiled(&COMPILED, &mut afford)? {
            Some(nfa) => nfa_search::is_match(&nfa, text, afford),
            None => Some(false),
        }
    }

    /// Returns true if the pattern was used, and so compiled.
    pub fn is_compiled(&self) -> bool {
        matches!(*self.shared.form.lock(), Form::Compiled(_))
    }

    /// Returns the compiled form, `Some(None)` if the pattern is invalid, and `None` if it must be
    /// compiled and `afford` refuses that.
    fn compiled(
        &self,
        all: &Mutex<CompiledPatterns>,
        afford: impl FnOnce(usize) -> bool,
    ) -> Option<Option<NFA>> {
        let (compiled, size) = {
            // Held while the pattern is compiled: other callers wait for the result.
            let mut form = self.shared.form.lock();
            match &*form {
                Form::Compiled(compiled) => return Some(Some(compiled.clone())),
                Form::Invalid => return Some(None),
                Form::Text => {}
            }
            let Ok(translated) = translate(&self.shared.text) else {
                *form = Form::Invalid;
                return Some(None);
            };
            if !afford(usize::try_from(translated.size / BYTES_PER_STEP).unwrap_or(usize::MAX)) {
                return None;
            }
            let Some(compiled) = compile(&self.shared.text, &translated.expression) else {
                *form = Form::Invalid;
                return Some(None);
            };
            *form = Form::Compiled(compiled.clone());
            let size = translated.size.max(compiled.memory_usage() as u64);
            (compiled, size)
        };
        // Separate from the lock of the pattern, since dropping takes the locks of others.
        let removed = all.lock().add(&self.shared, size);
        for pattern in removed {
            *pattern.form.lock() = Form::Text;
        }
        Some(Some(compiled))
    }
}

impl CompiledPatterns {
    const fn new(most: u64) -> Self {
        Self { patterns: VecDeque::new(), bytes: 0, most }
    }

    /// Adds a pattern, and removes those that exceed the limit, which are returned. The new one
    /// remains even if it exceeds the limit on its own.
    fn add(&mut self, pattern: &Arc<SharedPattern>, size: u64) -> Vec<Arc<SharedPattern>> {
        let mut removed = Vec::new();
        if self.bytes.saturating_add(size) > self.most {
            self.patterns.retain(|(it, _)| it.strong_count() > 0);
            self.bytes = self.patterns.iter().map(|(_, bytes)| bytes).sum();
        }
        while self.bytes.saturating_add(size) > self.most {
            let Some((oldest, bytes)) = self.patterns.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(bytes);
            removed.extend(oldest.upgrade());
        }
        self.patterns.push_back((Arc::downgrade(pattern), size));
        self.bytes = self.bytes.saturating_add(size);
        removed
    }
}

/// Compiles a translated expression. Clones of the result share it.
fn compile(text: &str, expression: &str) -> Option<NFA> {
    // Twice the limit that the translation checks against, since that only estimates the size, and
    // the builder takes more for a moment.
    let most = usize::try_from(2 * LARGEST).ok();
    let config = thompson::Config::new().nfa_size_limit(most).which_captures(thompson::WhichCaptures::None);
    let syntax = syntax::Config::new().nest_limit(250);
    let built = thompson::Compiler::new().syntax(syntax).configure(config).build(expression);
    let report = |error: &thompson::BuildError| {
        tracing::warn!(pattern = text, %error, "cannot compile a pattern; it matches nothing");
    };
    built.inspect_err(report).ok()
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

    /// A compiled form remained for as long as its definition existed, 20 MB for 13 bytes.
    #[test]
    fn the_oldest_compiled_patterns_are_dropped_beyond_the_limit() {
        let patterns: Vec<Pattern> = (0..4).map(|it| Pattern::new(&format!("^oldest-{it}$"))).collect();
        let size = Pattern::compiled_size("^oldest-0$").expect("it is valid");
        let all = Mutex::new(CompiledPatterns::new(3 * size));
        let matches = |at: usize| {
            let nfa = patterns[at].compiled(&all, |_| true).flatten().expect("it is valid");
            nfa_search::is_match(&nfa, &format!("oldest-{at}"), |_| true)
        };
        let compiled = || patterns.iter().map(Pattern::is_compiled).collect::<Vec<_>>();
        assert!((0..3).all(|at| matches(at) == Some(true)));
        assert_eq!(compiled(), [true, true, true, false]);
        assert_eq!(matches(3), Some(true));
        assert_eq!(compiled(), [false, true, true, true]);
        assert_eq!(matches(0), Some(true), "it is compiled again");
        assert_eq!(compiled(), [true, false, true, true]);
        assert_eq!(all.lock().bytes, 3 * size);
    }

    #[test]
    fn patterns_that_no_schema_has_any_more_do_not_count() {
        let (gone, kept, new) = (Pattern::new("^g$"), Pattern::new("^k$"), Pattern::new("^n$"));
        let mut compiled = CompiledPatterns::new(100);
        compiled.add(&gone.shared, 50);
        compiled.add(&kept.shared, 50);
        drop(gone);
        assert!(compiled.add(&new.shared, 50).is_empty());
        assert_eq!((compiled.patterns.len(), compiled.bytes), (2, 100));
        assert_eq!(compiled.add(&kept.shared, 200).len(), 2, "a large one remains on its own");
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

    #[test]
    fn a_compilation_and_a_search_must_be_afforded() {
        let pattern = Pattern::new("^afforded{3}$");
        assert_eq!(pattern.is_match_within("affordeddd", |_| false), None);
        assert!(!pattern.is_compiled());
        assert!(!pattern.is_match(""));
        assert_eq!(pattern.is_match_within("affordeddd", |_| false), None);
        assert_eq!(pattern.is_match_within("affordeddd", |_| true), Some(true));
    }
}
