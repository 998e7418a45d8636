//! Invalid strategic merge patches. Codes and messages are those of kube-apiserver 1.36.

use dogwatch_apimachinery::patch::PatchKind;
use serde_json::{Value, json};

use super::patched;

fn rejected(live: &Value, patch: &Value) -> (u16, String) {
    let status = patched(PatchKind::Strategic, live, patch).expect_err("the patch is rejected").0;
    (status.code, status.message)
}

#[test]
fn invalid_items_and_directives_of_merging_lists_are_500() {
    let live = json!({"spec": {"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}});
    for (patch, message) in [
        (
            json!({"containers": [{"image": "nokey"}]}),
            "map: map[image:nokey] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "merge", "name": "a"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"containers": [{"$patch": "bogus", "name": "a"}]}),
            "unknown patch type: bogus in map: map[$patch:bogus name:a]",
        ),
        (
            json!({"containers": [{"$patch": 5, "name": "a"}]}),
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 name:a]",
        ),
        (json!({"containers": ["x"]}), "list element types are not identical: [[map[name:a]] [x]]"),
        (json!({"containers": [null]}), "list element types are not identical: [[map[name:a]] [<nil>]]"),
        (
            json!({"$deleteFromPrimitiveList/containers": ["a"]}),
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (
            json!({"nodeSelector": {"$patch": "merge", "b": "c"}}),
            "unknown patch type: merge in map: map[$patch:merge b:c]",
        ),
        (
            json!({"nodeSelector": {"$patch": null}}),
            "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]",
        ),
    ] {
        assert_eq!(rejected(&live, &json!({ "spec": patch })), (500, message.to_owned()), "{patch}");
    }
}

#[test]
fn an_invalid_element_order_is_500() {
    let live = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"a": "b"}}});
    let ordered = |order: Value| json!({"$setElementOrder/containers": order});
    for (patch, message) in [
        (ordered(json!([{"x": 1}])), "map: map[x:1] does not contain declared merge key: name"),
        (ordered(json!(["a"])), "value for key 0 is not a map"),
        (ordered(json!("a")), "expected a []interface {}, but received a string"),
        (ordered(json!(null)), "expected a []interface {}, but received a %!s(<nil>)"),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "x"}]}),
            "The order in patch list:\n[map[name:x]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        (
            json!({"$setElementOrder/nothere": [{"name": "a"}]}),
            "unable to find api field in struct PodSpec for the json field \"nothere\"",
        ),
        (
            json!({"$setElementOrder/nodeSelector": [{"name": "a"}]}),
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (json!({"$setElementOrder/volumes": [], "volumes": []}), "no elements in any of the given slices"),
    ] {
        assert_eq!(rejected(&live, &json!({ "spec": patch })), (500, message.to_owned()), "{patch}");
    }
}

#[test]
fn malformed_directives_are_400() {
    let live = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "strategy": {"type": "x"}}});
    for (patch, message) in [
        (json!({"$setElementOrder": [{"name": "a"}]}), "invalid patch format of setElementOrder list"),
        (json!({"$deleteFromPrimitiveList": ["a"]}), "invalid patch format of primitive list"),
        (json!({"strategy": {"$retainKeys": ["by"], "type": "y"}}), "invalid patch format of retainKeys"),
        (json!({"volumes": [{"name": "v", "$retainKeys": "name"}]}), "invalid patch format of retainKeys"),
    ] {
        assert_eq!(rejected(&live, &json!({ "spec": patch })), (400, message.to_owned()), "{patch}");
    }
}

#[test]
fn objects_merge_only_as_deep_as_the_schema() {
    let live = json!({"spec": {"raw": {"a": {"b": 1}, "s": "x"}, "nodeSelector": {"a": {}}, "lists": [["a"]]}, "metadata": {"unkeyed": [{"name": "a"}]}});
    for (patch, message) in [
        (
            json!({"spec": {"raw": {"a": {"b": 2}}}}),
            "unable to find api field in struct RawExtension for the json field \"a\"",
        ),
        (
            json!({"spec": {"nodeSelector": {"a": {"b": "c"}}}}),
            "merging an object in json but data type is not struct, instead is: map",
        ),
        (json!({"spec": {"lists": [["b"]]}}), "unexpected slice of slice"),
        (
            json!({"metadata": {"unkeyed": [{"name": "b"}]}}),
            "cannot merge lists without merge key for struct",
        ),
    ] {
        assert_eq!(rejected(&live, &patch), (500, message.to_owned()), "{patch}");
    }
    let shallow =
        patched(PatchKind::Strategic, &live, &json!({"spec": {"raw": {"s": "y", "t": {"u": null}}}}));
    assert_eq!(shallow.expect("a result")["spec"]["raw"], json!({"a": {"b": 1}, "s": "y", "t": {}}));
}

#[test]
fn lists_of_lists_do_not_merge() {
    let live = json!({"metadata": {"finalizers": [["a"]]}});
    let (code, message) = rejected(&live, &json!({"metadata": {"finalizers": [["b"]]}}));
    assert_eq!(
        (code, message.as_str()),
        (422, "the server rejected our request due to an error in our request")
    );
}
