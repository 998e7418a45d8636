//! Requests for resources with rules that are not answered from memory: writes, and reads in a form
//! that the mirror does not answer.
//!
//! What upstream answers is changed by the rules before the caller sees it. Of a write, the changes
//! of the caller are stored, or it is refused. A request whose answer could not be changed is
//! refused, and one that needs no change ends when it would need one.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use dogwatch_client::{Client, RequestBody, ResponseBody, boxed};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::active_rules::{ActiveRules, Generation};
use crate::answer::{self, Answer};
use crate::cached_reads::CollectionName;
use crate::caller::{Caller, Reviewed};
use crate::forward::{Forwarder, Peer, Until};
use crate::object_path::ObjectPath;
use crate::read_target::{ReadTarget, Verb};
use crate::reviews::{Purpose, Reviews};
use crate::ruled_patch::{self, WrittenPatch};
use crate::ruled_update::{self, collected};
use crate::rules::{RefusedWrite, Rule, hides, refuses_writes, seen};

/// The maximum size of a response, which is a list after the deletion of a collection.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

/// Subresources whose requests and responses are the whole object.
const WHOLE: [&str; 5] = ["status", "finalize", "approval", "resize", "ephemeralcontainers"];

/// Subresources that never show the object.
const APART: [&str; 9] =
    ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "scale", "token"];

/// Requests for resources with rules.
pub(crate) struct RuledRequests {
    client: Client,
    reviews: Arc<Reviews>,
    rules: Arc<ActiveRules>,
    cached: HashSet<CollectionName>,
}

/// The number of times that a patch for any version of an object is sent, while the object changes.
/// kube-apiserver tries as often: `MaxRetryWhenPatchConflicts` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/patch.go.
const MAX_PATCHES: usize = 5;

/// A request whose answer is changed.
struct Ruled {
    target: ReadTarget,
    rules: Vec<Arc<Rule>>,
    /// Set for a subresource that never shows the object.
    is_apart: bool,
}

/// The body of a request.
enum Body {
    /// One that is passed on as it arrives.
    Unread(ResponseBody),
    /// The object of an update.
    Update(Value),
    Patch(WrittenPatch),
}

impl RuledRequests {
    /// Creates it with the proxy's own client, which reads stored objects.
    pub(crate) fn new(
        client: Client,
        reviews: Arc<Reviews>,
        rules: Arc<ActiveRules>,
        cached: HashSet<CollectionName>,
    ) -> Self {
        Self { client, reviews, rules, cached }
    }

    /// Passes a request on, by the rules for its resource if there are any.
    pub(crate) async fn forward(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        forwarder: &Forwarder,
    ) -> Answer {
        let (mut parts, body) = request.into_parts();
        let generation = self.rules.current();
        let ruled = match self.ruled(&parts, peer, &generation).await {
            Ok(Some(ruled)) => ruled,
            Ok(None) => {
                return self.pass_on(Request::from_parts(parts, body), peer, forwarder, generation).await;
            }
            Err(refused) => return refused,
        };
        if ruled.is_apart {
            return match self.stored(&ruled).await {
                Ok(Some(stored)) if hides(&ruled.rules, &stored) => ruled.not_found(),
                Ok(_) => forwarder.forward(Request::from_parts(parts, body), peer).await,
                Err(answer) => answer,
            };
        }
        // Only this form is changed below.
        parts.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        parts.headers.remove(ACCEPT_ENCODING);
        let body = match ruled.target.verb {
            // Before the stored object is read: a body may take its time, in which the object may
            // change.
            Verb::Update => match ruled_update::written(&parts, boxed(body)).await {
                Ok(written) => Body::Update(written),
                Err(refused) => return refused,
            },
            Verb::Patch => match WrittenPatch::read(&parts, boxed(body)).await {
                Ok(patch) => Body::Patch(patch),
                Err(refused) => return refused,
            },
            _ => Body::Unread(boxed(body)),
        };
        let stored = match self.stored(&ruled).await {
            Ok(stored) => stored,
            Err(answer) => return answer,
        };
        if let Some(refusal) = ruled.refusal(stored.as_ref()) {
            return refusal;
        }
        let body = match body {
            Body::Unread(body) => body,
            Body::Update(written) => match ruled_update::merged(&ruled.rules, written, stored.as_ref()) {
                Ok(object) => ruled_update::body(&mut parts, &object),
                Err(reason) => return refused(&reason),
            },
            Body::Patch(patch) => return self.patch(&ruled, parts, patch, stored, peer, forwarder).await,
        };
        ruled.show(forwarder.forward(Request::from_parts(parts, body), peer).await).await
    }

    /// Passes a request on that no rule changes. A read of a cached resource ends when the rules
    /// for it change: what it shows has to be changed then.
    async fn pass_on(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        forwarder: &Forwarder,
        generation: Arc<Generation>,
    ) -> Answer {
        let uri = request.uri();
        let is_cached = |it: &ObjectPath| {
            let is_part = it.subresource.as_deref().is_some_and(|it| APART.contains(&it));
            !is_part && self.rules.may_be_for(&it.group, &it.resource)
        };
        let found = ObjectPath::all(uri.path()).into_iter().find(is_cached);
        let Some(path) = found.filter(|_| request.method() == Method::GET) else {
            return forwarder.forward(request, peer).await;
        };
        let query = uri.query().unwrap_or_default();
        let is_watch = form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "watch");
        let ObjectPath { group, resource, .. } = path;
        let rules = Arc::clone(&self.rules);
        let ending = Box::pin(rules.until_changed(Arc::clone(&generation), group.clone(), resource.clone()));
        let answer = forwarder.forward_until(request, peer, Some(Until { ending, is_watch })).await;
        if self.rules.have_changed(&generation, &group, &resource) {
            return answer::unavailable("the rules of the proxy have changed; try again", 1);
        }
        answer
    }

    /// Passes a patch on for the version of the object that it was checked with. A patch for any
    /// version is checked and sent again if the object has changed meanwhile.
    async fn patch(
        &self,
        ruled: &Ruled,
        parts: Parts,
        patch: WrittenPatch,
        mut stored: Option<Value>,
        peer: &Peer,
        forwarder: &Forwarder,
    ) -> Answer {
        let send = async |value: &Value| {
            let mut parts = parts.clone();
            let body = ruled_patch::body(&mut parts, value);
            forwarder.forward(Request::from_parts(parts, body), peer).await
        };
        let mut attempt = 1;
        loop {
            let Some(object) = &stored else {
                return ruled.show(send(&patch.unversioned()).await).await;
            };
            if let Some(refusal) = ruled.refusal(Some(object)) {
                return refusal;
            }
            let versioned = match patch.versioned(&ruled.rules, object) {
                Ok(versioned) => versioned,
                Err(reason) => return refused(&reason),
            };
            let answer = send(&versioned.value).await;
            let is_repeatable = !versioned.is_required && attempt < MAX_PATCHES;
            if answer.status() != StatusCode::CONFLICT || !is_repeatable {
                return ruled.show(answer).await;
            }
            let newer = match self.stored(ruled).await {
                Ok(newer) => newer,
                Err(answer) => return answer,
            };
            let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
            if newer.as_ref().map(version) == Some(version(object)) {
                // Another conflict, such as that of two managers.
                return ruled.show(answer).await;
            }
            stored = newer;
            attempt += 1;
        }
    }

    /// Returns the rules for a request; `None` if there are none. The error is the answer to a
    /// request that cannot be carried out by the rules.
    async fn ruled(
        &self,
        parts: &Parts,
        peer: &Peer,
        generation: &Generation,
    ) -> Result<Option<Ruled>, Answer> {
        let paths = ObjectPath::all(parts.uri.path());
        let Some((path, others)) = paths.split_first() else { return Ok(None) };
        if let Some(other) = others.iter().find(|it| !generation.of(&it.group, &it.resource).is_empty()) {
            return Err(in_other_form(&other.resource));
        }
        let rules = generation.of(&path.group, &path.resource);
        let is_apart = path.subresource.as_deref().is_some_and(|it| APART.contains(&it));
        if rules.is_empty() || (is_apart && !rules.iter().any(|it| it.hides())) {
            return Ok(None);
        }
        let target = if is_apart { apart_target(parts) } else { self.target(parts) };
        let Some(target) = target else { return Err(in_other_form(&path.resource)) };
        let Some(caller) = Caller::of(&parts.headers, peer.certificate.as_ref()) else {
            return Err(answer::unnamed(&parts.headers));
        };
        // The object is read below and decides about the answer: only for callers who may do this.
        let user = match caller.review(&self.reviews, &target, Purpose::NewRequest).await {
            Ok(Reviewed::Allowed(allowed)) => allowed.user,
            Ok(Reviewed::Denied(user)) => return Err(answer::forbidden(&target, &user.name)),
            Ok(Reviewed::Unknown) => return Err(answer::unauthorized()),
            Err(error) => {
                tracing::warn!(%error, "a request for a resource with rules is refused");
                return Err(answer::unavailable("the proxy cannot ask the API server about the caller", 1));
            }
        };
        let agent = parts.headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let rules: Vec<_> = rules.into_iter().filter(|it| it.callers.contain(&user.name, agent)).collect();
        Ok((!rules.is_empty()).then_some(Ruled { target, rules, is_apart }))
    }

    /// Returns the object or collection, if the request is in a form whose answer can be changed.
    fn target(&self, parts: &Parts) -> Option<ReadTarget> {
        let path = parts.uri.path();
        let split = path.rsplit_once('/').filter(|(_, last)| WHOLE.contains(last));
        let of_object = split.and_then(|(path, last)| {
            let target = ReadTarget { subresource: last.to_owned(), ..ReadTarget::of_path(path)? };
            target.name.is_some().then_some(target)
        });
        let target = of_object.or_else(|| ReadTarget::of_path(path))?;
        let name = (target.group.clone(), target.version.clone(), target.resource.clone());
        // Rules name places of the version that is cached, and other versions have others.
        if !self.cached.contains(&name) {
            return None;
        }
        let query = parts.uri.query().unwrap_or_default();
        let mut keys = form_urlencoded::parse(query.as_bytes()).map(|(key, _)| key);
        // Whole objects are read from the mirror, or not at all.
        let is_odd_read = target.subresource.is_empty() || keys.any(|it| it.eq_ignore_ascii_case("watch"));
        let verb = verb(&parts.method, &target).filter(|it| *it != Verb::Get || !is_odd_read)?;
        Some(ReadTarget { verb, ..target })
    }

    /// Reads the stored object that a request is about; `None` if there is none.
    async fn stored(&self, ruled: &Ruled) -> Result<Option<Value>, Answer> {
        if ruled.target.name.is_none() {
            return Ok(None);
        }
        match self.client.get().path(&[&ruled.target.object_path()]).send::<Value>().await {
            Ok(stored) => Ok(Some(stored)),
            // Upstream answers that, or creates the object.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                tracing::warn!(%error, "the stored object of a write cannot be read");
                Err(answer::unavailable("the proxy cannot read the stored object", 1))
            }
        }
    }
}

impl Ruled {
    /// Returns the answer to a request for an object that is hidden from the caller, and to a write
    /// that a rule refuses.
    fn refusal(&self, stored: Option<&Value>) -> Option<Answer> {
        let verb = self.target.verb;
        if verb == Verb::DeleteCollection
            && let Some(rule) = self.rules.iter().find(|it| it.conceals())
        {
            // It would delete hidden objects, and select by what is not shown.
            return Some(refused(&RefusedWrite::ByRule(rule.name.clone())));
        }
        let stored = stored?;
        if hides(&self.rules, stored) {
            return Some(self.not_found());
        }
        let is_refusable = matches!(verb, Verb::Create | Verb::Update | Verb::Patch);
        let rule = refuses_writes(&self.rules, stored).filter(|_| is_refusable)?;
        Some(refused(&RefusedWrite::ByRule(rule)))
    }

    fn not_found(&self) -> Answer {
        let ReadTarget { group, resource, name, .. } = &self.target;
        let of = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
        let message = format!("{of} {:?} not found", name.as_deref().unwrap_or_default());
        answer::error(StatusCode::NOT_FOUND, "NotFound", &message)
    }

    /// Returns upstream's answer as the caller may see it.
    async fn show(&self, answer: Answer) -> Answer {
        if !answer.status().is_success() {
            return answer;
        }
        let (mut parts, body) = answer.into_parts();
        let Some(bytes) = collected(body, MAX_RESPONSE).await else {
            let message =
                "the API server has carried out the request, and its answer is too large or broke off";
            return answer::error(StatusCode::BAD_GATEWAY, "", message);
        };
        let is_plain = !parts.headers.contains_key(CONTENT_ENCODING);
        let value = serde_json::from_slice::<Value>(&bytes).ok().filter(|_| is_plain);
        let Some(shown) = value.map(|it| self.shown(it)) else {
            let message = "the API server has carried out the request, and its answer is not in JSON, so that the \
                           proxy's rules do not apply to it";
            return answer::error(StatusCode::BAD_GATEWAY, "", message);
        };
        let shown = Bytes::from(shown.to_string());
        parts.headers.insert(CONTENT_LENGTH, shown.len().into());
        Answer::from_parts(parts, boxed(RequestBody::new(shown)))
    }

    fn shown(&self, mut answer: Value) -> Value {
        if answer["kind"] == "Status" && answer["apiVersion"] == "v1" {
            return answer;
        }
        // An object may have items too.
        let is_list = self.target.verb == Verb::DeleteCollection;
        if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut).filter(|_| is_list) {
            *items = items.drain(..).filter_map(|it| seen(&self.rules, &it)).collect();
            return answer;
        }
        seen(&self.rules, &answer).unwrap_or_else(|| {
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200,
                "message": "the object is stored, and hidden by a rule of the proxy",
                "details": { "kind": self.target.resource, "name": answer["metadata"]["name"] },
            })
        })
    }
}

/// Returns the target of a request for a subresource that never shows the object.
fn apart_target(parts: &Parts) -> Option<ReadTarget> {
    let path = parts.uri.path();
    let is_end = |at: &usize| path.as_bytes().get(*at).is_none_or(|it| *it == b'/');
    let mut targets = (1..=path.len()).filter(is_end).filter_map(|at| {
        let target = ReadTarget::of_path(&path[..at]).filter(|it| it.name.is_some())?;
        let subresource = path[at..].split('/').nth(1)?;
        APART.contains(&subresource).then(|| (subresource.to_owned(), target))
    });
    // A namespace is the beginning of the paths of its objects.
    let (subresource, target) = targets.next_back()?;
    let target = ReadTarget { subresource, ..target };
    Some(ReadTarget { verb: verb(&parts.method, &target)?, ..target })
}

fn verb(method: &Method, target: &ReadTarget) -> Option<Verb> {
    match *method {
        Method::GET => Some(Verb::Get),
        Method::POST => Some(Verb::Create),
        Method::PUT => Some(Verb::Update),
        Method::PATCH => Some(Verb::Patch),
        Method::DELETE if target.name.is_some() => Some(Verb::Delete),
        Method::DELETE => Some(Verb::DeleteCollection),
        _ => None,
    }
}

fn refused(reason: &RefusedWrite) -> Answer {
    let (code, name) = match reason {
        RefusedWrite::Changed => (StatusCode::CONFLICT, "Conflict"),
        RefusedWrite::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
        _ => (StatusCode::FORBIDDEN, "Forbidden"),
    };
    answer::error(code, name, &reason.to_string())
}

fn in_other_form(resource: &str) -> Answer {
    let message = format!(
        "the proxy has rules for {resource}, and answers only plain requests for it in the version that it caches"
    );
    answer::error(StatusCode::FORBIDDEN, "Forbidden", &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_subresource_is_found() {
        let found = |path: &str| {
            let (mut parts, ()) = Request::new(()).into_parts();
            parts.uri = path.parse().unwrap();
            parts.method = Method::POST;
            apart_target(&parts).map(|it| format!("{} {}", it.path(), it.subresource))
        };
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/b/exec", "/api/v1/namespaces/a/pods/b exec"),
            ("/api/v1/namespaces/a/pods/b/proxy/api/v1/x", "/api/v1/namespaces/a/pods/b proxy"),
            ("/api/v1/nodes/n/proxy/logs/", "/api/v1/nodes/n proxy"),
            (
                "/api/v1/namespaces/a/services/http:web:80/proxy",
                "/api/v1/namespaces/a/services/http:web:80 proxy",
            ),
            (
                "/api/v1/namespaces/a/services/web/proxy/../../../pods/x",
                "/api/v1/namespaces/a/services/web proxy",
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "/apis/apps/v1/namespaces/a/deployments/d scale",
            ),
        ] {
            assert_eq!(found(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/%62/exec", "/api/v1/pods/exec"]
        {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
