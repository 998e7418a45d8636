//! Validation of names: of objects, labels, ports and keys.
//!
//! Each function returns the reasons why a string is not such a name, in kube-apiserver's order and
//! wording. An empty list means that the name is valid. The messages are those of
//! k8s.io/apimachinery v0.36.4 pkg/util/validation/validation.go and pkg/api/validate/content. The
//! forms themselves are in `dogwatch_core::names`.

use dogwatch_core::names::{
    MAX_LABEL, MAX_SUBDOMAIN, has_label_form, has_qualified_form, has_subdomain_form,
};

/// The message for a string that is not a DNS subdomain.
pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The message for a port number that is out of range.
pub(crate) const PORT: &str = "must be between 1 and 65535, inclusive";

fn too_long(text: &str, limit: usize, unit: &str) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} {unit}"))
}

/// Validates a DNS subdomain, the form of most object names.
pub fn subdomain(text: &str) -> Vec<String> {
    let shape = (!has_subdomain_form(text)).then(|| SUBDOMAIN.to_owned());
    too_long(text, MAX_SUBDOMAIN, "characters").into_iter().chain(shape).collect()
}

/// Validates a DNS label, the form of the names of namespaces and containers.
///
/// A name that is invalid only because it contains dots gets a message of its own.
pub fn label(text: &str) -> Vec<String> {
    let shape = (!has_label_form(text)).then(|| {
        // As in `IsDNS1123Label` of k8s.io/apimachinery v0.36.4 pkg/api/validate/content/dns.go.
        let only_dots = text.contains('.') && has_subdomain_form(text);
        if only_dots { "must not contain dots".to_owned() } else { LABEL.to_owned() }
    });
    too_long(text, MAX_LABEL, "characters").into_iter().chain(shape).collect()
}

/// Validates a DNS label that begins with a letter.
pub fn label_1035(text: &str) -> Vec<String> {
    let shape = (!has_label_form(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()))
        .then(|| LABEL_1035.to_owned());
    too_long(text, MAX_LABEL, "characters").into_iter().chain(shape).collect()
}

/// Validates a DNS subdomain that begins with `*.`.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let right = text.strip_prefix("*.").is_some_and(has_subdomain_form);
    let shape = (!right).then(|| WILDCARD.to_owned());
    too_long(text, MAX_SUBDOMAIN, "characters").into_iter().chain(shape).collect()
}

/// Validates a path segment, the form of the names of roles and role bindings.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Validates an IP address in canonical form, the form of the names of IPAddress objects.
pub fn address(text: &str) -> Vec<String> {
    let reason = match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(it)) if it.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address".to_owned()
        }
        Ok(it) if it.to_string() == text => return Vec::new(),
        Ok(it) => format!("must be in canonical form (\"{it}\")"),
        Err(_) if has_leading_zeros(text) => "must not have leading 0s".to_owned(),
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned(),
    };
    vec![reason]
}

/// Returns true if a string would be an IPv4 address without the leading zeros of its numbers.
fn has_leading_zeros(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |it: &&str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 4
        && parts.iter().all(number)
        && parts
            .iter()
            .all(|it| it.trim_start_matches('0').parse::<u8>().is_ok() || it.bytes().all(|byte| byte == b'0'))
}

/// Validates a label or annotation key: a name with an optional subdomain and a slash before it.
pub fn qualified(text: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                reasons.push("prefix part must be non-empty".to_owned());
            } else {
                reasons.extend(subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            *name
        }
        _ => {
            let with_prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {QUALIFIED} {with_prefix}")];
        }
    };
    if name.is_empty() {
        reasons.push("name part must be non-empty".to_owned());
    } else if let Some(long) = too_long(name, MAX_LABEL, "bytes") {
        reasons.push(format!("name part {long}"));
    }
    if !has_qualified_form(name) {
        reasons.push(format!("name part {QUALIFIED}"));
    }
    reasons
}

/// Validates a label value.
pub fn label_value(text: &str) -> Vec<String> {
    let shape = (!text.is_empty() && !has_qualified_form(text)).then(|| LABEL_VALUE.to_owned());
    too_long(text, MAX_LABEL, "bytes").into_iter().chain(shape).collect()
}

/// Validates a key in the data of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, MAX_SUBDOMAIN, "characters").into_iter().collect();
    let shape = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || !text.bytes().all(shape) {
        reasons.push(CONFIG_KEY.to_owned());
    }
    match text {
        "." => reasons.push("must not be '.'".to_owned()),
        ".." => reasons.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}

/// Validates the name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut reasons: Vec<String> = too_long(text, 15, "characters").into_iter().collect();
    if text.is_empty()
        || !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        reasons.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        reasons.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        reasons.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        reasons.push("must not begin or end with a hyphen".to_owned());
    }
    reasons
}

/// Validates the name of an environment variable.
pub fn environment(text: &str) -> Vec<String> {
    let printable =
        !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    let message =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    (!printable).then(|| message.to_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_accepts_valid_names_and_rejects_invalid_ones() {
        type Rule = fn(&str) -> Vec<String>;
        let cases: &[(Rule, &str, bool)] = &[
            (subdomain, "a.b-c", true),
            (subdomain, "a..b", false),
            (subdomain, "", false),
            (label, "a-1", true),
            (label, "-a", false),
            (label_1035, "1a", false),
            (label_1035, "a1", true),
            (wildcard_subdomain, "*.a.b", true),
            (wildcard_subdomain, "a.b", false),
            (path_segment, "system:node", true),
            (path_segment, "a/b", false),
            (qualified, "ex.io/Name_1", true),
            (qualified, "ex.io/", false),
            (label_value, "", true),
            (label_value, "-", false),
            (config_key, ".dockercfg", true),
            (config_key, "..", false),
            (port_name, "http-1", true),
            (port_name, "80", false),
            (port_name, "a--b", false),
            (environment, "A B", true),
            (environment, "A=B", false),
        ];
        for (rule, text, right) in cases {
            assert_eq!(rule(text).is_empty(), *right, "{text:?}: {:?}", rule(text));
        }
    }

    #[test]
    fn addresses_must_be_in_canonical_form() {
        for (text, expected) in [
            ("10.1.2.3", None),
            ("fe80::42:1dff:fe84:f9e2", None),
            ("FE80::1", Some("must be in canonical form (\"fe80::1\")")),
            ("010.1.2.3", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("bad", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            ("010.1.2.900", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            assert_eq!(address(text).first().map(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(subdomain(&"a".repeat(253)).is_empty());
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
