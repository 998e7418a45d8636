//! Conversion webhooks of custom kinds: objects are stored in one version and served in any.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::test_webhook::{Responder, Webhook};
use super::{FullResponse, JSON, MERGE, Server};

const OLD: &str = "/apis/e.test/v1/namespaces/default/cars";
const NEW: &str = "/apis/e.test/v2/namespaces/default/cars";

/// Converts between `seats` in version 1 and `places` in version 2.
const CONVERT: Responder = |request| {
    let desired = request["desiredAPIVersion"].as_str().unwrap();
    let (from, to) = if desired == "e.test/v2" { ("seats", "places") } else { ("places", "seats") };
    let convert = |it: &Value| {
        let mut it = it.clone();
        it["apiVersion"] = desired.into();
        let value = it["spec"].as_object_mut().unwrap().remove(from);
        it["spec"][to] = value.unwrap_or_default();
        it
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    json!({ "result": { "status": "Success" }, "convertedObjects": objects })
};

async fn define(server: &Server, webhook: &Webhook) {
    let version = |name: &str, field: &str| {
        let spec = json!({ "type": "object", "properties": { field: { "type": "integer" } } });
        json!({ "name": name, "served": true, "storage": name == "v1",
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } })
    };
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "cars.e.test" },
        "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "cars", "kind": "Car" },
            "versions": [version("v1", "seats"), version("v2", "places")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config() } } } });
    let made = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{made:?}");
}

fn car(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("e.test/{version}"), "kind": "Car", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn an_object_is_served_in_each_version_and_stored_in_one() {
    let server = Server::start().await;
    let webhook = Webhook::start(CONVERT).await;
    define(&server, &webhook).await;
    let made = server.post(NEW, car("v2", "a", json!({ "places": 4 }))).await.json();
    assert_eq!((&made["spec"], &made["apiVersion"]), (&json!({ "places": 4 }), &json!("e.test/v2")));
    assert_eq!(server.get(&format!("{OLD}/a")).await.json()["spec"], json!({ "seats": 4 }));
    assert_eq!(server.get(&format!("{NEW}/a")).await.json(), made);
    let changed = server.merge(&format!("{NEW}/a"), json!({ "spec": { "places": 5 } })).await.json();
    assert_eq!(changed["spec"], json!({ "places": 5 }));
    server.post(OLD, car("v1", "b", json!({ "seats": 2 }))).await;
    let list = server.get(NEW).await.json();
    let places: Vec<_> = list["items"].as_array().unwrap().iter().map(|it| &it["spec"]["places"]).collect();
    assert_eq!(places, [5, 2]);
    let uid = made["metadata"]["uid"].clone();
    let held =
        server.merge(&format!("{OLD}/a"), json!({ "metadata": { "finalizers": ["e.test/hold"] } })).await;
    assert_eq!(held.json()["metadata"]["uid"], uid, "the webhook cannot change the uid");
    let going = server.send("DELETE", &format!("{NEW}/a"), &[MERGE], "").await.json();
    assert_eq!(
        (&going["spec"], going["metadata"]["deletionTimestamp"].is_string()),
        (&json!({ "places": 5 }), true)
    );
}

#[tokio::test]
async fn watches_deliver_every_change_in_their_own_version() {
    let server = Server::start().await;
    let webhook = Webhook::start(CONVERT).await;
    define(&server, &webhook).await;
    server.post(OLD, car("v1", "a", json!({ "seats": 1 }))).await;
    let mut events = server.watch(&format!("{NEW}?watch=true&resourceVersion=0")).await;
    server.merge(&format!("{OLD}/a"), json!({ "spec": { "seats": 2 } })).await;
    server.send("DELETE", &format!("{OLD}/a"), &[], "").await;
    for (kind, places) in [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)] {
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["spec"]), (&json!(kind), &json!({ "places": places })));
        assert_eq!(event["object"]["apiVersion"], "e.test/v2");
    }
}

#[tokio::test]
async fn nothing_is_served_or_stored_if_the_conversion_fails() {
    let server = Server::start().await;
    let webhook =
        Webhook::start(|_| json!({ "result": { "status": "Failed", "message": "not today" } })).await;
    define(&server, &webhook).await;
    server.post(OLD, car("v1", "a", json!({ "seats": 1 }))).await;
    let failed =
        |version: &str| (500, format!("conversion webhook for e.test/{version}, Kind=Car failed: not today"));
    assert_eq!(server.get(&format!("{NEW}/a")).await.error(), failed("v1"));
    assert_eq!(server.get(NEW).await.error(), failed("v1"));
    assert_eq!(server.post(NEW, car("v2", "b", json!({ "places": 1 }))).await.error(), failed("v2"));
    assert_eq!(
        server.get(&format!("{OLD}/a")).await.json()["spec"],
        json!({ "seats": 1 }),
        "no conversion is needed"
    );
    assert_eq!(server.get(&format!("{OLD}/b")).await.code, 404);
    let mut events = server.watch(&format!("{NEW}?watch=true&resourceVersion=0")).await;
    assert_eq!(events.next().await.unwrap()["type"], "ERROR");
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Renames fields between the versions of [`define_vans`], where they are present.
const RENAME: Responder = |request| {
    let desired = request["desiredAPIVersion"].as_str().unwrap();
    let to_new = desired == "e.test/v2";
    let convert = |it: &Value| {
        let mut it = it.clone();
        assert_ne!(it["apiVersion"], desired, "it is in that version already");
        it["apiVersion"] = desired.into();
        for (part, old, new) in [("spec", "seats", "places"), ("status", "count", "number")] {
            let (from, to) = if to_new { (old, new) } else { (new, old) };
            if let Some(fields) = it.get_mut(part).and_then(Value::as_object_mut)
                && let Some(value) = fields.remove(from)
            {
                fields.insert(to.to_owned(), value);
            }
        }
        it
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    json!({ "result": { "status": "Success" }, "convertedObjects": objects })
};

/// Defines a kind with a status and a scale, whose fields have other names in each version.
async fn define_vans(server: &Server, webhook: &Webhook) -> Value {
    let version = |name: &str, places: &str, number: &str| {
        let spec = json!({ "type": "object",
            "properties": { places: { "type": "integer" }, "colour": { "type": "string" } } });
        let status = json!({ "type": "object", "properties": { number: { "type": "integer" } } });
        json!({ "name": name, "served": true, "storage": name == "v1",
            "selectableFields": [{ "jsonPath": format!(".spec.{places}") }],
            "subresources": { "status": {}, "scale": { "specReplicasPath": format!(".spec.{places}"),
                "statusReplicasPath": format!(".status.{number}") } },
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } } })
    };
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "vans.e.test" },
        "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "vans", "kind": "Van" },
            "versions": [version("v1", "seats", "count"), version("v2", "places", "number")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config() } } } });
    let made = server.post(DEFINITIONS, definition).await;
    assert_eq!(made.code, 201, "{made:?}");
    made.json()
}

const OLD_VANS: &str = "/apis/e.test/v1/namespaces/default/vans";
const NEW_VANS: &str = "/apis/e.test/v2/namespaces/default/vans";

fn van(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("e.test/{version}"), "kind": "Van", "metadata": { "name": name }, "spec": spec })
}

async fn json_patch(server: &Server, path: &str, patch: Value) -> FullResponse {
    let json_patch = ("content-type", "application/json-patch+json");
    let patched = server.send("PATCH", path, &[json_patch], &patch.to_string()).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    patched
}

async fn apply(server: &Server, path: &str, manager: &str, more: &str, object: &Value) -> FullResponse {
    let path = format!("{path}?fieldManager={manager}{more}");
    server
        .send("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], &object.to_string())
        .await
}

/// Conversions used to be cached by the stored object, and looked up by the object after pruning
/// and defaulting: after a change of the schema none was found, and only `apiVersion` was changed.
/// The next write in that version then dropped the fields for good.
#[tokio::test]
async fn objects_from_before_a_change_of_the_schema_keep_their_fields_in_other_versions() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    define_vans(&server, &webhook).await;
    server.post(OLD_VANS, van("v1", "a", json!({ "seats": 4 }))).await;
    let colour = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour";
    let default = json!([{ "op": "add", "path": format!("{colour}/default"), "value": "red" }]);
    json_patch(&server, &format!("{DEFINITIONS}/vans.e.test"), default).await;
    let shown = server.get(&format!("{NEW_VANS}/a")).await.json();
    assert_eq!(shown["spec"], json!({ "places": 4, "colour": "red" }));
    let labelled =
        server.merge(&format!("{NEW_VANS}/a"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!(labelled.json()["spec"], json!({ "places": 4, "colour": "red" }));
    server.post(OLD_VANS, van("v1", "b", json!({ "seats": 2, "colour": "blue" }))).await;
    json_patch(&server, &format!("{DEFINITIONS}/vans.e.test"), json!([{ "op": "remove", "path": colour }]))
        .await;
    for (name, places) in [("a", 4), ("b", 2)] {
        let changed = server
            .merge(&format!("{NEW_VANS}/{name}"), json!({ "metadata": { "labels": { "c": "d" } } }))
            .await;
        assert_eq!(changed.json()["spec"], json!({ "places": places }), "{changed:?}");
        let stored = server.get(&format!("{OLD_VANS}/{name}")).await.json();
        assert_eq!(stored["spec"], json!({ "seats": places }));
    }
}

/// A webhook that matches the request by `matchPolicy: Equivalent` sees the object in its own
/// version. Without a cached conversion, it used to be renamed to that version and back.
#[tokio::test]
async fn an_admission_webhook_of_another_version_gets_converted_objects() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    define_vans(&server, &webhook).await;
    let admission = Webhook::start(|_| {
        let patch = json!([{ "op": "add", "path": "/metadata/labels", "value": { "hooked": "yes" } }]);
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    })
    .await;
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "clientConfig": admission.client_config(), "matchPolicy": "Equivalent",
        "rules": [{ "operations": ["*"], "apiGroups": ["e.test"], "apiVersions": ["v2"],
            "resources": ["vans", "vans/status", "vans/scale"] }] }] });
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(server.post(path, configuration).await.code, 201);
    let made = server.post(OLD_VANS, van("v1", "a", json!({ "seats": 4 }))).await.json();
    assert_eq!(
        (&made["spec"], &made["metadata"]["labels"]),
        (&json!({ "seats": 4 }), &json!({ "hooked": "yes" })),
        "{made}"
    );
    let changed = server.merge(&format!("{OLD_VANS}/a"), json!({ "spec": { "seats": 5 } })).await.json();
    assert_eq!(changed["spec"], json!({ "seats": 5 }));
    let status = server.merge(&format!("{OLD_VANS}/a/status"), json!({ "status": { "count": 3 } })).await;
    assert_eq!(status.json()["status"], json!({ "count": 3 }), "{status:?}");
    assert_eq!(server.get(&format!("{OLD_VANS}/a")).await.json()["spec"], json!({ "seats": 5 }));
    let requests = admission.requests();
    let seen: Vec<_> = requests.iter().map(|it| (&it["object"]["spec"], &it["oldObject"]["spec"])).collect();
    let places = |it: i64| json!({ "places": it });
    assert_eq!(
        seen,
        [(&places(4), &Value::Null), (&places(5), &places(4)), (&places(5), &places(5))],
        "{requests:?}"
    );
    assert_eq!(requests[2]["object"]["status"], json!({ "number": 3 }));
    for request in &requests {
        assert_eq!(request["object"]["apiVersion"], "e.test/v2");
        assert_eq!(
            (&request["kind"]["version"], &request["requestKind"]["version"]),
            (&json!("v2"), &json!("v1"))
        );
    }
}

/// When the cache of conversions began a new generation within a request, the objects in the
/// generation before the last were shown without a conversion.
#[tokio::test]
async fn long_lists_are_converted_in_one_request_and_completely() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    define_vans(&server, &webhook).await;
    let mut count = 0;
    for (lists, more) in [(1, 1_000), (2, 1_000), (3, 1)] {
        for _ in 0..more {
            let made = server.post(OLD_VANS, van("v1", &format!("a-{count}"), json!({ "seats": 4 }))).await;
            assert_eq!(made.code, 201);
            count += 1;
        }
        let list = server.get(NEW_VANS).await.json();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), count);
        let wrong = items.iter().filter(|it| it["spec"] != json!({ "places": 4 })).count();
        assert_eq!((wrong, webhook.requests().len()), (0, lists));
    }
}

#[tokio::test]
async fn status_and_scale_are_served_and_written_in_each_version() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    define_vans(&server, &webhook).await;
    server.post(OLD_VANS, van("v1", "a", json!({ "seats": 4 }))).await;
    server.merge(&format!("{OLD_VANS}/a/status"), json!({ "status": { "count": 3 } })).await;
    let status = server.get(&format!("{NEW_VANS}/a/status")).await.json();
    assert_eq!(
        (&status["apiVersion"], &status["spec"], &status["status"]),
        (&json!("e.test/v2"), &json!({ "places": 4 }), &json!({ "number": 3 }))
    );
    let scale = server.get(&format!("{NEW_VANS}/a/scale")).await.json();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(4), &json!(3)), "{scale}");
    let scaled = server.merge(&format!("{NEW_VANS}/a/scale"), json!({ "spec": { "replicas": 6 } })).await;
    assert_eq!(scaled.json()["spec"], json!({ "replicas": 6 }), "{scaled:?}");
    let changed = server.merge(&format!("{NEW_VANS}/a/status"), json!({ "status": { "number": 5 } })).await;
    assert_eq!(changed.json()["status"], json!({ "number": 5 }), "{changed:?}");
    let stored = server.get(&format!("{OLD_VANS}/a")).await.json();
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({ "seats": 6 }), &json!({ "count": 5 })));
}

/// Returns the managers of an object with their versions, sorted.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let mut managers: Vec<_> =
        entries.map(|it| format!("{} {}", text(&it["manager"]), text(&it["apiVersion"]))).collect();
    managers.sort_unstable();
    managers
}

/// The fields that a manager owns in another version are found by converting the object.
#[tokio::test]
async fn appliers_of_different_versions_share_an_object() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    define_vans(&server, &webhook).await;
    let (old, new) = (format!("{OLD_VANS}/a"), format!("{NEW_VANS}/a"));
    let made = apply(&server, &old, "one", "", &van("v1", "a", json!({ "seats": 4 }))).await;
    assert_eq!(made.code, 201, "{made:?}");
    let painted = apply(&server, &new, "two", "", &van("v2", "a", json!({ "colour": "red" }))).await;
    assert_eq!(painted.code, 200, "{painted:?}");
    assert_eq!(managers(&painted.json()), ["one e.test/v1", "two e.test/v2"]);
    // An update in one version keeps the owners of the other.
    let updated = server.merge(&old, json!({ "metadata": { "labels": { "a": "b" } } })).await.json();
    assert!(managers(&updated).contains(&"two e.test/v2".to_owned()), "{updated}");
    let both = van("v2", "a", json!({ "colour": "red", "places": 5 }));
    let conflict = apply(&server, &new, "two", "", &both).await.error();
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.seats";
    assert_eq!(conflict, (409, why.to_owned()));
    let forced = apply(&server, &new, "two", "&force=true", &both).await;
    assert_eq!(forced.json()["spec"], json!({ "colour": "red", "places": 5 }), "{forced:?}");
    assert_eq!(server.get(&old).await.json()["spec"], json!({ "colour": "red", "seats": 5 }));
    // A field that its only owner no longer applies is removed, from another version too.
    let again = apply(&server, &old, "two", "", &van("v1", "a", json!({ "colour": "red" }))).await;
    assert_eq!(again.code, 200, "{again:?}");
    let dropped = apply(&server, &new, "two", "", &van("v2", "a", json!({ "places": 5 }))).await;
    assert_eq!(dropped.json()["spec"]["places"], 5, "{dropped:?}");
}

static BROKEN: AtomicBool = AtomicBool::new(false);

/// As in kube-apiserver, owners are not tracked if the object cannot be converted to their version:
/// a webhook that is down must not block writes in the storage version, such as those that remove
/// finalizers.
#[tokio::test]
async fn the_storage_version_can_be_written_while_the_webhook_fails() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| match BROKEN.load(Ordering::SeqCst) {
        true => json!({ "result": { "status": "Failed", "message": "not today" } }),
        false => RENAME(request),
    })
    .await;
    define_vans(&server, &webhook).await;
    let (old, new) = (format!("{OLD_VANS}/a"), format!("{NEW_VANS}/a"));
    apply(&server, &new, "one", "", &van("v2", "a", json!({ "places": 4 }))).await;
    BROKEN.store(true, Ordering::SeqCst);
    let failed = (500, "conversion webhook for e.test/v1, Kind=Van failed: not today".to_owned());
    let applied = van("v1", "a", json!({ "colour": "red" }));
    assert_eq!(apply(&server, &old, "two", "", &applied).await.error(), failed);
    assert_eq!(server.get(&format!("{new}/status")).await.error(), failed);
    assert_eq!(server.get(&format!("{new}/scale")).await.error(), failed);
    assert_eq!(server.send("DELETE", &new, &[JSON], "").await.error(), failed);
    let written = server.merge(&old, json!({ "spec": { "colour": "blue" } })).await;
    assert_eq!(written.json()["spec"], json!({ "seats": 4, "colour": "blue" }), "{written:?}");
    assert!(managers(&written.json()).is_empty());
}

static REPAIRED: AtomicBool = AtomicBool::new(false);

/// Conversions used to be cached as long as the definition stayed the same.
#[tokio::test]
async fn a_repaired_webhook_converts_objects_that_were_converted_before() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        let mut converted = RENAME(request);
        for object in converted["convertedObjects"].as_array_mut().unwrap() {
            if !REPAIRED.load(Ordering::SeqCst) {
                object["spec"] = json!({ "places": 0 });
            }
        }
        converted
    })
    .await;
    define_vans(&server, &webhook).await;
    server.post(OLD_VANS, van("v1", "a", json!({ "seats": 4 }))).await;
    assert_eq!(server.get(&format!("{NEW_VANS}/a")).await.json()["spec"], json!({ "places": 0 }));
    REPAIRED.store(true, Ordering::SeqCst);
    assert_eq!(server.get(&format!("{NEW_VANS}/a")).await.json()["spec"], json!({ "places": 4 }));
}

/// The response to a write is the stored object, not the one that was sent: a field that the
/// storage version does not have is lost, and the writer sees that.
#[tokio::test]
async fn the_response_to_a_write_shows_what_was_stored() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        let mut converted = RENAME(request);
        for object in converted["convertedObjects"].as_array_mut().unwrap() {
            object["spec"].as_object_mut().unwrap().remove("colour");
        }
        converted
    })
    .await;
    define_vans(&server, &webhook).await;
    let made = server.post(NEW_VANS, van("v2", "a", json!({ "places": 4, "colour": "red" }))).await;
    assert_eq!(made.json()["spec"], json!({ "places": 4 }), "{made:?}");
    assert_eq!(server.get(&format!("{NEW_VANS}/a")).await.json(), made.json());
}

/// Selectors used to be evaluated on the stored object, which does not have the fields of the
/// version: `spec.places!=4` selected every object, also for a deletion.
#[tokio::test]
async fn selectors_are_evaluated_in_the_version_of_the_request() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        let mut converted = RENAME(request);
        for object in converted["convertedObjects"].as_array_mut().unwrap() {
            let version = object["apiVersion"].as_str().unwrap().trim_start_matches("e.test/").to_owned();
            object["metadata"]["labels"] = json!({ "version": version });
        }
        converted
    })
    .await;
    define_vans(&server, &webhook).await;
    let mut events =
        server.watch(&format!("{NEW_VANS}?watch=true&resourceVersion=0&fieldSelector=spec.places%3D4")).await;
    for (name, seats) in [("a", 4), ("b", 2), ("c", 4)] {
        let mut van = van("v1", name, json!({ "seats": seats }));
        van["metadata"]["labels"] = json!({ "version": "v1" });
        server.post(OLD_VANS, van).await;
    }
    let names = |list: FullResponse| -> Vec<String> {
        let list = list.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(server.get(&format!("{NEW_VANS}?fieldSelector=spec.places%3D4")).await), ["a", "c"]);
    assert_eq!(names(server.get(&format!("{NEW_VANS}?fieldSelector=spec.places%21%3D4")).await), ["b"]);
    assert_eq!(names(server.get(&format!("{OLD_VANS}?fieldSelector=spec.seats%3D4")).await), ["a", "c"]);
    assert_eq!(names(server.get(&format!("{NEW_VANS}?labelSelector=version%3Dv2")).await), ["a", "b", "c"]);
    assert!(names(server.get(&format!("{NEW_VANS}?labelSelector=version%3Dv1")).await).is_empty());
    server.merge(&format!("{OLD_VANS}/a"), json!({ "spec": { "seats": 5 } })).await;
    server.merge(&format!("{OLD_VANS}/b"), json!({ "spec": { "seats": 4 } })).await;
    for (kind, name, places) in [("ADDED", "a", 4), ("ADDED", "c", 4), ("DELETED", "a", 4), ("ADDED", "b", 4)]
    {
        let event = events.next().await.unwrap();
        let object = &event["object"];
        assert_eq!(
            (&event["type"], &object["metadata"]["name"], &object["spec"]["places"]),
            (&json!(kind), &json!(name), &json!(places)),
            "{event}"
        );
    }
    let deleted =
        server.send("DELETE", &format!("{NEW_VANS}?fieldSelector=spec.places%21%3D4"), &[JSON], "").await;
    assert_eq!(names(deleted), ["a"]);
    assert_eq!(names(server.get(OLD_VANS).await), ["b", "c"]);
}

/// The selectable fields of an object used to be those of the definition at the time of its last
/// write: `spec.colour!=red` then selected all older objects, also for a deletion.
#[tokio::test]
async fn objects_are_selected_by_fields_that_became_selectable_later() {
    let server = Server::start().await;
    let colour = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object",
        "properties": { "colour": colour } } } });
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "vans.e.test" },
        "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "vans", "kind": "Van" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema } }] } });
    assert_eq!(server.post(DEFINITIONS, definition).await.code, 201);
    for (name, spec) in
        [("a", json!({ "colour": "red" })), ("b", json!({ "colour": "blue" })), ("c", json!({}))]
    {
        server.post(OLD_VANS, van("v1", name, spec)).await;
    }
    let default = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/colour/default";
    let selectable = json!([
        { "op": "add", "path": "/spec/versions/0/selectableFields", "value": [{ "jsonPath": ".spec.colour" }] },
        { "op": "add", "path": default, "value": "red" },
    ]);
    json_patch(&server, &format!("{DEFINITIONS}/vans.e.test"), selectable).await;
    let names = |list: FullResponse| -> Vec<String> {
        let list = list.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(server.get(&format!("{OLD_VANS}?fieldSelector=spec.colour%3Dred")).await), ["a", "c"]);
    let mut events = server
        .watch(&format!("{OLD_VANS}?watch=true&resourceVersion=0&fieldSelector=spec.colour%3Dred"))
        .await;
    server.merge(&format!("{OLD_VANS}/a"), json!({ "spec": { "colour": "green" } })).await;
    for (kind, name) in [("ADDED", "a"), ("ADDED", "c"), ("DELETED", "a")] {
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(kind), &json!(name)));
    }
    let others = format!("{OLD_VANS}?fieldSelector=spec.colour%21%3Dred");
    assert_eq!(names(server.send("DELETE", &others, &[JSON], "").await), ["a", "b"]);
    assert_eq!(names(server.get(OLD_VANS).await), ["c"]);
}

/// The status of a definition can be written by any client, such as one that restores a backup.
#[tokio::test]
async fn a_definition_that_loses_its_conditions_keeps_its_objects() {
    let server = Server::start().await;
    let webhook = Webhook::start(RENAME).await;
    let made = define_vans(&server, &webhook).await;
    server.post(OLD_VANS, van("v1", "a", json!({ "seats": 4 }))).await;
    let mut bare = server.get(&format!("{DEFINITIONS}/vans.e.test")).await.json();
    assert_eq!(bare["metadata"]["uid"], made["metadata"]["uid"]);
    bare["status"]["conditions"] = json!([]);
    let path = format!("{DEFINITIONS}/vans.e.test/status");
    let written = server.send("PUT", &path, &[JSON], &bare.to_string()).await;
    assert_eq!(written.code, 200, "{written:?}");
    assert_eq!(server.get(&format!("{OLD_VANS}/a")).await.json()["spec"], json!({ "seats": 4 }));
}

#[tokio::test]
async fn invalid_labels_of_a_webhook_are_an_error() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        let mut converted = RENAME(request);
        for object in converted["convertedObjects"].as_array_mut().unwrap() {
            object["metadata"]["labels"] = match object["metadata"]["name"].as_str() {
                Some("number") => json!({ "a": 1 }),
                Some("list") => json!(["a"]),
                Some("name") => json!({ "not a name": "b" }),
                _ => Value::Null,
            };
        }
        converted
    })
    .await;
    define_vans(&server, &webhook).await;
    for name in ["number", "list", "name"] {
        let refused = server.post(NEW_VANS, van("v2", name, json!({ "places": 4 }))).await;
        assert_eq!(refused.code, 500, "{refused:?}");
        assert!(refused.error().1.contains("metadata.labels"), "{refused:?}");
        assert_eq!(server.get(&format!("{OLD_VANS}/{name}")).await.code, 404);
    }
    let made = server.post(NEW_VANS, van("v2", "none", json!({ "places": 4 }))).await.json();
    assert_eq!((&made["spec"], made["metadata"].get("labels")), (&json!({ "places": 4 }), None));
}
