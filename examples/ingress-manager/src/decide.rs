//! Decides which write a Service needs, from the Service and its Ingress.

use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;

use crate::desired::{host_of, ingress, is_owner, spec};

/// The write that a Service needs, or none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// The Ingress is as it should be.
    Nothing,
    /// The Ingress is missing and should be created.
    Create(Box<Ingress>),
    /// The Ingress should be replaced by this one, which carries the version it is based on.
    Replace(Box<Ingress>),
    /// The Ingress should be deleted, with this uid and version as preconditions.
    Delete(Box<Ingress>),
    /// An Ingress of this name exists that the Service does not own.
    Taken,
}

/// Decides which write a Service needs, given the Service and the Ingress of the same name, if they
/// exist.
///
/// An Ingress whose Service is gone is left to the cluster's garbage collector, which follows the
/// owner reference.
pub fn decide(service: Option<&Service>, found: Option<&Ingress>) -> Decision {
    let Some(service) = service else { return Decision::Nothing };
    match (host_of(service), found) {
        (None, None) => Decision::Nothing,
        (Some(host), None) => Decision::Create(Box::new(ingress(service, host))),
        (Some(_), Some(found)) if !is_owner(service, found) => Decision::Taken,
        (None, Some(found)) if !is_owner(service, found) => Decision::Nothing,
        // A terminating Ingress is created again once it is gone: its deletion triggers another
        // reconcile.
        (_, Some(found)) if found.metadata.deletion_timestamp.is_some() => Decision::Nothing,
        (None, Some(found)) => Decision::Delete(Box::new(found.clone())),
        (Some(host), Some(found)) => {
            let desired = spec(service, host);
            let rules = found.spec.as_ref().and_then(|spec| spec.rules.as_ref());
            if rules == desired.rules.as_ref() {
                return Decision::Nothing;
            }
            let mut next = found.clone();
            next.spec.get_or_insert_default().rules = desired.rules;
            Decision::Replace(Box::new(next))
        }
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use dogwatch::k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::{ANNOTATION, DEFAULT_HOST};

    fn service(host: Option<&str>) -> Service {
        let mut service = Service::default();
        service.metadata.name = Some("web".to_owned());
        service.metadata.uid = Some("1".to_owned());
        service.metadata.annotations =
            host.map(|host| [(ANNOTATION.to_owned(), host.to_owned())].into_iter().collect());
        service
    }

    fn name_of(step: &Decision) -> &'static str {
        match step {
            Decision::Nothing => "nothing",
            Decision::Create(_) => "create",
            Decision::Replace(_) => "replace",
            Decision::Delete(_) => "delete",
            Decision::Taken => "taken",
        }
    }

    #[test]
    fn every_combination_of_service_and_ingress_leads_to_its_decision() {
        let (plain, annotated) = (service(None), service(Some("a.b")));
        let own = ingress(&annotated, "a.b");
        let other_host = ingress(&annotated, "c.d");
        let mut foreign = own.clone();
        foreign.metadata.owner_references = None;
        let mut terminating_service = annotated.clone();
        terminating_service.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let mut terminating = own.clone();
        terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        for (service, ingress, expected) in [
            (None, None, "nothing"),
            (None, Some(&own), "nothing"),
            (Some(&plain), None, "nothing"),
            (Some(&annotated), None, "create"),
            (Some(&annotated), Some(&own), "nothing"),
            (Some(&annotated), Some(&other_host), "replace"),
            (Some(&plain), Some(&own), "delete"),
            (Some(&annotated), Some(&foreign), "taken"),
            (Some(&plain), Some(&foreign), "nothing"),
            (Some(&terminating_service), None, "nothing"),
            (Some(&plain), Some(&terminating), "nothing"),
        ] {
            assert_eq!(name_of(&decide(service, ingress)), expected, "{service:?} and {ingress:?}");
        }
    }

    #[test]
    fn an_empty_annotation_means_the_default_host() {
        assert_eq!(host_of(&service(Some(" "))), Some(DEFAULT_HOST));
        assert_eq!(host_of(&service(Some("shop.test"))), Some("shop.test"));
        assert_eq!(host_of(&service(None)), None);
    }

    #[test]
    fn a_created_ingress_needs_no_further_write() {
        let service = service(Some("a.b"));
        let Decision::Create(made) = decide(Some(&service), None) else {
            panic!("the service has no ingress")
        };
        assert_eq!(decide(Some(&service), Some(&made)), Decision::Nothing);
    }
}
