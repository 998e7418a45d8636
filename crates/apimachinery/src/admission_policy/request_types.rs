//! The types of the variables that policies and match conditions read.
//!
//! Mirrors `BuildRequestType` and `BuildNamespaceType` of k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/cel/compile.go. Objects and parameters have no declared types: what they
//! contain is only known at run time.

use std::sync::LazyLock;

use crate::cel::{RecordType, Type};

/// The type of the variable `request`.
pub(super) static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let text = || Type::String;
    let kind = || record("GroupVersionKind", [("group", text()), ("version", text()), ("kind", text())]);
    let resource =
        || record("GroupVersionResource", [("group", text()), ("version", text()), ("resource", text())]);
    let user = record(
        "UserInfo",
        [("username", text()), ("uid", text()), ("groups", text().list()), ("extra", text().list().map())],
    );
    record(
        "AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
});

/// The type of the variable `namespaceObject`.
pub(super) static NAMESPACE: LazyLock<Type> = LazyLock::new(|| {
    let text = || Type::String;
    let condition = record(
        "NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let metadata = record(
        "NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", text().map()),
            ("annotations", text().map()),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", text().list()),
        ],
    );
    record(
        "Namespace",
        [
            ("metadata", metadata),
            ("spec", record("NamespaceSpec", [("finalizers", text().list())])),
            ("status", record("NamespaceStatus", [("conditions", condition.list()), ("phase", text())])),
        ],
    )
});

fn record<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    Type::record(RecordType::new(&format!("kubernetes.{name}"), fields))
}
