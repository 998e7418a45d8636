//! The events in the body of a watch, without decoding them: an event is a line, and the value of
//! one annotation near its beginning is the time of the change.
//!
//! Pods have 13 KB, so that most of the work is the search for the ends of lines.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::server_pods::TOUCHED;

/// The part of an event that is searched for the annotation, in bytes. Annotations come before the
/// managed fields, and those of the sample take less.
const HEAD: usize = 4 * 1024;

/// Finds the beginning of the annotation's value. In managed fields the name has a prefix.
static ANNOTATION: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(format!("\"{TOUCHED}\":\"").as_bytes()).into_owned());

/// One line of a watch.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A change, and the value of the annotation.
    Change(u64),
    /// Anything else, such as an error of the server: its beginning.
    Other(&'a [u8]),
}

/// Finds the lines of one watch in the chunks of its body.
#[derive(Debug, Default)]
pub(super) struct WatchEvents {
    /// The beginning of the line that is not complete yet.
    head: Vec<u8>,
}

impl WatchEvents {
    /// Reads a chunk, and calls `take` for each line that ends in it.
    pub(super) fn feed(&mut self, mut chunk: &[u8], mut take: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (rest, next) = (&chunk[..end], &chunk[end + 1..]);
            if self.head.is_empty() {
                take(line(&rest[..rest.len().min(HEAD)]));
            } else {
                self.keep(rest);
                take(line(&self.head));
                self.head.clear();
            }
            chunk = next;
        }
        self.keep(chunk);
    }

    fn keep(&mut self, part: &[u8]) {
        let free = HEAD - self.head.len();
        self.head.extend_from_slice(&part[..part.len().min(free)]);
    }
}

fn line(head: &[u8]) -> Line<'_> {
    let value = ANNOTATION.find(head).and_then(|at| {
        let value = &head[at + ANNOTATION.needle().len()..];
        std::str::from_utf8(&value[..memchr(b'"', value)?]).ok()?.parse().ok()
    });
    value.map_or(Line::Other(head), Line::Change)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "{\"object\":{\"metadata\":{\"annotations\":{\"a\":\"b\",\"touched\":\"17\"},\
        \"managedFields\":[{\"f:touched\":{}}]}}}\n{\"type\":\"ERROR\"}\n{\"metadata\":{\"annotations\":{\"touched\":\"18\"}}}\n";

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut events, mut lines) = (WatchEvents::default(), Vec::new());
        for chunk in chunks {
            events.feed(chunk, |it| {
                lines.push(match it {
                    Line::Change(value) => value.to_string(),
                    Line::Other(text) => String::from_utf8_lossy(text).into_owned(),
                });
            });
        }
        lines
    }

    #[test]
    fn events_are_found_however_the_body_is_divided() {
        let expected = ["17", "{\"type\":\"ERROR\"}", "18"];
        assert_eq!(lines(&[BODY.as_bytes()]), expected);
        for at in 0..BODY.len() {
            let (first, second) = BODY.as_bytes().split_at(at);
            assert_eq!(lines(&[first, second]), expected, "divided at {at}");
        }
        assert_eq!(lines(&BODY.as_bytes().chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn the_annotation_is_searched_in_the_beginning_of_an_event_only() {
        let long = format!("{}{BODY}", "x".repeat(HEAD));
        assert!(lines(&[long.as_bytes()])[0].starts_with("xxx"));
        assert_eq!(lines(&long.as_bytes().chunks(1000).collect::<Vec<_>>())[0].len(), HEAD);
        assert_eq!(lines(&[long.as_bytes()])[1..], ["{\"type\":\"ERROR\"}", "18"]);
    }

    #[test]
    fn an_incomplete_event_is_not_reported() {
        assert_eq!(lines(&[&BODY.as_bytes()[..BODY.len() - 1]]).len(), 2);
    }
}
