//! What is to be done for a Service, from what there is.

use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;

use crate::desired::{host_of, ingress, is_owner, spec};

/// One write, or none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// There is no Ingress, and should be this one.
    Create(Box<Ingress>),
    /// The Ingress should be like this; it names the version it was made from.
    Replace(Box<Ingress>),
    /// The Ingress should not be there: this very one, by uid and version.
    Delete(Box<Ingress>),
    /// Somebody else has an Ingress of this name.
    Taken,
}

/// What is to be done for a Service, if there is one, whose Ingress is this, if there is one.
///
/// An Ingress whose Service is gone is left to the garbage collector of the cluster, which knows the owner too.
pub fn decide(service: Option<&Service>, found: Option<&Ingress>) -> Step {
    let Some(service) = service else { return Step::Nothing };
    match (host_of(service), found) {
        (None, None) => Step::Nothing,
        (Some(host), None) => Step::Create(Box::new(ingress(service, host))),
        (Some(_), Some(found)) if !is_owner(service, found) => Step::Taken,
        (None, Some(found)) if !is_owner(service, found) => Step::Nothing,
        // One that is on its way out comes back when it is gone.
        (_, Some(found)) if found.metadata.deletion_timestamp.is_some() => Step::Nothing,
        (None, Some(found)) => Step::Delete(Box::new(found.clone())),
        (Some(host), Some(found)) => {
            let wanted = spec(service, host);
            let rules = found.spec.as_ref().and_then(|spec| spec.rules.as_ref());
            if rules == wanted.rules.as_ref() {
                return Step::Nothing;
            }
            let mut next = found.clone();
            next.spec.get_or_insert_default().rules = wanted.rules;
            Step::Replace(Box::new(next))
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

    fn called(step: &Step) -> &'static str {
        match step {
            Step::Nothing => "nothing",
            Step::Create(_) => "create",
            Step::Replace(_) => "replace",
            Step::Delete(_) => "delete",
            Step::Taken => "taken",
        }
    }

    #[test]
    fn every_meeting_of_a_service_and_an_ingress() {
        let (plain, annotated) = (service(None), service(Some("a.b")));
        let own = ingress(&annotated, "a.b");
        let other_host = ingress(&annotated, "c.d");
        let mut strangers = own.clone();
        strangers.metadata.owner_references = None;
        let mut leaving = annotated.clone();
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let mut going = own.clone();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        for (service, ingress, expected) in [
            (None, None, "nothing"),
            (None, Some(&own), "nothing"),
            (Some(&plain), None, "nothing"),
            (Some(&annotated), None, "create"),
            (Some(&annotated), Some(&own), "nothing"),
            (Some(&annotated), Some(&other_host), "replace"),
            (Some(&plain), Some(&own), "delete"),
            (Some(&annotated), Some(&strangers), "taken"),
            (Some(&plain), Some(&strangers), "nothing"),
            (Some(&leaving), None, "nothing"),
            (Some(&plain), Some(&going), "nothing"),
        ] {
            assert_eq!(called(&decide(service, ingress)), expected, "{service:?} and {ingress:?}");
        }
    }

    #[test]
    fn an_annotation_without_a_host_means_the_usual_one() {
        assert_eq!(host_of(&service(Some(" "))), Some(DEFAULT_HOST));
        assert_eq!(host_of(&service(Some("shop.test"))), Some("shop.test"));
        assert_eq!(host_of(&service(None)), None);
    }

    #[test]
    fn what_was_done_leaves_nothing_to_do() {
        let service = service(Some("a.b"));
        let Step::Create(made) = decide(Some(&service), None) else { panic!("it has none") };
        assert_eq!(decide(Some(&service), Some(&made)), Step::Nothing);
    }
}
