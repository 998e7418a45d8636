//! Go's regular expressions (`regexp/syntax` of Go 1.26 with the Perl flags), rewritten for the
//! `regex` crate.
//!
//! The two look alike and differ in many places: in Go `\d`, `\s`, `\w` and `\b` are ASCII, `\Q…\E`
//! quotes, a brace that opens no repetition is a literal, classes have no set operations and
//! brackets in them are literals, repetitions are limited to 1000 and cannot follow each other.
//! [`translate`] parses an expression as Go does, with Go's error messages, and writes an
//! equivalent one that avoids everything in which the dialects differ.
//!
//! Two limits are narrower than Go's: groups nest at most 50 deep instead of 1000, and an
//! expression may take 16 MiB when it is compiled. Go's limit is 128 MiB, which 1,000 letters
//! (`\pL{1000}`) do not exceed there: it keeps a class as ranges of characters, here it becomes
//! states for each byte. In addition, Go accepts a repetition after a flag group such as `(?i)`,
//! and applies it to what is before the group; here it is an error.
//!
//! The `mod` lines below are in layer order.

mod error;
mod size;
mod known_classes;
mod reader;
mod classes;

use error::error;
use reader::Reader;
use size::{Group, OF_EXPRESSION, check_size};

pub(super) use error::SyntaxError;
pub(super) use size::LARGEST;

/// A Go expression in the syntax of the `regex` crate.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) expression: String,
    /// The approximate number of bytes of the compiled expression, and of what would take as long
    /// to compile as the parts that take longer than they are large. At most [`LARGEST`].
    pub(super) size: u64,
}

/// Rewrites a Go expression for the `regex` crate.
///
/// # Errors
/// The error that Go reports for the expression.
pub(super) fn translate(expression: &str) -> Result<Translated, SyntaxError> {
    let mut reader = Reader {
        whole: expression,
        rest: expression,
        out: String::with_capacity(expression.len() * 2),
        open: vec![Group::default()],
        folds: false,
        work: 0,
        last_name_end: expression.rfind(":]"),
    };
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    reader.group().settle();
    match reader.open.as_slice() {
        [whole] => {
            let size = whole.size.saturating_add(reader.work);
            check_size(size)?;
            Ok(Translated { expression: reader.out, size: size.saturating_add(OF_EXPRESSION) })
        }
        _ => Err(error("missing closing )", expression)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::{Regex, RegexBuilder};
    use regex_automata::nfa::thompson;

    use super::classes::CLASS_RANGES;
    use super::*;

    /// The results of `regexp` in Go 1.26, one line for each case.
    #[test]
    fn expressions_match_the_same_strings_as_in_go() {
        for (expression, text, expected) in [
            (r"^\w+$", "é", false),
            (r"^\w+$", "aZ_9", true),
            (r"^\W$", "é", true),
            (r"^\d+$", "\u{663}", false),
            (r"^\d+$", "019", true),
            (r"^a\sb$", "a\u{a0}b", false),
            (r"^a\sb$", "a\tb", true),
            (r"^a\sb$", "a\u{b}b", false),
            (r"^[\s]$", "\u{b}", false),
            (r"\bx\b", "éxé", true),
            (r"\bx\b", "axa", false),
            (r"^\B\.\B$", ".", true),
            (r"é\Bé", "éé", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\Qa.b\Ec+$", "a.bccc", true),
            (r"^\Q^$", "^$", true),
            (r"^[\w-]{1,253}$", "a-b", true),
            (r"^[\w-]{1,253}$", "a.b", false),
            (r"^[^\W_]+$", "ab1", true),
            (r"^[^\W_]+$", "a_b", false),
            (r"^[[:alpha:]\d]+$", "a1", true),
            (r"^[[:^alpha:]]+$", "1", true),
            (r"^[a[]+$", "[a", true),
            (r"^[#[\]@]+$", "]#[@", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]$", ",", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "b", true),
            (r"^[a-]+$", "-a", true),
            (r"^[~~]$", "~", true),
            ("^a{,5}$", "a{,5}", true),
            ("^{a}$", "{a}", true),
            (r"^\${a}$", "${a}", true),
            ("^x{2}$", "xx", true),
            ("^x{02}$", "x{02}", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\_\-\/$", "_-/", true),
            (r"^\x41\x{42}\101\012$", "ABA\n", true),
            (r"^\0$", "\0", true),
            (r"^\pL\p{Lu}\p{Greek}\P{L}\p{^L}$", "aAα1-", true),
            (r"^\p{Han}+$", "漢字", true),
            (r"^\p{lu}\p{Letter}\p{ASCII}\p{greek}\p{Any}\p{LC}$", "Aaaαaa", true),
            (r"^[\p{L}\p{N}_.-]{1,256}$", "åß9_", true),
            ("^(?i)straße$", "STRASSE", false),
            ("^(?i)k$", "\u{212a}", true),
            (r"^(?i)\w$", "\u{17f}", true),
            ("(?m)^b$", "a\nb", true),
            ("^b$", "a\nb", false),
            ("^a.b$", "a\nb", false),
            ("^(?s)a.b$", "a\nb", true),
            ("^(?s:a.)b$", "a\nb", true),
            ("^(?i:a)b$", "AB", false),
            ("^(?i)a(?-i)b$", "Ab", true),
            ("^(?ii-i)a$", "A", false),
            ("^(?)a$", "a", true),
            ("^*a$", "a", true),
            ("^(?P<n>a)(?<n>b)$", "ab", true),
            ("^a|b$", "xb", true),
            ("^(|a)+$", "aa", true),
            ("", "anything", true),
            (r"^[^\n]$", "é", true),
            (r"^.$", "漢", true),
            (r"\Aa\z", "a\n", false),
            ("^a b#c$", "a b#c", true),
            (r"^\x{d800}$", "a", false),
            (r"^[\x{0}-\x{10ffff}]$", "漢", true),
        ] {
            let translated =
                translate(expression).unwrap_or_else(|it| panic!("{expression}: {it}")).expression;
            let regex = RegexBuilder::new(&translated).size_limit(LARGEST as usize).build();
            let regex = regex.unwrap_or_else(|it| panic!("{expression}: {it}"));
            assert_eq!(regex.is_match(text), expected, "{expression} as {translated} on {text:?}");
        }
    }

    #[test]
    fn expressions_that_go_rejects_are_rejected_with_its_message() {
        for (expression, expected) in [
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1,99999999999}", "invalid repeat count: `{1,99999999999}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("((a{10}){10}){11}x", "invalid repeat count: `{11}`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            // Go accepts these two.
            (r"a*\Q\E*", r"invalid nested repetition operator: `*\Q\E*`"),
            ("a+(?)?", "invalid nested repetition operator: `+(?)?`"),
            ("a+?*", "invalid nested repetition operator: `+?*`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(+)", "missing argument to repetition operator: `+`"),
            ("a|{2}", "missing argument to repetition operator: `{2}`"),
            (r"\Q\E*", "missing argument to repetition operator: `*`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[^a-z", "missing closing ]: `[^a-z`"),
            ("[]", "missing closing ]: `[]`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("[a--b]", "invalid character class range: `a--`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"[a-\d]", r"invalid escape sequence: `\d`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            (r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`"),
            (r"\p{sc=Greek}", r"invalid character class range: `\p{sc=Greek}`"),
            (r"a\p{L", r"invalid character class range: `\p{L`"),
            (r"\q", r"invalid escape sequence: `\q`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\u0041", r"invalid escape sequence: `\u`"),
            (r"\xg1", r"invalid escape sequence: `\xg1`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
            ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
        ] {
            let refused = translate(expression).map(|it| it.expression).map_err(|it| it.to_string());
            assert_eq!(refused, Err(format!("error parsing regexp: {expected}")), "{expression}");
        }
        assert!(translate(&"(".repeat(300)).is_err_and(|it| it.to_string().contains("nests too deeply")));
    }

    #[test]
    fn expressions_are_rejected_by_their_compiled_size() {
        for (expression, fits) in [
            (r"^[\p{L}\p{N}_.-]{1,256}(,[\p{L}\p{N}_.-]{1,256})*$".to_owned(), true),
            ("a{1000}".repeat(96), true),
            (".{0,1000}".repeat(20), true),
            (r"\p{L}{0,500}".to_owned(), true),
            // The last atom of an expression counted as nothing.
            (r"\p{L}{0,1000}".to_owned(), false),
            (r"(\p{L}{0,1000})".to_owned(), false),
            (r"[\p{L}\p{N}]{1000}x".to_owned(), false),
            (".{0,1000}".repeat(100), false),
            // Empty alternatives counted as nothing.
            (format!("(a{}){{1000}}", "|".repeat(300)), false),
            (r"\p{L}".repeat(2_000), false),
            // Repetitions of repetitions counted as nothing.
            (format!("({}a{}){{1000}}", "(".repeat(40), ")*".repeat(40)), true),
            (format!("({0}a{1}b{0}c{1}){{1000}}", "(".repeat(45), ")*".repeat(45)), true),
            (format!("({}){{1000}}", format!("{}a{}", "(".repeat(45), ")*".repeat(45)).repeat(3)), false),
            // Cases are added one by one, and the classes of alternatives sorted again for each.
            (r"(?i)^[!-\x{10ffff}]\p{L}\D{1,100}$".to_owned(), true),
            (format!("(?i){}", r"[!-\x{10ffff}]".repeat(100)), false),
            (format!("(?i){}", r"[\D]".repeat(100)), false),
            (format!("(?i){}", r"\pL".repeat(100)), false),
            (r"[!-\x{10ffff}]".repeat(100), true),
            (vec!["[xyz]"; 3_000].join("|"), true),
            (vec!["[xyz]"; 10_000].join("|"), false),
            (vec!["word"; 10_000].join("|"), true),
            // What is empty, and what all begin with, does not count.
            (vec!["[xyz]()"; 10_000].join("|"), false),
            (vec!["x[xyz]"; 10_000].join("|"), false),
            (vec![r"x\ba"; 10_000].join("|"), false),
            (vec!["xa{0}"; 20_000].join("|"), false),
            // Equal classes count once.
            (format!(r"[\p{{L}}{}]", r"\d[:alpha:]\pL".repeat(20_000)), true),
            ("(?i)".repeat(200_000), false),
        ] {
            let refused = translate(&expression).map(|it| it.size).map_err(|it| it.to_string());
            match refused {
                Ok(size) => assert!(fits && size <= LARGEST, "{expression} takes {size}"),
                Err(why) => assert!(!fits && why.contains("expression too large"), "{expression}: {why}"),
            }
        }
    }

    /// Returns the number of bytes of a compiled expression.
    fn memory(translated: &Translated) -> u64 {
        let config = thompson::Config::new().which_captures(thompson::WhichCaptures::None);
        let nfa = thompson::Compiler::new().configure(config).build(&translated.expression);
        nfa.expect("it is valid").memory_usage() as u64
    }

    #[test]
    fn the_estimated_size_is_about_that_of_the_states() {
        for expression in [
            "",
            "a{1000}",
            "(?i)k{1000}",
            "[a-z]{0,1000}",
            "(?i)[a-z]{1000}",
            ".{0,1000}",
            "[^a-z]{0,1000}",
            r"\W{1000}",
            r"\x{1f600}{1000}",
            r"(?i)[é\x{1f600}一\x{10400}]{1000}",
            r"\pL{0,100}",
            r"[\P{Lu}\p{Greek}_]{100}",
            r"(?i)\p{Lu}{100}",
            "(a|b|cd)*(x?y+){0,100}",
            "((((((((a*)*)*)*)*)*)*)*){1000}",
            "((((((((a?)+)?)+)?)+)?){0,1}){2,1000}",
        ] {
            let translated = translate(expression).unwrap_or_else(|it| panic!("{expression}: {it}"));
            let (states, size) = (memory(&translated), translated.size);
            assert!(
                (states..12 * states + OF_EXPRESSION).contains(&size),
                "{expression}: {size} for {states}"
            );
        }
    }

    #[test]
    fn a_class_of_many_ranges_matches_what_each_of_them_matches() {
        let letter = |number: usize| char::from_u32(0x10000 + 2 * u32::try_from(number).unwrap()).unwrap();
        for ranges in
            [1, CLASS_RANGES - 1, CLASS_RANGES, CLASS_RANGES + 1, 3 * CLASS_RANGES, 3 * CLASS_RANGES + 1]
        {
            let class: String = (0..ranges).rev().map(letter).collect();
            for (expression, matches) in [(format!("^[{class}]$"), true), (format!("^[^{class}]$"), false)] {
                let regex = Regex::new(&translate(&expression).unwrap().expression).unwrap();
                assert_eq!(regex.is_match(&letter(ranges).to_string()), !matches, "{ranges} ranges");
                for number in 0..ranges {
                    assert_eq!(regex.is_match(&letter(number).to_string()), matches, "{number} of {ranges}");
                }
            }
        }
    }

    #[test]
    fn a_class_of_surrogates_matches_nothing() {
        for expression in [r"[\x{d800}]", r"[\x{d800}-\x{dfff}]"] {
            let regex = Regex::new(&translate(expression).unwrap().expression).unwrap();
            assert!(!regex.is_match("a\u{ffff}"), "{expression}");
        }
    }

    /// Each class was parsed by the crate, and the size was only compared at the end.
    #[test]
    fn an_expression_that_is_too_large_is_rejected_before_its_end() {
        let time = |count: usize| {
            let expression = r"\p{L u}".repeat(count);
            let start = cpu_time::ThreadTime::now();
            assert!(translate(&expression).is_err_and(|it| it.to_string().contains("too large")));
            start.elapsed().as_secs_f64()
        };
        time(10_000);
        let (small, large) = (time(10_000), time(100_000));
        assert!(large < 5.0 * small.max(0.002), "{small} s and {large} s");
    }

    /// Generates expressions of groups, alternatives and repetitions.
    fn nested() -> impl Strategy<Value = String> {
        let atom = prop::sample::select(vec![
            "a", "é", ".", "[a-z]", r"\d", r"\pL", "^", r"\b", "", r"\Q\E", "(?i)",
        ]);
        let operator = prop::sample::select(vec![
            "", "*", "+", "?", "*?", "{0}", "{3}", "{0,}", "{2,}", "{0,7}", "{1,9}",
        ]);
        atom.prop_map(str::to_owned).prop_recursive(12, 60, 4, move |inner| {
            (prop::collection::vec(inner, 1..4), operator.clone(), any::<bool>()).prop_map(
                |(inner, operator, alternatives)| {
                    format!("({}){operator}", inner.join(if alternatives { "|" } else { "" }))
                },
            )
        })
    }

    proptest! {
        #[test]
        fn no_expression_takes_more_memory_than_estimated(expression in nested()) {
            if let Ok(translated) = translate(&expression) {
                let states = memory(&translated);
                prop_assert!(states <= translated.size, "{} for {}", translated.size, states);
            }
        }

        /// Every accepted expression compiles, and matches the same strings where the dialects
        /// agree.
        #[test]
        fn every_translated_expression_compiles(
            expression in r"(\\[dDsSwWbBAzpQExnt01a_.]|\[|\]|\[:alpha:\]|\(|\)|\(\?i\)|\(\?:|[ab.^$|*+?{},12-]|é){0,12}",
            text in "[ab1é ]{0,6}",
        ) {
            if let Ok(Translated { expression: translated, .. }) = translate(&expression) {
                let regex = Regex::new(&translated);
                prop_assert!(regex.is_ok(), "{} as {}: {:?}", expression, translated, regex);
                let plain = expression.chars().all(|it| "ab1.^$|()*+?".contains(it)).then(|| Regex::new(&expression));
                if let (Some(Ok(plain)), Ok(regex)) = (plain, regex) {
                    prop_assert_eq!(plain.is_match(&text), regex.is_match(&text), "{}", expression);
                }
            }
        }
    }
}
