//! The table of protobuf messages: the encoding of built-in objects, field by field.
//!
//! One line for each message that is reachable from a served kind: its name, then its fields as
//! `NUMBER SHAPE JSON-NAME`. A shape is `1` for a single value, `*` for a repeated one or `%` for a
//! map with string keys, followed by `s`, `b`, `i`, `d`, `y` (string, bool, integer, double, bytes)
//! or the line number of a message, counted from 0. A field whose message is inlined into its
//! parent in JSON has the name `.`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

use super::definitions::Definitions;

/// The messages of the API machinery that bodies may contain besides objects.
const OPTIONS: [&str; 2] =
    ["k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions", "k8s.io.apimachinery.pkg.apis.meta.v1.Status"];

/// A field: number, label, type and JSON name.
type Field<'a> = (u32, &'a str, &'a str, &'a str);
type Messages<'a> = BTreeMap<String, Vec<Field<'a>>>;

/// Returns the lines of the table, from the field data and the definitions of the fields in JSON.
pub(super) fn lines(
    data: &str,
    definitions: &Definitions,
    group_versions: &BTreeSet<String>,
) -> anyhow::Result<String> {
    let messages = read(data)?;
    let reachable = reachable(&messages, group_versions);
    let index: BTreeMap<&str, usize> =
        reachable.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let mut text = String::new();
    for name in &reachable {
        text.push_str(name);
        for (number, label, kind, json) in &messages[name] {
            let (repeat, kind) = match *label {
                "repeated" => ('*', *kind),
                "map" => ('%', kind.split_once(',').map_or(*kind, |(_, value)| value)),
                _ => ('1', *kind),
            };
            let json = json_name(name, kind, json, definitions);
            text.push_str(&format!("\t{number} {repeat}{} {json}", shape(kind, &index)?));
        }
        text.push('\n');
    }
    Ok(text)
}

fn read(data: &str) -> anyhow::Result<Messages<'_>> {
    let mut messages = Messages::new();
    for line in data.lines().filter(|it| !it.starts_with('#')) {
        let [package, message, number, label, kind, json] = line.split('\t').collect::<Vec<_>>()[..] else {
            bail!("a line of the protobuf data does not have six parts: {line}");
        };
        let fields = messages.entry(format!("{package}.{message}")).or_default();
        if !number.is_empty() {
            let number = number.parse().with_context(|| format!("invalid field number: {line}"))?;
            fields.push((number, label, kind, json));
        }
    }
    Ok(messages)
}

/// Returns the messages of all served versions, and those reachable from them.
fn reachable(messages: &Messages<'_>, group_versions: &BTreeSet<String>) -> BTreeSet<String> {
    let packages: BTreeSet<String> = group_versions
        .iter()
        .filter_map(|it| it.split_once('/'))
        .map(|(group, version)| match group.split('.').next().unwrap_or_default() {
            "" => format!(".core.{version}."),
            first => format!(".{first}.{version}."),
        })
        .collect();
    let served = |name: &str| packages.iter().any(|it| name.contains(it.as_str())) || OPTIONS.contains(&name);
    let mut todo: Vec<&str> = messages.keys().map(String::as_str).filter(|it| served(it)).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = todo.pop() {
        if let Some(fields) = messages.get(name)
            && found.insert(name.to_owned())
        {
            let kinds =
                fields.iter().map(|(_, _, kind, _)| kind.split_once(',').map_or(*kind, |(_, value)| value));
            todo.extend(kinds.filter(|it| it.contains('.')));
        }
    }
    found
}

fn shape(kind: &str, index: &BTreeMap<&str, usize>) -> anyhow::Result<String> {
    Ok(match kind {
        "string" => "s".to_owned(),
        "bool" => "b".to_owned(),
        "int32" | "int64" => "i".to_owned(),
        "double" => "d".to_owned(),
        "bytes" => "y".to_owned(),
        message => index.get(message).with_context(|| format!("unknown message {message}"))?.to_string(),
    })
}

/// Returns the JSON name of a field, as its definition spells it. Returns `.` if JSON has the
/// fields of its message inlined in the parent instead.
fn json_name<'a>(message: &str, kind: &str, name: &'a str, definitions: &'a Definitions) -> &'a str {
    let name = if message.ends_with(".JSONSchemaProps") { schema_name(name) } else { name };
    let definition = format!("io.{}", message.replacen("k8s.io.", "k8s.", 1));
    let Some(properties) = definitions.get(&definition).and_then(|it| it.get("properties")?.as_object())
    else {
        return name;
    };
    match properties.keys().find(|it| it.eq_ignore_ascii_case(name)) {
        Some(spelled) => spelled,
        None if kind.contains('.') => ".",
        None => name,
    }
}

/// Maps the fields of a JSON schema whose JSON names differ.
fn schema_name(name: &str) -> &str {
    match name {
        "ref" => "$ref",
        "schema" => "$schema",
        "xKubernetesPreserveUnknownFields" => "x-kubernetes-preserve-unknown-fields",
        "xKubernetesEmbeddedResource" => "x-kubernetes-embedded-resource",
        "xKubernetesIntOrString" => "x-kubernetes-int-or-string",
        "xKubernetesListMapKeys" => "x-kubernetes-list-map-keys",
        "xKubernetesListType" => "x-kubernetes-list-type",
        "xKubernetesMapType" => "x-kubernetes-map-type",
        "xKubernetesValidations" => "x-kubernetes-validations",
        name => name,
    }
}
