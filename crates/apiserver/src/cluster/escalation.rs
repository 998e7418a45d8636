//! The stage of a write that rejects escalation: users cannot grant permissions that they do not
//! have.
//!
//! A role may contain only rules that its writer has, unless the writer has the verb `escalate` on
//! it. A binding may refer only to a role whose rules its writer has, unless the writer has the
//! verb `bind` on the role. As k8s.io/kubernetes v1.36.4 pkg/registry/rbac.

use serde_json::Value;

use super::write::Write;
use crate::ApiError;
use crate::authorization::{
    AccessRequest, AccessTarget, AuthorizationMode, Comparison, PolicyRule, is_master, quoted,
};
use crate::kinds::json_access::{items, text};
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
use crate::strconv::quote;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The reason of the error if rules cannot be compared.
const TOO_LARGE: &str = "the rules have too many combinations of verbs, groups, resources and names to be compared \
                         with those of the user; use fewer in each rule";

impl Write<'_> {
    /// Rejects a role or a binding that grants permissions that its writer does not have.
    ///
    /// # Errors
    /// 403 with the missing permissions; 404 for a binding to a role that does not exist.
    pub(super) fn refuse_escalation(&self) -> Result<(), ApiError> {
        let is_enforced = self.cluster.authorizer.mode() != AuthorizationMode::AlwaysAllow;
        if !is_enforced || is_master(&self.writer.user) {
            return Ok(());
        }
        let kind = self.place.kind;
        if kind.is(&ROLE) || kind.is(&CLUSTER_ROLE) {
            self.check_role()
        } else if kind.is(&ROLE_BINDING) || kind.is(&CLUSTER_ROLE_BINDING) {
            self.check_binding()
        } else {
            Ok(())
        }
    }

    /// Notes whether the client sent the system fields as they are stored.
    pub(super) fn compare_system_fields(&mut self) {
        let Some(base) = self.base else { return };
        let sent = |field: &str| self.new["metadata"].get(field) == base.object["metadata"].get(field);
        self.is_complete = ["resourceVersion", "uid", "creationTimestamp"].into_iter().all(sent);
    }

    fn check_role(&self) -> Result<(), ApiError> {
        let (kind, name) = (self.place.kind, self.place.name);
        if self.may("escalate", GROUP, &kind.def.plural, name) || self.changes_only_ownership() {
            return Ok(());
        }
        self.check_rules(&PolicyRule::all_of(&self.new))?;
        let aggregates = |it: &Value| !items(it, "/aggregationRule/clusterRoleSelectors").is_empty();
        if aggregates(&self.new) || self.base.is_some_and(|it| aggregates(it.object)) {
            // It can collect any rules.
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.check_rules(&PolicyRule::everything()).map_err(|_| self.forbidden(why))?;
        }
        Ok(())
    }

    fn check_binding(&self) -> Result<(), ApiError> {
        if self.changes_only_ownership() {
            return Ok(());
        }
        let (kind, name) = (text(&self.new, "/roleRef/kind"), text(&self.new, "/roleRef/name"));
        let resource = match kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => {
                return Err(ApiError::unexplained(format!(
                    "unsupported role reference kind: {}",
                    quote(kind)
                )));
            }
        };
        let group = match text(&self.new, "/roleRef/apiGroup") {
            "" => GROUP,
            group => group,
        };
        if self.may("bind", group, resource, name) {
            return Ok(());
        }
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        if kind == "Role" && self.place.namespace.is_none() {
            return Err(ApiError::bad_request("Namespace parameter required."));
        }
        let role = self.cluster.authorizer.role(self.cluster.store(), kind, name, self.place.namespace);
        self.check_rules(&role.ok_or_else(|| self.role_not_found(name))?)
    }

    /// Rejects rules that the writer does not have in the namespace of the write.
    fn check_rules(&self, wanted: &[PolicyRule]) -> Result<(), ApiError> {
        let (user, namespace) = (&self.writer.user, self.place.namespace.unwrap_or_default());
        let (found, missing_roles) =
            self.cluster.authorizer.compare(self.cluster.store(), user, namespace, wanted);
        let missing = match found {
            Comparison::Covered => return Ok(()),
            Comparison::TooLarge => return Err(self.forbidden(TOO_LARGE)),
            Comparison::Missing(lines) => lines.join("\n"),
        };
        let (name, groups) = (quote(&user.name), quoted(&user.groups));
        let errors = match missing_roles.describe(|_, name| self.role_not_found(name).0.message.clone()) {
            errors if errors.is_empty() => errors,
            errors => format!("; resolution errors: [{errors}]"),
        };
        Err(self.forbidden(&format!(
            "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{missing}{errors}"
        )))
    }

    /// Returns true if the writer has a verb on a role in the namespace of the write.
    fn may(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let namespace = self.place.namespace.unwrap_or_default();
        let target = AccessTarget::Resource { group, resource, subresource: "", namespace, name };
        let request = AccessRequest { verb: verb.into(), target };
        self.cluster.authorize(&self.writer.user, &request).allowed
    }

    /// Returns true if the write changes only what garbage collection changes: the owners and the
    /// finalizers. As in kube-apiserver, an update that omits the version or the uid changes more.
    fn changes_only_ownership(&self) -> bool {
        let rest = |object: &Value| {
            let mut rest = object.clone();
            if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
                for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                    metadata.remove(field);
                }
            }
            rest
        };
        self.is_complete && self.base.is_some_and(|it| rest(it.object) == rest(&self.new))
    }

    /// Returns the error about a role that does not exist. kube-apiserver names the resource of the
    /// request in it.
    fn role_not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(GROUP, &self.place.kind.def.plural, name)
    }

    fn forbidden(&self, why: &str) -> ApiError {
        let def = &self.place.kind.def;
        ApiError::forbidden(&def.group, &def.plural, text(&self.new, "/metadata/name"), why)
    }
}
