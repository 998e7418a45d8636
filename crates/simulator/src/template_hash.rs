//! Short hashes of templates, for names and labels.

/// The characters of hashes, without vowels.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a short hash of a text.
pub(crate) fn short_hash(text: &str) -> String {
    // 32-bit FNV-1a.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    let digits = text.bytes().fold(2_166_136_261, step).to_string();
    digits.bytes().map(|it| char::from(LETTERS[usize::from(it) % LETTERS.len()])).collect()
}

/// Returns the name of an object as its prefix, shortened if necessary, and its hash.
pub(crate) fn hashed_name(prefix: &str, hash: &str, longest_prefix: usize) -> String {
    let kept = prefix.char_indices().nth(longest_prefix).map_or(prefix, |(at, _)| &prefix[..at]);
    format!("{kept}-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_and_have_letters_that_form_no_words() {
        assert_ne!(short_hash("a"), short_hash("b"));
        assert!((0..100).all(|it| short_hash(&it.to_string()).bytes().all(|it| LETTERS.contains(&it))));
    }

    #[test]
    fn a_long_prefix_is_shortened() {
        assert_eq!(hashed_name("web", "5d", 10), "web-5d");
        assert_eq!(hashed_name(&"ü".repeat(300), "5d", 2), "üü-5d");
    }
}
