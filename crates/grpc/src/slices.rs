//! The parts of the cluster's objects that are read: EndpointSlices, Endpoints objects as a
//! fallback, and Services.
//!
//! All are views: other fields are skipped during decoding. An Endpoints object is converted to
//! slices, so that folding does not depend on the source.

use std::collections::BTreeMap;

use compact_str::CompactString;
use dogwatch_core::{Header, Labels, Meta, Object, ResourceVersion, View};
use serde::{Deserialize, Deserializer};

/// The label that names the service a slice belongs to.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The fields of an EndpointSlice that calls need.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Slice {
    pub(crate) metadata: SliceMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub(crate) address_type: CompactString,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) ports: Vec<SlicePort>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) endpoints: Vec<SliceEndpoint>,
}

/// The metadata of a slice: the fields that a cache needs, and the weight.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SliceMeta {
    name: CompactString,
    namespace: CompactString,
    uid: CompactString,
    resource_version: ResourceVersion,
    #[serde(deserialize_with = "null_is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    annotations: Annotations,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Annotations {
    /// The weight of each endpoint of the slice, relative to the endpoints of other slices;
    /// documented at `Policy::Weighted`.
    #[serde(rename = "dogwatch/weight")]
    weight: Option<CompactString>,
}

/// A port of every endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SlicePort {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) name: CompactString,
    /// `None` stands for all ports. kube-apiserver does not validate the number of a slice's port
    /// (`validatePorts` in kubernetes v1.36.4 `pkg/apis/discovery/validation/validation.go`), so
    /// any number is possible: see [`is_callable`](Self::is_callable).
    pub(crate) port: Option<i64>,
    pub(crate) protocol: Option<CompactString>,
    pub(crate) app_protocol: Option<CompactString>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SliceEndpoint {
    /// Only the first address is used, as the API documents.
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) addresses: Vec<CompactString>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) conditions: Conditions,
    pub(crate) node_name: Option<CompactString>,
    pub(crate) zone: Option<CompactString>,
    pub(crate) target_ref: Option<TargetRef>,
    pub(crate) hints: Option<Hints>,
}

/// The conditions of an endpoint. An absent condition has a meaning too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

impl Conditions {
    /// An absent condition means ready, as the API documents.
    pub(crate) fn is_ready(self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// An absent condition means serving, whatever `ready` says: documented by the API, and
    /// implemented so by kube-proxy (kubernetes v1.36.4 `pkg/proxy/endpointslicecache.go`).
    pub(crate) fn is_serving(self) -> bool {
        self.serving.unwrap_or(true)
    }

    /// An absent condition means not terminating.
    pub(crate) fn is_terminating(self) -> bool {
        self.terminating.unwrap_or(false)
    }
}

/// The object behind an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) kind: CompactString,
    pub(crate) name: CompactString,
    pub(crate) uid: CompactString,
}

impl TargetRef {
    /// Returns true for a pod. Endpoints objects may leave the kind out.
    pub(crate) fn is_pod(&self) -> bool {
        self.kind.is_empty() || self.kind == "Pod"
    }
}

/// The zones and nodes whose callers should use an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hints {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) for_zones: Vec<Named>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) for_nodes: Vec<Named>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: CompactString,
}

impl Slice {
    /// Returns the service that the slice belongs to.
    pub(crate) fn service(&self) -> Option<&str> {
        self.metadata.labels.get(SERVICE_NAME).map(String::as_str)
    }

    /// Returns the weight of the slice's annotation; 1 if it is absent or not a positive number.
    pub(crate) fn weight(&self) -> u32 {
        let listed = self.metadata.annotations.weight.as_ref().and_then(|it| it.parse().ok());
        listed.filter(|it| *it > 0).unwrap_or(1)
    }
}

impl SlicePort {
    /// Returns true if calls can use the port: it is TCP, and stands for all ports or has a valid
    /// number.
    pub(crate) fn is_callable(&self) -> bool {
        is_tcp(self.protocol.as_deref()) && self.port.is_none_or(|it| number(it).is_some())
    }

    /// Returns the number; `None` if the port stands for all ports, or if its number is invalid.
    pub(crate) fn number(&self) -> Option<u16> {
        self.port.and_then(number)
    }

    /// Returns true if `appProtocol` is `grpc`.
    pub(crate) fn says_grpc(&self) -> bool {
        self.app_protocol.as_ref().is_some_and(|it| it.eq_ignore_ascii_case("grpc"))
    }
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|it| it.is_empty() || it == "TCP")
}

/// Returns a port number if it is valid.
fn number(port: i64) -> Option<u16> {
    u16::try_from(port).ok().filter(|it| *it > 0)
}

impl Object for Slice {
    fn header(&self) -> Header<'_> {
        let meta = &self.metadata;
        Header {
            name: &meta.name,
            namespace: (!meta.namespace.is_empty()).then_some(&meta.namespace),
            uid: &meta.uid,
            version: meta.resource_version.as_str(),
            labels: Labels::from(&meta.labels),
        }
    }
}

impl View for Slice {
    type Of = k8s_openapi::api::discovery::v1::EndpointSlice;
}

/// An Endpoints object, the predecessor of EndpointSlices: one object per service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LegacyEndpoints {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) subsets: Vec<Subset>,
}

/// Addresses with the same ports.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Subset {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) addresses: Vec<LegacyAddress>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) not_ready_addresses: Vec<LegacyAddress>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) ports: Vec<SlicePort>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LegacyAddress {
    pub(crate) ip: CompactString,
    pub(crate) node_name: Option<CompactString>,
    pub(crate) target_ref: Option<TargetRef>,
}

impl LegacyEndpoints {
    /// Converts the object to slices. It contains no zones, no hints and no terminating pods.
    pub(crate) fn slices(&self) -> Vec<Slice> {
        let slice = |subset: &Subset| {
            let of = |addresses: &[LegacyAddress], ready: bool| {
                let endpoint = |it: &LegacyAddress| SliceEndpoint {
                    addresses: vec![it.ip.clone()],
                    // An address that is listed as not ready does not serve either; an absent
                    // condition would mean that it does.
                    conditions: Conditions { ready: Some(ready), serving: Some(ready), terminating: None },
                    node_name: it.node_name.clone(),
                    target_ref: it.target_ref.clone(),
                    ..SliceEndpoint::default()
                };
                addresses.iter().map(endpoint).collect::<Vec<_>>()
            };
            let mut endpoints = of(&subset.addresses, true);
            endpoints.extend(of(&subset.not_ready_addresses, false));
            Slice { ports: subset.ports.clone(), endpoints, ..Slice::default() }
        };
        self.subsets.iter().map(slice).collect()
    }
}

impl Object for LegacyEndpoints {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for LegacyEndpoints {
    type Of = k8s_openapi::api::core::v1::Endpoints;
}

/// The fields of a Service that are read: its ports, traffic policy and external name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Service {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) spec: ServiceSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    /// The host name of an `ExternalName` Service.
    pub(crate) external_name: Option<CompactString>,
    /// `Local`: callers within the cluster may use only the endpoints of their own node.
    pub(crate) internal_traffic_policy: Option<CompactString>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) ports: Vec<ServicePort>,
}

/// A port of a Service. The endpoints' port is found by the name, which is empty if the Service has
/// only one port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ServicePort {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) name: CompactString,
    pub(crate) port: i64,
    pub(crate) protocol: Option<CompactString>,
}

impl ServicePort {
    /// Returns true if calls can use the port.
    pub(crate) fn is_tcp(&self) -> bool {
        is_tcp(self.protocol.as_deref())
    }
}

impl Service {
    /// Returns the host of an `ExternalName` Service.
    pub(crate) fn external_name(&self) -> Option<&str> {
        self.spec.external_name.as_deref().filter(|it| !it.is_empty())
    }

    /// Returns true if callers may use only the endpoints of their own node.
    pub(crate) fn is_local(&self) -> bool {
        self.spec.internal_traffic_policy.as_deref() == Some("Local")
    }
}

impl Object for Service {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for Service {
    type Of = k8s_openapi::api::core::v1::Service;
}

/// Deserializes `null` as the default: servers write `null` for an empty list or text.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slice_is_decoded_with_everything_that_calls_need() {
        let slice: Slice = serde_json::from_value(json!({
            "metadata": { "name": "web-x", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "labels": { SERVICE_NAME: "web" }, "annotations": { "dogwatch/weight": "3", "x": "y" } },
            "addressType": "IPv4",
            "ports": [{ "name": "grpc", "port": 8080, "protocol": "TCP", "appProtocol": "grpc" }],
            "endpoints": [{
                "addresses": ["10.0.0.1"], "conditions": { "ready": false, "terminating": true, "serving": true },
                "nodeName": "n1", "zone": "a", "targetRef": { "kind": "Pod", "name": "web-1", "uid": "p" },
                "hints": { "forZones": [{ "name": "a" }], "forNodes": null },
            }],
        }))
        .expect("a slice");
        assert_eq!((slice.service(), slice.weight()), (Some("web"), 3));
        assert_eq!(slice.key().map(String::from).as_deref(), Some("shop/web-x"));
        assert_eq!(slice.version(), ResourceVersion::new("7"));
        let endpoint = &slice.endpoints[0];
        assert!(endpoint.conditions.is_serving() && endpoint.conditions.is_terminating());
        assert_eq!(endpoint.hints.as_ref().map(|it| it.for_zones[0].name.as_str()), Some("a"));
        let port = &slice.ports[0];
        assert_eq!((port.number(), port.is_callable(), port.says_grpc()), (Some(8080), true, true));
    }

    #[test]
    fn null_and_absent_fields_are_empty_and_unknown_is_ready() {
        for text in [
            r#"{"metadata":{"name":"a","labels":null,"annotations":null},"addressType":"IPv4","ports":null,"endpoints":null}"#,
            r#"{"metadata":{"name":"a"},"addressType":"IPv4"}"#,
        ] {
            let slice: Slice = serde_json::from_str(text).expect("a slice");
            assert!(slice.ports.is_empty() && slice.endpoints.is_empty() && slice.service().is_none());
            assert_eq!(slice.weight(), 1);
        }
        let conditions = |ready, serving, terminating| {
            let it = Conditions { ready, serving, terminating };
            (it.is_ready(), it.is_serving(), it.is_terminating())
        };
        assert_eq!(conditions(None, None, None), (true, true, false));
        assert_eq!(
            conditions(Some(false), None, Some(true)),
            (false, true, true),
            "an absent condition is serving"
        );
        assert_eq!(conditions(Some(false), Some(true), Some(true)), (false, true, true));
        let endpoint: SliceEndpoint =
            serde_json::from_str(r#"{"addresses":["10.0.0.1"],"conditions":null}"#).expect("an endpoint");
        assert!(endpoint.conditions.is_ready());
    }

    #[test]
    fn a_port_with_an_invalid_number_is_skipped() {
        let text = r#"{"metadata":{"name":"a"},"addressType":"IPv4","ports":[
            {"name":"a","port":70000},{"name":"b","port":-1},{"name":"c","port":0},
            {"name":"d","port":80},{"name":"e"},{"name":"f","port":53,"protocol":"UDP"}]}"#;
        let slice: Slice = serde_json::from_str(text).expect("a slice");
        let listed = |it: &SlicePort| (it.name.to_string(), it.is_callable(), it.number());
        let listed: Vec<_> = slice.ports.iter().map(listed).collect();
        let expected = [
            ("a", false, None),
            ("b", false, None),
            ("c", false, None),
            ("d", true, Some(80)),
            ("e", true, None),
            ("f", false, Some(53)),
        ];
        assert_eq!(listed, expected.map(|(name, callable, number)| (name.to_owned(), callable, number)));
    }

    #[test]
    fn a_weight_that_is_not_a_number_is_one() {
        for (listed, expected) in [("5", 5), ("0", 1), ("-1", 1), ("much", 1)] {
            let metadata = SliceMeta {
                annotations: Annotations { weight: Some(listed.into()) },
                ..SliceMeta::default()
            };
            assert_eq!(Slice { metadata, ..Slice::default() }.weight(), expected, "{listed}");
        }
    }

    #[test]
    fn an_endpoints_object_is_converted_to_slices() {
        let legacy: LegacyEndpoints = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "subsets": [{
                "addresses": [{ "ip": "10.0.0.1", "nodeName": "n1", "targetRef": { "uid": "p", "name": "web-1" } }],
                "notReadyAddresses": [{ "ip": "10.0.0.2" }],
                "ports": [{ "name": "grpc", "port": 8080 }],
            }],
        }))
        .expect("endpoints");
        let slices = legacy.slices();
        assert_eq!(slices.len(), 1);
        let conditions = slices[0].endpoints.iter().map(|it| it.conditions);
        let listed: Vec<_> = conditions.map(|it| (it.is_ready(), it.is_serving())).collect();
        assert_eq!(listed, [(true, true), (false, false)]);
        assert_eq!(slices[0].ports, legacy.subsets[0].ports);
    }

    #[test]
    fn only_an_external_name_service_has_an_external_name() {
        let service = |spec| serde_json::from_value::<Service>(json!({ "spec": spec })).expect("a service");
        let named = service(json!({ "type": "ExternalName", "externalName": "db.example.com" }));
        assert_eq!(named.external_name(), Some("db.example.com"));
        let usual = service(json!({ "ports": [{ "port": 80, "protocol": "UDP" }] }));
        assert_eq!((usual.external_name(), usual.spec.ports[0].is_tcp()), (None, false));
        assert!(!usual.is_local() && service(json!({ "internalTrafficPolicy": "Local" })).is_local());
    }
}
