//! The reads that are answered from memory: for which requests, for which callers, and in which
//! view.
//!
//! A read that is not answered here is passed on, and upstream decides. For resources with rules,
//! [`crate::ruled_requests`] treats what is passed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dogwatch_apiserver::ApiError;
use dogwatch_apiserver::mirror::{Freshness, Pending, is_mirror_token};
use http::header::{ACCEPT, HeaderName, HeaderValue, UPGRADE, USER_AGENT};
use http::request::Parts;
use http::{Request, StatusCode};

use crate::active_rules::{ActiveRules, Generation};
use crate::answer::{self, Answer};
use crate::caller::{Allowed, Caller, Reviewed};
use crate::collection::{Collection, Reached};
use crate::ending_body::{Trust, cut_at, ending};
use crate::forward::Peer;
use crate::read_target::{ReadTarget, Verb, parameter};
use crate::reviews::{Purpose, ReviewError, Reviews};
use crate::rules::Rule;

/// The header that says that an answer may be old. RFC 9111 retired its caching codes and left it
/// to the API, whose clients print it.
const WARNING: HeaderName = HeaderName::from_static("warning");
const STALE: &str =
    "299 - \"the API server cannot be reached: this is the last state that the proxy has seen\"";

/// A group, a version and a plural name.
pub(crate) type CollectionName = (String, String, String);

/// The reads that are answered from memory.
pub(crate) struct CachedReads {
    collections: HashMap<CollectionName, Arc<Collection>>,
    reviews: Arc<Reviews>,
    rules: Arc<ActiveRules>,
    answered: AtomicU64,
}

/// A read, and what decides about it.
struct Read<'a> {
    target: ReadTarget,
    collection: &'a Collection,
    generation: Arc<Generation>,
    rules: Vec<Arc<Rule>>,
    parts: &'a Parts,
}

impl CachedReads {
    /// Creates the reads of these collections.
    pub(crate) fn new(
        collections: HashMap<CollectionName, Arc<Collection>>,
        reviews: Arc<Reviews>,
        rules: Arc<ActiveRules>,
    ) -> Self {
        Self { collections, reviews, rules, answered: AtomicU64::new(0) }
    }

    /// Returns the collections with their names.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (&CollectionName, &Arc<Collection>)> {
        self.collections.iter()
    }

    /// Returns the number of requests that were answered from memory.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Returns the number of reviews that were sent upstream.
    pub(crate) fn reviews(&self) -> u64 {
        self.reviews.asked()
    }

    /// Reads the file of rules again from time to time. When rules have changed, all watches of
    /// their resources end with 410: what their callers have seen is not what they see now.
    pub(crate) async fn follow_rules(self: Arc<Self>) {
        let changed = |previous: &Generation| {
            let current = self.rules.current();
            for ((group, _, resource), collection) in &self.collections {
                if [previous, &*current].iter().any(|it| !it.of(group, resource).is_empty()) {
                    collection.restart();
                }
            }
        };
        self.rules.follow_file(changed).await;
    }

    /// Answers a request; `None` if it has to be passed on.
    pub(crate) async fn respond(&self, parts: &Parts, peer: &Peer) -> Option<Answer> {
        let target = ReadTarget::parse(&parts.method, &parts.uri)?;
        if parts.headers.contains_key(UPGRADE) {
            return None;
        }
        let name = (target.group.clone(), target.version.clone(), target.resource.clone());
        let collection = &**self.collections.get(&name)?;
        loop {
            let generation = self.rules.current();
            let rules = generation.of(&target.group, &target.resource);
            let read = Read { target: target.clone(), collection, generation, rules, parts };
            let answer = self.read(&read, peer).await;
            // A watch in the view of rules that were replaced meanwhile would not end with theirs.
            if self.rules.current().is_current(&read.generation) {
                return answer;
            }
        }
    }

    async fn read(&self, read: &Read<'_>, peer: &Peer) -> Option<Answer> {
        let has_rules = !read.rules.is_empty();
        let is_stale = read.collection.is_cut_off();
        let (group, resource) = (&read.target.group, &read.target.resource);
        let allows_stale = is_stale && read.generation.allows_stale(group, resource);
        if !has_rules
            && (read.is_for_upstream() || !read.collection.is_ready() || (is_stale && !allows_stale))
        {
            return None;
        }
        let Some(caller) = Caller::of(&read.parts.headers, peer.certificate.as_ref()) else {
            return has_rules.then(|| answer::unnamed(&read.parts.headers));
        };
        let allowed = match caller.review(&self.reviews, &read.target, Purpose::NewRequest).await {
            Ok(Reviewed::Allowed(allowed)) => allowed,
            // The answer of upstream says why.
            _ if !has_rules => return None,
            Ok(Reviewed::Denied(user)) => return Some(answer::forbidden(&read.target, &user.name)),
            Ok(Reviewed::Unknown) => return Some(answer::unauthorized()),
            Err(error) => return Some(unreviewed(&error)),
        };
        if is_stale && !allows_stale {
            return Some(answer::unavailable("the proxy cannot reach the API server", 1));
        }
        let mut waits = false;
        if !is_stale && !read.is_reached().await {
            // Upstream has a version of another resource at once; here it arrives with the next
            // bookmark. A watch passed on would stay at upstream for its whole life.
            match read.target.verb {
                Verb::Watch => match read.collection.is_at_upstream(read.version()).await {
                    Ok(is_there) => waits = is_there,
                    Err(_) if has_rules => {
                        return Some(answer::unavailable("the proxy cannot reach the API server", 1));
                    }
                    Err(_) => return None,
                },
                _ if !has_rules => return None,
                _ => {}
            }
        }
        let newest = match read.needs_newest() && !is_stale {
            true => match read.collection.newest().await {
                // As kube-apiserver, which reads etcd if its cache is not new enough in time
                // (`CacheDelegator.GetList` in k8s.io/apiserver v0.36.4
                // pkg/storage/cacher/delegator.go).
                Err(_) if !has_rules => return None,
                newest => Some(newest),
            },
            false => None,
        };
        let mut answer = read.respond(&allowed, is_stale, waits, newest).await;
        let is_behind =
            matches!(answer.status(), StatusCode::GATEWAY_TIMEOUT | StatusCode::SERVICE_UNAVAILABLE);
        if is_behind && !has_rules && !is_stale {
            // The version has not arrived, was not seen here, or could not be asked for: upstream
            // may have it.
            return None;
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        if is_stale {
            answer.headers_mut().append(WARNING, HeaderValue::from_static(STALE));
        }
        Some(self.guarded(answer, read, caller, allowed))
    }

    /// Lets a watch end when its caller loses the right, and a list when the rules change: the
    /// restart of its collection ends a watch then.
    fn guarded(&self, answer: Answer, read: &Read<'_>, caller: Caller, allowed: Allowed) -> Answer {
        let target = read.target.clone();
        match target.verb {
            _ if !answer.status().is_success() => answer,
            Verb::List => {
                let (rules, since) = (Arc::clone(&self.rules), Arc::clone(&read.generation));
                let changed = rules.until_changed(since, target.group, target.resource);
                answer.map(|body| cut_at(body, Box::pin(changed)))
            }
            Verb::Watch => {
                let trust = Trust::until(self.reviews.open_until(allowed.asked));
                let revoked = caller.revoked(Arc::clone(&self.reviews), target, allowed.user, trust.clone());
                answer.map(|body| ending(body, Box::pin(revoked), trust))
            }
            _ => answer,
        }
    }
}

impl Read<'_> {
    /// Returns true if upstream answers better or at the same cost.
    fn is_for_upstream(&self) -> bool {
        let query = self.parts.uri.query().unwrap_or_default();
        // The newest state of one object is one small request upstream, for any caller.
        let is_exact_get = self.target.verb == Verb::Get && parameter(query, "resourceVersion").is_none();
        let continues_upstream =
            parameter(query, "continue").is_some_and(|it| !it.is_empty() && !is_mirror_token(&it));
        let accepted = self.parts.headers.get_all(ACCEPT).iter();
        let wants_table = accepted.into_iter().any(|it| it.as_bytes().windows(8).any(|it| it == b"as=Table"));
        let selects_fields = parameter(query, "fieldSelector").is_some_and(|it| !it.is_empty());
        // Columns and selectable fields of custom resources are in their definitions.
        let is_of_definition = self.collection.is_custom() && (wants_table || selects_fields);
        is_exact_get || continues_upstream || is_of_definition
    }

    /// Returns false if the request is for a version that the collection does not reach soon.
    async fn is_reached(&self) -> bool {
        match self.target.verb {
            Verb::Watch => self.collection.is_watchable(self.version()).await,
            _ => self.collection.is_reached(self.version()).await,
        }
    }

    /// Returns true for a list that has to show everything that was written before it.
    fn needs_newest(&self) -> bool {
        let query = self.parts.uri.query().unwrap_or_default();
        let has = |name: &str| parameter(query, name).is_some_and(|it| !it.is_empty());
        self.target.verb == Verb::List && !has("resourceVersion") && !has("continue")
    }

    /// Returns the version that the request is for; 0 for any.
    fn version(&self) -> u64 {
        let asked = parameter(self.parts.uri.query().unwrap_or_default(), "resourceVersion");
        asked.and_then(|it| it.parse().ok()).unwrap_or_default()
    }

    /// Answers from memory. `waits` is set for a watch from a version that upstream has.
    async fn respond(
        &self,
        allowed: &Allowed,
        is_stale: bool,
        waits: bool,
        newest: Option<Result<u64, ApiError>>,
    ) -> Answer {
        let agent = self.parts.headers.get(USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let rules = self.rules.iter().filter(|it| it.callers.contain(&allowed.user.name, agent));
        let view = self.generation.view(rules.cloned().collect());
        let mut request = Request::new(());
        request.method_mut().clone_from(&self.parts.method);
        request.uri_mut().clone_from(&self.parts.uri);
        request.headers_mut().clone_from(&self.parts.headers);
        let (any, reached) = (AnyState(self.collection), Reached(self.collection));
        let asked = newest.map(KnownFreshness);
        let freshness: &dyn Freshness = match (&asked, is_stale, waits) {
            (Some(asked), ..) => asked,
            (None, true, _) => &any,
            (None, false, true) => &reached,
            (None, false, false) => self.collection,
        };
        self.collection.respond(request, view, freshness).await
    }
}

/// The freshness of reads that any state satisfies.
struct AnyState<'a>(&'a Collection);

impl Freshness for AnyState<'_> {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(std::future::ready(Ok(self.0.version().unwrap_or_default())))
    }
}

/// The freshness of a read for which upstream was asked before.
struct KnownFreshness(Result<u64, ApiError>);

impl Freshness for KnownFreshness {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

fn unreviewed(error: &ReviewError) -> Answer {
    tracing::warn!(%error, "a read of a resource with rules is refused");
    answer::unavailable("the proxy cannot ask the API server who may read this", 1)
}
