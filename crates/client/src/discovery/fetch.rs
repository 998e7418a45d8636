//! Requests to a server for its resources: two aggregated documents, or else one per version (rules
//! DI-1, DI-2).

use std::sync::Arc;

use futures_util::future;
use http::header::{CONTENT_TYPE, ETAG};

use super::aggregated::{self, GroupDiscoveryList};
use super::document::{ApiVersions, GroupList};
use super::legacy;
use super::model::{ApiGroup, ApiVersion, Discovery, GroupFailure};
use super::source::{DiscoverySource, DocumentResponse, is_not_modified};
use crate::client::Client;
use crate::error::Error;
use crate::request::JSON;

/// The number of rounds of unaggregated requests before a failed version counts as failed.
/// `defaultRetries` in client-go v0.36.4 `discovery/discovery_client.go`.
const ATTEMPTS: u32 = 2;

/// The discovery documents to request.
///
/// ```
/// use dogwatch_client::Discovery;
/// use dogwatch_client::discovery::DiscoveryFormat;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = Discovery::fetch_as(&client, DiscoveryFormat::Aggregated).await?;
/// assert!(discovery.is_complete());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscoveryFormat {
    /// Aggregated documents, or one per version from a server that does not support them.
    #[default]
    Aggregated,
    /// Like `Aggregated`, without resources that only other servers of a mixed-version cluster
    /// serve.
    AggregatedNoPeer,
    /// One document per version.
    Legacy,
}

/// A result with the ETags to revalidate it.
#[derive(Clone, Debug)]
pub(crate) struct FetchedDiscovery {
    pub(crate) discovery: Arc<Discovery>,
    /// The ETags of `/api` and `/apis`; only for aggregated documents.
    tags: Option<[Option<String>; 2]>,
}

/// One of the two documents.
enum Page {
    Aggregated {
        groups: Vec<ApiGroup>,
        failures: Vec<GroupFailure>,
        tag: Option<String>,
    },
    Groups(Vec<ApiGroup>),
    /// API servers behind an aggregator have no `/api`.
    Missing,
    /// The document has not changed since the previous result.
    Unchanged,
}

impl Client {
    /// Requests the server's resources. Nothing is cached: see
    /// [`CachedDiscovery`](super::CachedDiscovery) for that.
    ///
    /// # Errors
    /// Returns an error if the groups cannot be read. A version whose resources cannot be read is
    /// in [`Discovery::failures`].
    pub async fn discover(&self) -> Result<Discovery, Error> {
        Discovery::fetch(self).await
    }
}

impl Discovery {
    /// Like [`Client::discover`].
    ///
    /// # Errors
    /// Returns an error if the groups cannot be read.
    pub async fn fetch(client: &Client) -> Result<Self, Error> {
        Self::fetch_as(client, DiscoveryFormat::default()).await
    }

    /// Like [`Client::discover`], in the given format.
    ///
    /// # Errors
    /// Returns an error if the groups cannot be read.
    pub async fn fetch_as(client: &Client, format: DiscoveryFormat) -> Result<Self, Error> {
        let reading = read(&DiscoverySource::of(client.clone()), format, None).await?;
        Ok(Arc::unwrap_or_clone(reading.discovery))
    }
}

/// Reads everything, or confirms that `known` is still valid and returns its `Arc`.
pub(crate) async fn read(
    source: &DiscoverySource,
    format: DiscoveryFormat,
    known: Option<&FetchedDiscovery>,
) -> Result<FetchedDiscovery, Error> {
    let mut discovery = Discovery::default();
    // A group may disappear while its resources are requested: one more round, only for what is
    // missing.
    for _ in 0..ATTEMPTS {
        match pages(source, format, known).await? {
            FetchStep::Whole(reading) => return Ok(reading),
            FetchStep::Groups(groups, stale) => {
                discovery = legacy::fill(source, groups, &discovery).await;
                discovery.failures.extend(stale);
            }
        }
        if discovery.is_complete() {
            break;
        }
    }
    Ok(FetchedDiscovery { discovery: Arc::new(discovery), tags: None })
}

/// The result of the two requests.
enum FetchStep {
    Whole(FetchedDiscovery),
    Groups(Vec<ApiGroup>, Vec<GroupFailure>),
}

async fn pages(
    source: &DiscoverySource,
    format: DiscoveryFormat,
    known: Option<&FetchedDiscovery>,
) -> Result<FetchStep, Error> {
    let tag = |at: usize| known.and_then(|it| it.tags.as_ref()?[at].as_deref());
    let api = page(source, format, "/api", tag(0));
    let apis = page(source, format, "/apis", tag(1));
    let (api, apis) = future::try_join(api, apis).await?;
    if let (Page::Unchanged, Page::Unchanged, Some(known)) = (&api, &apis, known) {
        return Ok(FetchStep::Whole(known.clone()));
    }
    let (api, apis) = (api.or_known(known, true), apis.or_known(known, false));
    // A mix of both formats is not trusted: resources count only if both documents include them.
    let whole = matches!((&api, &apis), (Page::Aggregated { .. } | Page::Missing, Page::Aggregated { .. }));
    let (mut groups, mut failures, api_tag) = api.into_parts();
    let (more, stale, apis_tag) = apis.into_parts();
    groups.extend(more);
    failures.extend(stale);
    if !whole {
        for version in groups.iter_mut().flat_map(|it| &mut it.versions) {
            *version = ApiVersion::unknown(&version.version);
        }
        return Ok(FetchStep::Groups(groups, failures));
    }
    let discovery = Arc::new(Discovery { groups, failures });
    Ok(FetchStep::Whole(FetchedDiscovery { discovery, tags: Some([api_tag, apis_tag]) }))
}

async fn page(
    source: &DiscoverySource,
    format: DiscoveryFormat,
    path: &'static str,
    tag: Option<&str>,
) -> Result<Page, Error> {
    let accept = match format {
        DiscoveryFormat::Aggregated => aggregated::ACCEPT,
        DiscoveryFormat::AggregatedNoPeer => aggregated::ACCEPT_NO_PEER,
        DiscoveryFormat::Legacy => JSON,
    };
    match source.get(&[path], accept, tag, |it| Page::of(it, path)).await {
        Err(error) if tag.is_some() && is_not_modified(&error) => Ok(Page::Unchanged),
        Err(error) if path == "/api" && error.is_not_found() => Ok(Page::Missing),
        answer => answer,
    }
}

impl Page {
    fn of(answer: DocumentResponse<'_>, path: &str) -> Result<Self, Error> {
        if answer.header(CONTENT_TYPE).is_some_and(aggregated::is_aggregated) {
            let (groups, failures) = answer.json::<GroupDiscoveryList>()?.into_groups();
            return Ok(Self::Aggregated { groups, failures, tag: answer.header(ETAG).map(str::to_owned) });
        }
        Ok(Self::Groups(match path {
            "/api" => answer.json::<ApiVersions>()?.into_group().into_iter().collect(),
            _ => answer.json::<GroupList>()?.into_groups(),
        }))
    }

    /// Takes unchanged groups from the previous result: the core group for `/api`, all others for
    /// `/apis`.
    fn or_known(self, known: Option<&FetchedDiscovery>, core: bool) -> Self {
        let (Self::Unchanged, Some(known)) = (&self, known) else { return self };
        let discovery = &known.discovery;
        let mine = |group: &str| group.is_empty() == core;
        Self::Aggregated {
            groups: discovery.groups.iter().filter(|it| mine(&it.name)).cloned().collect(),
            failures: discovery.failures.iter().filter(|it| mine(&it.group)).cloned().collect(),
            tag: known.tags.as_ref().and_then(|it| it[usize::from(!core)].clone()),
        }
    }

    fn into_parts(self) -> (Vec<ApiGroup>, Vec<GroupFailure>, Option<String>) {
        match self {
            Self::Aggregated { groups, failures, tag } => (groups, failures, tag),
            Self::Groups(groups) => (groups, Vec::new(), None),
            Self::Missing | Self::Unchanged => Default::default(),
        }
    }
}

impl FetchedDiscovery {
    /// Returns true if the documents were aggregated.
    pub(crate) fn is_aggregated(&self) -> bool {
        self.tags.is_some()
    }
}
