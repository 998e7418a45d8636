//! The texts of distinguished names in certificates.

use x509_parser::der_parser::asn1_rs::Tag;
use x509_parser::x509::AttributeTypeAndValue;

/// Returns the text of an attribute as Go decodes it (`parseASN1String` in Go 1.26
/// crypto/x509/parser.go); `None` if Go rejects it.
pub(crate) fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = attribute.attr_value();
    match value.tag() {
        // T.61 is read as Latin-1.
        Tag::TeletexString => Some(value.data.iter().map(|&it| char::from(it)).collect()),
        Tag::BmpString => utf_16(value.data),
        _ => attribute.as_str().ok().map(str::to_owned),
    }
}

fn utf_16(bytes: &[u8]) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|it| u16::from_be_bytes(*it)).collect();
    let units = units.strip_suffix(&[0]).unwrap_or(&units);
    String::from_utf16(units).ok().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use x509_parser::der_parser::asn1_rs::Any;
    use x509_parser::der_parser::oid;

    use super::*;

    #[test]
    fn every_kind_of_string_is_decoded() {
        let wide = |text: &str| text.bytes().flat_map(|it| [0, it]).collect::<Vec<u8>>();
        for (tag, bytes, expected) in [
            (Tag::Utf8String, b"system:masters".to_vec(), Some("system:masters")),
            (Tag::PrintableString, b"devs".to_vec(), Some("devs")),
            (Tag::TeletexString, b"system:masters".to_vec(), Some("system:masters")),
            (Tag::BmpString, wide("system:masters"), Some("system:masters")),
            (Tag::BmpString, wide("a\0"), Some("a")),
            (Tag::BmpString, vec![0], None),
            (Tag::BmpString, vec![0xd8, 0], None),
            (Tag::Utf8String, vec![0xff], None),
            (Tag::Integer, vec![1], None),
        ] {
            let value = Any::from_tag_and_data(tag, &bytes);
            let attribute = AttributeTypeAndValue::new(oid!(2.5.4.10), value);
            assert_eq!(text(&attribute).as_deref(), expected, "{tag:?} {bytes:?}");
        }
    }
}
