//! Discovery documents, compared with recordings of kube-apiserver, and with custom resources.

use std::sync::Arc;

use dogwatch_apimachinery::builtin::{ResourceDef, SubresourceDef};
use dogwatch_apimachinery::discovery::{self, Served};
use serde_json::{Value, json};

use crate::recording;

fn document(served: &Served, path: &str, aggregated: bool) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (parts.as_slice(), aggregated) {
        (["api"], true) => Some(discovery::aggregated_core(served)),
        (["apis"], true) => Some(discovery::aggregated_groups(served)),
        (["api"], false) => Some(discovery::api_versions(served, "127.0.0.1:6443")),
        (["apis"], false) => Some(discovery::group_list(served)),
        (["api", version], _) => discovery::resource_list(served, "", version),
        (["apis", group], _) => discovery::group(served, group),
        (["apis", group, version], _) => discovery::resource_list(served, group, version),
        _ => None,
    }
}

fn custom(group: &str, version: &str, plural: &str, kind: &str) -> Arc<ResourceDef> {
    let verbs = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let subresource = |name: &str, group: &str, version: &str, kind: &str| SubresourceDef {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: verbs(&["get", "patch", "update"]),
    };
    Arc::new(ResourceDef {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        list_kind: String::new(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: vec!["tq".into()],
        categories: vec!["all".into()],
        namespaced: true,
        verbs: verbs(&ResourceDef::CUSTOM_VERBS),
        subresources: vec![
            subresource("status", "", "", kind),
            subresource("scale", "autoscaling", "v1", "Scale"),
        ],
        preferred: false,
        custom: true,
    })
}

#[test]
fn documents_match_the_recordings_of_kube_apiserver() {
    let served = Served::new([]);
    let mut checked = 0;
    for name in ["discovery-aggregated.json", "discovery-aggregated-apps.json", "discovery-legacy.json"] {
        for step in recording::steps(name).iter().filter(|it| it.status == 200) {
            step.check(&document(&served, &step.path, step.aggregated).unwrap());
            checked += 1;
        }
    }
    assert_eq!(checked, 10);
}

#[test]
fn unserved_groups_and_versions_have_no_document() {
    let served = Served::new([]);
    for path in ["/api/v2", "/apis/nothing", "/apis/apps/v2", "/apis/nothing/v1"] {
        assert_eq!(document(&served, path, false), None, "{path}");
    }
    assert_eq!(discovery::group(&served, ""), None);
}

#[test]
fn custom_groups_come_last_by_name_with_versions_by_stability() {
    let served = Served::new([
        custom("z.example.com", "v1", "trains", "Train"),
        custom("z.example.com", "v2alpha1", "trains", "Train"),
        custom("z.example.com", "v2", "trains", "Train"),
        custom("z.example.com", "v1beta1", "trains", "Train"),
        custom("a.example.com", "v1", "boats", "Boat"),
    ]);
    let list = discovery::group_list(&served);
    let groups = list["groups"].as_array().unwrap();
    assert_eq!(groups[0]["name"], "apiregistration.k8s.io");
    assert_eq!(groups[groups.len() - 2]["name"], "a.example.com");
    let last = &groups[groups.len() - 1];
    assert_eq!(last["preferredVersion"]["version"], "v2");
    let versions: Vec<_> = last["versions"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(versions, ["v2", "v1", "v1beta1", "v2alpha1"]);
}

#[test]
fn custom_resources_have_group_and_version_and_another_order_of_verbs() {
    let served = Served::new([custom("a.example.com", "v1", "boats", "Boat")]);
    let all = discovery::aggregated_groups(&served);
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    assert_eq!(
        all["items"].as_array().unwrap().last().unwrap(),
        &json!({"metadata": {"name": "a.example.com"}, "versions": [{
            "version": "v1",
            "resources": [{
                "resource": "boats",
                "responseKind": {"group": "a.example.com", "version": "v1", "kind": "Boat"},
                "scope": "Namespaced",
                "singularResource": "boat",
                "verbs": verbs,
                "shortNames": ["tq"],
                "categories": ["all"],
                "subresources": [
                    {
                        "subresource": "status",
                        "responseKind": {"group": "a.example.com", "version": "v1", "kind": "Boat"},
                        "verbs": ["get", "patch", "update"],
                    },
                    {
                        "subresource": "scale",
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                        "verbs": ["get", "patch", "update"],
                    },
                ],
            }],
            "freshness": "Current",
        }]})
    );
    let list = discovery::resource_list(&served, "a.example.com", "v1").unwrap();
    let names: Vec<_> = list["resources"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["boats", "boats/status", "boats/scale"]);
    assert_eq!(list["resources"][2]["group"], "autoscaling");
}
