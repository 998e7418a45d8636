//! The string formats that schemas may name, as k8s.io/kube-openapi pkg/validation/strfmt defines
//! them. Unknown ones are ignored, as in kube-apiserver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::dns_names::{is_label, is_subdomain};

const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// A label between dots: letters, digits and symbols, with dashes inside.
static DOTTED_LABEL: LazyLock<Regex> =
    LazyLock::new(|| compile(&format!("^{WORD}(?:{WORD_OR_DASH}{{0,61}}{WORD})?$")));
/// A name without dots: only one dash is allowed, after the first character.
static LONE_LABEL: LazyLock<Regex> = LazyLock::new(|| compile(&format!("^{WORD}(?:-?{WORD}{{0,62}})?$")));
static TOP_LABEL: LazyLock<Regex> = LazyLock::new(|| compile(r"^\p{L}{2,63}$"));
const WORD: &str = r"[0-9\p{L}\p{S}]";
const WORD_OR_DASH: &str = r"[0-9\p{L}\p{S}-]";
/// Go's pattern has an unescaped dot, so any one character may stand before the fraction.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| compile(r"^(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)$"));
static COLOR: LazyLock<Regex> = LazyLock::new(|| compile(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    compile(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| compile(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\u{10ffff}]+";
    compile(&format!(r#"^({atom}(\.{atom})*|"([^"\\]|\\.)+")@({atom}(\.{atom})*|\[[^\[\]\\]+\])$"#))
});
static DURATION: LazyLock<Regex> =
    LazyLock::new(|| compile(r"^[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$"));
static PARTS: LazyLock<Regex> = LazyLock::new(|| compile(r"(\d+)\s*([A-Za-zµ]+)"));

/// Returns true if strings of that format are checked. Dashes in the name are ignored.
pub(crate) fn known(format: &str) -> bool {
    KNOWN.contains(&plain(format).as_str())
}

/// Returns true if a string has that format. Every string has an unknown format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match plain(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && is_ip(text),
        "ipv6" => text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some(b'3'), false),
        "uuid4" => is_uuid(text, Some(b'4'), true),
        "uuid5" => is_uuid(text, Some(b'5'), true),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_card(text),
        "ssn" => SSN.is_match(text),
        "hexcolor" => COLOR.is_match(text),
        "rgbcolor" => RGB.is_match(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_datetime(text),
        "k8sshortname" => text.len() <= 63 && is_label(text),
        "k8slongname" => text.len() <= 253 && is_subdomain(text),
        _ => true,
    }
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file compile: a test uses each")
}

fn plain(format: &str) -> String {
    format.replace('-', "")
}

/// Returns true for an absolute URI or an absolute path, like Go's `url.ParseRequestURI`.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.contains(|ch: char| ch.is_ascii_control() || ch == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return has_sound_escapes(text);
    }
    let Some((scheme, _)) = text.split_once(':') else { return false };
    let letters = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '+' | '-' | '.');
    scheme.starts_with(|ch: char| ch.is_ascii_alphabetic())
        && scheme.chars().all(letters)
        && has_sound_escapes(text)
}

fn has_sound_escapes(text: &str) -> bool {
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    let hex = |piece: &str| piece.len() >= 2 && piece.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    path.split('%').skip(1).all(hex)
}

/// Returns true for an address alone, or in angle brackets after a name.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(rest) => rest.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    EMAIL.is_match(address)
}

fn is_hostname(text: &str) -> bool {
    let named = match text.rsplit_once('.') {
        None => LONE_LABEL.is_match(text),
        Some((labels, top)) => {
            TOP_LABEL.is_match(top) && labels.split('.').all(|it| DOTTED_LABEL.is_match(it))
        }
    };
    named && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

/// Returns true for an IP address. Leading zeros in the parts of an IPv4 address are tolerated.
fn is_ip(text: &str) -> bool {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.trim_start_matches('0').len() <= 3
                && part.trim_start_matches('0').parse::<u16>().unwrap_or(0) <= 255
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { Ipv6Addr::BITS } else { Ipv4Addr::BITS };
    is_ip(address)
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse().is_ok_and(|bits: u32| bits <= most)
}

/// Returns true for 6, 8 or 20 bytes, in pairs with colons or dashes, or in groups of four digits
/// with dots.
fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let parts: Vec<&str> = text.split(separator).collect();
    let bytes = parts.len() * digits / 2;
    let hex = |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(bytes, 6 | 8 | 20) && parts.iter().all(hex)
}

/// Returns true for a UUID. Each dash may be left out.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut rest = text;
    let mut groups = Vec::with_capacity(5);
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        groups.push(group.as_bytes());
        rest = after;
    }
    rest.is_empty()
        && version.is_none_or(|version| groups[2][0] == version)
        && (!variant || matches!(groups[3][0], b'8' | b'9' | b'a' | b'b' | b'A' | b'B'))
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-')).collect();
    let Some((last, first)) = digits.split_last().filter(|(_, first)| first.len() == 9) else { return false };
    if !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = first.iter().zip(1..).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    let check = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-')).collect();
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits
            .iter()
            .zip([1u32, 3].into_iter().cycle())
            .map(|(d, weight)| u32::from(d - b'0') * weight)
            .sum::<u32>()
            % 10
            == 0
}

fn is_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(index, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0');
        if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    is_issued(&digits) && digits.bytes().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// Returns true if an issuer has numbers with this prefix and length.
fn is_issued(digits: &str) -> bool {
    const ISSUERS: [(&[&str], &[usize]); 6] = [
        (&["4"], &[13, 16]),
        (&["51", "52", "53", "54", "55"], &[16]),
        (&["6011", "65"], &[16]),
        (&["34", "37", "2131", "1800"], &[15]),
        (&["300", "301", "302", "303", "304", "305", "36", "38"], &[14]),
        (&["35"], &[16]),
    ];
    let issued = |(starts, lengths): &(&[&str], &[usize])| {
        lengths.contains(&digits.len()) && starts.iter().any(|it| digits.starts_with(it))
    };
    ISSUERS.iter().any(issued)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_datetime(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Returns true for a Go duration, or for a string that has a number with the name of a unit
/// anywhere in it.
fn is_duration(text: &str) -> bool {
    const NAMES: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let unit = |name: &str| {
        let name = name.to_lowercase();
        NAMES.iter().any(|names| {
            names.contains(&name.as_str()) || names.last().is_some_and(|last| name.starts_with(last))
        })
    };
    DURATION.is_match(text)
        || PARTS.captures_iter(text).any(|part| part[1].parse::<i64>().is_ok() && unit(&part[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_good_strings_and_rejects_bad_ones() {
        for (format, good, bad) in [
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("uri", "https://a.example/b?c=%zz", "x"),
            ("uri", "/a/b", "a b:c"),
            ("email", "a.b@example.com", "x"),
            ("email", "Some One <a@b>", "a@"),
            ("hostname", "a-1.example.com", "-a"),
            ("ipv4", "010.1.2.3", "::1"),
            ("ipv4", "255.0.0.1", "256.0.0.1"),
            ("ipv6", "fe80::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("cidr", "fe80::/64", "fe80::"),
            ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
            ("mac", "0123.4567.89ab", "0123.4567"),
            ("uuid", "a8098c1a-f86e-11da-bd1a-00112444be1E", "a8098c1a"),
            ("uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f", "bcd02e22-68f0-4046-a512-327cca9def8f"),
            ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34", "025b0d74-00a2-4048-7f57-227c5111bb34"),
            ("uuid5", "886313e13b8a53729b900c9aee199e5d", "886313e13b8a43729b900c9aee199e5d"),
            ("isbn", "0321751043", "0321751044"),
            ("isbn10", "0-321-75104-3", "978-0321751041"),
            ("isbn13", "978-0321751041", "0321751043"),
            ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
            ("ssn", "111-11-1111", "11-11-1111"),
            ("hexcolor", "#FFFFFF", "#FFFFF"),
            ("rgbcolor", "rgb(255, 0,1)", "rgb(256,0,1)"),
            ("byte", "aGVsbG8=", "?"),
            ("date", "2026-02-28", "2026-02-30"),
            ("duration", "1h2m3.5s", "x"),
            ("duration", "3 days", "3 moons ago"),
            ("date-time", "2026-02-28T10:11:12.5+01:00", "2026-02-28"),
            ("datetime", "2026-02-28t10:11:12z", "2026-02-28T24:11:12Z"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "a..b"),
        ] {
            assert!(known(format), "{format} is known");
            assert!(fits(format, good), "{good:?} is a {format}");
            assert!(!fits(format, bad), "{bad:?} is no {format}");
        }
        assert!(!known("phone") && fits("phone", "anything"));
    }
}
