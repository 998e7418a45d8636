//! Tokens of service accounts: signed by this server, valid for their audiences while the account
//! exists and they have not expired.

use std::collections::HashSet;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::token_key::TokenKey;
use super::{Cluster, Source};
use crate::authorization::quoted;
use crate::kinds::json_access::{at, items, number, text};
use crate::store::{Encoded, Store};
use crate::time;
use crate::user::User;
use crate::{ApiError, FieldError, FieldErrorKind};

/// The objects that a token can be bound to: the kind, the claim and the collection of each.
const BINDABLE: [(&str, &str, &str); 3] =
    [("Pod", "pod", "/pods"), ("Secret", "secret", "/secrets"), ("Node", "node", "/nodes")];
/// The error of a token that no authenticator recognises.
const INVALID: &str = "invalid bearer token";
/// The shortest time a token can be requested for, in seconds.
const SHORTEST: i64 = 600;
/// The longest time a token can be requested for, in seconds: the limit in
/// k8s.io/kubernetes v1.36.4 pkg/apis/authentication/validation/validation.go.
const LONGEST: i64 = 1 << 32;
/// The seconds for which a token stays valid after its account, or the object it is bound to, was
/// deleted: the leeway of k8s.io/kubernetes v1.36.4 pkg/serviceaccount/claims.go.
const DELETION_LEEWAY: i64 = 60;

/// The tokens that authenticate users: those of service accounts, and the static ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    key: &'a TokenKey,
    /// Has the service accounts, and the objects that tokens are bound to.
    store: &'a Store,
    source: &'a Source,
}

impl Cluster {
    /// Returns the tokens that authenticate users.
    pub(crate) fn tokens(&self) -> Tokens<'_> {
        Tokens { key: &self.token_key, store: self.store(), source: &self.source }
    }
}

impl Tokens<'_> {
    /// Adds a static token that authenticates a user from now on.
    pub(crate) fn add_static(&self, token: &str, user: User) {
        self.key.known().push((token.to_owned(), user));
    }

    /// Returns the issuer of the tokens, and the public keys that verify them as a JSON Web Key
    /// Set.
    pub(crate) fn issuer(&self) -> (&str, Value) {
        (self.key.issuer(), self.key.public_keys())
    }

    /// Returns the names of the algorithms with which tokens are signed.
    pub(crate) fn algorithms(&self) -> Vec<&'static str> {
        self.key.algorithms()
    }

    /// Returns the audiences of this API server: the issuers whose tokens it accepts.
    pub(super) fn own_audiences(&self) -> Vec<&str> {
        self.key.issuers().iter().map(String::as_str).collect()
    }

    /// Returns the user of a token that is valid now and meant for this API server.
    pub(crate) fn user(&self, token: &str) -> Option<User> {
        self.review(token, &self.own_audiences()).ok().map(|(user, _)| user)
    }

    /// Returns the user of a token that is valid now, and those of the `wanted` audiences that the
    /// token is meant for.
    ///
    /// # Errors
    /// The reason why the token authenticates no user, in the words of k8s.io/kubernetes v1.36.4
    /// pkg/serviceaccount/claims.go.
    pub(super) fn review<'a>(&self, token: &str, wanted: &[&'a str]) -> Result<(User, Vec<&'a str>), String> {
        // All static tokens are compared, each in constant time, so that the response time does not
        // reveal a partial match.
        let mut found = None;
        for (known, user) in self.key.known().iter() {
            if same(known.as_bytes(), token.as_bytes()) {
                found = Some(user.clone());
            }
        }
        let own: Vec<Value> = self.key.issuers().iter().map(|it| it.as_str().into()).collect();
        match found {
            // A token without audiences of its own is meant for the API server alone.
            Some(user) => match intersection(wanted, &own) {
                audiences if audiences.is_empty() => Err(INVALID.to_owned()),
                audiences => Ok((user, audiences)),
            },
            None => self.account_of(token, wanted),
        }
    }

    /// Returns the service account that a token was issued for, if both are still valid.
    fn account_of<'a>(&self, token: &str, wanted: &[&'a str]) -> Result<(User, Vec<&'a str>), String> {
        let claims = self.key.claims(token).ok_or(INVALID)?;
        if !self.key.issuers().iter().any(|it| it == text(&claims, "/iss")) {
            return Err(INVALID.to_owned());
        }
        let meant_for = items(&claims, "/aud");
        let audiences = intersection(wanted, meant_for);
        let valid = if audiences.is_empty() {
            let meant_for: Vec<_> = meant_for.iter().filter_map(Value::as_str).collect();
            let (meant_for, wanted) = (quoted(&meant_for), quoted(wanted));
            Err(format!("token audiences {meant_for} is invalid for the target audiences {wanted}"))
        } else {
            self.account_of_claims(&claims)
        };
        // kube-apiserver has two authenticators for such a token (`tokenunion.New` in
        // k8s.io/kubernetes v1.36.4 pkg/kubeapiserver/authenticator/config.go): that of its own
        // loopback client, and the one that reports the reason.
        valid.map(|user| (user, audiences)).map_err(|why| format!("[{INVALID}, {why}]"))
    }

    fn account_of_claims(&self, claims: &Value) -> Result<User, String> {
        let now = self.source.now().as_second();
        if number(claims, "/exp").is_none_or(|it| it <= now) {
            return Err("service account token has expired".to_owned());
        }
        if number(claims, "/nbf").is_none_or(|it| it > now) {
            return Err("service account token is not valid yet".to_owned());
        }
        let namespace = text(claims, "/kubernetes.io/namespace");
        let name = text(claims, "/kubernetes.io/serviceaccount/name");
        let uid = text(claims, "/kubernetes.io/serviceaccount/uid");
        let account = self
            .bindable(namespace, "/serviceaccounts", name)
            .ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if self.was_deleted(&account) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        if account.uid() != uid {
            return Err(format!("service account UID ({}) does not match claim ({uid})", account.uid()));
        }
        for (_, claim, collection) in BINDABLE {
            let bound = text(claims, &format!("/kubernetes.io/{claim}/uid"));
            let name = text(claims, &format!("/kubernetes.io/{claim}/name"));
            // The token of a pod names the node of the pod, and is not bound to it.
            let is_of_pod = claim == "node" && !text(claims, "/kubernetes.io/pod/uid").is_empty();
            if bound.is_empty() || is_of_pod {
                continue;
            }
            let object = self
                .bindable(namespace, collection, name)
                .filter(|it| !self.was_deleted(it))
                .ok_or_else(|| "service account token has been invalidated".to_owned())?;
            if object.uid() != bound {
                let uid = object.uid();
                return Err(format!(
                    "{claim} UID ({uid}) does not match service account {claim} ref claim ({bound})"
                ));
            }
        }
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let mut user = User::named(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &groups.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        user.uid = account.uid().to_owned();
        let credential = format!("JTI={}", text(claims, "/jti"));
        user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![credential]);
        for (claim, field) in [("pod", "name"), ("pod", "uid"), ("node", "name"), ("node", "uid")] {
            let value = text(claims, &format!("/kubernetes.io/{claim}/{field}"));
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{claim}-{field}");
                user.extra.insert(key, vec![value.to_owned()]);
            }
        }
        Ok(user)
    }

    /// Returns the object that a requested token is bound to, with the name of its claim.
    fn bound_object(
        &self,
        account: &ObjectKey,
        request: &Value,
    ) -> Result<Option<(&'static str, Arc<Encoded>)>, ApiError> {
        let Some(reference) = at(request, "/spec/boundObjectRef").filter(|it| !it.is_null()) else {
            return Ok(None);
        };
        let (kind, name) = (text(reference, "/kind"), text(reference, "/name"));
        let Some((_, claim, collection)) = BINDABLE.iter().find(|(it, ..)| *it == kind) else {
            let (account, version) = (account.name(), text(reference, "/apiVersion"));
            let message = format!(
                "cannot bind token for serviceaccount {account:?} to object of type {version}, Kind={kind}"
            );
            return Err(ApiError::bad_request(message));
        };
        let plural = collection.trim_start_matches('/');
        let namespace = account.namespace().unwrap_or_default();
        let object = self.bindable(namespace, collection, name);
        let object = object.ok_or_else(|| ApiError::not_found("", plural, name))?;
        if kind == "Pod" {
            let user = text(&object.to_value(), "/spec/serviceAccountName").to_owned();
            // A pod that names no account uses the one with this name.
            let user = if user.is_empty() { "default" } else { user.as_str() };
            if user != account.name() {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name()
                )));
            }
        }
        let asked = text(reference, "/uid");
        if !asked.is_empty() && asked != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record ({}). \
                 The object might have been deleted and then recreated",
                object.uid()
            );
            return Err(ApiError::conflict("", plural, name, &why));
        }
        Ok(Some((*claim, object)))
    }

    /// Returns the claim about the node that a pod runs on. The node may not exist.
    fn node_of(&self, pod: &Encoded) -> Option<Value> {
        let pod = pod.to_value();
        let name = Some(text(&pod, "/spec/nodeName")).filter(|it| !it.is_empty())?;
        let mut claim = json!({ "name": name });
        if let Some(node) = self.bindable("", "/nodes", name) {
            claim["uid"] = node.uid().into();
        }
        Some(claim)
    }

    /// Returns true if the deletion timestamp of an object has passed by more than the leeway, so
    /// that only finalizers keep it.
    fn was_deleted(&self, object: &Encoded) -> bool {
        if !object.is_tied() {
            return false;
        }
        let end = text(&object.to_value(), "/metadata/deletionTimestamp").parse::<jiff::Timestamp>();
        end.is_ok_and(|it| it.as_second().saturating_add(DELETION_LEEWAY) < self.source.now().as_second())
    }

    /// Returns an object that a token can be bound to.
    fn bindable(&self, namespace: &str, collection: &str, name: &str) -> Option<Arc<Encoded>> {
        let namespace = Some(namespace).filter(|_| collection != "/nodes");
        let key = ObjectKey::from_parts(namespace, name).ok()?;
        self.store.get(&collection.into(), &key)
    }

    /// Answers a TokenRequest for a service account.
    ///
    /// # Errors
    /// 404 if there is no such account; 409 if the request names another uid; 422 if it names
    /// another account.
    pub(super) fn request(&self, key: &ObjectKey, request: &Value) -> Result<Value, ApiError> {
        const GROUP: &str = "authentication.k8s.io";
        let said = text(request, "/metadata/name");
        if !said.is_empty() && said != key.name() {
            let why = "must match the service account name if specified";
            let problem =
                FieldError::with_value("metadata.name", FieldErrorKind::Invalid, format!("{said:?}"), why);
            return Err(ApiError::invalid(GROUP, "TokenRequest", key.name(), &[problem]));
        }
        let account = self
            .store
            .get(&"/serviceaccounts".into(), key)
            .ok_or_else(|| ApiError::not_found("", "serviceaccounts", key.name()))?;
        let uid = text(request, "/metadata/uid");
        if !uid.is_empty() && uid != account.uid() {
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid()
            );
            return Err(ApiError::conflict(GROUP, "TokenRequest", key.name(), &why));
        }
        let seconds = number(request, "/spec/expirationSeconds").unwrap_or(3600);
        let wrong = match seconds {
            ..SHORTEST => Some("may not specify a duration less than 10 minutes"),
            SHORTEST..=LONGEST => None,
            _ => Some("may not specify a duration larger than 2^32 seconds"),
        };
        if let Some(why) = wrong {
            let field = "spec.expirationSeconds";
            let problem = FieldError::with_value(field, FieldErrorKind::Invalid, seconds, why);
            return Err(ApiError::invalid(GROUP, "TokenRequest", "", &[problem]));
        }
        let bound = self.bound_object(key, request)?;
        let mut audiences = items(request, "/spec/audiences").to_vec();
        if audiences.is_empty() {
            audiences.extend(self.own_audiences().into_iter().map(Value::from));
        }
        let now = self.source.now();
        let end = time::seconds_after(now, seconds);
        let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
        let mut claims = json!({
            "aud": audiences, "exp": end.as_second(), "iat": now.as_second(), "nbf": now.as_second(), "iss": self.key.issuer(),
            "jti": self.source.request_id(), "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": name, "uid": account.uid() } },
        });
        if let Some((claim, object)) = &bound {
            claims["kubernetes.io"][claim] = json!({ "name": object.key().name(), "uid": object.uid() });
            let node = Some(object).filter(|_| *claim == "pod").and_then(|it| self.node_of(it));
            if let Some(node) = node {
                claims["kubernetes.io"]["node"] = node;
            }
        }
        let token = self.key.sign(&claims);
        let mut answer = request.clone();
        answer["metadata"] = json!({ "name": name, "namespace": namespace, "uid": account.uid(),
            "creationTimestamp": self.source.stamp() });
        answer["spec"]["audiences"] = audiences.into();
        answer["spec"]["expirationSeconds"] = seconds.into();
        if bound.is_none() {
            answer["spec"]["boundObjectRef"] = Value::Null;
        }
        answer["status"] = json!({ "token": token, "expirationTimestamp": time::stamp(end) });
        Ok(answer)
    }
}

/// Returns the wanted audiences that a token is meant for, in their order in `wanted`.
fn intersection<'a>(wanted: &[&'a str], meant_for: &[Value]) -> Vec<&'a str> {
    let meant_for: HashSet<&str> = meant_for.iter().filter_map(Value::as_str).collect();
    wanted.iter().copied().filter(|it| meant_for.contains(it)).collect()
}

/// Compares two secrets in a time that depends on their lengths alone.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}
