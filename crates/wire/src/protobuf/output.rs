//! Appends fields in the wire format.

use super::fields::Raw;

/// Appends a field.
pub(super) fn push(number: u32, raw: Raw<'_>, out: &mut Vec<u8>) {
    match raw {
        Raw::Varint(value) => {
            push_tag(number, 0, out);
            push_varint(value, out);
        }
        Raw::Fixed64(value) => {
            push_tag(number, 1, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Raw::Bytes(bytes) => {
            push_length(number, bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Raw::Fixed32(value) => {
            push_tag(number, 5, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends the beginning of a field of bytes: all but the bytes.
pub(super) fn push_length(number: u32, length: usize, out: &mut Vec<u8>) {
    push_tag(number, 2, out);
    push_varint(length as u64, out);
}

/// Appends a field of bytes that `write` appends. An error leaves an incomplete field.
///
/// The bytes are not written elsewhere first: nested fields would be copied once for each level.
pub(super) fn push_nested<E>(
    number: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    push_tag(number, 2, out);
    let at = out.len();
    // The room for a short length, which most have; a longer one moves the bytes.
    out.push(0);
    write(out)?;
    match u8::try_from(out.len() - at - 1) {
        Ok(short @ ..0x80) => out[at] = short,
        _ => {
            let mut length = Vec::new();
            push_varint((out.len() - at - 1) as u64, &mut length);
            out.splice(at..=at, length);
        }
    }
    Ok(())
}

fn push_tag(number: u32, wire_type: u64, out: &mut Vec<u8>) {
    push_varint(u64::from(number) << 3 | wire_type, out);
}

/// Appends an integer.
pub(super) fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_field_is_written_as_if_its_length_were_known() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 3_000_000] {
            let content = vec![7; length];
            let (mut nested, mut expected) = (vec![1, 2], vec![1, 2]);
            push_nested(3, &mut nested, |out| {
                push_nested(4, out, |out| {
                    out.extend_from_slice(&content);
                    Ok::<_, ()>(())
                })
            })
            .expect("nothing fails");
            let mut inner = Vec::new();
            push(4, Raw::Bytes(&content), &mut inner);
            push(3, Raw::Bytes(&inner), &mut expected);
            assert!(nested == expected, "{length} bytes");
        }
    }
}
