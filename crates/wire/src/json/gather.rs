//! Collects one JSON value out of the chunks of a body, and holds no more than that value.
//!
//! A value that lies whole inside a chunk is handed on where it is; only one that is torn by the end of a chunk is
//! copied. The list and the watch decoder feed it; it knows neither lists nor events.

use super::scan::{Found, Mark, Scanner};

/// A whole value and the map of its brackets and quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<'a> {
    /// The text of the value; not yet known to be UTF-8.
    pub(super) bytes: &'a [u8],
    /// One for each block of it; none for a number or a word.
    pub(super) marks: &'a [Mark],
    /// Where a control character stands inside a string, if one does.
    pub(super) control: Option<usize>,
}

/// How far a chunk has brought the value.
#[derive(Debug)]
pub(super) enum Progress<'a> {
    /// The chunk is used up, and the value goes on.
    More,
    /// The value is whole; this many bytes of the chunk belonged to it.
    Done(Whole<'a>, usize),
}

/// The value is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Collects one value after another; [`Gather::begin`] stands between them.
#[derive(Debug)]
pub(super) struct Gather {
    scanner: Scanner,
    /// What earlier chunks brought of the value. Invariant: never longer than `limit` and one step.
    held: Vec<u8>,
    /// How long a value may be.
    limit: usize,
}

impl Gather {
    pub(super) fn new(limit: usize) -> Self {
        Self { scanner: Scanner::default(), held: Vec::new(), limit }
    }

    /// Expects a value that begins with this byte.
    pub(super) fn begin(&mut self, first: u8) {
        // A single huge value must not hold its memory for ever.
        const KEEP: usize = 1024 * 1024;
        self.held.clear();
        self.held.shrink_to(KEEP);
        self.scanner.begin(first);
    }

    /// Takes the next bytes of the value, up to its end and no further.
    ///
    /// # Errors
    /// When the value is longer than the limit, however it is cut into chunks.
    pub(super) fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Result<Progress<'a>, TooLarge> {
        if !self.held.is_empty() {
            return self.feed_held(chunk);
        }
        match self.scanner.scan(chunk) {
            Found::End(end) if end <= self.limit => {
                let whole = Whole {
                    bytes: &chunk[..end],
                    marks: self.scanner.marks(),
                    control: self.scanner.control(),
                };
                Ok(Progress::Done(whole, end))
            }
            Found::More if chunk.len() <= self.limit => {
                self.held.extend_from_slice(chunk);
                Ok(Progress::More)
            }
            _ => Err(TooLarge),
        }
    }

    fn feed_held<'a>(&'a mut self, chunk: &'a [u8]) -> Result<Progress<'a>, TooLarge> {
        // Only what belongs to the value is worth copying, and its end is not known beforehand.
        const STEP: usize = 4096;
        let before = self.held.len();
        for piece in chunk.chunks(STEP) {
            self.held.extend_from_slice(piece);
            if let Found::End(end) = self.scanner.scan(&self.held) {
                if end > self.limit {
                    return Err(TooLarge);
                }
                let whole = Whole {
                    bytes: &self.held[..end],
                    marks: self.scanner.marks(),
                    control: self.scanner.control(),
                };
                return Ok(Progress::Done(whole, end - before));
            }
            if self.held.len() > self.limit {
                return Err(TooLarge);
            }
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(chunks: &[&str], limit: usize) -> Result<(String, usize), TooLarge> {
        let mut gather = Gather::new(limit);
        gather.begin(chunks[0].as_bytes()[0]);
        for chunk in chunks {
            if let Progress::Done(whole, used) = gather.feed(chunk.as_bytes())? {
                return Ok((String::from_utf8(whole.bytes.to_vec()).expect("cut at a character"), used));
            }
        }
        Ok((String::new(), 0))
    }

    #[test]
    fn a_value_is_the_same_however_it_is_cut() {
        for (chunks, value, used) in [
            (&[r#"{"a":1},"#][..], r#"{"a":1}"#, 7),
            (&[r#"{"a"#, r#"":1},{"#], r#"{"a":1}"#, 4),
            (&["1", "2", "3,"], "123", 1),
            (&[r#""a\"#, r#""b" "#], r#""a\"b""#, 3),
        ] {
            assert_eq!(gather(chunks, 100), Ok((value.to_owned(), used)), "{chunks:?}");
        }
    }

    #[test]
    fn a_number_that_ends_with_its_chunk_is_whole_at_the_next_byte() {
        assert_eq!(gather(&["12", ","], 100), Ok(("12".to_owned(), 0)));
    }

    #[test]
    fn the_limit_holds_for_whole_and_for_torn_values() {
        for chunks in [&[r#"{"a":1}"#][..], &[r#"{"a"#, r#"":1}"#], &[r#"{"a":1"#, "}"]] {
            assert_eq!(gather(chunks, 6), Err(TooLarge), "{chunks:?}");
            assert_eq!(gather(chunks, 7).map(|it| it.0), Ok(r#"{"a":1}"#.to_owned()), "{chunks:?}");
        }
    }

    #[test]
    fn an_endless_value_is_refused_before_it_is_held() {
        let mut gather = Gather::new(10_000);
        gather.begin(b'[');
        let chunk = [b'['; 8192];
        assert!(matches!(gather.feed(&chunk), Ok(Progress::More)));
        assert!(gather.feed(&chunk).is_err());
        assert!(gather.held.capacity() < 32 * 1024);
    }
}
