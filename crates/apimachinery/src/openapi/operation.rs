//! One operation of a path: its parameters, its bodies and the kind that it is about.

use dogwatch_core::Gvk;
use serde_json::{Map, Value, json};

use super::component::{meta, reference};

/// Query parameters and their types, sorted by name.
type Parameters = &'static [(&'static str, &'static str)];

const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: Parameters =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: Parameters = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// The operations, by the name of the action in k8s.io/apiserver v0.36.4
/// pkg/endpoints/installer.go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Get,
    Post,
    Put,
    Patch,
    Delete,
    DeleteCollection,
}

/// The resource or subresource that an operation is about.
pub(super) struct Target<'a> {
    pub(super) gvk: Gvk,
    /// The schema of the request and response bodies; for a list, that of the list.
    pub(super) schema: Value,
    pub(super) tag: &'a str,
    /// The end of the operation's id, for example `CoreV1NamespacedPod`.
    pub(super) id: String,
    /// The kind of the objects at the path, and the subresource, if any.
    pub(super) object: (&'a str, Option<&'a str>),
    pub(super) custom: bool,
}

impl Action {
    /// Returns the HTTP method, in lower case as in documents.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::List | Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    /// Returns the word that the id of an operation begins with.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "read",
            Self::Post => "create",
            Self::Put => "replace",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    fn parameters(self) -> Parameters {
        match self {
            Self::List => LIST,
            Self::Get => &[],
            Self::Post | Self::Put => WRITE,
            Self::Patch => PATCH,
            Self::Delete => DELETE,
            Self::DeleteCollection => DELETE_COLLECTION,
        }
    }

    fn statuses(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::List | Self::Get | Self::DeleteCollection => &[("200", "OK")],
            Self::Post => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            Self::Put | Self::Patch => &[("200", "OK"), ("201", "Created")],
            Self::Delete => &[("200", "OK"), ("202", "Accepted")],
        }
    }
}

/// Returns the operation in the form of a document.
pub(super) fn operation(action: Action, target: &Target<'_>) -> Value {
    let mut out = Map::new();
    out.insert("tags".into(), json!([target.tag]));
    out.insert("description".into(), json!(description(action, target)));
    out.insert("operationId".into(), json!(format!("{}{}", action.word(), target.id)));
    let parameters: Vec<Value> = action.parameters().iter().map(|(name, kind)| query(name, kind)).collect();
    if !parameters.is_empty() {
        out.insert("parameters".into(), Value::Array(parameters));
    }
    if let Some(body) = request_body(action, target) {
        out.insert("requestBody".into(), body);
    }
    out.insert("responses".into(), responses(action, target));
    out.insert("x-kubernetes-action".into(), json!(action.name()));
    let gvk = &target.gvk;
    let kind =
        json!({"group": gvk.group.as_str(), "version": gvk.version.as_str(), "kind": gvk.kind.as_str()});
    out.insert("x-kubernetes-group-version-kind".into(), kind);
    Value::Object(out)
}

/// Returns the description of the operation.
fn description(action: Action, target: &Target<'_>) -> String {
    let (kind, part) = target.object;
    let article = match kind {
        kind if kind.ends_with('s') && !kind.ends_with("ss") => "",
        kind if kind.starts_with(['A', 'E', 'I', 'O', 'U']) => " an",
        _ => " a",
    };
    let part = part.map(|it| format!(" {it} of")).unwrap_or_default();
    match action {
        Action::List if target.custom => format!("list objects of kind {kind}"),
        Action::List => format!("list or watch objects of kind {kind}"),
        Action::Get => format!("read{part} the specified {kind}"),
        Action::Put => format!("replace{part} the specified {kind}"),
        Action::Patch => format!("partially update{part} the specified {kind}"),
        Action::Post => format!("create{part}{article} {kind}"),
        Action::Delete => format!("delete{part}{article} {kind}"),
        Action::DeleteCollection => format!("delete collection of {kind}"),
    }
}

/// Returns a query parameter.
pub(super) fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

/// Returns a path parameter.
pub(super) fn in_path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
}

fn request_body(action: Action, target: &Target<'_>) -> Option<Value> {
    let plain: &[&str] = if target.custom { &["application/json", "application/yaml"] } else { &["*/*"] };
    match action {
        Action::List | Action::Get => None,
        Action::Post | Action::Put => {
            Some(json!({"content": content(plain, &target.schema), "required": true}))
        }
        Action::Delete | Action::DeleteCollection => {
            Some(json!({"content": content(plain, &reference(&meta("DeleteOptions")))}))
        }
        Action::Patch => {
            let mut types = vec![
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ];
            if !target.custom {
                types.push("application/strategic-merge-patch+json");
            }
            Some(json!({"content": content(&types, &reference(&meta("Patch"))), "required": true}))
        }
    }
}

fn responses(action: Action, target: &Target<'_>) -> Value {
    let mut types = vec!["application/json", "application/yaml"];
    if !target.custom {
        types.push("application/vnd.kubernetes.protobuf");
        if action == Action::List {
            types.extend([
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]);
        }
    }
    let status = reference(&meta("Status"));
    let is_delete = matches!(action, Action::Delete | Action::DeleteCollection);
    let given = content(&types, if is_delete { &status } else { &target.schema });
    // Patches of custom kinds can create objects too, but `buildRoute` in
    // k8s.io/apiextensions-apiserver v0.36.4 pkg/controller/openapi/builder/builder.go does not
    // document their 201.
    let documented =
        |(code, _): &&(&str, &str)| !(target.custom && action == Action::Patch && *code == "201");
    let response = |(code, description): &(&str, &str)| {
        ((*code).to_owned(), json!({"description": description, "content": given}))
    };
    let mut out: Map<String, Value> = action.statuses().iter().filter(documented).map(response).collect();
    out.insert("401".into(), json!({"description": "Unauthorized"}));
    Value::Object(out)
}

fn content(types: &[&str], schema: &Value) -> Value {
    Value::Object(types.iter().map(|it| ((*it).to_owned(), json!({"schema": schema}))).collect())
}
