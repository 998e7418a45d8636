//! Texts and bytes, each after its length.

/// Returns the next two texts, and removes them from the bytes.
pub(crate) fn take_pair<'a>(bytes: &mut &'a [u8]) -> Option<(&'a str, &'a str)> {
    Some((take_text(bytes)?, take_text(bytes)?))
}

/// Appends a text after its length.
pub(crate) fn push_text(text: &str, out: &mut Vec<u8>) {
    push_length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a length in groups of seven bits, the lowest first.
pub(crate) fn push_length(mut length: usize, out: &mut Vec<u8>) {
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Returns the next text, and removes it from the bytes. Returns `None` if there is none.
pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take_bytes(bytes)?).ok()
}

/// Returns the next bytes with a length before them, and removes them. Returns `None` if there are
/// none.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            return Some(taken);
        }
    }
    None
}
