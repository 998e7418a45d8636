//! Appends fields in the wire format.

use super::fields::Raw;

/// Appends a field.
pub(super) fn push(number: u8, raw: Raw<'_>, out: &mut Vec<u8>) {
    let mut tag = |wire_type: u64| push_varint(u64::from(number) << 3 | wire_type, out);
    match raw {
        Raw::Varint(value) => {
            tag(0);
            push_varint(value, out);
        }
        Raw::Fixed64(value) => {
            tag(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Raw::Bytes(bytes) => {
            tag(2);
            push_varint(bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Raw::Fixed32(value) => {
            tag(5);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
