//! The `pattern` of a schema: a Go regular expression, compiled when it is first used and shared by
//! all schemas with the same one.
//!
//! The definitions that one project installs repeat a few expressions hundreds of times, and most
//! are never used on a test server. Compiling an expression takes about a thousand times as long as
//! parsing it. A few bytes can become megabytes, so the compiled forms of all definitions share a
//! limit: beyond it the oldest are dropped, and compiled again when they are needed.
//!
//! A text is matched by an automaton that is built as the text needs it, which takes a few steps for
//! each byte. If it would become too large, the states of the expression are simulated instead, all
//! of them for each byte. The caller decides whether it affords that, and the compilation.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock, Weak};

use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::util::pool::Pool;
use regex_automata::{Input, util::syntax};

use super::go_syntax::{LARGEST, Translated, translate};

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
    Compiled(Arc<Compiled>),
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

/// A compiled expression.
#[derive(Debug)]
struct Compiled {
    nfa: thompson::NFA,
    /// The number of states of the expression, and of the alternatives between them: the most steps of
    /// the simulation for each byte.
    steps: usize,
    /// `None` if the expression is only simulated.
    automaton: Option<Automaton>,
}

/// An automaton whose states are built as texts need them.
#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    /// The states that were built so far, for one search at a time each.
    caches: Pool<Cache, CreateCache>,
}

/// The number of bytes of the states of an automaton, for one search.
const CACHE: usize = 1 << 20;
/// The number of bytes of states that are kept for the next search. They do not count towards
/// [`MOST_COMPILED`].
const KEPT_CACHE: usize = 32 << 10;

type CreateCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

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
    /// `afford` refuses. It is called only if there are more than a few steps for each byte, or if
    /// the pattern must be compiled.
    pub(super) fn is_match_within(&self, text: &str, mut afford: impl FnMut(usize) -> bool) -> Option<bool> {
        match self.compiled(&COMPILED, &mut afford)? {
            Some(compiled) => compiled.is_match_within(text, afford),
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
    ) -> Option<Option<Arc<Compiled>>> {
        let (compiled, size) = {
            // Held while the pattern is compiled: other callers wait for the result.
            let mut form = self.shared.form.lock();
            match &*form {
                Form::Compiled(compiled) => return Some(Some(Arc::clone(compiled))),
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
            let Some(compiled) = compile(&self.shared.text, &translated).map(Arc::new) else {
                *form = Form::Invalid;
                return Some(None);
            };
            *form = Form::Compiled(Arc::clone(&compiled));
            (compiled, translated.size)
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

impl Compiled {
    fn is_match_within(&self, text: &str, mut afford: impl FnMut(usize) -> bool) -> Option<bool> {
        let input = Input::new(text).earliest(true);
        if let Some(found) = self.automaton.as_ref().and_then(|it| it.is_match(&input)) {
            return Some(found);
        }
        if !afford(self.steps.saturating_mul(text.len())) {
            return None;
        }
        let simulation = PikeVM::new_from_nfa(self.nfa.clone()).ok()?;
        Some(simulation.is_match(&mut simulation.create_cache(), input))
    }
}

impl Automaton {
    /// Returns `None` if the text needs too many states.
    fn is_match(&self, input: &Input<'_>) -> Option<bool> {
        let mut cache = self.caches.get();
        let found = self.dfa.try_search_fwd(&mut cache, input);
        // The next text may need other states.
        if found.is_err() || cache.memory_usage() > KEPT_CACHE {
            *cache = self.dfa.create_cache();
        }
        found.ok().map(|it| it.is_some())
    }
}

fn compile(text: &str, translated: &Translated) -> Option<Compiled> {
    // Twice the limit that the translation checks against, since that only estimates the size: in
    // practice the compiled form is never larger.
    let most = usize::try_from(2 * LARGEST).ok();
    let nfa = thompson::Compiler::new()
        .syntax(syntax::Config::new().nest_limit(400))
        .configure(thompson::Config::new().nfa_size_limit(most).which_captures(thompson::WhichCaptures::None))
        .build(&translated.expression);
    // A new state costs up to the number of states of the expression, so building them for fewer
    // bytes than this costs more than a few steps for each byte.
    let bytes_per_state = |nfa: &thompson::NFA| (nfa.states().len() / 8).max(10);
    let built = nfa.map_err(|it| it.to_string()).and_then(|nfa| {
        let alternatives = nfa.states().iter().map(|it| match it {
            thompson::State::Union { alternates } => alternates.len(),
            _ => 0,
        });
        let alternatives = alternatives.fold(0, usize::saturating_add);
        let config = Config::new()
            .skip_cache_capacity_check(true)
            .cache_capacity(CACHE)
            .minimum_cache_clear_count(Some(2))
            .minimum_bytes_per_state(Some(bytes_per_state(&nfa)));
        // The crate collects alternatives in the cache. If they alone fill it, it clears the cache
        // without end, in a recursion.
        let is_small = alternatives.saturating_mul(8) <= CACHE;
        let steps = nfa.states().len().saturating_add(alternatives);
        let build =
            || Builder::new().configure(config).build_from_nfa(nfa.clone()).map_err(|it| it.to_string());
        let dfa = is_small.then(build).transpose()?;
        let automaton = dfa.map(|dfa| {
            let for_cache = dfa.clone();
            Automaton { dfa, caches: Pool::new(Box::new(move || for_cache.create_cache())) }
        });
        Ok(Compiled { nfa, steps, automaton })
    });
    match built {
        Ok(compiled) => Some(compiled),
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

    /// A compiled form remained for as long as its definition existed, 20 MB for 13 bytes.
    #[test]
    fn the_oldest_compiled_patterns_are_dropped_beyond_the_limit() {
        let patterns: Vec<Pattern> = (0..4).map(|it| Pattern::new(&format!("^oldest-{it}$"))).collect();
        let size = Pattern::compiled_size("^oldest-0$").expect("it is valid");
        let all = Mutex::new(CompiledPatterns::new(3 * size));
        let matches = |at: usize| {
            let compiled = patterns[at].compiled(&all, |_| true).flatten().expect("it is valid");
            compiled.is_match_within(&format!("oldest-{at}"), |_| true)
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

    /// Regression test: the automaton of such an expression cleared its cache in an endless recursion,
    /// which ended the process.
    #[test]
    fn an_expression_with_more_transitions_than_the_cache_can_hold_is_simulated() {
        let text = format!("(a{}){{1000}}", "|".repeat(300));
        let translated = Translated { expression: text.clone(), size: 0 };
        let compiled = compile(&text, &translated).expect("it is valid");
        assert!(compiled.automaton.is_none());
        assert_eq!(compiled.is_match_within("x", |_| true), Some(true));
        assert_eq!(compiled.is_match_within("x", |_| false), None);
    }

    #[test]
    fn few_states_of_an_automaton_are_kept() {
        let pattern = Pattern::new("^[a-b]*a[a-b]{11}$");
        let text: String =
            (0..4_000_u32).map(|it| if it.count_ones() % 2 == 0 { 'a' } else { 'b' }).collect();
        pattern.is_match(&text);
        let compiled = pattern.compiled(&COMPILED, |_| true).flatten().expect("it is valid");
        let automaton = compiled.automaton.as_ref().expect("it is small");
        assert!(automaton.caches.get().memory_usage() <= KEPT_CACHE);
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
        assert_eq!(pattern.is_match_within(&text, |_| false), None);
        assert!(!pattern.is_compiled(), "compiling it must be afforded too");
        assert!(!pattern.is_match(""));
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
        assert!(pattern.is_match("x"));
        let text = "große-名前_9,".repeat(20_000) + "x";
        assert_eq!(pattern.is_match_within(&text, |_| false), Some(true));
        assert_eq!(pattern.is_match_within(&format!("{text} "), |_| false), Some(false));
    }
}
