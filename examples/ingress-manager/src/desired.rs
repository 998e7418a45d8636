//! The desired Ingress of a Service.

use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    IngressSpec, ServiceBackendPort,
};
use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The annotation that requests an Ingress; its value is the host.
pub const ANNOTATION: &str = "ingress/http";

/// The host that is used if the annotation is empty.
pub const DEFAULT_HOST: &str = "example.com";

/// Returns the host for a Service, or `None` if it requests no Ingress or is terminating.
pub fn host_of(service: &Service) -> Option<&str> {
    if service.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let value = service.metadata.annotations.as_ref()?.get(ANNOTATION)?.trim();
    Some(if value.is_empty() { DEFAULT_HOST } else { value })
}

/// Returns the desired Ingress of a Service: all paths of the host lead to the Service's first
/// port.
pub(crate) fn ingress(service: &Service, host: &str) -> Ingress {
    Ingress {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            owner_references: Some(vec![owner(service)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec(service, host)),
        status: None,
    }
}

/// Returns the desired spec. Only its rules are enforced.
pub(crate) fn spec(service: &Service, host: &str) -> IngressSpec {
    let port =
        service.spec.as_ref().and_then(|spec| spec.ports.as_ref()?.first()).map_or(80, |port| port.port);
    let backend = IngressServiceBackend {
        name: service.metadata.name.clone().unwrap_or_default(),
        port: Some(ServiceBackendPort { number: Some(port), name: None }),
    };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service: Some(backend), resource: None },
    };
    IngressSpec {
        rules: Some(vec![IngressRule {
            host: Some(host.to_owned()),
            http: Some(HTTPIngressRuleValue { paths: vec![path] }),
        }]),
        ..IngressSpec::default()
    }
}

/// Returns true if this Service owns the Ingress, by uid.
pub(crate) fn is_owner(service: &Service, ingress: &Ingress) -> bool {
    let owners = ingress.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
}

fn owner(service: &Service) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: service.metadata.name.clone().unwrap_or_default(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
