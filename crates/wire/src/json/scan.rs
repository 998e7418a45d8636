//! Finds the end of one JSON value, in any chunks, and records its brackets and quotes.
//!
//! ```text
//! bytes ──64 at a time──► Classes ──escapes, strings──► Mark ──► the end, and a map to skip by
//! ```
//!
//! The scanner examines each byte once, and records the result as one [`Mark`] per block, so that
//! the reader finds the end of a string or of a whole object by examining bits instead of bytes. It
//! counts brackets without checking which kind closes which, or what is between them: the reader
//! checks what it reads.

use fearless_simd::{Level, Simd, dispatch};

use super::block::{BLOCK, classify};

/// The marks of one block of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Quotes that start or end a string.
    pub(crate) quote: u64,
    /// Backslashes, inside strings or not.
    pub(crate) backslash: u64,
    /// Opening brackets outside strings, except those that the next byte closes.
    pub(crate) open: u64,
    /// Closing brackets outside strings, except those that close the previous byte.
    pub(crate) close: u64,
    /// The number of open brackets at the start of the block.
    pub(crate) depth: u32,
    /// A lower bound of the number of open brackets at any point of the block.
    pub(crate) floor: u32,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanResult {
    /// The value is complete and this many bytes long.
    End(usize),
    /// All given bytes belong to the value, and more are needed.
    More,
}

/// Scans one value after another; [`Scanner::begin`] separates them.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// One mark for each scanned block; the last block may be only partly filled by the value.
    marks: Vec<Mark>,
    shape: Shape,
    /// The number of scanned bytes. For containers and strings, a multiple of the block size until
    /// the end is found.
    scanned: usize,
    carry: Carry,
    /// The position of the first control character inside a string, which JSON forbids.
    control: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    /// An object or an array.
    #[default]
    Container,
    String,
    /// A number, `true`, `false`, `null`, or something that is not JSON.
    Scalar,
}

/// The state that one block passes to the next.
#[derive(Clone, Copy, Debug)]
struct Carry {
    /// All ones inside a string, otherwise zero.
    in_string: u64,
    /// One if the next byte is escaped, otherwise zero.
    escape: u64,
    depth: u32,
    /// All ones, except for the bit of the bracket that starts the value, in the first block.
    later: u64,
}

impl Scanner {
    /// Discards the last value and starts one that begins with this byte.
    pub(crate) fn begin(&mut self, first: u8) {
        // A single huge value must not keep its memory allocated for ever.
        const KEEP: usize = 16 * 1024;
        self.marks.clear();
        self.marks.shrink_to(KEEP);
        let shape = match first {
            b'{' | b'[' => Shape::Container,
            b'"' => Shape::String,
            _ => Shape::Scalar,
        };
        *self = Self { marks: std::mem::take(&mut self.marks), shape, ..Self::default() };
    }

    /// Looks for the end of the value, of which `value` is everything so far.
    ///
    /// Every call must repeat the bytes of the earlier calls since [`Self::begin`], and may append
    /// to them.
    pub(crate) fn scan(&mut self, value: &[u8]) -> ScanResult {
        match self.shape {
            Shape::Container => {
                dispatch!(Level::new(), simd => self.scan_blocks(simd, value, Mark::end_of_container))
            }
            Shape::String => {
                dispatch!(Level::new(), simd => self.scan_blocks(simd, value, Mark::end_of_string))
            }
            Shape::Scalar => self.scan_scalar(value),
        }
    }

    /// Returns the marks of the blocks of the value.
    pub(crate) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Returns the marks, and ends the scanner.
    pub(crate) fn into_marks(self) -> Vec<Mark> {
        self.marks
    }

    /// Returns the position of a control character inside a string, if there is one.
    pub(crate) fn control(&self) -> Option<usize> {
        self.control
    }

    /// `inline(always)`, like everything it calls for every block, so that it is compiled for the
    /// processor that was dispatched on.
    #[inline(always)]
    fn scan_blocks<S: Simd>(
        &mut self,
        simd: S,
        value: &[u8],
        end: impl Fn(&Mark, u64) -> Option<usize>,
    ) -> ScanResult {
        let (blocks, rest) = value[self.scanned..].as_chunks::<BLOCK>();
        self.marks.reserve(blocks.len() + 1);
        // In a local variable, so that it is kept in registers.
        let mut carry = self.carry;
        for block in blocks {
            let later = carry.later;
            let (mark, controls) = carry.step(simd, block);
            self.marks.push(mark);
            let end = end(&mark, later);
            if controls != 0 {
                self.note_control(controls, end);
            }
            if let Some(end) = end {
                return ScanResult::End(self.scanned + end + 1);
            }
            self.scanned += BLOCK;
        }
        self.carry = carry;
        if rest.is_empty() {
            return ScanResult::More;
        }
        // The value may end in a block that is not full. If it does not, the block is scanned again
        // later.
        let mut padded = [b' '; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        let (mark, controls) = carry.step(simd, &padded);
        match end(&mark, self.carry.later) {
            Some(end) => {
                self.marks.push(mark);
                self.note_control(controls, Some(end));
                ScanResult::End(self.scanned + end + 1)
            }
            None => ScanResult::More,
        }
    }

    fn scan_scalar(&mut self, value: &[u8]) -> ScanResult {
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r');
        match value[self.scanned..].iter().position(ends) {
            Some(at) => ScanResult::End(self.scanned + at),
            None => {
                self.scanned = value.len();
                ScanResult::More
            }
        }
    }

    /// Records the first control character of the value; those after its end are ignored.
    #[cold]
    fn note_control(&mut self, controls: u64, end: Option<usize>) {
        let controls = end.map_or(controls, |end| controls & ((1 << end) - 1));
        if controls != 0 && self.control.is_none() {
            self.control = Some(self.scanned + controls.trailing_zeros() as usize);
        }
    }
}

impl Default for Carry {
    fn default() -> Self {
        Self { in_string: 0, escape: 0, depth: 0, later: !1 }
    }
}

impl Carry {
    /// Computes the marks of one block, and the control characters inside its strings.
    #[inline(always)]
    fn step<S: Simd>(&mut self, simd: S, bytes: &[u8; BLOCK]) -> (Mark, u64) {
        let classes = classify(simd, bytes);
        let escaped = self.escaped(classes.backslash);
        let quote = classes.quote & !escaped;
        let strings = self.in_string ^ runs(quote);
        self.in_string = ((strings as i64) >> 63) as u64;
        let (open, close) = (classes.open & !strings, classes.close & !strings);
        // Half the brackets of a typical object are `{}`. They change no depth, and without them
        // the floor of most blocks is well above the depth that a reader skips to. Only the one
        // that starts the value must stay.
        let pairs = open & (close >> 1) & self.later;
        let (open, close) = (open & !pairs, close & !(pairs << 1));
        let closes = close.count_ones();
        let floor = self.depth.saturating_sub(closes);
        let mark = Mark { quote, backslash: classes.backslash, open, close, depth: self.depth, floor };
        self.depth = (self.depth + open.count_ones()).saturating_sub(closes);
        self.later = !0;
        (mark, classes.control & strings)
    }

    /// Returns the characters that a backslash escapes.
    ///
    /// The algorithm is simdjson's: a run of backslashes escapes the next character if its length
    /// is odd, and adding the starts of the runs to the runs themselves distinguishes odd ends from
    /// even ones, for all runs at once.
    #[inline(always)]
    fn escaped(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let carried = std::mem::take(&mut self.escape);
        if backslash == 0 {
            return carried;
        }
        let backslash = backslash & !carried;
        let follows = backslash << 1 | carried;
        let odd_starts = backslash & !EVEN & !follows;
        let (even_runs, overflow) = odd_starts.overflowing_add(backslash);
        self.escape = u64::from(overflow);
        (EVEN ^ (even_runs << 1)) & follows
    }
}

impl Mark {
    /// Returns the bit of the bracket that closes the whole value.
    #[inline(always)]
    fn end_of_container(&self, _later: u64) -> Option<usize> {
        if self.floor > 0 {
            return None;
        }
        last_bracket(self.open, self.close, self.depth, 0)
    }

    /// Returns the bit of the quote that ends the value, which is not the one that starts it.
    #[inline(always)]
    fn end_of_string(&self, later: u64) -> Option<usize> {
        let quote = self.quote & later;
        (quote != 0).then(|| quote.trailing_zeros() as usize)
    }
}

/// Returns the first closing bracket that leaves at most `target` brackets open.
#[inline]
pub(crate) fn last_bracket(open: u64, close: u64, mut depth: u32, target: u32) -> Option<usize> {
    let mut bits = open | close;
    while bits != 0 {
        let lowest = bits & bits.wrapping_neg();
        if close & lowest == 0 {
            depth += 1;
        } else {
            depth = depth.saturating_sub(1);
            if depth <= target {
                return Some(lowest.trailing_zeros() as usize);
            }
        }
        bits ^= lowest;
    }
    None
}

/// Sets every bit from each odd set bit (counted from the lowest) up to, but not including, the
/// next set bit.
#[inline(always)]
fn runs(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end_of(value: &[u8]) -> ScanResult {
        let mut scanner = Scanner::default();
        scanner.begin(value[0]);
        scanner.scan(value)
    }

    #[test]
    fn a_value_ends_at_its_last_bracket_or_quote() {
        for (text, end) in [
            ("{}", Some(2)),
            ("[]", Some(2)),
            ("{},{}", Some(2)),
            (r#"{"a":{}}]"#, Some(8)),
            (r#"{"}":"{"} "#, Some(9)),
            (r#"{"a\"}":1}"#, Some(10)),
            (r#"{"a\\":1}"#, Some(9)),
            (r#""abc","#, Some(5)),
            (r#""a\"c","#, Some(6)),
            (r#""""#, Some(2)),
            ("12,", Some(2)),
            ("null]", Some(4)),
            ("{", None),
            (r#"{"a":"}"#, None),
            (r#""abc\""#, None),
            ("12", None),
        ] {
            assert_eq!(end_of(text.as_bytes()), end.map_or(ScanResult::More, ScanResult::End), "{text}");
        }
    }

    #[test]
    fn a_control_character_counts_only_inside_a_string_of_the_value() {
        for (text, control) in
            [("{\n}", None), ("{\"a\nb\":1}", Some(3)), ("{}\"\n\"", None), ("{\"\u{1f}\":\"\n\"}", Some(2))]
        {
            let mut scanner = Scanner::default();
            scanner.begin(b'{');
            assert!(matches!(scanner.scan(text.as_bytes()), ScanResult::End(_)), "{text:?}");
            assert_eq!(scanner.control(), control, "{text:?}");
        }
    }

    #[test]
    fn the_memory_of_a_huge_value_is_released() {
        let mut scanner = Scanner::default();
        scanner.begin(b'[');
        assert_eq!(scanner.scan(&vec![b'['; 4 << 20]), ScanResult::More);
        scanner.begin(b'{');
        assert!(scanner.marks.capacity() <= 16 * 1024);
    }

    /// Finds the end one byte at a time, as a reference.
    fn plain_end(value: &[u8]) -> ScanResult {
        let (mut depth, mut in_string, mut escape) = (0, false, false);
        for (at, byte) in value.iter().enumerate() {
            let escaped = std::mem::take(&mut escape);
            match byte {
                b'\\' => escape = !escaped,
                b'"' if !escaped => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 && !in_string {
                return ScanResult::End(at + 1);
            }
        }
        ScanResult::More
    }

    proptest! {
        #[test]
        fn any_chunks_give_the_end_that_a_plain_loop_finds(
            picks in proptest::collection::vec(0usize..8, 0..400),
            cuts in proptest::collection::vec(0usize..400, 0..6),
        ) {
            let mut value = vec![b'{'];
            value.extend(picks.into_iter().map(|pick| b"\"\\{}[]ab"[pick]));
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(value.len())).collect();
            cuts.push(value.len());
            cuts.sort_unstable();
            let mut scanner = Scanner::default();
            scanner.begin(b'{');
            let found = cuts.into_iter().map(|cut| scanner.scan(&value[..cut])).find(|it| *it != ScanResult::More);
            prop_assert_eq!(found.unwrap_or(ScanResult::More), plain_end(&value));
        }
    }
}
