//! A YAML writer with the format of sigs.k8s.io/yaml v1.6.0, which kube-apiserver uses: sorted
//! keys, lists indented as far as their key, quotes where a plain scalar would be read as another
//! type, and folded long lines.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;

use super::pieces::Pieces;

/// The width after which a line is folded at the next space: go-yaml's default (`best_width` in its
/// emitterc.go).
const WIDTH: usize = 80;

/// The error of a document that would be longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The YAML that was written so far.
struct Output {
    text: String,
    limit: usize,
}

/// Writes a value as YAML, with a final line break.
///
/// # Errors
/// Fails when more than `limit` bytes have been written: each line is indented by its depth, so the
/// output may be a hundred times as long as JSON.
pub(super) fn to_yaml(value: &Value, limit: usize) -> Result<String, TooLong> {
    let mut out = Output { text: String::new(), limit };
    out.node(value, 0, false)?;
    let mut text = out.text;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Returns JSON as YAML in flow style, in which only the characters that YAML does not allow are
/// escaped. Each piece must have whole strings.
pub(super) fn flow_style(json: Pieces) -> Pieces {
    let is_escaped =
        |it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}');
    let escaped = |piece: Bytes| {
        let Ok(text) = std::str::from_utf8(&piece) else { return piece };
        if !text.contains(is_escaped) {
            return piece;
        }
        let mut out = String::with_capacity(text.len());
        for it in text.chars() {
            if is_escaped(it) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(it));
            } else {
                out.push(it);
            }
        }
        out.into()
    };
    json.into_iter().map(escaped).collect()
}

impl Output {
    /// Writes a value; `inline` if its first line continues the line of a list item.
    fn node(&mut self, value: &Value, level: usize, inline: bool) -> Result<(), TooLong> {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (at, (key, field)) in fields.iter().enumerate() {
                    if at > 0 || !inline {
                        indent(&mut self.text, level);
                    }
                    key_of(&mut self.text, key);
                    self.text.push(':');
                    match field {
                        Value::Object(inner) if !inner.is_empty() => {
                            self.text.push('\n');
                            self.node(field, level + 1, false)?;
                        }
                        Value::Array(items) if !items.is_empty() => {
                            self.text.push('\n');
                            self.node(field, level, false)?;
                        }
                        plain => {
                            self.text.push(' ');
                            self.node(plain, level, true)?;
                        }
                    }
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    if at > 0 || !inline {
                        indent(&mut self.text, level);
                    }
                    self.text.push_str("- ");
                    match item {
                        // The further lines of a string are indented one level more than the dash.
                        Value::String(_) => self.node(item, level, true)?,
                        item => self.node(item, level + 1, true)?,
                    }
                }
            }
            Value::Object(_) => self.text.push_str("{}\n"),
            Value::Array(_) => self.text.push_str("[]\n"),
            Value::String(text) => {
                self.scalar(text, level)?;
                self.text.push('\n');
            }
            other => {
                // Writing to a string does not fail.
                let _ = writeln!(self.text, "{other}");
            }
        }
        self.check()
    }

    /// Writes a string; further lines are indented one more level.
    fn scalar(&mut self, text: &str, level: usize) -> Result<(), TooLong> {
        let printable = text.chars().all(|it| is_printable(it) || it == '\n');
        if text.contains('\n') && printable && can_be_block(text) {
            return self.block(text, level);
        }
        self.line(text, level)
    }

    /// Writes a string as a literal block.
    fn block(&mut self, text: &str, level: usize) -> Result<(), TooLong> {
        let (body, sign) = match text.strip_suffix('\n') {
            None => (text, "-"),
            Some(body) if !body.ends_with('\n') => (body, ""),
            Some(body) => (body, "+"),
        };
        self.text.push('|');
        self.text.push_str(sign);
        for line in body.split('\n') {
            self.text.push('\n');
            if !line.is_empty() {
                indent(&mut self.text, level + 1);
                self.text.push_str(line);
            }
            self.check()?;
        }
        Ok(())
    }

    /// Writes a string that is folded if it is long; further lines are indented one more level.
    fn line(&mut self, text: &str, level: usize) -> Result<(), TooLong> {
        let quotes = Quotes::of(text);
        let mark = quotes.mark();
        let mut column = self.text.rsplit('\n').next().unwrap_or_default().chars().count() + mark.len();
        self.text.push_str(mark);
        let mut rest = text.chars().peekable();
        let (mut inner, mut blank_before) = (false, false);
        while let Some(it) = rest.next() {
            let blank_behind = rest.peek() == Some(&' ');
            let may = match quotes {
                Quotes::None => !blank_behind,
                Quotes::Single => !blank_behind && inner && rest.peek().is_some(),
                Quotes::Double => inner && rest.peek().is_some(),
            };
            let mut begun = self.text.len();
            if it == ' ' && may && !blank_before && column > WIDTH {
                // From 40 levels on, each space begins a line.
                self.check()?;
                self.text.push('\n');
                (begun, column) = (self.text.len(), 0);
                indent(&mut self.text, level + 1);
                self.text.push_str(if blank_behind { "\\" } else { "" });
            } else {
                quotes.write(&mut self.text, it);
            }
            column += self.text[begun..].chars().count();
            (inner, blank_before) = (true, it == ' ');
        }
        self.text.push_str(mark);
        Ok(())
    }

    fn check(&self) -> Result<(), TooLong> {
        if self.text.len() > self.limit { Err(TooLong) } else { Ok(()) }
    }
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// The quoting style of a string on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

impl Quotes {
    /// Returns the simplest style in which a string is read back as the same string.
    fn of(text: &str) -> Self {
        let printable = text.chars().all(is_printable);
        match text {
            _ if !printable || is_taken(text) => Self::Double,
            text if can_be_plain(text) => Self::None,
            _ => Self::Single,
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Single => "'",
            Self::Double => "\"",
        }
    }

    fn write(self, out: &mut String, it: char) {
        match (self, it) {
            (Self::Single, '\'') => out.push_str("''"),
            (Self::Double, it) => escape(out, it),
            _ => out.push(it),
        }
    }
}

/// Writes a key, which is never folded.
fn key_of(out: &mut String, text: &str) {
    let quotes = Quotes::of(text);
    out.push_str(quotes.mark());
    text.chars().for_each(|it| quotes.write(out, it));
    out.push_str(quotes.mark());
}

fn can_be_block(text: &str) -> bool {
    !text.starts_with([' ', '\n']) && !text.split('\n').any(|line| line.ends_with(' '))
}

/// Writes a character between double quotes.
fn escape(out: &mut String, it: char) {
    let short = match it {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => it,
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        it if is_printable(it) => return out.push(it),
        it => {
            // Writing to a string does not fail.
            let _ = match u32::from(it) {
                code @ ..=0xff => write!(out, "\\x{code:02X}"),
                code @ ..=0xffff => write!(out, "\\u{code:04X}"),
                code => write!(out, "\\U{code:08X}"),
            };
            return;
        }
    };
    out.extend(['\\', short]);
}

/// Returns true if go-yaml writes a character unescaped on one line.
fn is_printable(it: char) -> bool {
    !it.is_control() && !matches!(it, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..)
}

fn can_be_plain(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let spaced = chars.next().is_none_or(|it| it == ' ');
    let begins_else = "#,[]{}&*!|>'\"%@` ".contains(first)
        || (matches!(first, '?' | ':' | '-') && spaced)
        || ["---", "..."].iter().any(|it| text.starts_with(it));
    let goes_on_else = text.ends_with([' ', ':']) || [": ", " #"].iter().any(|it| text.contains(it));
    !begins_else && !goes_on_else
}

/// Returns true if a plain scalar would be read as another type: a number, a boolean, a time, or
/// null.
fn is_taken(text: &str) -> bool {
    const WORDS: [&str; 13] =
        ["", "~", "null", "y", "yes", "on", "true", "n", "no", "off", "false", "<<", "="];
    let lower = text.to_ascii_lowercase();
    // These words are known in three spellings: lower case, upper case and capitalised.
    let titled = text.get(1..).is_some_and(|rest| rest == &lower[1..]);
    let written = titled || text == lower || text == text.to_ascii_uppercase();
    (written && WORDS.contains(&lower.as_str())) || is_number(&lower) || is_time(text)
}

fn is_number(lower: &str) -> bool {
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(lower);
    if matches!(unsigned, ".inf" | ".nan") {
        return true;
    }
    let digits = unsigned.replace('_', "");
    let radix = |prefix: &str, radix: u32| {
        digits
            .strip_prefix(prefix)
            .is_some_and(|it| !it.is_empty() && it.chars().all(|it| it.is_digit(radix)))
    };
    let begins = digits.starts_with(|it: char| it.is_ascii_digit() || it == '.');
    let sexagesimal = digits.contains(':')
        && begins
        && digits
            .split(':')
            .all(|it| !it.is_empty() && it.chars().all(|it| it.is_ascii_digit() || it == '.'));
    let float = begins
        && digits.chars().all(|it| it.is_ascii_digit() || ".e+-".contains(it))
        && digits.parse::<f64>().is_ok();
    radix("0x", 16) || radix("0o", 8) || radix("0b", 2) || sexagesimal || float
}

/// Returns true for `2006-01-02`, with or without a time of day.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(year) = bytes.get(..4) else { return false };
    let rest = text.get(4..).unwrap_or_default();
    let shape = rest.starts_with('-')
        && rest[1..].split(['T', 't', ' ']).next().is_some_and(|it| {
            it.split_once('-').is_some_and(|(month, day)| {
                [month, day]
                    .iter()
                    .all(|it| (1..=2).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit()))
            })
        });
    year.iter().all(u8::is_ascii_digit) && shape
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_output_is_that_of_kube_apiserver() {
        let value = json!({
            "apiVersion": "v1", "items": [{ "a": 1, "b": ["x", []] }, [1, { "c": null }], "t"], "metadata": {},
            "labels": { "n": "yes", "f:x": "19", ".": {}, "time": "2026-11-15T16:06:58Z", "empty": "", "port": "80:80" },
            "message": "406: Not Acceptable\n\nAvailable: application/json",
            "quoted": "configmaps \"nope\" not found", "colon": "only these: a", "ip": "10.0.0.1", "tab": "a\tb", "end": "a\n",
        });
        let expected = r#"apiVersion: v1
colon: 'only these: a'
end: |
  a
ip: 10.0.0.1
items:
- a: 1
  b:
  - x
  - []
- - 1
  - c: null
- t
labels:
  .: {}
  empty: ""
  f:x: "19"
  "n": "yes"
  port: "80:80"
  time: "2026-11-15T16:06:58Z"
message: |-
  406: Not Acceptable

  Available: application/json
metadata: {}
quoted: configmaps "nope" not found
tab: "a\tb"
"#;
        assert_eq!(to_yaml(&value, 10_000).as_deref(), Ok(expected));
    }

    #[test]
    fn nothing_is_written_far_beyond_the_limit() {
        let nested = |value: Value| (0..90).fold(value, |inner, _| json!([inner]));
        let many = json!(vec![1; 1_000]);
        for value in [
            nested(many.clone()),
            nested(json!("a\n".repeat(1_000))),
            nested(json!("a ".repeat(1_000))),
            json!({ "a": { "b": many } }),
        ] {
            let whole = to_yaml(&value, usize::MAX).expect("there is no limit");
            assert_eq!(to_yaml(&value, whole.len()), Ok(whole.clone()));
            assert_eq!(to_yaml(&value, whole.len() - 2), Err(TooLong));
            let mut out = Output { text: String::new(), limit: 2_000 };
            assert_eq!(out.node(&value, 0, false), Err(TooLong));
            assert!(out.text.len() < 2_300, "{} bytes", out.text.len());
        }
    }

    #[test]
    fn flow_style_is_json_without_the_characters_that_yaml_does_not_allow() {
        let value = json!({ "a\u{7f}": ["\u{80}\u{85}\u{9f}", "\u{2028}\u{2029}", "\u{fffe}\u{ffff}", "\u{feff}😀ä\n"] });
        let pieces: Pieces =
            ["[1,".to_owned(), value.to_string(), "]".to_owned()].map(Bytes::from).into_iter().collect();
        let flow = flow_style(pieces).concat();
        let text = std::str::from_utf8(&flow).expect("it is UTF-8");
        assert_eq!(
            text,
            "[1,{\"a\\u007f\":[\"\\u0080\\u0085\\u009f\",\"\\u2028\\u2029\",\"\\ufffe\\uffff\",\"\u{feff}😀ä\\n\"]}]"
        );
        assert_eq!(serde_json::from_str::<Value>(text).expect("it is JSON"), json!([1, value]));
    }

    /// Recorded from kube-apiserver.
    #[test]
    fn long_lines_are_folded_at_a_space() {
        let value = json!({
            "plain": "The quick brown fox jumps over the lazy dog and then the quick brown fox jumps over the lazy dog again",
            "single": "'The quick brown fox jumps over the lazy dog and then the quick brown fox jumps over the lazy dog' of it",
            "double": "The\tquick brown fox jumps over the lazy dog and then the quick brown fox jumps over the lazy dog again \u{7} and",
            "edge80": "1234567 10 345678 20 345678 30 345678 40 345678 50 345678 60 345678 70 345678 80 345678 90",
            "spaces": "The quick brown fox jumps over the lazy dog and then the quick   brown fox  jumps over the lazy dog",
            "list": ["word word word word word word word word word word word word word word word word word", "a\nb"],
            "in": {"a": "word word word word word word word word word word word word word word word word word word"},
            "none": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "smile": "\u{1f600} \u{2028}",
        });
        let expected = r#"double: "The\tquick brown fox jumps over the lazy dog and then the quick brown fox
  jumps over the lazy dog again \a and"
edge80: 1234567 10 345678 20 345678 30 345678 40 345678 50 345678 60 345678 70 345678
  80 345678 90
in:
  a: word word word word word word word word word word word word word word word word
    word word
list:
- word word word word word word word word word word word word word word word word
  word
- |-
  a
  b
none: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
plain: The quick brown fox jumps over the lazy dog and then the quick brown fox jumps
  over the lazy dog again
single: '''The quick brown fox jumps over the lazy dog and then the quick brown fox
  jumps over the lazy dog'' of it'
smile: "\U0001F600 \L"
spaces: The quick brown fox jumps over the lazy dog and then the quick   brown fox  jumps
  over the lazy dog
"#;
        assert_eq!(to_yaml(&value, 10_000).as_deref(), Ok(expected));
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![".*", "[-+0-9.:eE_xob ]{0,6}", "(yes|No|ON|null|~|2026-01-02|- a|: |#|---)"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z.:# -]{0,5}", inner, 0..4)
                    .prop_map(|it| it.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_output_is_read_back_as_the_same_value(value in values()) {
            let yaml = to_yaml(&value, usize::MAX).expect("within the limit");
            let read: Value = serde_saphyr::from_str(&yaml).map_err(|it| TestCaseError::fail(format!("{it}\n{yaml}")))?;
            prop_assert_eq!(read, value, "{}", yaml);
        }
    }
}
