//! The parser of classes of characters.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::error::{SyntaxError, error};
use super::known_classes::{POSIX, UnicodeClass, perl_class};
use super::reader::{NO_CHARACTER, Reader};
use super::size::{ALL, FOLDED_PER_BYTE, OF_CLASS, OF_OTHERS, OF_RANGE, check_size};

/// The number of ranges in a class, beyond which the others are in nested classes.
pub(super) const CLASS_RANGES: usize = 256;

impl<'a> Reader<'a> {
    /// Parses `\pL`, `\p{Greek}`, `\P{Lu}` or `\p{^Lu}`. Returns the class and its size.
    pub(super) fn unicode_class(&mut self, begin: &'a str) -> Result<(String, u64), SyntaxError> {
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
        let class = format!("\\{}{{{}={name}}}", if negated { 'P' } else { 'p' }, found.property);
        Ok((class, found.size))
    }

    /// Counts the work of adding the other cases of this number of code points.
    pub(super) fn fold(&mut self, width: u64) -> Result<(), SyntaxError> {
        // Once in a nested class, and once in the outer one.
        if self.folds { self.add_work(2 * width / FOLDED_PER_BYTE) } else { Ok(()) }
    }

    /// Parses a class in brackets. The opening bracket is consumed already.
    pub(super) fn class(&mut self, begin: &'a str) -> Result<(), SyntaxError> {
        let (mut size, mut ranges) = (OF_CLASS, 0);
        let mut is_first = true;
        // The crate sorts the whole class again for each of them, and a second one changes nothing.
        let mut named = HashSet::new();
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
                let own = if of == name { OF_RANGE } else { OF_OTHERS };
                size += self.named(format!("[:{name}:]"), own, of != name, &mut named)?;
                check_size(size)?;
                continue;
            }
            let perl = place.strip_prefix('\\').and_then(|it| it.chars().next());
            match perl {
                Some('p' | 'P') => {
                    self.next_char();
                    let (class, own) = self.unicode_class(place)?;
                    size += self.named(class, own, true, &mut named)?;
                }
                Some(it @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                    self.rest = &place[2..];
                    let is_wide = it.is_ascii_uppercase();
                    let own = if is_wide { OF_OTHERS } else { OF_RANGE };
                    size += self.named(perl_class(it).to_owned(), own, is_wide, &mut named)?;
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
                    let width = self.range(begin, place)?;
                    self.fold(width)?;
                    size += OF_RANGE;
                }
            }
            check_size(size)?;
        }
        self.next_char();
        self.out.push_str(if ranges > CLASS_RANGES { "]]" } else { "]" });
        self.atom(size)
    }

    /// Writes a class with a name inside of another one, unless it is there already. Returns the
    /// size that it adds.
    fn named(
        &mut self,
        class: String,
        size: u64,
        is_wide: bool,
        known: &mut HashSet<String>,
    ) -> Result<u64, SyntaxError> {
        if known.contains(&class) {
            return Ok(0);
        }
        if is_wide {
            self.fold(ALL)?;
        }
        self.out.push_str(&class);
        known.insert(class);
        Ok(size)
    }

    /// Parses a character of a class, or a range of characters. Returns their number.
    fn range(&mut self, class: &'a str, begin: &'a str) -> Result<u64, SyntaxError> {
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
        Ok(u64::from(high.abs_diff(low)).saturating_add(1))
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
