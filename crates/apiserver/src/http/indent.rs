//! Indented JSON: one value per line, in the order of the input, produced piece by piece.
//!
//! A line is indented by its depth, so a response may be a hundred times as long as the stored
//! JSON: it is never in memory as a whole. The input is shared with the store.

use bytes::Buf;

use super::pieces::Pieces;

/// The number of bytes that are produced at a time in order to count them.
const COUNTED_AT_ONCE: usize = 16 * 1024;

/// Indents JSON that has no spaces between its tokens, by two spaces per level. The output for
/// invalid JSON is unspecified text.
#[derive(Clone, Debug)]
pub(super) struct Indenter {
    /// The input that has not been read yet.
    json: Pieces,
    state: State,
}

/// The position in the structure of the JSON, which may be split between any two bytes.
#[derive(Clone, Debug, Default)]
struct State {
    /// The number of open objects and lists that are not empty.
    level: usize,
    in_text: bool,
    /// True after a backslash in a text.
    escaped: bool,
    /// True after the first byte of an object or list: an empty one stays on its line.
    opened: bool,
}

impl Indenter {
    /// Returns the indenter of a document.
    pub(super) fn new(json: Pieces) -> Self {
        Self { json, state: State::default() }
    }

    /// Returns the next bytes: about `limit` (one line may exceed it), fewer at the end, and none
    /// after it.
    pub(super) fn next(&mut self, limit: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(limit.min(self.json.remaining()));
        while out.len() < limit && self.json.has_remaining() {
            let read = self.state.write(self.json.chunk(), &mut out, limit);
            self.json.advance(read);
        }
        out
    }

    /// Returns true if all bytes were returned.
    pub(super) fn is_done(&self) -> bool {
        !self.json.has_remaining()
    }

    /// Returns true if there are more than `limit` bytes left. Costs at most as much as the
    /// indentation of that many.
    pub(super) fn exceeds(&self, limit: usize) -> bool {
        // Indentation only adds bytes. What is cloned below is shorter than the limit.
        if self.json.remaining() > limit {
            return true;
        }
        let (mut rest, mut total) = (self.clone(), 0_usize);
        while total <= limit && !rest.is_done() {
            total = total.saturating_add(rest.next(limit.clamp(1, COUNTED_AT_ONCE)).len());
        }
        total > limit
    }
}

impl State {
    /// Writes the indented form of the first bytes of `json`, until `out` has `limit` bytes.
    /// Returns their number.
    fn write(&mut self, json: &[u8], out: &mut Vec<u8>, limit: usize) -> usize {
        let mut read = 0;
        while read < json.len() && out.len() < limit {
            if self.in_text {
                let budget = limit - out.len();
                read += self.write_text(&json[read..], out, budget);
            } else {
                self.write_token(json[read], out);
                read += 1;
            }
        }
        read
    }

    /// Writes a text up to its end, at most `budget` bytes. Returns their number.
    fn write_text(&mut self, json: &[u8], out: &mut Vec<u8>, budget: usize) -> usize {
        let mut length = 0;
        for byte in json.iter().take(budget) {
            length += 1;
            self.in_text = self.escaped || *byte != b'"';
            self.escaped = !self.escaped && *byte == b'\\';
            if !self.in_text {
                break;
            }
        }
        out.extend_from_slice(&json[..length]);
        length
    }

    /// Writes a byte outside texts.
    fn write_token(&mut self, byte: u8, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.opened) {
            if matches!(byte, b'}' | b']') {
                return out.push(byte);
            }
            self.level = self.level.saturating_add(1);
            self.new_line(out);
        }
        match byte {
            b'"' => {
                self.in_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                self.opened = true;
                out.push(byte);
            }
            b'}' | b']' => {
                self.level = self.level.saturating_sub(1);
                self.new_line(out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                self.new_line(out);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', self.level.saturating_mul(2)));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Indents JSON that is split after each of these numbers of bytes, with outputs of about
    /// `limit` bytes.
    fn indented(json: &str, splits: &[usize], limit: usize) -> String {
        let mut rest = Bytes::copy_from_slice(json.as_bytes());
        let mut pieces = Pieces::default();
        for split in splits {
            pieces.push(rest.split_to((*split).min(rest.len())));
        }
        pieces.push(rest);
        let (mut indenter, mut out) = (Indenter::new(pieces), Vec::new());
        while !indenter.is_done() {
            let written = indenter.next(limit);
            assert!(!written.is_empty() && written.len() < limit + 200, "{} bytes", written.len());
            out.extend(written);
        }
        assert!(indenter.next(limit).is_empty());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_output_does_not_depend_on_where_the_input_is_split() {
        for (json, expected) in [
            ("null", "null"),
            (r#""a b""#, r#""a b""#),
            ("{}", "{}"),
            ("[]", "[]"),
            ("[[]]", "[\n  []\n]"),
            ("[{},[]]", "[\n  {},\n  []\n]"),
            (r#"{"a":{},"b":[{}]}"#, "{\n  \"a\": {},\n  \"b\": [\n    {}\n  ]\n}"),
            (r#"["{[]},:"]"#, "[\n  \"{[]},:\"\n]"),
            (
                r#"["\"]","\\",{"\\\"}":"\u005d"}]"#,
                "[\n  \"\\\"]\",\n  \"\\\\\",\n  {\n    \"\\\\\\\"}\": \"\\u005d\"\n  }\n]",
            ),
            (
                r#"{"z":{"b":[],"a":{}},"c":[1,"x\",:{"],"d":null}"#,
                "{\n  \"z\": {\n    \"b\": [],\n    \"a\": {}\n  },\n  \"c\": [\n    1,\n    \"x\\\",:{\"\n  ],\n  \"d\": null\n}",
            ),
            ("{}\n", "{}\n"),
            ("[1]\n", "[\n  1\n]\n"),
            (r#"["é"]"#, "[\n  \"é\"\n]"),
        ] {
            assert_eq!(indented(json, &[], 1 << 20), expected);
            assert_eq!(indented(json, &vec![1; json.len()], 1), expected);
            for at in 0..json.len() {
                assert_eq!(indented(json, &[at], 3), expected, "split at {at}");
            }
        }
    }

    #[test]
    fn the_length_is_compared_without_producing_all_of_it() {
        let json = r#"{"a":[1,2,3]}"#;
        let length = indented(json, &[], 100).len();
        let indenter = Indenter::new(Pieces::from(json.as_bytes().to_vec()));
        for (limit, exceeds) in
            [(0, true), (1, true), (length - 1, true), (length, false), (length + 1, false)]
        {
            assert_eq!(indenter.exceeds(limit), exceeds, "{limit}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
            r#"[\[\]{}:,"\\]*"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(r#"[a-c\[{"\\]*"#, inner, 0..6)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_output_is_that_of_serde_json_for_every_split(
            value in any_json(),
            splits in proptest::collection::vec(0..20_usize, 0..30),
            limit in 1..100_usize,
        ) {
            let expected = serde_json::to_string_pretty(&value).expect("JSON");
            prop_assert_eq!(indented(&value.to_string(), &splits, limit), expected);
        }
    }

    #[test]
    fn the_order_of_the_input_is_kept() {
        let value = json!({ "b": 1 }).to_string();
        assert_eq!(
            indented(&format!(r#"{{"z":{value},"a":0}}"#), &[], 100),
            "{\n  \"z\": {\n    \"b\": 1\n  },\n  \"a\": 0\n}"
        );
    }
}
