//! The parameter `shardSelector` (KEP-5866, alpha in Kubernetes 1.36): shards of a collection, by
//! the hash of a field.
//!
//! ```text
//! selector = term { "||" term }      term  = "(" selector ")" | "shardRange" "(" field "," bound "," bound ")"
//! field    = object.metadata.uid | object.metadata.namespace      bound = a quoted 0x and 16 digits, or 2^64
//! ```
//!
//! kube-apiserver parses the selector as a CEL expression and rejects everything else in it
//! (k8s.io/apiserver v0.36.4 pkg/sharding/parser.go). Here, CEL is parsed as far as is needed to
//! reject expressions with the same messages; the rest is rejected with the same code and a message
//! of this server.

use std::fmt;

use super::expression::Expression;
use crate::api_error::ApiError;

/// The end of the hash range: 2^64, which is in no shard.
const END: u128 = 1 << 64;

/// A set of shards of a collection. It is displayed as kube-apiserver writes it in the metadata of
/// a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    field: ShardField,
    /// The hash ranges of the shards, each without its end.
    ranges: Vec<(u128, u128)>,
}

/// The field whose hash divides the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardField {
    Uid,
    Namespace,
}

impl ShardSelector {
    /// Parses a selector.
    ///
    /// # Errors
    ///
    /// Returns 500 without a reason, as kube-apiserver does: it treats an invalid selector as an
    /// internal error.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        read(text).map_err(|why| ApiError::unexplained(format!("invalid shard selector: {why}")))
    }

    /// Returns true if an object belongs to one of the shards. A cluster-scoped object has an empty
    /// namespace.
    pub fn has(&self, uid: &str, namespace: Option<&str>) -> bool {
        let hash = match self.field {
            ShardField::Uid => fnv_1a(uid),
            ShardField::Namespace => fnv_1a(namespace.unwrap_or_default()),
        };
        self.ranges.iter().any(|(from, to)| (*from..*to).contains(&u128::from(hash)))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.path();
        for (at, (from, to)) in self.ranges.iter().enumerate() {
            let or = if at > 0 { " || " } else { "" };
            write!(f, "{or}shardRange({field}, '0x{from:016x}', '0x{to:016x}')")?;
        }
        Ok(())
    }
}

impl ShardField {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// Returns the 64-bit FNV-1a hash.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn read(text: &str) -> Result<ShardSelector, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
    }
    let parts = parts(&Expression::parse(text)?)?;
    let field = parts[0].0;
    if let Some((other, ..)) = parts.iter().find(|it| it.0 != field) {
        let (one, other) = (field.path(), other.path());
        return Err(format!("all shard ranges must use the same field, got {one:?} and {other:?}"));
    }
    Ok(ShardSelector { field, ranges: parts.into_iter().map(|(_, range)| range).collect() })
}

type Part = (ShardField, (u128, u128));

/// Returns the shards of an expression. There is at least one.
fn parts(expression: &Expression<'_>) -> Result<Vec<Part>, String> {
    match expression {
        Expression::Call(function, arguments) if function == "_||_" => {
            let all: Result<Vec<_>, _> = arguments.iter().map(parts).collect();
            all.map(|it| it.concat())
        }
        Expression::Call(function, arguments) if function == "shardRange" => Ok(vec![part(arguments)?]),
        Expression::Call(function, _) => {
            Err(format!("unsupported function {function:?}; only shardRange() and || are allowed"))
        }
        other => {
            let kind = other.kind();
            Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"))
        }
    }
}

fn part(arguments: &[Expression<'_>]) -> Result<Part, String> {
    let [field, from, to] = arguments else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let field = match field {
        Expression::Path(names) => match names.join(".").as_str() {
            "object.metadata.uid" => ShardField::Uid,
            "object.metadata.namespace" => ShardField::Namespace,
            path => {
                return Err(format!(
                    "unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace"
                ));
            }
        },
        other => {
            let kind = other.kind();
            return Err(format!(
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}"
            ));
        }
    };
    let (start, end) = (bound(from, "hexStart")?, bound(to, "hexEnd")?);
    if start >= end {
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((field, (start, end)))
}

fn bound(argument: &Expression<'_>, name: &str) -> Result<u128, String> {
    let text = match argument {
        Expression::Text(text) => *text,
        Expression::Literal(of) => return Err(format!("{name} must be a string literal, got {of}")),
        other => {
            let kind = other.kind();
            return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
        }
    };
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {text:?}"));
    };
    let length = digits.len();
    if length == 0 {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if length > 17 {
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits:?}"));
    }
    if let Some(odd) = digits.chars().find(|it| !matches!(it, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character {:?} in {text:?}", odd.to_string()));
    }
    // Seventeen digits are 68 bits.
    let value = u128::from_str_radix(digits, 16).map_err(|it| format!("{name}: {it}"))?;
    match length {
        16 => Ok(value),
        17 if value == END => Ok(value),
        17 => Err(format!("{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {text:?}")),
        _ => {
            let meant = format!("0x{value:016x}");
            Err(format!(
                "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean {meant:?}?)"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    const HIGH: &str = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')";

    #[test]
    fn whitespace_quotes_and_parentheses_do_not_matter() {
        for (text, shown) in [
            (LOW.to_owned(), LOW.to_owned()),
            (HIGH.to_owned(), HIGH.to_owned()),
            (format!("  ({HIGH})\n"), HIGH.to_owned()),
            (LOW.replace(' ', "").replace('\'', "\""), LOW.to_owned()),
            (LOW.replace('.', " . "), LOW.to_owned()),
            (format!("(({LOW})||({HIGH}))"), format!("{LOW} || {HIGH}")),
            (format!("{LOW} || {HIGH} || {LOW}"), format!("{LOW} || {HIGH} || {LOW}")),
        ] {
            let read = ShardSelector::parse(&text).map(|it| it.to_string());
            assert_eq!(read, Ok(shown), "{text}");
        }
    }

    /// Regression test: chains in parentheses added up to a tree that overflowed the stack.
    #[test]
    fn operators_in_nested_parentheses_are_limited_together() {
        let nested = |levels: usize, operators: &str| {
            let mut text = "1".to_owned();
            for level in (0..levels).rev() {
                text = format!("({text}){}", operators.repeat(levels - level));
            }
            text
        };
        for operators in ["||1", "*1-1==1||1"] {
            let text = nested(100, operators);
            let small = std::thread::Builder::new().stack_size(1024 * 1024);
            let read = small.spawn(move || ShardSelector::parse(&text).is_err()).expect("a thread");
            assert!(read.join().expect("no overflow"), "{operators}");
        }
        let chain = [LOW; 101].join(" || ");
        assert!(ShardSelector::parse(&chain).is_ok());
    }

    #[test]
    fn invalid_selectors_have_the_messages_of_kube_apiserver() {
        let call = |arguments: &str| format!("shardRange({arguments})");
        let bounds = |from: &str, to: &str| call(&format!("object.metadata.uid, {from}, {to}"));
        let from = |from: &str| bounds(from, "'0x8000000000000000'");
        let field = |field: &str| call(&format!("{field}, '0x0000000000000000', '0x8000000000000000'"));
        let kind = |kind: u8| {
            format!("unexpected expression kind {kind}; expected shardRange() call or || operator")
        };
        let function =
            |it: &str| format!("unsupported function {it:?}; only shardRange() and || are allowed");
        let path = |it: &str| {
            format!(
                "unsupported field path {it:?}; supported: object.metadata.uid, object.metadata.namespace"
            )
        };
        let no_path = |kind: u8| {
            format!(
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}"
            )
        };
        let no_text =
            |kind: u8| format!("hexStart must be a string literal (e.g. '0xff'), got expression kind {kind}");
        for (text, why) in [
            (" ".to_owned(), "empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned()),
            ("junk".to_owned(), kind(3)),
            ("object.metadata.uid".to_owned(), kind(7)),
            ("'x'".to_owned(), kind(5)),
            (format!("{LOW} || true"), kind(5)),
            ("foo(1)".to_owned(), function("foo")),
            (format!("{LOW} && {HIGH}"), function("_&&_")),
            (format!("!{LOW}"), function("!_")),
            ("object.metadata.uid > '0x0'".to_owned(), function("_>_")),
            (call(""), "shardRange() requires exactly 3 arguments, got 0".to_owned()),
            (field("object.metadata.name"), path("object.metadata.name")),
            (field("object"), path("object")),
            (field("'object.metadata.uid'"), no_path(5)),
            (field("has(object.metadata.uid)"), no_path(1)),
            (from("0"), "hexStart must be a string literal, got int64".to_owned()),
            (from("1u"), "hexStart must be a string literal, got uint64".to_owned()),
            (from("1.5"), "hexStart must be a string literal, got float64".to_owned()),
            (from("true"), "hexStart must be a string literal, got bool".to_owned()),
            (from("'0x' + ''"), no_text(1)),
            (from("object"), no_text(3)),
            (from("'80'"), "hexStart must have '0x' prefix, got \"80\"".to_owned()),
            (from("'0x'"), "hexStart: hex value is required after '0x'".to_owned()),
            (
                from("'0x000000000000000000'"),
                "hexStart: hex value too long (18 chars, max 17): \"000000000000000000\"".to_owned(),
            ),
            (from("'0x0G'"), "hexStart: invalid hex character \"G\" in \"0x0G\"".to_owned()),
            (
                from("'0x8'"),
                "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x8\" (did you mean \"0x0000000000000008\"?)"
                    .to_owned(),
            ),
            (
                bounds("'0x0000000000000000'", "'0x20000000000000000'"),
                "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"".to_owned(),
            ),
            (
                from("'0x8000000000000000'"),
                "shard range start 0x8000000000000000 must be less than end 0x8000000000000000".to_owned(),
            ),
            (
                format!("{LOW} || {}", HIGH.replace("uid", "namespace")),
                "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\""
                    .to_owned(),
            ),
        ] {
            let refusal = ShardSelector::parse(&text).expect_err(&text);
            assert_eq!((refusal.0.code, refusal.0.message.clone()), (500, format!("invalid shard selector: {why}")), "{text}");
        }
    }

    #[test]
    fn malformed_and_too_deep_expressions_are_rejected() {
        let deep = format!("{}{LOW}{}", "(".repeat(5000), ")".repeat(5000));
        let open = format!("{LOW} ||");
        for text in
            ["shardRange(", "shardRange(object.", "'x", &open, &format!("{LOW} {HIGH}"), "\u{e9}(", &deep]
        {
            let refusal = ShardSelector::parse(text).expect_err("not an expression");
            assert!(refusal.0.message.starts_with("invalid shard selector: CEL parse error: "), "{refusal}");
        }
    }

    #[test]
    fn every_object_is_in_exactly_one_of_two_halves() {
        let [low, high] = [LOW, HIGH].map(|it| ShardSelector::parse(it).expect("valid"));
        for number in 0..100 {
            let uid = format!("uid-{number}");
            assert_ne!(low.has(&uid, None), high.has(&uid, None), "{uid}");
        }
        // Published test vectors of the hash.
        assert_eq!((fnv_1a(""), fnv_1a("foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }
}
