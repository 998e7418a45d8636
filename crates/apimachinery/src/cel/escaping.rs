//! Names of properties in expressions, where `-`, `.`, `/`, `__` and reserved words are escaped
//! (k8s.io/apiserver v0.36.4 pkg/cel/escaping.go).

/// Words that are escaped if they are the whole name.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns true if a name is a reserved word, which is no identifier.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Returns the name of a property in expressions; `None` if they cannot select it.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(ch) = rest.chars().next() {
        let (part, length) = match ch {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            '_' | 'a'..='z' | 'A'..='Z' | '0'..='9' => (rest.get(..1)?, 1),
            _ => return None,
        };
        escaped.push_str(part);
        rest = rest.get(length..)?;
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_kube_apiserver_does() {
        for (name, escaped) in [
            ("replicas", Some("replicas")),
            ("namespace", Some("__namespace__")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("1a", None),
            ("", None),
            ("a b", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
