//! Indented JSON: one value per line, in the order of the input.

/// Indents JSON that has no spaces between its tokens, by two spaces per level. The output for
/// invalid JSON is unspecified text.
pub(super) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 3 / 2);
    let (mut level, mut in_text, mut escaped) = (0, false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                // An empty object or list stays on its line.
                match bytes.next_if(|it| matches!(it, b'}' | b']')) {
                    Some(end) => out.push(end),
                    None => {
                        level += 1;
                        new_line(&mut out, level);
                    }
                }
            }
            b'}' | b']' => {
                level = usize::saturating_sub(level, 1);
                new_line(&mut out, level);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, level);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut Vec<u8>, level: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', level * 2));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_order_is_kept_and_empty_values_take_one_line() {
        let json = br#"{"z":{"b":[],"a":{}},"c":[1,"x\",:{"],"d":null}"#;
        let expected = "{\n  \"z\": {\n    \"b\": [],\n    \"a\": {}\n  },\n  \"c\": [\n    1,\n    \"x\\\",:{\"\n  ],\n  \"d\": null\n}";
        assert_eq!(String::from_utf8(indent(json)).expect("text"), expected);
    }

    proptest! {
        #[test]
        fn the_output_is_the_same_value_as_serde_json_prints_it(text in ".*", number in any::<i64>()) {
            let value = json!({ "a": [text, { "b": number }], "": [[], {}], "c": { text: true } });
            let out = indent(value.to_string().as_bytes());
            prop_assert_eq!(&serde_json::from_slice::<Value>(&out).expect("JSON"), &value);
            prop_assert_eq!(String::from_utf8(out).expect("text"), serde_json::to_string_pretty(&value).expect("JSON"));
        }
    }
}
