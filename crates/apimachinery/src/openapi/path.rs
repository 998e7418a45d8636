//! The paths of a resource and their operations.
//!
//! Subresources that open a connection (`exec`, `proxy` and so on) are omitted: no client reads
//! them from here.

use serde_json::{Map, Value, json};

use super::component::{reference, schema_name};
use super::operation::{Action, Target, in_path, operation, query};
use crate::builtin::{self, ResourceDef, SubresourceDef};

/// Adds the paths of a resource.
pub(super) fn add_paths(paths: &mut Map<String, Value>, resource: &ResourceDef) {
    let names = Names::of(resource);
    let collection = format!("{}{}", names.root, resource.plural);
    if resource.namespaced {
        if resource.has_verb("list") {
            let everywhere = [(Action::List, format!("{}{}ForAllNamespaces", names.id, resource.kind))];
            add(
                paths,
                &collection,
                &[],
                everywhere.map(|(action, id)| of_resource(resource, &names, action, id)),
            );
        }
        let inside = format!("{}namespaces/{{namespace}}/{}", names.root, resource.plural);
        add_scoped(paths, resource, &names, &inside, &["namespace"]);
    } else {
        add_scoped(paths, resource, &names, &collection, &[]);
    }
}

/// The names of a resource in paths, tags and operation ids.
struct Names {
    /// `/api/v1/` or `/apis/apps/v1/`.
    root: String,
    /// `apps_v1`.
    tag: String,
    /// `AppsV1`.
    id: String,
}

impl Names {
    fn of(resource: &ResourceDef) -> Self {
        let group = match resource.group.as_str() {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let camel: String = group.split(['.', '-']).map(capitalized).collect();
        let mut tag = camel.clone();
        if let Some(first) = tag.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        Self {
            root: if resource.group.is_empty() {
                format!("/api/{}/", resource.version)
            } else {
                format!("/apis/{}/{}/", resource.group, resource.version)
            },
            tag: format!("{tag}_{}", resource.version),
            id: format!("{camel}{}", capitalized(&resource.version)),
        }
    }
}

/// Adds the collection, the object and its subresources, all below `collection`.
fn add_scoped(
    paths: &mut Map<String, Value>,
    resource: &ResourceDef,
    names: &Names,
    collection: &str,
    outer: &[&str],
) {
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let id = format!("{}{scope}{}", names.id, resource.kind);
    let of_collection =
        [("list", Action::List), ("create", Action::Post), ("deletecollection", Action::DeleteCollection)];
    let collected = format!("{}Collection{scope}{}", names.id, resource.kind);
    let operations = with_verbs(&resource.verbs, &of_collection).map(|action| {
        let id = if action == Action::DeleteCollection { &collected } else { &id };
        of_resource(resource, names, action, id.clone())
    });
    add(paths, collection, outer, operations);

    let inner: Vec<&str> = outer.iter().copied().chain(["name"]).collect();
    let of_object =
        [("get", Action::Get), ("update", Action::Put), ("patch", Action::Patch), ("delete", Action::Delete)];
    let operations = with_verbs(&resource.verbs, &of_object)
        .map(|action| of_resource(resource, names, action, id.clone()));
    add(paths, &format!("{collection}/{{name}}"), &inner, operations);

    for subresource in resource.subresources.iter().filter(|it| !it.kind.ends_with("Options")) {
        let path = format!("{collection}/{{name}}/{}", subresource.name);
        let mut actions = of_object.to_vec();
        actions.push(("create", Action::Post));
        let operations = with_verbs(&subresource.verbs, &actions).map(|action| {
            let id = format!("{id}{}", capitalized(&subresource.name));
            let operation = operation(action, &subresource_target(resource, subresource, names, id));
            (action, operation)
        });
        add(paths, &path, &inner, operations);
    }
}

fn with_verbs<'a>(verbs: &'a [String], known: &'a [(&str, Action)]) -> impl Iterator<Item = Action> + 'a {
    known.iter().filter(|(verb, _)| verbs.iter().any(|it| it == verb)).map(|(_, action)| *action)
}

fn of_resource(resource: &ResourceDef, names: &Names, action: Action, id: String) -> (Action, Value) {
    let list_kind = resource.list_kind();
    let kind = if action == Action::List { &*list_kind } else { &resource.kind };
    let schema = schema_name(resource, kind).map_or_else(|| json!({"type": "object"}), |it| reference(&it));
    let object = (resource.kind.as_str(), None);
    let target = Target { gvk: resource.gvk(), schema, tag: &names.tag, id, object, custom: resource.custom };
    (action, operation(action, &target))
}

fn subresource_target<'a>(
    resource: &'a ResourceDef,
    subresource: &'a SubresourceDef,
    names: &'a Names,
    id: String,
) -> Target<'a> {
    let gvk = resource.subresource_gvk(subresource);
    let own = subresource.version.is_empty();
    let name = if own {
        schema_name(resource, &subresource.kind)
    } else {
        builtin::definition_name(&gvk.group, &gvk.version, &gvk.kind).map(Into::into)
    };
    let schema = match name {
        Some(_) if subresource.name == "log" => json!({"type": "string"}),
        Some(name) => reference(&name),
        None => json!({"type": "object"}),
    };
    // Subresources of custom kinds are documented as operations on the kind, whatever body they
    // take: `buildRoute` in k8s.io/apiextensions-apiserver v0.36.4
    // pkg/controller/openapi/builder/builder.go.
    let gvk = if resource.custom { resource.gvk() } else { gvk };
    let object = (resource.kind.as_str(), Some(subresource.name.as_str()));
    Target { gvk, schema, tag: &names.tag, id, object, custom: resource.custom }
}

fn add(
    paths: &mut Map<String, Value>,
    path: &str,
    parts: &[&str],
    operations: impl IntoIterator<Item = (Action, Value)>,
) {
    let mut out: Map<String, Value> =
        operations.into_iter().map(|(action, it)| (action.method().to_owned(), it)).collect();
    if out.is_empty() {
        return;
    }
    let mut parts = parts.to_vec();
    parts.sort_unstable();
    let parameters = parts.into_iter().map(in_path).chain([query("pretty", "string")]);
    out.insert("parameters".to_owned(), parameters.collect());
    paths.insert(path.to_owned(), Value::Object(out));
}

fn capitalized(word: &str) -> String {
    let mut out = word.to_owned();
    if let Some(first) = out.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    out
}
