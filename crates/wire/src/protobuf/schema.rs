//! The messages of the API: the names and types of their fields.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All messages, by their position in the table.
#[derive(Debug)]
pub(crate) struct Schema {
    messages: Vec<Message>,
    /// The fields of all messages, by message and number.
    fields: Vec<Field>,
    /// For each message and number, the position of the field plus one; 0 if there is none.
    slots: Vec<u16>,
    by_name: HashMap<(&'static str, &'static str), u16>,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) form: Form,
    /// The slots of its fields, of the numbers from 0.
    first: u32,
    count: u16,
}

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object with the fields of the message.
    Object,
    /// A string such as `100m`.
    Quantity,
    /// A time with seconds, or null.
    Time,
    /// A time with microseconds, or null.
    MicroTime,
    /// A string such as `1h0m0s`.
    Duration,
    IntOrString,
    /// JSON, or an envelope with another object.
    Raw,
    /// A list of strings.
    Strings,
    SchemaOrBool,
    /// A schema or a list, of schemas or strings.
    SchemaOrList,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The JSON name; `.` if JSON has the fields of its message instead.
    pub(crate) name: &'static str,
    pub(crate) number: u8,
    pub(crate) repeat: Repeat,
    pub(crate) shape: Shape,
}

/// The repetition of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A single value, shown in JSON wherever it is set.
    One,
    /// A single value that JSON omits where it is empty.
    OneUnlessEmpty,
    Many,
    /// A map with string keys.
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Bool,
    Integer,
    Double,
    Bytes,
    /// The message at this position in the table.
    Message(u16),
}

impl Schema {
    /// Returns the schema, which is parsed when it is used first.
    pub(crate) fn get() -> &'static Self {
        static SCHEMA: LazyLock<Schema> =
            LazyLock::new(|| Schema::parse(include_str!("../../data/protobuf.txt")));
        &SCHEMA
    }

    fn parse(table: &'static str) -> Self {
        let mut schema =
            Self { messages: Vec::new(), fields: Vec::new(), slots: Vec::new(), by_name: HashMap::new() };
        let mut package = "";
        for line in table.lines() {
            match line.strip_prefix('@') {
                Some(name) => package = name,
                None => schema.add(package, line),
            }
        }
        schema
    }

    fn add(&mut self, package: &'static str, line: &'static str) {
        let mut parts = line.split('\t');
        let name = parts.next().unwrap_or_default();
        let first = self.slots.len();
        for field in parts.filter_map(field) {
            let slot = first + usize::from(field.number);
            self.slots.resize(self.slots.len().max(slot + 1), 0);
            self.fields.push(field);
            self.slots[slot] = position(self.fields.len());
        }
        self.by_name.insert((package, name), position(self.messages.len()));
        let count = position(self.slots.len() - first);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        self.messages.push(Message { form: form(package, name), first, count });
    }

    /// Returns whether there is a message at a position of the table.
    pub(crate) fn is_message(position: u16) -> bool {
        usize::from(position) < Self::get().messages.len()
    }

    pub(crate) fn message(&self, position: u16) -> Message {
        self.messages[usize::from(position)]
    }

    /// Returns the field of a message with this number.
    #[inline]
    pub(crate) fn field(&self, message: Message, number: u32) -> Option<Field> {
        if number >= u32::from(message.count) {
            return None;
        }
        let slot = self.slots[message.first as usize + number as usize];
        slot.checked_sub(1).map(|position| self.fields[usize::from(position)])
    }

    /// Returns the message of a kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<u16> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let in_package = |package: &str| self.by_name.get(&(package, kind)).copied();
        let common = || in_package("k8s.io.apimachinery.pkg.apis.meta.v1");
        let Some(package) = package(group) else {
            // Options have the group of the objects that they are for.
            return common().filter(|_| kind.ends_with("Options"));
        };
        let parents = [
            "k8s.io.api",
            "k8s.io.apiextensions_apiserver.pkg.apis",
            "k8s.io.kube_aggregator.pkg.apis",
            "k8s.io.apimachinery.pkg.apis",
        ];
        let in_parent = |it: &&str| in_package(&format!("{it}.{package}.{version}"));
        parents.iter().find_map(in_parent).or_else(common)
    }

    /// Returns the field of a list message that has its items, and the message of an item.
    pub(crate) fn items(&self, list: u16) -> Option<(u32, u16)> {
        let message = self.message(list);
        (0..u32::from(message.count)).find_map(|number| match self.field(message, number)? {
            Field { name: "items", repeat: Repeat::Many, shape: Shape::Message(item), .. } => {
                Some((number, item))
            }
            _ => None,
        })
    }
}

/// Returns the name of a built-in group in the names of packages; `None` for other groups.
fn package(group: &str) -> Option<&str> {
    match group {
        "" => Some("core"),
        "apps" | "autoscaling" | "batch" | "extensions" | "policy" => Some(group),
        "flowcontrol.apiserver.k8s.io" => Some("flowcontrol"),
        "internal.apiserver.k8s.io" => Some("apiserverinternal"),
        "rbac.authorization.k8s.io" => Some("rbac"),
        group => group.strip_suffix(".k8s.io").filter(|it| !it.contains('.')),
    }
}

fn position(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn form(package: &str, name: &str) -> Form {
    match (package.strip_prefix("k8s.io.apimachinery.pkg."), name) {
        (Some("api.resource"), "Quantity") => Form::Quantity,
        (Some("apis.meta.v1"), "Time") => Form::Time,
        (Some("apis.meta.v1"), "MicroTime") => Form::MicroTime,
        (Some("apis.meta.v1"), "Duration") => Form::Duration,
        (Some("apis.meta.v1"), "FieldsV1") | (Some("runtime"), "RawExtension") => Form::Raw,
        (Some("apis.meta.v1"), "Verbs") | (None, "ExtraValue") => Form::Strings,
        (Some("util.intstr"), "IntOrString") => Form::IntOrString,
        (None, "JSON") if package.contains(".apiextensions.") => Form::Raw,
        (None, "JSONSchemaPropsOrBool") => Form::SchemaOrBool,
        (None, "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray") => Form::SchemaOrList,
        _ => Form::Object,
    }
}

fn field(written: &'static str) -> Option<Field> {
    let mut parts = written.splitn(3, ' ');
    let number = parts.next()?.parse().ok()?;
    let shape = parts.next()?;
    let repeat = match shape.as_bytes().first()? {
        b'*' => Repeat::Many,
        b'%' => Repeat::Map,
        b'?' => Repeat::OneUnlessEmpty,
        _ => Repeat::One,
    };
    let shape = match &shape[1..] {
        "s" => Shape::String,
        "b" => Shape::Bool,
        "i" => Shape::Integer,
        "d" => Shape::Double,
        "y" => Shape::Bytes,
        message => Shape::Message(message.parse().ok()?),
    };
    Some(Field { name: parts.next()?, number, repeat, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_every_group_are_found() {
        let schema = Schema::get();
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "DeploymentList"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("apiregistration.k8s.io/v1", "APIService"),
            ("meta.k8s.io/v1", "PartialObjectMetadataList"),
            ("v1", "Status"),
            ("batch/v1", "DeleteOptions"),
            ("example.com/v1", "DeleteOptions"),
            ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion"),
        ] {
            assert!(schema.of_kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
        for (api_version, kind) in [
            ("example.com/v1", "Widget"),
            ("example.com/v1", "Condition"),
            ("apps.example.com/v1", "Deployment"),
            ("rbac/v1", "Role"),
            ("metrics.k8s.io/v1beta1", "PodMetrics"),
            ("apps/v2", "Deployment"),
        ] {
            assert_eq!(schema.of_kind(api_version, kind), None, "{api_version} {kind}");
        }
    }

    #[test]
    fn the_items_of_every_list_are_in_the_field_that_an_envelope_has_for_the_message() {
        let schema = Schema::get();
        // Only the metadata of v1beta1, which no server sends any more, has other numbers.
        let is_list = |(package, name): &(&str, &str)| {
            name.ends_with("List") && *package != "k8s.io.apimachinery.pkg.apis.meta.v1beta1"
        };
        let lists = schema.by_name.iter().filter(|(name, _)| is_list(name));
        let numbers: Vec<_> = lists.filter_map(|(_, it)| schema.items(*it)).map(|it| it.0).collect();
        assert!(numbers.len() > 100, "{} lists", numbers.len());
        assert!(numbers.iter().all(|it| *it == super::super::assembly::MESSAGE));
    }

    #[test]
    fn every_field_of_the_table_is_understood() {
        let table = include_str!("../../data/protobuf.txt");
        let lines: Vec<_> = table.lines().filter(|it| !it.starts_with('@')).collect();
        let schema = Schema::get();
        assert_eq!(schema.messages.len(), lines.len());
        assert_eq!(schema.fields.len(), lines.iter().map(|it| it.matches('\t').count()).sum::<usize>());
        for field in &schema.fields {
            // One bit of the set of fields that a reader has seen.
            assert!((1..64).contains(&field.number), "{field:?}");
            if let Shape::Message(message) = field.shape {
                assert!(usize::from(message) < schema.messages.len(), "{field:?}");
            }
        }
    }
}
