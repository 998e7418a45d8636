//! Checks of DNS names, with the messages of k8s.io/apimachinery v0.36.4 pkg/api/validate/content
//! and pkg/util/validation.

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                     regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns the problems of a text as a DNS-1035 label.
pub(crate) fn label_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !(is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())) {
        faults.push(LABEL.to_owned());
    }
    faults
}

/// Returns the problems of a text as an RFC 1123 subdomain.
pub(crate) fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push("must be no more than 253 bytes".to_owned());
    }
    if !is_subdomain(text) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Returns true for a lower-case RFC 1123 label, of any length.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    inner(*first) && inner(*last) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

/// Returns true for a lower-case RFC 1123 subdomain, of any length.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_begin_with_a_letter_and_subdomains_may_begin_with_a_digit() {
        for (text, label, subdomain) in [
            ("abc", true, true),
            ("a-b", true, true),
            ("1a", false, true),
            ("a.b", false, true),
            ("a..b", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("", false, false),
        ] {
            assert_eq!(label_faults(text).is_empty(), label, "{text:?} as a label");
            assert_eq!(subdomain_faults(text).is_empty(), subdomain, "{text:?} as a subdomain");
        }
        assert_eq!(label_faults(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
