//! Go's regular expressions (`regexp/syntax` with the Perl flags), rewritten for the `regex` crate.
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
//! states for each byte. In addition, Go accepts a repetition after a flag group such as `(?i)`, and
//! applies it to what is before the group; here it is an error.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::LazyLock;

use parking_lot::RwLock;
use regex_automata::nfa::thompson;

/// The largest number of repetitions, nested ones multiplied, as in Go.
const MOST_REPEATS: u64 = 1000;
/// The depth to which groups may nest. The compiler recurses, and 200 overflowed a thread stack of
/// 2 MiB.
const DEEPEST: usize = 50;
/// The number of bytes that a compiled expression may take. Compiling takes three times as much
/// memory for a moment, and 20 ns for each byte: half a second for the largest expression, in a
/// build without optimizations. `[\p{L}\p{N}_.-]{1,256}` takes 6 MiB, and `\p{L}{0,1000}` 20 MiB.
pub(super) const LARGEST: u64 = 16 << 20;
/// The approximate number of bytes of a compiled expression without any atoms.
const OF_EXPRESSION: u64 = 4_000;
/// The approximate number of bytes of a literal, in either case and with up to four bytes, or of a
/// position.
const OF_LITERAL: u64 = 160;
/// The approximate number of bytes of a class of ASCII characters.
const OF_CLASS: u64 = 200;
/// The approximate number of bytes that each further range of a class takes.
const OF_RANGE: u64 = 100;
/// The approximate number of bytes of a class of all characters except a few.
const OF_OTHERS: u64 = 450;

/// The number of ranges in a class, beyond which the others are in nested classes.
const CLASS_RANGES: usize = 256;
/// A class that matches nothing.
const NO_CHARACTER: &str = r"[^\x{0}-\x{10ffff}]";

/// A syntax error, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    what: &'static str,
    /// The invalid part of the expression.
    place: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, self.place)
    }
}

/// A Go expression in the syntax of the `regex` crate.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) expression: String,
    /// The approximate number of bytes of the compiled expression, at most [`LARGEST`].
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
        last_repeat: None,
        last_name_end: expression.rfind(":]"),
    };
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    reader.group().settle();
    match reader.open.as_slice() {
        [whole] => Ok(Translated { expression: reader.out, size: whole.size.saturating_add(OF_EXPRESSION) }),
        _ => Err(error("missing closing )", expression)),
    }
}

fn error(what: &'static str, place: &str) -> SyntaxError {
    SyntaxError { what, place: place.to_owned() }
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    /// The open groups; the whole expression is the first.
    open: Vec<Group>,
    /// The text from the beginning of the repetition that was parsed right before, if there was
    /// one.
    last_repeat: Option<&'a str>,
    /// The position of the last `:]`, which ends the name of a class. Without it, each `[:` that no
    /// name follows would search the whole rest.
    last_name_end: Option<usize>,
}

/// A group that is being parsed.
#[derive(Default)]
struct Group {
    /// The last atom, which can still be repeated.
    atom: Option<Atom>,
    /// The largest product of nested repetitions in the group.
    repeats: u64,
    /// The sum of the sizes of the settled atoms in the group.
    size: u64,
}

/// An expression that can be repeated.
#[derive(Clone, Copy)]
struct Atom {
    repeats: u64,
    size: u64,
}

impl<'a> Reader<'a> {
    /// Parses one token.
    fn step(&mut self) -> Result<(), SyntaxError> {
        let last_repeat = self.last_repeat.take();
        let begin = self.rest;
        match self.next_char() {
            '(' if begin.starts_with("(?") => self.special_group(begin)?,
            '(' => self.open_group("(?:")?,
            ')' => self.close_group()?,
            '|' => {
                self.out.push('|');
                let group = self.group();
                group.settle();
                // An alternative takes a transition even if it is empty.
                group.size = group.size.saturating_add(OF_LITERAL);
                group.check_size()?;
            }
            it @ ('^' | '$' | '.') => {
                self.out.push(it);
                self.atom(if it == '.' { OF_OTHERS } else { OF_LITERAL })?;
            }
            '[' => self.class(begin)?,
            '*' | '+' | '?' => self.repeat(begin, last_repeat, None)?,
            '{' => match counts(begin) {
                None => self.literal('{')?,
                Some((least, most, rest)) => {
                    self.rest = rest;
                    let valid = least.is_some_and(|least| {
                        least <= MOST_REPEATS
                            && most.is_none_or(|most| {
                                most.is_some_and(|most| (least..=MOST_REPEATS).contains(&most))
                            })
                    });
                    if !valid {
                        return Err(error("invalid repeat count", self.since(begin)));
                    }
                    let least = least.unwrap_or_default();
                    self.repeat(begin, last_repeat, Some(most.flatten().unwrap_or(least)))?;
                }
            },
            '\\' => self.escaped(begin)?,
            it => self.literal(it)?,
        }
        Ok(())
    }

    /// Returns the text that was parsed since `begin`.
    fn since(&self, begin: &'a str) -> &'a str {
        &begin[..begin.len() - self.rest.len()]
    }

    /// Consumes the next character, which must exist.
    fn next_char(&mut self) -> char {
        let mut all = self.rest.chars();
        let next = all.next().unwrap_or_default();
        self.rest = all.as_str();
        next
    }

    fn group(&mut self) -> &mut Group {
        self.open.last_mut().expect("the whole expression is never closed")
    }

    fn atom(&mut self, size: u64) -> Result<(), SyntaxError> {
        self.add(Atom { repeats: 1, size })
    }

    /// Adds an atom to the open group. Fails as soon as the group is too large, since the rest of the
    /// expression may be long.
    fn add(&mut self, atom: Atom) -> Result<(), SyntaxError> {
        let group = self.group();
        group.settle();
        group.atom = Some(atom);
        group.check_size()
    }

    fn literal(&mut self, it: char) -> Result<(), SyntaxError> {
        write_char(&mut self.out, u32::from(it));
        self.atom(OF_LITERAL)
    }

    fn open_group(&mut self, head: &str) -> Result<(), SyntaxError> {
        if self.open.len() > DEEPEST {
            return Err(error("expression nests too deeply", self.whole));
        }
        self.out.push_str(head);
        self.open.push(Group::default());
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), SyntaxError> {
        if self.open.len() < 2 {
            return Err(error("unexpected )", self.whole));
        }
        self.group().settle();
        let closed = self.open.pop().unwrap_or_default();
        self.out.push(')');
        self.add(Atom { repeats: closed.repeats.max(1), size: closed.size.max(OF_LITERAL) })
    }

    /// Parses a group with a name or with flags: `(?P<name>`, `(?<name>`, `(?i:` or `(?i)`.
    fn special_group(&mut self, begin: &'a str) -> Result<(), SyntaxError> {
        let named = begin.strip_prefix("(?P<").or_else(|| begin.strip_prefix("(?<"));
        if let Some(behind) = named.filter(|it| !it.is_empty()) {
            let Some((name, rest)) = behind.split_once('>') else {
                return Err(error("invalid named capture", begin));
            };
            self.rest = rest;
            if name.is_empty() || !name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') {
                return Err(error("invalid named capture", self.since(begin)));
            }
            // The name is dropped: nothing is captured here, and Go allows two groups of one name.
            return self.open_group("(?:");
        }
        self.rest = &begin["(?".len()..];
        let (mut flags, mut off, mut seen) = ([String::new(), String::new()], false, false);
        while !self.rest.is_empty() {
            match self.next_char() {
                it @ ('i' | 'm' | 's' | 'U') => {
                    flags.iter_mut().for_each(|flags| flags.retain(|known| known != it));
                    flags[usize::from(off)].push(it);
                    seen = true;
                }
                '-' if !off => {
                    (off, seen) = (true, false);
                }
                it @ (':' | ')') if !off || seen => {
                    let [on, off] = &flags;
                    let dash = if off.is_empty() { "" } else { "-" };
                    let head = format!("(?{on}{dash}{off}{it}");
                    if it == ':' {
                        return self.open_group(&head);
                    }
                    if head != "(?)" {
                        self.out.push_str(&head);
                        self.group().settle();
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(error("invalid or unsupported Perl syntax", self.since(begin)))
    }

    /// Parses a repetition of the last atom; `most` is its upper bound, if it has one.
    fn repeat(
        &mut self,
        begin: &'a str,
        last: Option<&'a str>,
        most: Option<u64>,
    ) -> Result<(), SyntaxError> {
        if self.rest.starts_with('?') {
            self.next_char();
        }
        if let Some(last) = last {
            return Err(error("invalid nested repetition operator", self.since(last)));
        }
        let text = self.since(begin);
        let Some(atom) = &mut self.group().atom else {
            return Err(error("missing argument to repetition operator", text));
        };
        if let Some(most) = most {
            // A repetition of at most 0 or 1 does not multiply.
            atom.repeats = if most == 0 { 1 } else { atom.repeats.saturating_mul(most) };
            atom.size = atom.size.saturating_mul(most.max(1));
            if most >= 2 && atom.repeats > MOST_REPEATS {
                return Err(error("invalid repeat count", text));
            }
            self.group().check_size()?;
        }
        self.out.push_str(text);
        self.last_repeat = Some(begin);
        Ok(())
    }

    /// Parses an escape outside of a class.
    fn escaped(&mut self, begin: &'a str) -> Result<(), SyntaxError> {
        let behind = self.rest;
        match behind.chars().next() {
            Some(it @ ('A' | 'z')) => {
                self.next_char();
                let _ = write!(self.out, "\\{it}");
                self.atom(OF_LITERAL)?;
            }
            Some(it @ ('b' | 'B')) => {
                self.next_char();
                let _ = write!(self.out, "(?-u:\\{it})");
                self.atom(OF_LITERAL)?;
            }
            Some('Q') => {
                let quoted = &behind[1..];
                let (quoted, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                for it in quoted.chars() {
                    self.literal(it)?;
                }
                self.rest = rest;
            }
            Some(it @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                self.next_char();
                self.out.push_str(perl_class(it));
                self.atom(if it.is_ascii_uppercase() { OF_OTHERS } else { OF_CLASS })?;
            }
            Some('p' | 'P') => {
                let size = self.unicode_class(begin)?;
                self.atom(size)?;
            }
            _ => {
                let it = self.escaped_char(begin)?;
                write_char(&mut self.out, it);
                self.atom(OF_LITERAL)?;
            }
        }
        Ok(())
    }

    /// Returns the character that an escape stands for. The backslash is consumed already.
    fn escaped_char(&mut self, begin: &'a str) -> Result<u32, SyntaxError> {
        if self.rest.is_empty() {
            return Err(error("trailing backslash at end of expression", ""));
        }
        let is_octal = |it: &str| it.starts_with(|it| ('0'..='7').contains(&it));
        let first = self.next_char();
        let found = match first {
            // A single digit other than 0 would be a back-reference, which Go does not have.
            '0'..='7' if first == '0' || is_octal(self.rest) => {
                let mut value = u32::from(first) - u32::from('0');
                for _ in 1..3 {
                    if is_octal(self.rest) {
                        value = value * 8 + (u32::from(self.next_char()) - u32::from('0'));
                    }
                }
                Some(value)
            }
            'x' => self.hexadecimal(),
            'a' => Some(0x07),
            'f' => Some(0x0c),
            'n' => Some(0x0a),
            'r' => Some(0x0d),
            't' => Some(0x09),
            'v' => Some(0x0b),
            it => (it.is_ascii() && !it.is_ascii_alphanumeric()).then_some(u32::from(it)),
        };
        found.ok_or_else(|| error("invalid escape sequence", self.since(begin)))
    }

    /// Parses the digits of a hexadecimal escape: `7F` or `{10FFFF}`.
    fn hexadecimal(&mut self) -> Option<u32> {
        if self.rest.is_empty() {
            return None;
        }
        let first = self.next_char();
        if first != '{' {
            let second = if self.rest.is_empty() { None } else { self.next_char().to_digit(16) };
            return Some(first.to_digit(16)? * 16 + second?);
        }
        let mut value = None;
        while !self.rest.is_empty() {
            match self.next_char() {
                '}' => return value,
                it => value = Some(value.unwrap_or(0) * 16 + it.to_digit(16)?),
            }
            if value > Some(u32::from(char::MAX)) {
                return None;
            }
        }
        None
    }

    /// Parses `\pL`, `\p{Greek}`, `\P{Lu}` or `\p{^Lu}`, and writes the class. Returns its size.
    fn unicode_class(&mut self, begin: &'a str) -> Result<u64, SyntaxError> {
        let mut negated = self.next_char() == 'P';
        let refuse = |place: &str| error("invalid character class range", place);
        let mut name = match self.rest.strip_prefix('{') {
            Some(behind) => {
                let (name, rest) = behind.split_once('}').ok_or_else(|| refuse(begin))?;
                self.rest = rest;
                name
            }
            None if self.rest.is_empty() => return Err(refuse(begin)),
            None => {
                let all = self.rest;
                self.next_char();
                &all[..all.len() - self.rest.len()]
            }
        };
        if let Some(positive) = name.strip_prefix('^') {
            (name, negated) = (positive, !negated);
        }
        let found = UnicodeClass::named(name).ok_or_else(|| refuse(self.since(begin)))?;
        let _ = write!(self.out, "\\{}{{{}={name}}}", if negated { 'P' } else { 'p' }, found.property);
        Ok(found.size)
    }

    /// Parses a class in brackets. The opening bracket is consumed already.
    fn class(&mut self, begin: &'a str) -> Result<(), SyntaxError> {
        let (mut size, mut ranges) = (OF_CLASS, 0);
        let mut is_first = true;
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.next_char();
            self.out.push('^');
            size += OF_OTHERS;
        }
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            let place = self.rest;
            if let Some(name) = place.strip_prefix("[:")
                && self.last_name_end >= Some(self.whole.len() - name.len())
                && let Some((name, rest)) = name.split_once(":]")
            {
                self.rest = rest;
                let of = name.strip_prefix('^').unwrap_or(name);
                if !POSIX.contains(&of) {
                    return Err(error("invalid character class range", self.since(place)));
                }
                let _ = write!(self.out, "[:{name}:]");
                size += if of == name { OF_RANGE } else { OF_OTHERS };
                continue;
            }
            let perl = place.strip_prefix('\\').and_then(|it| it.chars().next());
            match perl {
                Some('p' | 'P') => {
                    self.next_char();
                    size += self.unicode_class(place)?;
                }
                Some(it @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                    self.rest = &place[2..];
                    self.out.push_str(perl_class(it));
                    size += if it.is_ascii_uppercase() { OF_OTHERS } else { OF_RANGE };
                }
                _ => {
                    // The crate goes through all ranges of a class when it adds one, and through
                    // those of a nested class at once.
                    if ranges == CLASS_RANGES {
                        self.out.push('[');
                    } else if ranges > 0 && ranges % CLASS_RANGES == 0 {
                        self.out.push_str("][");
                    }
                    ranges += 1;
                    self.range(begin, place)?;
                    size += OF_RANGE;
                }
            }
            check_size(size)?;
        }
        self.next_char();
        self.out.push_str(if ranges > CLASS_RANGES { "]]" } else { "]" });
        self.atom(size)
    }

    /// Parses a character of a class, or a range of characters.
    fn range(&mut self, class: &'a str, begin: &'a str) -> Result<(), SyntaxError> {
        let low = self.class_char(class)?;
        let mut high = low;
        if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
            self.next_char();
            high = self.class_char(class)?;
        }
        if high < low {
            return Err(error("invalid character class range", self.since(begin)));
        }
        // Surrogates never occur in a `str`, and the crate rejects them.
        if low >= 0xd800 && high <= 0xdfff {
            self.out.push_str(NO_CHARACTER);
        }
        for (low, high) in [(low, high.min(0xd7ff)), (low.max(0xe000), high)] {
            if low <= high {
                let _ = write!(self.out, "\\x{{{low:x}}}-\\x{{{high:x}}}");
            }
        }
        Ok(())
    }

    fn class_char(&mut self, class: &'a str) -> Result<u32, SyntaxError> {
        let begin = self.rest;
        if begin.is_empty() {
            return Err(error("missing closing ]", class));
        }
        match self.next_char() {
            '\\' => self.escaped_char(begin),
            it => Ok(u32::from(it)),
        }
    }
}

impl Group {
    /// Adds the last atom to the group: it cannot be repeated any more.
    fn settle(&mut self) {
        if let Some(atom) = self.atom.take() {
            self.repeats = self.repeats.max(atom.repeats);
            self.size = self.size.saturating_add(atom.size);
        }
    }

    fn check_size(&self) -> Result<(), SyntaxError> {
        check_size(self.size.saturating_add(self.atom.map_or(0, |atom| atom.size)))
    }
}

fn check_size(size: u64) -> Result<(), SyntaxError> {
    let fits = size <= LARGEST - OF_EXPRESSION;
    if fits { Ok(()) } else { Err(error("expression too large", "")) }
}

/// A Unicode class that the crate knows.
#[derive(Clone, Copy, Debug)]
struct UnicodeClass {
    /// The property that has the name as a value: a general category or a script.
    property: &'static str,
    /// The approximate number of bytes of the compiled class.
    size: u64,
}

impl UnicodeClass {
    /// Returns the class of that name.
    fn named(name: &str) -> Option<Self> {
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
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

fn perl_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0c\r\x20]",
        'S' => r"[^\t\n\x0c\r\x20]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}

fn write_char(out: &mut String, it: u32) {
    match char::from_u32(it) {
        Some(it) if it.is_ascii_alphanumeric() => out.push(it),
        Some(_) => {
            let _ = write!(out, "\\x{{{it:x}}}");
        }
        // A surrogate never occurs in a `str`.
        None => out.push_str(NO_CHARACTER),
    }
}

/// A parsed `{2}`, `{2,}` or `{2,3}`: the lower bound, the upper bound if there is one, and the
/// rest of the text. A bound that is too large for a number is `None`. Any other brace is a
/// literal.
type Counts<'a> = (Option<u64>, Option<Option<u64>>, &'a str);

fn counts(text: &str) -> Option<Counts<'_>> {
    fn number(text: &str) -> Option<(Option<u64>, &str)> {
        let behind = text.trim_start_matches(|it: char| it.is_ascii_digit());
        let digits = &text[..text.len() - behind.len()];
        let plain = !digits.is_empty() && (digits.len() == 1 || !digits.starts_with('0'));
        plain.then(|| (digits.parse().ok().filter(|it| *it < 100_000_000), behind))
    }
    let (least, rest) = number(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, Some(least), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, None, rest));
    }
    let (most, rest) = number(rest)?;
    Some((least, Some(most), rest.strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::{Regex, RegexBuilder};

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
            (format!("[{}]", r"\p{L}".repeat(2_000)), false),
        ] {
            let refused = translate(&expression).map(|it| it.size).map_err(|it| it.to_string());
            match refused {
                Ok(size) => assert!(fits && size <= LARGEST, "{expression} takes {size}"),
                Err(why) => assert!(!fits && why.contains("expression too large"), "{expression}: {why}"),
            }
        }
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
        ] {
            let translated = translate(expression).unwrap_or_else(|it| panic!("{expression}: {it}"));
            let config = thompson::Config::new().which_captures(thompson::WhichCaptures::None);
            let nfa = thompson::Compiler::new().configure(config).build(&translated.expression);
            let states = nfa.expect("it is valid").memory_usage() as u64;
            let size = translated.size;
            assert!(
                (states..12 * states + OF_EXPRESSION).contains(&size),
                "{expression}: {size} for {states}"
            );
        }
    }

    /// Each class was parsed by the crate, and the size was only compared at the end.
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

    proptest! {
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
