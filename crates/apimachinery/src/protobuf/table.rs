//! The protobuf messages of the API: the name and type of each field.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All messages, indexed by their position in the table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) messages: Vec<Message>,
    by_name: HashMap<&'static str, usize>,
}

/// A message: its name, and its fields by number.
#[derive(Debug)]
pub(super) struct Message {
    /// The name with its package, such as `k8s.io.api.core.v1.Pod`.
    pub(super) name: &'static str,
    pub(super) fields: HashMap<u64, Field>,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// The JSON name; `.` if its fields are inlined in the parent.
    pub(super) name: &'static str,
    pub(super) repeat: Repeat,
    pub(super) shape: Shape,
}

/// The repetition of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    One,
    Many,
    /// A map with string keys.
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    String,
    Bool,
    Integer,
    Double,
    Bytes,
    /// The message at this position in the table.
    Message(usize),
}

impl Table {
    pub(super) fn get() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(Table::parse);
        &TABLE
    }

    fn parse() -> Self {
        let lines = include_str!("../../data/generated/protobuf.txt").lines();
        let messages: Vec<Message> = lines.map(message).collect();
        let by_name = messages.iter().enumerate().map(|(at, it)| (it.name, at)).collect();
        Self { messages, by_name }
    }

    /// Returns the message of a kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let package = match group {
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        };
        let names = [
            format!("k8s.io.api.{package}.{version}.{kind}"),
            format!("k8s.io.apiextensions_apiserver.pkg.apis.{package}.{version}.{kind}"),
            format!("k8s.io.kube_aggregator.pkg.apis.{package}.{version}.{kind}"),
            // Options belong to every group.
            format!("k8s.io.apimachinery.pkg.apis.meta.v1.{kind}"),
        ];
        names.iter().find_map(|it| self.by_name.get(it.as_str())).copied()
    }
}

fn message(line: &'static str) -> Message {
    let mut parts = line.split('\t');
    Message { name: parts.next().unwrap_or_default(), fields: parts.filter_map(field).collect() }
}

fn field(written: &'static str) -> Option<(u64, Field)> {
    let mut parts = written.splitn(3, ' ');
    let number = parts.next()?.parse().ok()?;
    let shape = parts.next()?;
    let repeat = match shape.as_bytes().first()? {
        b'*' => Repeat::Many,
        b'%' => Repeat::Map,
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
    Some((number, Field { name: parts.next()?, repeat, shape }))
}
