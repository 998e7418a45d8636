//! The names of the contenders, as the table shows them and the goals refer to them.

pub(super) const CLIENT_GO: &str = "client-go";
pub(super) const KUBE_RS: &str = "kube-rs";
/// Typed pods.
pub(super) const FULL: &str = "dogwatch full";
/// A few fields of each pod.
pub(super) const VIEW: &str = "dogwatch view";
pub(super) const METADATA: &str = "dogwatch metadata";
/// Whole pods in a compact form, and the same compressed. Goals refer to them; a contender of this
/// name is judged by them.
pub(super) const PACKED: &str = "dogwatch packed";
pub(super) const PACKED_ZSTD: &str = "dogwatch packed+zstd";
pub(super) const CURL_JSON: &str = "curl JSON";
pub(super) const CURL_PROTOBUF: &str = "curl protobuf";
