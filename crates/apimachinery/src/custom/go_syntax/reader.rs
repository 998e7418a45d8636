//! The parser: groups, repetitions and escapes.

use std::fmt::Write as _;

use super::error::{SyntaxError, error};
use super::known_classes::perl_class;
use super::size::{
    ALL, Atom, Group, OF_CLASS, OF_LITERAL, OF_OTHERS, OF_REPETITION, SORTED_PER_BYTE, check_size,
};

/// The largest number of repetitions, nested ones multiplied, as in Go.
const MOST_REPEATS: u64 = 1000;
/// The depth to which groups may nest. The compiler recurses, and 200 overflowed a thread stack of
/// 2 MiB.
const DEEPEST: usize = 50;
/// A class that matches nothing, not even when case is ignored.
pub(super) const NO_CHARACTER: &str = "[a&&b]";

pub(super) struct Reader<'a> {
    pub(super) whole: &'a str,
    pub(super) rest: &'a str,
    pub(super) out: String,
    /// The open groups; the whole expression is the first.
    pub(super) open: Vec<Group>,
    /// True if a flag `i` was parsed. Cases are then added to every class, one code point at a
    /// time.
    pub(super) folds: bool,
    /// The work that takes longer than the result is large, as a number of bytes that take as long.
    pub(super) work: u64,
    /// The position of the last `:]`, which ends the name of a class. Without it, each `[:` that no
    /// name follows would search the whole rest.
    pub(super) last_name_end: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Parses one token.
    pub(super) fn step(&mut self) -> Result<(), SyntaxError> {
        let begin = self.rest;
        match self.next_char() {
            '(' if begin.starts_with("(?") => self.special_group(begin)?,
            '(' => self.open_group("(?:")?,
            ')' => self.close_group()?,
            '|' => {
                self.out.push('|');
                let group = self.group();
                group.settle();
                group.has_sequences |= std::mem::take(&mut group.atoms) != 1;
                // Alternatives that are single characters become one class, and so do those that
                // are classes after the crate has removed what is empty and what all begin with.
                let are_words = group.has_sequences && !group.has_others;
                let sorted = if are_words { 0 } else { group.size / SORTED_PER_BYTE };
                // An alternative takes a transition even if it is empty.
                group.size = group.size.saturating_add(OF_LITERAL);
                group.check_size()?;
                self.add_work(sorted)?;
            }
            it @ ('^' | '$' | '.') => {
                self.out.push(it);
                self.atom(if it == '.' { OF_OTHERS } else { OF_LITERAL })?;
            }
            '[' => self.class(begin)?,
            '*' | '+' | '?' => self.repeat(begin, None)?,
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
                    // A repetition without an upper bound multiplies by the lower one, if that is
                    // not 0.
                    self.repeat(begin, Some(most.flatten().unwrap_or(least.max(1))))?;
                }
            },
            '\\' => self.escaped(begin)?,
            it => self.literal(it)?,
        }
        Ok(())
    }

    /// Returns the text that was parsed since `begin`.
    pub(super) fn since(&self, begin: &'a str) -> &'a str {
        &begin[..begin.len() - self.rest.len()]
    }

    /// Consumes the next character, which must exist.
    pub(super) fn next_char(&mut self) -> char {
        let mut all = self.rest.chars();
        let next = all.next().unwrap_or_default();
        self.rest = all.as_str();
        next
    }

    pub(super) fn group(&mut self) -> &mut Group {
        self.open.last_mut().expect("the whole expression is never closed")
    }

    pub(super) fn atom(&mut self, size: u64) -> Result<(), SyntaxError> {
        self.add(Atom { repeats: 1, size, is_group: false, repeated_at: None })
    }

    /// Adds an atom to the open group. Fails as soon as the group is too large, since the rest of
    /// the expression may be long.
    fn add(&mut self, atom: Atom) -> Result<(), SyntaxError> {
        let group = self.group();
        group.settle();
        group.atoms = group.atoms.saturating_add(1);
        group.has_others = true;
        group.atom = Some(atom);
        group.check_size()
    }

    fn literal(&mut self, it: char) -> Result<(), SyntaxError> {
        write_char(&mut self.out, u32::from(it));
        let had_others = self.group().has_others;
        self.atom(OF_LITERAL)?;
        self.group().has_others = had_others;
        Ok(())
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
        let size = closed.size.max(OF_LITERAL);
        self.add(Atom { repeats: closed.repeats.max(1), size, is_group: true, repeated_at: None })
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
                    self.folds |= it == 'i';
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
                        let group = self.group();
                        group.settle();
                        group.size = group.size.saturating_add(OF_LITERAL);
                        group.check_size()?;
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(error("invalid or unsupported Perl syntax", self.since(begin)))
    }

    /// Parses a repetition of the last atom; `most` is its upper bound, if it has one.
    fn repeat(&mut self, begin: &'a str, most: Option<u64>) -> Result<(), SyntaxError> {
        if self.rest.starts_with('?') {
            self.next_char();
        }
        let (text, at) = (self.since(begin), self.whole.len() - begin.len());
        let Some(atom) = &mut self.group().atom else {
            return Err(error("missing argument to repetition operator", text));
        };
        // Go accepts two operators with an empty `\Q\E` or `(?)` between them. Each would be one
        // level of nesting without a group, so that is rejected.
        if let Some(first) = atom.repeated_at {
            let both = &self.whole[first..self.whole.len() - self.rest.len()];
            return Err(error("invalid nested repetition operator", both));
        }
        atom.repeated_at = Some(at);
        if atom.is_group {
            atom.size = atom.size.saturating_add(OF_REPETITION);
        }
        if let Some(most) = most {
            // A repetition of at most 0 or 1 does not multiply.
            atom.repeats = if most == 0 { 1 } else { atom.repeats.saturating_mul(most) };
            atom.size = atom.size.saturating_mul(most.max(1));
            if most >= 2 && atom.repeats > MOST_REPEATS {
                return Err(error("invalid repeat count", text));
            }
        }
        self.group().check_size()?;
        self.group().has_others = true;
        self.out.push_str(text);
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
                let (class, size) = self.unicode_class(begin)?;
                self.fold(ALL)?;
                self.out.push_str(&class);
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
    pub(super) fn escaped_char(&mut self, begin: &'a str) -> Result<u32, SyntaxError> {
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

    pub(super) fn add_work(&mut self, work: u64) -> Result<(), SyntaxError> {
        self.work = self.work.saturating_add(work);
        check_size(self.work)
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
