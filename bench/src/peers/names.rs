//! The names of the contenders, as the table shows them and the goals refer to them.

pub(super) const CLIENT_GO: &str = "client-go";
pub(super) const KUBE_RS: &str = "kube-rs";
/// Typed pods.
pub(super) const FULL: &str = "dogwatch full";
/// A few fields of each pod.
pub(super) const VIEW: &str = "dogwatch view";
/// The same, from a list instead of a watch that sends the objects.
pub(super) const VIEW_LIST: &str = "dogwatch view, list";
pub(super) const METADATA: &str = "dogwatch metadata";
/// Whole pods in the encoding of the server, and the same compressed.
pub(super) const PACKED: &str = "dogwatch packed";
pub(super) const PACKED_ZSTD: &str = "dogwatch packed+zstd";
pub(super) const CURL_JSON: &str = "curl JSON";
pub(super) const CURL_PROTOBUF: &str = "curl protobuf";
