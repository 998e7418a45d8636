//! Parsing and writing a [`Kubeconfig`]: encodings, documents, and the positions of syntax errors.
//!
//! Messages say what was expected and never quote what was found, since the text contains secrets.

use std::str::FromStr;

use serde_saphyr::{NonFiniteFloatPolicy, Options};

use super::error::{ConfigError, FileError};
use super::kubeconfig::Kubeconfig;
use super::opaque::Named;

impl Kubeconfig {
    /// Parses a kubeconfig from YAML or JSON. Empty text is an empty kubeconfig. Several documents
    /// are merged like several files: the first that defines an entry wins. Relative paths are
    /// unchanged.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        parse(text).map_err(|error| ConfigError::Files(vec![error]))
    }

    /// Parses a kubeconfig from bytes: UTF-8, or UTF-16 as editors on Windows write it, with or
    /// without a byte order mark.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ConfigError> {
        parse_bytes(bytes).map_err(|error| ConfigError::Files(vec![error]))
    }

    /// Writes the kubeconfig as YAML, including secrets and unknown fields.
    pub fn to_yaml(&self) -> Result<String, ConfigError> {
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options)
            .map_err(|error| ConfigError::Unwritable { reason: error.to_string() })
    }
}

impl FromStr for Kubeconfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::from_yaml(text)
    }
}

impl TryFrom<&[u8]> for Kubeconfig {
    type Error = ConfigError;

    fn try_from(bytes: &[u8]) -> Result<Self, ConfigError> {
        Self::from_bytes(bytes)
    }
}

/// Parses the bytes of one file.
pub(super) fn parse_bytes(bytes: &[u8]) -> Result<Kubeconfig, FileError> {
    parse(&decode(bytes)?)
}

fn parse(text: &str) -> Result<Kubeconfig, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut merged = Kubeconfig::default();
    for document in documents(text)? {
        check(&document)?;
        merged.merge(document);
    }
    Ok(merged)
}

/// Parses the documents of the text. JSON is nearly YAML, except for its escapes of rare
/// characters, so it is tried first; invalid JSON gets the YAML parser's error.
fn documents(text: &str) -> Result<Vec<Kubeconfig>, FileError> {
    if text.trim_start().starts_with('{')
        && let Ok(document) = serde_json::from_str(text)
    {
        return Ok(vec![document]);
    }
    serde_saphyr::from_multiple_with_options(text, options()).map_err(describe)
}

/// Decodes the text. UTF-16 without a byte order mark is recognised by the zero byte next to the
/// first character.
fn decode(bytes: &[u8]) -> Result<String, FileError> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [first, 0, ..] if *first != 0 => utf16(bytes, u16::from_le_bytes),
        [0, second, ..] if *second != 0 => utf16(bytes, u16::from_be_bytes),
        _ => std::str::from_utf8(bytes).ok().map(str::to_owned),
    };
    text.ok_or_else(|| FileError::new("is neither UTF-8 nor UTF-16 text"))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().copied().map(unit).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

fn options() -> Options {
    serde_saphyr::options! {
        // A snippet would print the lines around the error, including tokens.
        with_snippet: false,
        // An unknown field may contain NaN or infinity, which JSON values cannot hold.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    }
}

/// Rejects a document of another kind or version, and duplicate names.
fn check(document: &Kubeconfig) -> Result<(), FileError> {
    if let Some(version) = document.api_version.as_deref().filter(|version| !matches!(*version, "" | "v1")) {
        return Err(FileError::new(format!("is not a kubeconfig: apiVersion is {version:?} and not \"v1\"")));
    }
    if let Some(kind) = document.kind.as_deref().filter(|kind| !matches!(*kind, "" | "Config")) {
        return Err(FileError::new(format!("is not a kubeconfig: kind is {kind:?} and not \"Config\"")));
    }
    unique("clusters", &document.clusters)?;
    unique("users", &document.users)?;
    unique("contexts", &document.contexts)?;
    unique("extensions", &document.extensions)
}

fn unique<T: Named>(section: &str, entries: &[T]) -> Result<(), FileError> {
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].iter().any(|earlier| earlier.name() == entry.name()) {
            return Err(FileError::new(format!("{section} defines {:?} twice", entry.name())));
        }
    }
    Ok(())
}

/// Converts a parser error to a message with its position, and without any value of the text.
fn describe(error: serde_saphyr::Error) -> FileError {
    let found = FileError::new(message(&error));
    match error.location() {
        Some(at) => found.at(at.line(), at.column()),
        None => found,
    }
}

fn message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => message(error),
        Error::Eof { .. } => "the text ends too early".to_owned(),
        Error::Unexpected { expected: "mapping start", .. } => "expected a mapping".to_owned(),
        Error::Unexpected { expected: "sequence start", .. } => "expected a list".to_owned(),
        Error::Unexpected { expected, .. } => format!("expected {expected}"),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {expected}")
        }
        Error::InvalidScalar { ty, .. } => format!("expected {ty}"),
        Error::NullIntoString { .. } => "expected text, found nothing".to_owned(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{key:?} is set twice"),
        Error::DuplicateMappingKey { .. } => "a key is set twice".to_owned(),
        Error::UnknownAnchor { .. } => "an alias names an anchor that does not exist".to_owned(),
        Error::Budget { .. } => "the text is too large or too deep for a kubeconfig".to_owned(),
        // The parser's messages about syntax and serde's about fields contain no values.
        Error::ExternalMessage { msg, .. } | Error::Message { msg, .. } => msg.clone(),
        _ => "is not valid YAML".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    fn encoded(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn every_encoding_that_editors_write_is_read() {
        let text = "current-context: Größe";
        let marked = format!("\u{feff}{text}");
        let cases = [
            text.as_bytes().to_vec(),
            marked.as_bytes().to_vec(),
            encoded(text, u16::to_le_bytes),
            encoded(text, u16::to_be_bytes),
            encoded(&marked, u16::to_le_bytes),
            encoded(&marked, u16::to_be_bytes),
        ];
        for bytes in cases {
            let config = Kubeconfig::from_bytes(&bytes).unwrap();
            assert_eq!(config.current_context.as_deref(), Some("Größe"), "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_rejected() {
        for bytes in [&b"a: \xff"[..], &[0xff, 0xfe, b'a'], &[0xff, 0xfe, 0x00, 0xd8]] {
            let error = Kubeconfig::try_from(bytes).unwrap_err().to_string();
            assert_eq!(error, "cannot read the kubeconfig: the given text: is neither UTF-8 nor UTF-16 text");
        }
    }

    #[test]
    fn empty_text_is_an_empty_kubeconfig() {
        for text in
            ["", "\n", "# only a comment\n", "---\n", "null", "{}", "clusters:\nusers:\ncontexts: null\n"]
        {
            let config: Kubeconfig = text.parse().unwrap();
            assert!(config.clusters.is_empty() && config.current_context.is_none(), "{text:?}");
        }
    }

    #[test]
    fn json_is_read_with_any_formatting() {
        let data = "Q".repeat(200_000);
        let compact = format!(
            r#"{{"kind":"Config","clusters":[{{"name":"a","cluster":{{"certificate-authority-data":"{data}","server":"https:\/\/h"}}}}]}}"#
        );
        let tabbed = "{\n\t\"clusters\": [\n\t\t{\n\t\t\t\"name\": \"a\",\n\t\t\t\"cluster\": {\"server\": \"https://h\"}\n\t\t}\n\t]\n}";
        for text in [compact.as_str(), tabbed] {
            let config = Kubeconfig::from_yaml(text).unwrap();
            assert_eq!(config.cluster("a").unwrap().server.as_deref(), Some("https://h"));
        }
    }

    #[test]
    fn documents_are_merged_like_files() {
        let config = Kubeconfig::from_yaml(
            "current-context: one\nclusters: [{name: a, cluster: {server: one}}]\n---\n\
             current-context: two\nclusters: [{name: a, cluster: {server: two}}, {name: b}]\n",
        )
        .unwrap();
        assert_eq!(config.current_context.as_deref(), Some("one"));
        assert_eq!(config.cluster("a").unwrap().server.as_deref(), Some("one"));
        assert!(config.cluster("b").is_some());
    }

    /// Numbers and words that YAML reads as another type are strings in string fields.
    #[test]
    fn text_fields_take_any_scalar() {
        let config = Kubeconfig::from_yaml(
            "current-context: 12\nusers: [{name: yes, user: {username: 007, token: 1e3, as: on}}]",
        )
        .unwrap();
        assert_eq!(config.current_context.as_deref(), Some("12"));
        let user = config.user("yes").unwrap();
        assert_eq!(user.username.as_deref(), Some("007"));
        assert_eq!(user.impersonate.as_deref(), Some("on"));
        assert!(config.to_yaml().unwrap().contains("1e3"));
    }

    /// The upstream test `TestEncodeYAML`: other YAML parsers read these as numbers, booleans and
    /// null.
    #[test]
    fn names_that_look_like_other_types_are_quoted() {
        for name in ["0", "1", "433e40", "0x10", "1.5", "true", "null", "~", ".inf"] {
            let yaml = Kubeconfig::single(name, Default::default(), Default::default()).to_yaml().unwrap();
            let quoted = [format!("name: \"{name}\""), format!("name: '{name}'")];
            assert!(quoted.iter().any(|it| yaml.contains(it)), "{yaml}");
            assert_eq!(Kubeconfig::from_yaml(&yaml).unwrap().current_context.as_deref(), Some(name));
        }
    }

    #[test]
    fn a_key_without_a_value_is_the_default() {
        let config = Kubeconfig::from_yaml(
            "clusters: [{name: a, cluster: {server: , insecure-skip-tls-verify: , extensions: }}, {name: b, cluster: }]\n\
             users: [{name: a, user: {token: , as-groups: , exec: , auth-provider: {name: x, config: {a: }}}}]\n\
             contexts: [{name: a, context: {cluster: , namespace: }}]\npreferences:\ncurrent-context:\n",
        )
        .unwrap();
        assert_eq!(config.cluster("a"), config.cluster("b"));
        assert_eq!(config.user("a").unwrap().auth_provider.as_ref().unwrap().config["a"], "");
    }

    #[test]
    fn anchors_and_merge_keys_work() {
        let config = Kubeconfig::from_yaml(
            "clusters:\n- name: a\n  cluster: &base {server: https://a, disable-compression: true}\n\
             - name: b\n  cluster: {<<: *base, server: https://b}\n",
        )
        .unwrap();
        assert!(config.cluster("b").unwrap().disable_compression);
        assert_eq!(config.cluster("b").unwrap().server.as_deref(), Some("https://b"));
    }

    #[test]
    fn unknown_data_may_be_anything() {
        let odd = "{1: a, true: b, c: .nan, d: [1.5, -2, ~], 2001-01-01: 0x10, ~: {[x]: z}}";
        let config =
            Kubeconfig::from_yaml(&format!("mine: {odd}\nextensions: [{{name: e, extension: {odd}}}]"))
                .unwrap();
        let expected = serde_json::json!({
            "1": "a", "true": "b", "c": ".nan", "d": [1.5, -2, null], "2001-01-01": 16, "null": {"[\"x\"]": "z"}
        });
        assert_eq!(config.other.0["mine"], expected);
        assert_eq!(config.extensions[0].extension, expected);
    }

    #[test]
    fn an_error_names_its_position() {
        let cases = [
            ("bogus value", "the given text: line 1, column 1: expected a mapping"),
            ("a: b\n- c", "the given text: line 2, column 3: while parsing a block mapping"),
            (
                "clusters:\n- name: a\n  cluster: [1]\n",
                "the given text: line 3, column 12: expected a mapping",
            ),
            ("clusters:\n  a: b\n", "the given text: line 2, column 3: expected a list"),
            (
                "users:\n- name: a\n  user:\n    token: [hush]\n",
                "the given text: line 4, column 12: expected string scalar",
            ),
            (
                "clusters: [{cluster: {insecure-skip-tls-verify: hush}}]",
                "the given text: line 1, column 49: expected boolean",
            ),
            ("users: [{user: hush}]", "the given text: line 1, column 16: expected a mapping"),
            ("kind: Config\nkind: Config", "the given text: line 2, column 1: \"kind\" is set twice"),
            ("a: *b", "the given text: line 1, column 4: "),
            ("a: {b: c", "the given text: line "),
            ("users: [{user: {token: \"hush}}]", "the given text: line "),
        ];
        let wrong: Vec<_> = cases
            .iter()
            .map(|(text, message)| (error_message(text), *message))
            .filter(|(error, message)| !error.starts_with(message) || error.contains("hush"))
            .collect();
        assert_eq!(wrong, [], "actual and expected messages");
    }

    #[test]
    fn another_kind_or_version_is_rejected() {
        let cases = [
            ("kind: Pod", "the given text: is not a kubeconfig: kind is \"Pod\" and not \"Config\""),
            ("apiVersion: v2", "the given text: is not a kubeconfig: apiVersion is \"v2\" and not \"v1\""),
        ];
        for (text, message) in cases {
            assert_eq!(error_message(text), message);
        }
    }

    #[test]
    fn duplicate_names_are_rejected() {
        for section in ["clusters", "users", "contexts", "extensions"] {
            let text = format!("{section}: [{{name: a}}, {{name: b}}, {{name: a}}]");
            assert_eq!(error_message(&text), format!("the given text: {section} defines \"a\" twice"));
        }
    }
}
