//! YAML for those who ask for it: keys in order, lists as far in as their key, quotes where the text could be taken for
//! something else.
//!
//! Written as the original writes it, but for one thing: long lines are not folded.

use std::fmt::Write;

use serde_json::Value;

/// A value as YAML, with a line end behind it.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0, false);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Writes a value whose first line has begun; `inline` where that is the line of a list item.
fn node(out: &mut String, value: &Value, level: usize, inline: bool) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (at, (key, field)) in fields.iter().enumerate() {
                if at > 0 || !inline {
                    indent(out, level);
                }
                out.push_str(&scalar(key, true, level));
                out.push(':');
                match field {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        node(out, field, level + 1, false);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        node(out, field, level, false);
                    }
                    plain => {
                        out.push(' ');
                        node(out, plain, level, true);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 || !inline {
                    indent(out, level);
                }
                out.push_str("- ");
                node(out, item, level + 1, true);
            }
        }
        Value::Object(_) => out.push_str("{}\n"),
        Value::Array(_) => out.push_str("[]\n"),
        Value::String(text) => {
            out.push_str(&scalar(text, false, level));
            out.push('\n');
        }
        other => {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{other}");
        }
    }
}

fn indent(out: &mut String, level: usize) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// A text in the plainest form that is read back as this text.
fn scalar(text: &str, key: bool, level: usize) -> String {
    let printable = text.chars().all(|it| is_printable(it) || it == '\n');
    if text.contains('\n') && printable && !key && can_be_block(text) {
        return block(text, level);
    }
    if !printable || text.contains('\n') || is_taken(text) {
        return double_quoted(text);
    }
    if can_be_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

fn can_be_block(text: &str) -> bool {
    !text.starts_with([' ', '\n']) && !text.split('\n').any(|line| line.ends_with(' '))
}

fn block(text: &str, level: usize) -> String {
    let (body, sign) = match text.strip_suffix('\n') {
        None => (text, "-"),
        Some(body) if !body.ends_with('\n') => (body, ""),
        Some(body) => (body, "+"),
    };
    let mut out = format!("|{sign}");
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(&mut out, level + 1);
            out.push_str(line);
        }
    }
    out
}

/// JSON's way to quote a text is one of YAML's, but for characters that only JSON takes as they are.
fn double_quoted(text: &str) -> String {
    let mut out = String::new();
    for it in Value::from(text).to_string().chars() {
        if is_printable(it) {
            out.push(it);
        } else {
            let _ = write!(out, "\\u{:04x}", u32::from(it));
        }
    }
    out
}

/// Whether YAML takes a character as it is, inside of a line.
fn is_printable(it: char) -> bool {
    !it.is_control() && !matches!(it, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
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

/// Whether a plain text would be taken for something else: a number, a truth value, a time, nothing.
fn is_taken(text: &str) -> bool {
    const WORDS: [&str; 13] =
        ["", "~", "null", "y", "yes", "on", "true", "n", "no", "off", "false", "<<", "="];
    let lower = text.to_ascii_lowercase();
    // Words are known in three ways of writing them: all small, all large, and with a large first letter.
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

/// `2006-01-02`, with or without a time behind it.
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
    fn it_looks_as_the_original_writes_it() {
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
        assert_eq!(to_yaml(&value), expected);
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
        fn what_is_read_back_is_the_same(value in values()) {
            let yaml = to_yaml(&value);
            let read: Value = serde_saphyr::from_str(&yaml).map_err(|it| TestCaseError::fail(format!("{it}\n{yaml}")))?;
            prop_assert_eq!(read, value, "{}", yaml);
        }
    }
}
