//! Sanitizes text from a server before it is printed: on a terminal, control characters could move
//! the cursor, change colours or worse.

/// Replaces each control character, including line breaks, with the replacement character.
pub(crate) fn without_controls(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { char::REPLACEMENT_CHARACTER } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
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
