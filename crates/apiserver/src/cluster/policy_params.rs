//! The parameters of the bindings of policies.
//!
//! Mirrors `CollectParams` of k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/policy/generic/policy_dispatcher.go.

use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::Cluster;
use super::admission_attributes::AdmissionAttributes;
use super::selector::selects;
use crate::ApiError;
use crate::kinds::json_access::{at, text};
use crate::registry::{Catalog, Kind};
use crate::store::Encoded;

/// The parameter that an evaluation reads, if it reads one.
pub(super) type Param = Option<Value>;

/// Returns the kind of the parameters of a policy; `None` if it has none.
///
/// # Errors
/// The reason why there is no such kind.
pub(super) fn param_kind(catalog: &Catalog, policy: &Value) -> Result<Option<Arc<Kind>>, String> {
    let Some(wanted) = at(policy, "/spec/paramKind") else { return Ok(None) };
    let (api_version, kind) = (text(wanted, "/apiVersion"), text(wanted, "/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let served = catalog.served();
    let is_wanted = |def: &&Arc<crate::builtin::ResourceDef>| {
        def.group == group && def.version == version && def.kind == kind
    };
    let found = served.resources().iter().find(is_wanted);
    let found = found.and_then(|def| catalog.kind(&def.group, &def.version, &def.plural));
    found.map(Some).ok_or_else(|| {
        format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
    })
}

/// Returns the parameters of a binding, of which each is evaluated on its own. The policy is
/// evaluated once without a parameter if it has no kind of them, or the binding refers to none.
///
/// # Errors
/// The outer error is that of a conversion; the inner one is the reason why the binding has no
/// parameters although it needs them.
pub(super) async fn params(
    cluster: &Cluster,
    kind: Option<&Kind>,
    binding: &Value,
    asked: &AdmissionAttributes<'_>,
) -> Result<Result<Vec<Param>, String>, ApiError> {
    let (Some(kind), Some(reference)) = (kind, at(binding, "/spec/paramRef")) else {
        return Ok(Ok(vec![None]));
    };
    let named = text(reference, "/namespace");
    let namespace = match (kind.def.namespaced, named, asked.namespace()) {
        (false, "", _) => None,
        (false, _, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Ok(Err(why.to_owned()));
        }
        (true, "", None) => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Ok(Err(why.to_owned()));
        }
        (true, "", own) => own,
        (true, named, _) => Some(named),
    };
    let stored = chosen(cluster, kind, reference, namespace);
    if stored.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Ok(Err(why.to_owned()));
    }
    let mut params = Vec::with_capacity(stored.len());
    for stored in stored {
        params.push(Some(cluster.conversion().show(kind, &stored).await?));
    }
    Ok(Ok(params))
}

fn chosen(cluster: &Cluster, kind: &Kind, reference: &Value, namespace: Option<&str>) -> Vec<Arc<Encoded>> {
    match (text(reference, "/name"), at(reference, "/selector")) {
        ("", Some(selector)) => {
            let mut all = cluster.list(kind, namespace);
            all.retain(|it| {
                let labels = it.labels();
                selects(selector, |key| labels.get(key))
            });
            all
        }
        (name, _) => {
            let key = ObjectKey::from_parts(namespace, name).ok();
            key.and_then(|key| cluster.get(kind, &key)).into_iter().collect()
        }
    }
}
