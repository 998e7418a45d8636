//! Text from a server, made safe to print: on a terminal, control characters move the cursor, change colours or worse.

/// The text with a replacement character in place of each control character, line breaks included.
pub(crate) fn without_controls(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { char::REPLACEMENT_CHARACTER } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_control_a_terminal_is_replaced() {
        for (text, expected) in [
            ("plain: ä 日本", "plain: ä 日本"),
            ("clear\u{1b}[2J", "clear\u{fffd}[2J"),
            ("a\tb\r\nc\u{7f}", "a\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}"),
            // The same as ESC [, in one character.
            ("\u{9b}2J", "\u{fffd}2J"),
        ] {
            assert_eq!(without_controls(text), expected);
        }
    }
}
