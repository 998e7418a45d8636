//! The string formats that schemas may name, as k8s.io/kube-openapi
//! v0.0.0-20260317180543-43fb72c5454a pkg/validation/strfmt defines them. Unknown ones are ignored,
//! as there.
//!
//! A text of several megabytes can be checked for each of a hundred alternatives, so most formats
//! are scanned by hand: a regular expression takes 100 times as long for each byte.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use dogwatch_core::names;
use regex::Regex;

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

/// The largest number of bytes of a host name.
const MOST_OF_HOSTNAME: usize = 255;

/// A host name of any length: labels of letters, digits and symbols with dashes inside, and a last
/// one of letters; or a name without dots, in which only one dash is allowed, after the first
/// character.
///
/// kube-openapi counts the characters of a label. [`is_hostname`] counts its bytes, which are as
/// many or more.
static HOST_NAME: LazyLock<Regex> = LazyLock::new(|| {
    let word = r"[0-9\p{L}\p{S}]";
    let word_or_dash = r"[0-9\p{L}\p{S}-]";
    let dotted = format!(r"{word}(?:{word_or_dash}*{word})?");
    let pattern = format!(r"^(?:{word}-?{word}*|(?:{dotted}\.)+\p{{L}}{{2,}})$");
    Regex::new(&pattern).expect("the pattern compiles: a test uses it")
});

/// Returns true if strings of that format are checked. Dashes in the name are ignored.
pub(crate) fn known(format: &str) -> bool {
    KNOWN.contains(&&*plain(format))
}

/// Returns the factor by which a check of that format takes longer than one of the length of a
/// text. With it, all checks that a request of 3 MiB can afford take less than two seconds.
pub(crate) fn cost_factor(format: &str, text: &str) -> usize {
    // Measured at up to 20 ns for each byte, and at 176 ns for the only regular expression.
    let is_slow = text.len() <= MOST_OF_HOSTNAME && !text.is_ascii() && plain(format) == "hostname";
    if is_slow { 64 } else { 16 }
}

/// Returns true if a string has that format. Every string has an unknown format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match &*plain(format) {
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
        "ssn" => is_ssn(text),
        "hexcolor" => is_hex_color(text),
        "rgbcolor" => is_rgb_color(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_datetime(text),
        "k8sshortname" => names::is_label(text),
        "k8slongname" => names::is_subdomain(text),
        _ => true,
    }
}

fn plain(format: &str) -> Cow<'_, str> {
    if format.contains('-') { format.replace('-', "").into() } else { format.into() }
}

/// Returns true for an absolute URI or an absolute path, like `ParseRequestURI` in Go 1.26
/// net/url/url.go.
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
    let domain = match address.strip_prefix('"') {
        Some(rest) => after_quoted(rest).and_then(|rest| rest.strip_prefix('@')),
        None => address.split_once('@').filter(|(local, _)| is_dotted_atom(local)).map(|(_, domain)| domain),
    };
    domain.is_some_and(|domain| match domain.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|literal| !literal.is_empty() && !literal.contains(['[', ']', '\\'])),
        None => is_dotted_atom(domain),
    })
}

/// Returns the rest of a text after a quoted string that is not empty, without its first quote.
fn after_quoted(text: &str) -> Option<&str> {
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return text.get(index + 1..).filter(|_| index > 0),
            b'\\' if bytes.next()?.1 == b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn is_dotted_atom(text: &str) -> bool {
    let is_part =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte) || !byte.is_ascii();
    text.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_part))
}

fn is_hostname(text: &str) -> bool {
    if text.len() > MOST_OF_HOSTNAME || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    if text.is_ascii() { is_ascii_hostname(text) } else { HOST_NAME.is_match(text) }
}

/// Returns true for a text that [`HOST_NAME`] matches, if it is ASCII.
fn is_ascii_hostname(text: &str) -> bool {
    // The symbols are those of Unicode, without punctuation.
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"$+<=>^`|~".contains(&byte);
    let Some((labels, top)) = text.rsplit_once('.') else {
        let Some((first, rest)) = text.as_bytes().split_first() else { return false };
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        return is_word(*first) && rest.iter().all(|byte| is_word(*byte));
    };
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().next_back()];
        ends.into_iter().all(|end| end.is_some_and(is_word))
            && label.bytes().all(|byte| is_word(byte) || byte == b'-')
    };
    top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic()) && labels.split('.').all(is_label)
}

/// Returns true for an IP address. Leading zeros in the parts of an IPv4 address are tolerated.
fn is_ip(text: &str) -> bool {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok();
    }
    let is_part = |part: &str| {
        let digits = part.trim_start_matches('0');
        !part.is_empty()
            && digits.len() <= 3
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && digits.parse::<u16>().unwrap_or(0) <= 255
    };
    // The fifth part of a long text has all the rest.
    text.splitn(5, '.').filter(|part| is_part(part)).count() == 4 && text.splitn(5, '.').count() == 4
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
    if text.len() > "01:".len() * 20 - 1 {
        return false;
    }
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
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-')).take(14).collect();
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
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b' ' | b'-')).take(14).collect();
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
    // No issuer has more than 16 digits.
    let digits: String = text.bytes().filter(u8::is_ascii_digit).take(17).map(char::from).collect();
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

/// Returns true for three, two and four digits, each group but the first after an optional dash or
/// space.
fn is_ssn(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [3, 2, 4].into_iter().enumerate() {
        if let (1.., [b'-' | b' ', after @ ..]) = (index, rest) {
            rest = after;
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        if !group.iter().all(u8::is_ascii_digit) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let Some(parts) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let is_part = |part: &str| {
        let part = part.trim_matches(is_space);
        matches!(part.len(), 1..=3)
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
            && part.parse::<u8>().is_ok()
    };
    parts.splitn(4, ',').filter(|part| is_part(part)).count() == 3 && parts.splitn(4, ',').count() == 3
}

/// Returns true for a character that `\s` of a Go pattern matches.
fn is_space(ch: char) -> bool {
    ch.is_ascii_whitespace()
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

/// Returns true for a date and a time of day. Anything may follow after another `t`.
fn is_datetime(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// Returns true for hours, minutes and seconds, perhaps a fraction, and a time zone.
fn is_time(text: &str) -> bool {
    let two = |text: &[u8], most: &[u8]| text.iter().all(u8::is_ascii_digit) && text <= most;
    let [h, h2, b':', m, m2, b':', s, s2, rest @ ..] = text.as_bytes() else { return false };
    let is_clock = two(&[*h, *h2], b"23") && two(&[*m, *m2], b"59") && two(&[*s, *s2], b"59");
    let fraction = match rest {
        [fraction @ .., b'z' | b'Z'] => fraction,
        [fraction @ .., b'+' | b'-', h, h2, b':', m, m2]
            if [h, h2, m, m2].iter().all(|it| it.is_ascii_digit()) =>
        {
            fraction
        }
        _ => return false,
    };
    // Go's pattern has an unescaped dot, so any one character may stand before the fraction.
    let Ok(fraction) = str::from_utf8(fraction) else { return false };
    let mut chars = fraction.chars();
    let is_fraction = match chars.next() {
        None => true,
        Some(first) => {
            let digits = chars.as_str();
            first != '\n' && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
    };
    is_clock && is_fraction
}

/// Returns true for a Go duration, or for a string that has a number with the name of a unit
/// anywhere in it.
fn is_duration(text: &str) -> bool {
    has_number_with_unit(text) || is_go_duration(text)
}

/// Returns true for `0`, or for decimal numbers that each have a unit, after an optional sign.
fn is_go_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (whole, after) = split_while(rest, |byte| byte.is_ascii_digit());
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_while(after, |byte| byte.is_ascii_digit()),
            None => ("", after),
        };
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|unit| after.strip_prefix(unit)) else { return false };
        if whole.is_empty() && fraction.is_empty() {
            return false;
        }
        rest = after;
    }
    !unsigned.is_empty()
}

/// Returns true if a number in a text has the name of a unit after it.
fn has_number_with_unit(text: &str) -> bool {
    let mut rest = text;
    while let Some(start) = rest.bytes().position(|byte| byte.is_ascii_digit()) {
        let (number, after) = split_while(&rest[start..], |byte| byte.is_ascii_digit());
        let after = after.trim_start_matches(is_space);
        let end = after.find(|ch: char| !(ch.is_ascii_alphabetic() || ch == 'µ')).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        if is_unit(name) && number.parse::<i64>().is_ok() {
            return true;
        }
        rest = after;
    }
    false
}

/// Returns true for the name of a unit in any case. The long names may have any ending.
fn is_unit(name: &str) -> bool {
    let is = |short: &str| name.eq_ignore_ascii_case(short);
    let begins = |long: &str| name.get(..long.len()).is_some_and(|start| start.eq_ignore_ascii_case(long));
    match name.chars().next().map(|first| first.to_ascii_lowercase()) {
        Some('n') => is("ns") || begins("nano"),
        Some('u') => is("us"),
        Some('µ') => is("µs"),
        Some('m') => is("m") || is("ms") || begins("min") || begins("milli") || begins("micro"),
        Some('s') => is("s") || begins("sec"),
        Some('h') => is("h") || is("hr") || begins("hour"),
        Some('d') => is("d") || begins("day"),
        Some('w') => is("w") || is("wk") || begins("week"),
        _ => false,
    }
}

/// Splits a text before the first byte that does not fit. Only ASCII may fit.
fn split_while(text: &str, fits: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len()))
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

    /// Returns texts of up to ten pieces.
    fn texts(pieces: &[&str]) -> impl Iterator<Item = String> {
        let mut bits = 1_u32;
        let mut below = move |most: usize| {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (bits >> 8) as usize % most
        };
        (0..6_000).map(move |_| (0..below(11)).map(|_| pieces[below(pieces.len())]).collect())
    }

    #[test]
    fn formats_that_are_scanned_by_hand_accept_what_the_pattern_matches() {
        const ATOM: &str = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\u{10ffff}]+";
        let local = format!(r#"({ATOM}(\.{ATOM})*|"([^"\\]|\\.)+")"#);
        let email = format!(r"^{local}@({ATOM}(\.{ATOM})*|\[[^\[\]\\]+\])$");
        let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
        let rgb = format!(r"^rgb\({part},{part},{part}\)$");
        let duration = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
        let time = r"(?i)^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$";
        let unit = "ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*";
        type Case<'a> = (&'a str, &'a [&'a str], fn(&str) -> bool);
        let cases: [Case<'_>; 8] = [
            (&email, &["a", ".", "@", "\"", "\\", "[", "]", " ", "é", "-", "\n", "a@b", "\"x"], is_email),
            (&rgb, &["rgb(", ",7,", "25", " ", "5)"], is_rgb_color),
            (duration, &["+", "0", "1", ".", "h", "m", "s", "ns", "µs", "μs", "x", "1h"], is_go_duration),
            (time, &["10:11:12", ":", ".", "5", "24", "z", "Z", "+01:00", "é", "\n", "-"], is_time),
            (r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$", &["123", "45", "6", "-", " ", "é", "7890"], is_ssn),
            (r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", &["#", "f", "0", "Aa", "g", "é"], is_hex_color),
            (&format!("^(?i:{unit})$"), &["n", "s", "m", "u", "µ", "ano", "I", "n", "k", "D", "ay"], is_unit),
            (HOST_NAME.as_str(), &["a", "B", "1", "-", ".", "$", "_", "a.", "~", "bc"], is_ascii_hostname),
        ];
        for (pattern, pieces, fits) in cases {
            let pattern = Regex::new(pattern).expect("a pattern");
            let mut good = 0;
            for text in texts(pieces) {
                // A name in front of the brackets and spaces around the address are no part of it.
                let text = if pattern.as_str() == email { text.trim() } else { text.as_str() };
                assert_eq!(fits(text), pattern.is_match(text), "{text:?} and {pattern}");
                good += usize::from(fits(text));
            }
            assert!(good > 0, "{good} good texts for {pattern}");
        }
        let parts = Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("a pattern");
        for text in texts(&["1", " ", "d", "x", "9".repeat(19).as_str(), "µs", ".", "é", "day"]) {
            let found = parts.captures_iter(&text).any(|it| it[1].parse::<i64>().is_ok() && is_unit(&it[2]));
            assert_eq!(has_number_with_unit(&text), found, "{text:?}");
        }
    }

    #[test]
    fn host_names_are_limited_and_may_have_letters_of_any_script() {
        for (text, good) in [
            ("a-", true),
            ("a--", false),
            ("", false),
            ("bücher.example", true),
            ("bü-cher.de", true),
            ("bü-cher", false),
            ("a.é", false),
            ("a.éé", true),
            ("é..éé", false),
            (&"a".repeat(63), true),
            (&"a".repeat(64), false),
            (&format!("{}com", "a.".repeat(126)), true),
            (&format!("{}com", "a.".repeat(127)), false),
        ] {
            assert_eq!(fits("hostname", text), good, "{text:?}");
        }
    }

    /// Some took half a second for each text of this size, and a hundred alternatives were
    /// affordable.
    #[test]
    fn a_long_text_is_checked_in_little_time() {
        let texts =
            ["1x", "1h", ".5s", "a.", "é.", "0", "1 ", "= ", "%00", "::", "a@"].map(|it| it.repeat(1 << 19));
        let framed = |start: &str, middle: &str, end: &str| format!("{start}{}{end}", middle.repeat(1 << 19));
        let long = [
            framed("2026-02-28T10:11:12.", "0", "Z"),
            framed("rgb(", " ", "0,0,0)"),
            framed("", "a.", "a@b"),
            framed("\"", "\\a", "\"@b"),
            framed("x:", "a", ""),
        ];
        let start = cpu_time::ThreadTime::now();
        for text in texts.iter().chain(&long) {
            for format in KNOWN {
                _ = fits(format, text);
            }
        }
        assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
    }
}
