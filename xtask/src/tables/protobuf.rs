//! The table of protobuf messages: the encoding of built-in objects, field by field.
//!
//! A line `@PACKAGE` starts a package. Every other line is a message: its name, then its fields as
//! `NUMBER SHAPE JSON-NAME`, separated by tabs. A shape is `1` for a single value, `?` for one that
//! JSON omits where it is empty, `*` for a repeated one or `%` for a map with string keys, followed
//! by `s`, `b`, `i`, `d`, `y` (string, bool, integer, double, bytes) or the position of a message,
//! counted from 0. A field whose message is embedded in its parent in JSON has the name `.`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

/// A field: number, label, type and JSON name.
type Field<'a> = (u32, &'a str, &'a str, &'a str);
type Messages<'a> = BTreeMap<(&'a str, &'a str), Vec<Field<'a>>>;
/// For each Go type, such as `core/v1.Pod`, the fields that JSON omits where they are empty, and
/// with a dot, the embedded types.
type Omissions<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the lines of the table, from the fields of all messages and the omissions of Go's types.
pub(super) fn lines(fields: &str, omissions: &str) -> anyhow::Result<String> {
    let messages = messages(fields)?;
    let omissions: Omissions<'_> = rows(omissions)
        .map(|row| {
            let mut parts = row.split('\t');
            (parts.next().unwrap_or_default(), parts.collect())
        })
        .collect();
    let positions: BTreeMap<String, usize> = messages
        .keys()
        .enumerate()
        .map(|(position, (package, name))| (format!("{package}.{name}"), position))
        .collect();
    let (mut text, mut last) = (String::new(), "");
    for ((package, name), fields) in &messages {
        if *package != last {
            text.push_str(&format!("@{package}\n"));
            last = package;
        }
        text.push_str(name);
        let type_name = go_type(package, name);
        let omitted = omissions.get(type_name.as_str());
        for (number, label, kind, json) in fields {
            let json = json_name(name, json);
            let embedded = kind.rsplit('.').next().is_some_and(|kind| {
                kind != "TypeMeta" && omitted.is_some_and(|it| it.contains(format!(".{kind}").as_str()))
            });
            let (repeat, kind) = match *label {
                "repeated" => ('*', *kind),
                "map" => ('%', kind.split_once(',').map_or(*kind, |(_, value)| value)),
                _ if !embedded && omitted.is_some_and(|it| it.contains(json.as_str())) => ('?', *kind),
                _ => ('1', *kind),
            };
            let json = if embedded { "." } else { &json };
            text.push_str(&format!("\t{number} {repeat}{} {json}", shape(kind, &positions)?));
        }
        text.push('\n');
    }
    Ok(text)
}

fn rows(data: &str) -> impl Iterator<Item = &str> {
    data.lines().filter(|it| !it.starts_with('#'))
}

fn messages(data: &str) -> anyhow::Result<Messages<'_>> {
    let mut messages = Messages::new();
    for line in rows(data) {
        let [package, message, number, label, kind, json] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("a line of the protobuf data does not have six parts: {line}");
        };
        let fields = messages.entry((package, message)).or_default();
        if !number.is_empty() {
            let number = number.parse().with_context(|| format!("invalid field number: {line}"))?;
            fields.push((number, label, kind, json));
        }
    }
    Ok(messages)
}

/// Returns the name of a message's Go type, such as `core/v1.Pod`.
fn go_type(package: &str, name: &str) -> String {
    let mut parts = package.rsplit('.');
    let version = parts.next().unwrap_or_default();
    format!("{}/{version}.{name}", parts.next().unwrap_or_default())
}

fn shape(kind: &str, positions: &BTreeMap<String, usize>) -> anyhow::Result<String> {
    Ok(match kind {
        "string" => "s".to_owned(),
        "bool" => "b".to_owned(),
        "int32" | "int64" => "i".to_owned(),
        "double" => "d".to_owned(),
        "bytes" => "y".to_owned(),
        message => positions.get(message).with_context(|| format!("unknown message {message}"))?.to_string(),
    })
}

/// Returns the JSON name of a field, which is its protobuf name with few exceptions.
fn json_name(message: &str, name: &str) -> String {
    match (message, name) {
        ("JSONSchemaProps", "ref") => "$ref".to_owned(),
        ("JSONSchemaProps", "schema") => "$schema".to_owned(),
        ("JSONSchemaProps", name) if name.starts_with("xKubernetes") => dashed(name),
        (_, "uID") => "uid".to_owned(),
        (_, "aPIGroup") => "apiGroup".to_owned(),
        (_, "Expression" | "Name" | "Webhooks") => name.to_ascii_lowercase(),
        (_, name) => name.to_owned(),
    }
}

/// Converts `xKubernetesListType` to `x-kubernetes-list-type`.
fn dashed(name: &str) -> String {
    let mut dashed = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            dashed.push('-');
        }
        dashed.push(letter.to_ascii_lowercase());
    }
    dashed
}
