//! Rows of the kinds that configure the server itself: flow control, IP addresses, API services,
//! certificate signing requests.

use serde_json::Value;

use super::age;
use super::cell::name;
use crate::kinds::json_access::{at, items, number, text};

const NONE: &str = "<none>";

/// Returns the cells of an object if this module prints its kind.
pub(super) fn cells(group: &str, plural: &str, object: &Value, age: Value) -> Option<Vec<Value>> {
    let first = name(object);
    let plain = |pointer: &str| Value::from(text(object, pointer));
    let count = |pointer: &str| number(object, pointer).map_or_else(|| NONE.into(), Value::from);
    Some(match (group, plural) {
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => vec![
            first,
            plain("/spec/priorityLevelConfiguration/name"),
            number(object, "/spec/matchingPrecedence").unwrap_or(0).into(),
            at(object, "/spec/distinguisherMethod/type").cloned().unwrap_or_else(|| NONE.into()),
            age,
            condition(object, "Dangling").map_or("?", |it| text(it, "/status")).into(),
        ],
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => vec![
            first,
            plain("/spec/type"),
            count("/spec/limited/nominalConcurrencyShares"),
            count("/spec/limited/limitResponse/queuing/queues"),
            count("/spec/limited/limitResponse/queuing/handSize"),
            count("/spec/limited/limitResponse/queuing/queueLengthLimit"),
            age,
        ],
        ("certificates.k8s.io", "certificatesigningrequests") => vec![
            first,
            age,
            at(object, "/spec/signerName").cloned().unwrap_or_else(|| NONE.into()),
            plain("/spec/username"),
            number(object, "/spec/expirationSeconds").map_or(NONE.into(), |it| age::human(it).into()),
            signing_state(object).into(),
        ],
        ("networking.k8s.io", "ipaddresses") => vec![first, parent(object).into(), age],
        ("apiregistration.k8s.io", "apiservices") => {
            vec![first, service(object).into(), availability(object).into(), age]
        }
        _ => return None,
    })
}

/// Returns the state of a certificate signing request: `Approved,Issued`.
fn signing_state(request: &Value) -> String {
    let decided = |kind: &str| condition(request, kind).is_some();
    let mut state = match (decided("Denied"), decided("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if decided("Failed") {
        state.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|it| text(it, "/type") == kind)
}

/// Returns the owner of an IP address: `services/default/web`.
fn parent(address: &Value) -> String {
    let Some(parent) = at(address, "/spec/parentRef") else { return NONE.to_owned() };
    let parts = ["/resource", "/group"].map(|it| text(parent, it).to_lowercase());
    let resource: Vec<&str> = parts.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    let resource = resource.join(".");
    match text(parent, "/namespace") {
        "" => format!("{resource}/{}", text(parent, "/name")),
        namespace => format!("{resource}/{namespace}/{}", text(parent, "/name")),
    }
}

fn service(part: &Value) -> String {
    at(part, "/spec/service")
        .map_or_else(|| "Local".to_owned(), |it| format!("{}/{}", text(it, "/namespace"), text(it, "/name")))
}

fn availability(part: &Value) -> String {
    match condition(part, "Available").map(|it| (text(it, "/status"), text(it, "/reason"))) {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, "")) => status.to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(group: &str, plural: &str, mut object: Value) -> Value {
        object["metadata"] = json!({ "name": "a" });
        cells(group, plural, &object, "5s".into()).unwrap().into()
    }

    #[test]
    fn a_certificate_signing_request_has_a_cell_for_each_column() {
        let (group, plural) = ("certificates.k8s.io", "certificatesigningrequests");
        let columns = crate::print::columns(group, "v1", plural);
        let pending = row(group, plural, json!({ "spec": { "signerName": "s", "username": "u" } }));
        assert_eq!(columns.as_array().unwrap().len(), pending.as_array().unwrap().len());
        assert_eq!(pending, json!(["a", "5s", "s", "u", "<none>", "Pending"]));
        let state = |conditions: &[&str], certificate: &str| {
            let conditions: Vec<_> = conditions.iter().map(|it| json!({ "type": it })).collect();
            let request = json!({ "spec": { "username": "u", "expirationSeconds": 3600 },
                "status": { "conditions": conditions, "certificate": certificate } });
            row(group, plural, request)
        };
        assert_eq!(state(&["Approved"], "abc"), json!(["a", "5s", "<none>", "u", "60m", "Approved,Issued"]));
        assert_eq!(state(&["Approved", "Denied", "Failed"], "")[5], "Denied,Failed");
    }

    /// Recorded from kube-apiserver.
    #[test]
    fn rows_are_those_of_kube_apiserver() {
        let flow = "flowcontrol.apiserver.k8s.io";
        let schema = json!({ "spec": { "matchingPrecedence": 123, "priorityLevelConfiguration": { "name": "exempt" },
            "distinguisherMethod": { "type": "ByUser" } },
            "status": { "conditions": [{ "type": "Dangling", "status": "False" }] } });
        assert_eq!(row(flow, "flowschemas", schema), json!(["a", "exempt", 123, "ByUser", "5s", "False"]));
        let bare = json!({ "spec": { "priorityLevelConfiguration": { "name": "x" } } });
        assert_eq!(row(flow, "flowschemas", bare), json!(["a", "x", 0, "<none>", "5s", "?"]));
        let queuing = json!({ "queues": 10, "handSize": 3, "queueLengthLimit": 5 });
        let limited = json!({ "nominalConcurrencyShares": 5, "limitResponse": { "queuing": queuing } });
        let level = json!({ "spec": { "type": "Limited", "limited": limited } });
        assert_eq!(
            row(flow, "prioritylevelconfigurations", level),
            json!(["a", "Limited", 5, 10, 3, 5, "5s"])
        );
        assert_eq!(
            row(flow, "prioritylevelconfigurations", json!({ "spec": { "type": "Exempt" } })),
            json!(["a", "Exempt", "<none>", "<none>", "<none>", "<none>", "5s"])
        );
        let of_service = json!({ "group": "", "resource": "services", "namespace": "default", "name": "s" });
        assert_eq!(
            row("networking.k8s.io", "ipaddresses", json!({ "spec": { "parentRef": of_service } })),
            json!(["a", "services/default/s", "5s"])
        );
        let missing = json!({ "spec": { "service": { "name": "s", "namespace": "n" } }, "status": { "conditions":
            [{ "type": "Available", "status": "False", "reason": "ServiceNotFound" }] } });
        assert_eq!(
            row("apiregistration.k8s.io", "apiservices", missing),
            json!(["a", "n/s", "False (ServiceNotFound)", "5s"])
        );
        assert_eq!(
            row("apiregistration.k8s.io", "apiservices", json!({})),
            json!(["a", "Local", "Unknown", "5s"])
        );
    }
}
