//! Collects one JSON value out of the chunks of a body, and holds no more than that value.
//!
//! A value that lies entirely inside a chunk is passed on in place; only one that spans several
//! chunks is copied. The list and the watch decoder feed it; it knows neither lists nor events.

use super::scan::{Mark, ScanResult, Scanner};

/// A complete value and the positions of its brackets and quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedValue<'a> {
    /// The text of the value; not yet known to be UTF-8.
    pub(crate) bytes: &'a [u8],
    /// One mark for each block of it; none for a number or a word.
    pub(crate) marks: &'a [Mark],
    /// The position of a control character inside a string, if there is one.
    pub(crate) control: Option<usize>,
}

/// The result of feeding a chunk.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// The chunk is consumed, and the value continues.
    More,
    /// The value is complete; this many bytes of the chunk belong to it.
    Done(ScannedValue<'a>, usize),
}

/// The error of a value that exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Collects one value after another; [`ValueBuffer::begin`] separates them.
#[derive(Debug)]
pub(crate) struct ValueBuffer {
    scanner: Scanner,
    /// The part of the value from earlier chunks. Invariant: never longer than `limit` plus one
    /// step.
    held: Vec<u8>,
    /// The maximal length of a value.
    limit: usize,
}

impl ValueBuffer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { scanner: Scanner::default(), held: Vec::new(), limit }
    }

    /// Starts a value that begins with this byte.
    pub(crate) fn begin(&mut self, first: u8) {
        // A single huge value must not keep its memory allocated for ever.
        const KEEP: usize = 1024 * 1024;
        self.held.clear();
        self.held.shrink_to(KEEP);
        self.scanner.begin(first);
    }

    /// Consumes the next bytes of the value, up to its end and no further.
    ///
    /// # Errors
    /// Returns an error if the value is longer than the limit, however it is split into chunks.
    pub(crate) fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Result<Progress<'a>, TooLarge> {
        if !self.held.is_empty() {
            return self.feed_held(chunk);
        }
        match self.scanner.scan(chunk) {
            ScanResult::End(end) if end <= self.limit => {
                let whole = ScannedValue {
                    bytes: &chunk[..end],
                    marks: self.scanner.marks(),
                    control: self.scanner.control(),
                };
                Ok(Progress::Done(whole, end))
            }
            ScanResult::More if chunk.len() <= self.limit => {
                self.held.extend_from_slice(chunk);
                Ok(Progress::More)
            }
            _ => Err(TooLarge),
        }
    }

    fn feed_held<'a>(&'a mut self, chunk: &'a [u8]) -> Result<Progress<'a>, TooLarge> {
        // In steps, because only bytes of the value should be copied and its end is not known in
        // advance.
        const STEP: usize = 4096;
        let before = self.held.len();
        for piece in chunk.chunks(STEP) {
            self.held.extend_from_slice(piece);
            if let ScanResult::End(end) = self.scanner.scan(&self.held) {
                if end > self.limit {
                    return Err(TooLarge);
                }
                let whole = ScannedValue {
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
        let mut buffer = ValueBuffer::new(limit);
        buffer.begin(chunks[0].as_bytes()[0]);
        for chunk in chunks {
            if let Progress::Done(whole, used) = buffer.feed(chunk.as_bytes())? {
                return Ok((String::from_utf8(whole.bytes.to_vec()).expect("cut at a character"), used));
            }
        }
        Ok((String::new(), 0))
    }

    #[test]
    fn a_value_is_the_same_however_it_is_split() {
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
    fn a_number_that_ends_with_its_chunk_is_complete_at_the_next_byte() {
        assert_eq!(gather(&["12", ","], 100), Ok(("12".to_owned(), 0)));
    }

    #[test]
    fn the_limit_applies_to_whole_and_to_split_values() {
        for chunks in [&[r#"{"a":1}"#][..], &[r#"{"a"#, r#"":1}"#], &[r#"{"a":1"#, "}"]] {
            assert_eq!(gather(chunks, 6), Err(TooLarge), "{chunks:?}");
            assert_eq!(gather(chunks, 7).map(|it| it.0), Ok(r#"{"a":1}"#.to_owned()), "{chunks:?}");
        }
    }

    #[test]
    fn an_endless_value_is_rejected_before_it_is_buffered() {
        let mut buffer = ValueBuffer::new(10_000);
        buffer.begin(b'[');
        let chunk = [b'['; 8192];
        assert!(matches!(buffer.feed(&chunk), Ok(Progress::More)));
        assert!(buffer.feed(&chunk).is_err());
        assert!(buffer.held.capacity() < 32 * 1024);
    }
}
