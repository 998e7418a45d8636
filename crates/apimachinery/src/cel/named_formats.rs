//! The formats of `format.…()` (k8s.io/apiserver v0.36.4 pkg/cel/library/format.go).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::moments;
use super::urls::Url;
use crate::names;

/// The names, each with the size of the regular expression that costs are computed from.
const FORMATS: [(&str, u64); 13] = [
    ("dns1123Label", 30),
    ("dns1123Subdomain", 60),
    ("dns1035Label", 30),
    ("qualifiedName", 60),
    ("dns1123LabelPrefix", 30),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035LabelPrefix", 30),
    ("labelValue", 40),
    ("uri", 1_000),
    ("uuid", 45),
    ("byte", 60),
    ("date", 2_500),
    ("datetime", 250),
];

/// Returns the format of that name.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    FORMATS.iter().map(|(it, _)| *it).find(|it| *it == name)
}

/// Returns the size of the regular expression of a format.
pub(crate) fn regex_size(name: &str) -> u64 {
    FORMATS.iter().find(|(it, _)| *it == name).map_or(1_000, |(_, size)| *size)
}

/// Returns the problems of a text in a format.
pub(crate) fn problems(name: &str, text: &str) -> Vec<String> {
    // A prefix may end with a dash, which is followed by something.
    let masked = || match text.strip_suffix('-') {
        Some(start) => format!("{start}a"),
        None => text.to_owned(),
    };
    let unless = |fits: bool, problem: String| if fits { Vec::new() } else { vec![problem] };
    match name {
        "dns1123Label" => names::label(text),
        "dns1123Subdomain" => names::subdomain(text),
        "dns1035Label" => names::label_1035(text),
        "qualifiedName" => names::qualified(text),
        "dns1123LabelPrefix" => names::label(&masked()),
        "dns1123SubdomainPrefix" => names::subdomain(&masked()),
        "dns1035LabelPrefix" => names::label_1035(&masked()),
        "labelValue" => names::label_value(text),
        "uri" => unless(Url::parse(text).is_some(), format!("parse {text:?}: invalid URI for request")),
        "uuid" => unless(is_uuid(text), "does not match the UUID format".to_owned()),
        "byte" => unless(BASE64.decode(text).is_ok(), "invalid base64".to_owned()),
        "date" => unless(moments::parse_date(text).is_some(), "invalid date".to_owned()),
        _ => unless(moments::parse_timestamp(text).is_some(), "invalid datetime".to_owned()),
    }
}

fn is_uuid(text: &str) -> bool {
    let digits = text.replace('-', "");
    digits.len() == 32 && digits.bytes().all(|it| it.is_ascii_hexdigit())
}
