//! Lines of the story for a terminal: broken at words, with the rest indented.
//!
//! On a pipe or in a file a fact stays one line.

/// Breaks a text at words so that no line is longer than `width`. Lines after the first are
/// indented by `indent` columns, which the caller has already used on the first one. A word that is
/// longer than a line stays whole.
pub(super) fn wrapped(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let (mut lines, mut used) = (String::new(), indent);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used == indent {
            used += length;
        } else if used + 1 + length <= width {
            lines.push(' ');
            used += 1 + length;
        } else {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            used = indent + length;
        }
        lines.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_and_continue_below_the_text() {
        assert_eq!(wrapped("one two three four", Some(12), 4), "one two\n    three\n    four");
        assert_eq!(wrapped("one two three four", None, 4), "one two three four");
        assert_eq!(wrapped("exactly ten", Some(11), 0), "exactly ten");
        assert_eq!(
            wrapped("a https://example.com/long b", Some(10), 2),
            "a\n  https://example.com/long\n  b"
        );
        assert_eq!(wrapped("", Some(10), 2), "");
    }
}
