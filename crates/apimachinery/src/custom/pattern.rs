//! The `pattern` of a schema: a Go regular expression, compiled when it is first used and shared by
//! all schemas with the same one.
//!
//! The definitions that one project installs repeat a few expressions hundreds of times, and most
//! are never used on a test server. Compiling an expression takes about a thousand times as long as
//! parsing it.
//!
//! A text is matched by an automaton that is built as the text needs it, which takes a few steps for
//! each byte. If it would become too large, the states of the expression are simulated instead, all
//! of them for each byte. The caller decides whether it affords that.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::util::pool::Pool;
use regex_automata::{Input, util::syntax};

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
    compiled: OnceLock<Option<Compiled>>,
}

/// A compiled expression.
#[derive(Debug)]
struct Compiled {
    dfa: DFA,
    /// The states that were built so far, for one search at a time each.
    caches: Pool<Cache, CreateCache>,
}

type CreateCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

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
        let shared = Arc::new(CompiledOnce { text: text.to_owned(), compiled: OnceLock::new() });
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
        self.is_match_within(text, |_| true).unwrap_or(false)
    }

    /// Returns true if any part of a text matches, or `None` if that takes a number of steps that
    /// `afford` refuses. It is called only if there are more than a few steps for each byte.
    pub(super) fn is_match_within(&self, text: &str, afford: impl FnOnce(usize) -> bool) -> Option<bool> {
        match self.shared.compiled.get_or_init(|| compile(&self.shared.text)) {
            Some(compiled) => compiled.is_match_within(text, afford),
            None => Some(false),
        }
    }

    /// Returns true if the pattern was used, and so compiled.
    pub fn is_compiled(&self) -> bool {
        self.shared.compiled.get().is_some()
    }
}

impl Compiled {
    fn is_match_within(&self, text: &str, afford: impl FnOnce(usize) -> bool) -> Option<bool> {
        let input = Input::new(text).earliest(true);
        let mut cache = self.caches.get();
        if let Ok(found) = self.dfa.try_search_fwd(&mut cache, &input) {
            return Some(found.is_some());
        }
        // The next text may be a better one.
        self.dfa.reset_cache(&mut cache);
        drop(cache);
        let nfa = self.dfa.get_nfa();
        if !afford(nfa.states().len().saturating_mul(text.len())) {
            return None;
        }
        let simulation = PikeVM::new_from_nfa(nfa.clone()).ok()?;
        Some(simulation.is_match(&mut simulation.create_cache(), input))
    }
}

fn compile(text: &str) -> Option<Compiled> {
    let translated = translate(text).ok()?;
    // Twice the limit that the translation checks against, since that only estimates the size: in
    // practice the compiled form is never larger.
    let most = usize::try_from(2 * LARGEST).ok();
    let nfa = thompson::Compiler::new()
        .syntax(syntax::Config::new().nest_limit(400))
        .configure(thompson::Config::new().nfa_size_limit(most).which_captures(thompson::WhichCaptures::None))
        .build(&translated);
    // A new state costs up to the number of states of the expression, so building them for fewer
    // bytes than this costs more than a few steps for each byte.
    let bytes_per_state = |nfa: &thompson::NFA| (nfa.states().len() / 8).max(10);
    let built = nfa.map_err(|it| it.to_string()).and_then(|nfa| {
        let config = Config::new()
            .skip_cache_capacity_check(true)
            .cache_capacity(1 << 20)
            .minimum_cache_clear_count(Some(2))
            .minimum_bytes_per_state(Some(bytes_per_state(&nfa)));
        Builder::new().configure(config).build_from_nfa(nfa).map_err(|it| it.to_string())
    });
    match built {
        Ok(dfa) => {
            let for_cache = dfa.clone();
            Some(Compiled { dfa, caches: Pool::new(Box::new(move || for_cache.create_cache())) })
        }
        Err(error) => {
            tracing::warn!(pattern = text, %error, "cannot compile a pattern; it matches nothing");
            None
        }
    }
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

    #[test]
    fn a_match_that_is_expensive_for_each_byte_must_be_afforded() {
        // The set of states depends on the last 300 characters.
        let pattern = Pattern::new("(a|b)*a(a|b){300}c");
        let mut random = 1_u32;
        let text: String = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if random >> 31 == 0 { 'a' } else { 'b' }
        })
        .take(20_000)
        .collect();
        let mut asked = 0;
        let refuse = |steps| {
            asked = steps;
            false
        };
        assert_eq!(pattern.is_match_within(&text, refuse), None);
        assert!(asked > 300 * text.len(), "{asked}");
        assert_eq!(pattern.is_match_within(&text[..500], |_| false), Some(false));
        for (end, expected) in [("c", true), ("d", false)] {
            let text = format!("{text}a{}{end}", "b".repeat(300));
            assert_eq!(pattern.is_match_within(&text, |_| true), Some(expected));
        }
    }

    #[test]
    fn an_expression_with_many_states_is_cheap_on_text_that_needs_few_of_them() {
        let pattern = Pattern::new(r"^[\p{L}\p{N}_.-]{1,256}(,[\p{L}\p{N}_.-]{1,256})*$");
        let text = "große-名前_9,".repeat(20_000) + "x";
        assert_eq!(pattern.is_match_within(&text, |_| false), Some(true));
        assert_eq!(pattern.is_match_within(&format!("{text} "), |_| false), Some(false));
    }
}
