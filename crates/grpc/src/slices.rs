//! What is read of the cluster's objects: of an EndpointSlice, of an Endpoints object where slices cannot be had, and of a Service.
//!
//! All are views: what is not named here is passed over on the wire. An Endpoints object becomes slices, so that whoever folds them
//! need not know where they came from.

use std::collections::BTreeMap;

use compact_str::CompactString;
use dogwatch_core::{Header, Labels, Meta, Object, ResourceVersion, View};
use serde::{Deserialize, Deserializer};

/// The label that names the service a slice belongs to.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// An EndpointSlice, as far as calls need it.
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

/// The metadata of a slice: what a cache needs, and its weight.
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
    /// The share of every endpoint of the slice beside those of others.
    #[serde(rename = "dogwatch/weight")]
    weight: Option<CompactString>,
}

/// A port that every endpoint of a slice has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct SlicePort {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) name: CompactString,
    /// `None` stands for every port.
    pub(crate) port: Option<u16>,
    pub(crate) protocol: Option<CompactString>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SliceEndpoint {
    /// Only the first has a meaning; the API says so.
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) addresses: Vec<CompactString>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) conditions: Conditions,
    pub(crate) node_name: Option<CompactString>,
    pub(crate) zone: Option<CompactString>,
    pub(crate) target_ref: Option<TargetRef>,
    pub(crate) hints: Option<Hints>,
}

/// What is said of an endpoint; what is not said has a meaning too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

impl Conditions {
    /// Unknown is ready, by the API's own words.
    pub(crate) fn is_ready(self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// Unknown is as ready as it is.
    pub(crate) fn is_serving(self) -> bool {
        self.serving.unwrap_or(self.is_ready())
    }

    /// Unknown is not terminating.
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
    /// Whether it is a pod; Endpoints need not say what it is.
    pub(crate) fn is_pod(&self) -> bool {
        self.kind.is_empty() || self.kind == "Pod"
    }
}

/// Who should use an endpoint.
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
    /// The service it belongs to.
    pub(crate) fn service(&self) -> Option<&str> {
        self.metadata.labels.get(SERVICE_NAME).map(String::as_str)
    }

    /// What its annotation says of the share of its endpoints; 1 where it says nothing, or nothing that is a number above 0.
    pub(crate) fn weight(&self) -> u32 {
        let said = self.metadata.annotations.weight.as_ref().and_then(|it| it.parse().ok());
        said.filter(|it| *it > 0).unwrap_or(1)
    }
}

impl SlicePort {
    /// Whether calls can go over it.
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol.as_ref().is_none_or(|it| it.is_empty() || it == "TCP")
    }
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

/// An Endpoints object: the older form, of one object per service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Legacy {
    pub(crate) metadata: Meta,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) subsets: Vec<Subset>,
}

/// Addresses that have the same ports.
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

impl Legacy {
    /// The same as slices would say it, as far as it is known here: nothing of zones, hints, or pods that terminate.
    pub(crate) fn slices(&self) -> Vec<Slice> {
        let slice = |subset: &Subset| {
            let of = |addresses: &[LegacyAddress], ready: bool| {
                let endpoint = |it: &LegacyAddress| SliceEndpoint {
                    addresses: vec![it.ip.clone()],
                    conditions: Conditions { ready: Some(ready), ..Conditions::default() },
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

impl Object for Legacy {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for Legacy {
    type Of = k8s_openapi::api::core::v1::Endpoints;
}

/// A Service: which ports it has, and whether it is one with endpoints.
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
    /// Where it is only another name for a host.
    pub(crate) external_name: Option<CompactString>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) ports: Vec<ServicePort>,
}

/// A port of a Service. The port of its endpoints is found by the name, which is empty where there is but one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ServicePort {
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) name: CompactString,
    pub(crate) port: u16,
    pub(crate) protocol: Option<CompactString>,
}

impl ServicePort {
    /// Whether calls can go over it.
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol.as_ref().is_none_or(|it| it.is_empty() || it == "TCP")
    }
}

impl Service {
    /// The host that it is another name for.
    pub(crate) fn external_name(&self) -> Option<&str> {
        self.spec.external_name.as_deref().filter(|it| !it.is_empty())
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

/// Servers write `null` where a list or a text is empty.
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
    fn a_slice_is_read_with_all_that_calls_need() {
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
        assert_eq!((slice.ports[0].port, slice.ports[0].is_tcp()), (Some(8080), true));
    }

    #[test]
    fn what_is_null_or_absent_is_empty_and_unknown_is_ready() {
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
        assert_eq!(conditions(Some(false), None, Some(true)), (false, false, true));
        assert_eq!(conditions(Some(false), Some(true), Some(true)), (false, true, true));
        let endpoint: SliceEndpoint =
            serde_json::from_str(r#"{"addresses":["10.0.0.1"],"conditions":null}"#).expect("an endpoint");
        assert!(endpoint.conditions.is_ready());
    }

    #[test]
    fn a_weight_that_is_no_number_is_one() {
        for (said, expected) in [("5", 5), ("0", 1), ("-1", 1), ("much", 1)] {
            let metadata =
                SliceMeta { annotations: Annotations { weight: Some(said.into()) }, ..SliceMeta::default() };
            assert_eq!(Slice { metadata, ..Slice::default() }.weight(), expected, "{said}");
        }
    }

    #[test]
    fn an_endpoints_object_becomes_slices() {
        let legacy: Legacy = serde_json::from_value(json!({
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
        let ready: Vec<_> = slices[0].endpoints.iter().map(|it| it.conditions.is_ready()).collect();
        assert_eq!(ready, [true, false]);
        assert_eq!(slices[0].ports, legacy.subsets[0].ports);
    }

    #[test]
    fn only_a_service_that_is_another_name_has_one() {
        let service = |spec| serde_json::from_value::<Service>(json!({ "spec": spec })).expect("a service");
        let named = service(json!({ "type": "ExternalName", "externalName": "db.example.com" }));
        assert_eq!(named.external_name(), Some("db.example.com"));
        let usual = service(json!({ "ports": [{ "port": 80, "protocol": "UDP" }] }));
        assert_eq!((usual.external_name(), usual.spec.ports[0].is_tcp()), (None, false));
    }
}
