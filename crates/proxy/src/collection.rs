//! One cached collection: its mirror, its feed, and the freshness of consistent reads.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apimachinery::ApiError;
use dogwatch_apiserver::mirror::{Freshness, ListMemory, MirrorUsage, MirroredResource, Pending, View};
use dogwatch_client::discovery::ServedResource;
use dogwatch_client::{Api, Client, Error, ListEvent};
use dogwatch_core::{ListParams, Meta, ObjectKey, Reason, ResourceType, Scope};
use dogwatch_informer::HealthState;
use futures_util::TryStreamExt;
use http::Request;
use serde::Deserialize;

use crate::answer::Answer;
use crate::feed::{Feed, StateAt};
use crate::rounds::Rounds;
use crate::small_frames::small_frames;
use crate::timed_body::timed;

/// The time limit of a question about the newest version, and for the changes up to it to arrive.
/// After as long, kube-apiserver reads etcd instead of its cache (`blockTimeout` in
/// k8s.io/apiserver v0.36.4 pkg/storage/cacher/watch_cache.go).
const TIMEOUT: Duration = Duration::from_secs(3);

/// The time in which the changes of a busy collection usually arrive. After it, the collection
/// itself is compared: other resources may have changed.
const ARRIVAL: Duration = Duration::from_millis(50);

/// The time for which a watch waits for a version that upstream has: longer than it takes to the
/// next bookmark, which kube-apiserver sends every minute.
const BOOKMARK: Duration = Duration::from_secs(90);

/// The time within which a client has to read a list: that of a request in kube-apiserver
/// (`--request-timeout`).
const LIST_TIME: Duration = Duration::from_secs(60);

/// The memory that lists may take together that have not been sent, and the time that one waits for
/// its share.
const LIST_MEMORY: (usize, Duration) = (512 * 1024 * 1024, Duration::from_secs(10));

/// One cached collection.
pub(crate) struct Collection {
    client: Client,
    of: ResourceType,
    feed: Feed,
    newest: Rounds<Result<u64, ApiError>>,
    /// The version of upstream itself.
    upstream: Rounds<Result<u64, ApiError>>,
}

/// The freshness for watches from a version that upstream has.
pub(crate) struct Reached<'a>(pub(crate) &'a Collection);

/// An object of a list of which only the version matters.
#[derive(Deserialize)]
struct Keyed {
    #[serde(default)]
    metadata: Meta,
}

impl Collection {
    /// Creates a collection of a served resource; nothing is requested before [`Self::run`]. Its
    /// lists take `memory` until they are sent.
    pub(crate) fn new(client: &Client, served: &ServedResource, memory: &ListMemory) -> Arc<Self> {
        let of = &served.resource;
        let mut resource = MirroredResource::new(&of.gvk.group, &of.gvk.version, &of.plural, &of.gvk.kind);
        if of.scope == Scope::Namespaced {
            resource = resource.namespaced();
        }
        let resource = resource.singular(&served.singular);
        let feed = Feed::new(client.clone(), of.clone(), resource, memory.clone());
        Arc::new(Self {
            client: client.clone(),
            of: of.clone(),
            feed,
            newest: Rounds::default(),
            upstream: Rounds::default(),
        })
    }

    /// Follows upstream until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        self.feed.run().await;
    }

    /// Returns true if there is a state to answer from.
    pub(crate) fn is_ready(&self) -> bool {
        self.feed.mirror().version().is_some()
    }

    /// Returns true while upstream does not answer the feed, so that the state may be old.
    pub(crate) fn is_cut_off(&self) -> bool {
        let health = self.feed.health();
        health.is_some_and(|it| it.problem.is_some() && matches!(it.state, HealthState::Retrying { .. }))
    }

    /// Returns the problem that keeps the collection from following upstream, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        self.feed.health()?.problem.map(|it| it.message)
    }

    /// Waits a moment for a version; returns false if the state does not reach it.
    pub(crate) async fn is_reached(&self, version: u64) -> bool {
        let mirror = self.feed.mirror();
        tokio::time::timeout(ARRIVAL, mirror.reach(version)).await.is_ok()
    }

    /// Waits a moment until a watch can begin at a version; returns false if it cannot.
    pub(crate) async fn is_watchable(&self, version: u64) -> bool {
        let mirror = self.feed.mirror();
        tokio::time::timeout(ARRIVAL, mirror.reach_for_watch(version)).await.is_ok()
    }

    /// Returns true for a custom resource: its columns and selectable fields are not known here.
    pub(crate) fn is_custom(&self) -> bool {
        !self.feed.mirror().has_protobuf()
    }

    /// Returns the size of the mirror.
    pub(crate) fn usage(&self) -> MirrorUsage {
        self.feed.mirror().usage()
    }

    /// Returns the version of the mirror.
    pub(crate) fn version(&self) -> Option<u64> {
        self.feed.mirror().version()
    }

    /// Empties the mirror and lists again: all watches end with 410.
    pub(crate) fn restart(&self) {
        self.feed.restart();
    }

    /// Answers a read. The caller must be allowed to read that.
    pub(crate) async fn respond(
        &self,
        request: Request<()>,
        view: View,
        freshness: &dyn Freshness,
    ) -> Answer {
        let mut response = self.feed.mirror().respond(request, view, freshness).await;
        let share = response.body_mut().take_share();
        let is_list = share.is_some();
        let answer = response.map(|body| small_frames(body, share));
        if is_list { answer.map(|body| timed(body, LIST_TIME)) } else { answer }
    }

    /// Returns true if upstream has a version.
    pub(crate) async fn is_at_upstream(&self, version: u64) -> Result<bool, ApiError> {
        if self.feed.mirror().known_version().is_some_and(|it| it >= version) {
            return Ok(true);
        }
        Ok(self.upstream.ask(|| self.within_limit(self.ask_version())).await? >= version)
    }

    async fn within_limit(&self, asking: impl Future<Output = Result<u64, Error>>) -> Result<u64, ApiError> {
        match tokio::time::timeout(TIMEOUT, asking).await {
            Ok(answered) => answered.map_err(|error| unavailable(&error.to_string())),
            Err(_) => Err(unavailable("it did not answer in time")),
        }
    }

    /// Returns the version of upstream, once the mirror knows the state of the collection at it.
    ///
    /// Versions are those of the whole server, so a quiet collection reaches upstream's only with
    /// the next bookmark, up to a minute later. The comparison by the versions of all objects shows
    /// that the mirror has the newest state all the same.
    async fn compare(&self) -> Result<u64, Error> {
        let (epoch, mirror) = (self.feed.epoch(), self.feed.mirror());
        let seen = mirror.known_version().unwrap_or_default();
        let newest = self.ask_version().await?;
        if newest < seen {
            // It was restored from a backup: what the mirror has is not what it has. The watch of
            // the feed may not notice: kube-apiserver keeps one from a future version open.
            self.feed.rolled_back(epoch);
            return Err(malformed(&format!("its version is {newest}, and was {seen} before")));
        }
        if tokio::time::timeout(ARRIVAL, mirror.reach(newest)).await.is_ok() {
            return Ok(newest);
        }
        let listed = self.list_versions().await?;
        self.feed.compared(epoch, listed);
        mirror.reach(listed.version).await;
        Ok(listed.version)
    }

    /// Asks upstream for its version.
    async fn ask_version(&self) -> Result<u64, Error> {
        let first = self.metadata().list(&ListParams::default().limit(1)).await?;
        version(first.metadata.version.as_str())
    }

    fn metadata(&self) -> Api<Keyed> {
        Api::dynamic_metadata(self.client.clone(), self.of.clone())
    }

    /// Lists the metadata of all objects.
    async fn list_versions(&self) -> Result<StateAt, Error> {
        let metadata = self.metadata();
        let mut list = metadata.list_stream(&ListParams::default());
        let mut sum = 0_u64;
        while let Some(event) = list.try_next().await? {
            match event {
                ListEvent::Item(Keyed { metadata }) => {
                    let header = metadata.header();
                    let key: Option<ObjectKey> = header.key();
                    if let Some(key) = key {
                        sum = sum.wrapping_add(self.feed.fingerprints().of(&key, header.version));
                    }
                }
                ListEvent::Restarted => sum = 0,
                ListEvent::End { version: listed, .. } => {
                    return Ok(StateAt { version: version(listed.as_str())?, fingerprint: sum });
                }
                // Then the sums differ, and the read waits for the version of the list.
                _ => {}
            }
        }
        Err(malformed("the list has no end"))
    }
}

impl Freshness for Collection {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(self.newest.ask(|| self.within_limit(self.compare())))
    }
}

impl Freshness for Reached<'_> {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        self.0.newest()
    }

    fn watch_wait(&self) -> Option<Duration> {
        Some(BOOKMARK)
    }
}

/// Returns the memory for the lists of all collections.
pub(crate) fn list_memory() -> ListMemory {
    ListMemory::new(LIST_MEMORY.0, LIST_MEMORY.1)
}

fn version(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| malformed("its version is not a number"))
}

fn malformed(problem: &str) -> Error {
    Error::Malformed { request: "a list".to_owned(), problem: problem.to_owned() }
}

fn unavailable(reason: &str) -> ApiError {
    let message = format!("the proxy cannot ask the API server for its newest version: {reason}");
    ApiError::new(Reason::ServiceUnavailable, message)
}
