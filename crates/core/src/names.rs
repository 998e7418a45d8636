//! The forms of names in Kubernetes: DNS labels and subdomains, qualified names and label values.
//!
//! Pure predicates for everything that makes, reads or rejects names. They know no messages: those
//! of a server are in `dogwatch-apimachinery`, which also reports a form and a length separately.
//! The rules are those of k8s.io/apimachinery v0.36.4 pkg/util/validation/validation.go.

/// The maximum length of a DNS label, of the name in a qualified name, and of a label value, in
/// bytes.
pub const MAX_LABEL: usize = 63;
/// The maximum length of a DNS subdomain, in bytes.
pub const MAX_SUBDOMAIN: usize = 253;

/// Returns true for the form of a DNS label in lower case (RFC 1123), of any length: letters and
/// digits, with `-` between them.
///
/// ```
/// use dogwatch_core::names::has_label_form;
///
/// assert!(has_label_form("web-1") && has_label_form("1"));
/// assert!(!has_label_form("-web") && !has_label_form("Web") && !has_label_form("a.b"));
/// ```
pub fn has_label_form(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(is_lower);
    ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text.bytes().all(|byte| is_lower(byte) || byte == b'-')
}

/// Returns true for the form of a DNS subdomain in lower case (RFC 1123), of any length: labels
/// with dots between them.
///
/// ```
/// use dogwatch_core::names::has_subdomain_form;
///
/// assert!(has_subdomain_form("shop.example.com"));
/// assert!(!has_subdomain_form("shop..com") && !has_subdomain_form(""));
/// ```
pub fn has_subdomain_form(text: &str) -> bool {
    text.split('.').all(has_label_form)
}

/// Returns true for the form of the name in a qualified name, of any length: letters and digits,
/// with `-`, `_` and `.` between them.
///
/// ```
/// use dogwatch_core::names::has_qualified_form;
///
/// assert!(has_qualified_form("App_v1.2"));
/// assert!(!has_qualified_form("_app") && !has_qualified_form("ex.io/app"));
/// ```
pub fn has_qualified_form(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|it| it.is_ascii_alphanumeric());
    ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Returns true for a DNS label, the form of the names of namespaces and containers.
///
/// ```
/// assert!(dogwatch_core::names::is_label("kube-system"));
/// assert!(!dogwatch_core::names::is_label(&"x".repeat(64)));
/// ```
pub fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && has_label_form(text)
}

/// Returns true for a DNS subdomain, the form of most object names.
///
/// ```
/// assert!(dogwatch_core::names::is_subdomain("web.example.com"));
/// assert!(!dogwatch_core::names::is_subdomain("web_1"));
/// ```
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && has_subdomain_form(text)
}

/// Returns true for a qualified name, the form of the keys of labels and annotations and of
/// finalizers: `[subdomain/]name`.
///
/// ```
/// assert!(dogwatch_core::names::is_qualified_name("kubernetes.io/hostname"));
/// assert!(!dogwatch_core::names::is_qualified_name("/hostname"));
/// ```
pub fn is_qualified_name(text: &str) -> bool {
    let is_name = |name: &str| name.len() <= MAX_LABEL && has_qualified_form(name);
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Returns true for a label value, which may be empty.
///
/// ```
/// assert!(dogwatch_core::names::is_label_value("") && dogwatch_core::names::is_label_value("v1.2"));
/// assert!(!dogwatch_core::names::is_label_value("a/b"));
/// ```
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= MAX_LABEL && has_qualified_form(text))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_and_label_values_follow_the_servers_rules() {
        let longest = "x".repeat(63);
        for good in ["a", "a.b/c", "A_b-c.d", "kubernetes.io/hostname", "documents.kube.rs", &longest] {
            assert!(is_qualified_name(good), "{good:?}");
        }
        for bad in ["", "/a", "a/", "-a", "a-", "a b", "A.b/c", "a..b/c", "a/b/c", "ä", "_", &"x".repeat(64)]
        {
            assert!(!is_qualified_name(bad), "{bad:?}");
        }
        for (text, expected) in [("", true), ("v1.2_3-x", true), ("a/b", false), ("-", false)] {
            assert_eq!(is_label_value(text), expected, "{text:?}");
        }
    }

    #[test]
    fn labels_and_subdomains_are_in_lower_case_and_of_limited_length() {
        let (longest, longer) = ("a".repeat(MAX_LABEL), "a".repeat(MAX_LABEL + 1));
        for (text, label, subdomain) in [
            ("abc", true, true),
            ("a-b", true, true),
            ("1a", true, true),
            ("a.b", false, true),
            ("a..b", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("", false, false),
            (&longest, true, true),
            (&longer, false, true),
            (&"a".repeat(MAX_SUBDOMAIN + 1), false, false),
        ] {
            assert_eq!((is_label(text), is_subdomain(text)), (label, subdomain), "{text:?}");
        }
    }
}
