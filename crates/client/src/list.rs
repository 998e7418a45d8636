//! Lists as streams: objects are yielded as the body arrives, page after page (rule PG-1).
//!
//! ```text
//! Next page ──rate limit──► Requesting ──response──► Reading ──end of body──► Next page, or Done
//!     ▲                         │                                         (without a continue token)
//!     ├── Restarted: the whole list without limit ◄── 410 Expired on a later page
//!     └── Restarted: the list in JSON ◄── an object with a field that is unknown in protobuf
//! ```
//!
//! The time limit of a request counts only while the stream waits for the server: neither the
//! client-side rate limit nor the reader's work between two objects is part of it.

use std::any::Any;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dogwatch_core::{Gvk, ListParams, ResourceVersion};
use dogwatch_wire::{Fields, ListDecoder, ListError, ListMeta, Packed, UndecodableItem};
use futures_core::Stream;
use futures_core::future::BoxFuture;
use http_body::Body;
use kube_core::{DynamicObject, TypeMeta};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Sleep};

use crate::body::ResponseBody;
use crate::client::{Client, Prepared};
use crate::encoding::{Accept, Encoding, fields_to_decode};
use crate::error::Error;
use crate::request::Request;

/// The default number of objects per page, as in client-go and kubectl.
pub const DEFAULT_PAGE_SIZE: u32 = 500;

/// The source of a list: a request for a collection, without its parameters.
#[derive(Clone, Debug)]
pub(crate) struct ListSource {
    pub(crate) request: Request,
    pub(crate) accept: Accept,
    pub(crate) fields: Fields,
    /// The kind of the items, which servers leave out of lists of built-in kinds.
    pub(crate) gvk: Gvk,
}

/// An element of a [`ListStream`].
///
/// ```
/// use dogwatch_client::ListEvent;
///
/// let (mut names, mut unreadable) = (Vec::new(), 0);
/// let (a, b) = (ListEvent::Item("a"), ListEvent::Item("b"));
/// for event in [a.clone(), ListEvent::Restarted, a, b] {
///     match event {
///         ListEvent::Item(name) => names.push(name),
///         ListEvent::Bad(_) => unreadable += 1,
///         ListEvent::Restarted => names.clear(),
///         _ => {}
///     }
/// }
/// assert_eq!((names, unreadable), (vec!["a", "b"], 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ListEvent<T> {
    /// The next object.
    Item(T),
    /// The next object could not be decoded. It exists on the server: do not treat it as deleted.
    Bad(UndecodableItem),
    /// The list is read again from the start: discard all earlier items. The continue token expired
    /// before the last page, or an object has a field that is unknown in protobuf.
    Restarted,
    /// The list is complete: nothing follows.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// True if the list came in more than one page.
        paginated: bool,
    },
}

/// A stream of the objects of a list, in the server's order.
///
/// The time limit of the settings, if there is one, applies to each response including its body;
/// time that the reader spends between two objects does not count. The stream ends with
/// [`ListEvent::End`], or with an error: then the list is not complete, and the version of
/// [`ListStream::into_metadata`] is not valid. Dropping the stream cancels the request.
///
/// ```
/// use dogwatch_client::{Api, ListEvent};
/// use dogwatch_core::ListParams;
/// use futures_util::TryStreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mut maps = Api::<ConfigMap>::all(client).list_pages(&ListParams::default());
/// while let Some(listed) = maps.try_next().await? {
///     if let ListEvent::Item(map) = listed {
///         println!("{:?}", map.metadata.name);
///     }
/// }
/// let version = maps.into_metadata().version; // to watch from
/// assert!(version.is_exact());
/// # Ok(())
/// # }
/// ```
#[must_use = "a list is read only as its stream is polled"]
pub struct ListStream<K> {
    source: ListSource,
    complete: CompleteItem<K>,
    /// The parameters of the current or next request.
    params: ListParams,
    /// The caller's parameters, to list again after a continue token expired.
    initial_params: ListParams,
    follow_pages: bool,
    /// The encoding that was requested last.
    requested: Encoding,
    /// True once a continue token was followed.
    paginated: bool,
    state: ListState<K>,
    /// The time left for the current response, including its body.
    timeout: Option<ResponseTimeout>,
    ready: VecDeque<ListEvent<K>>,
    metadata: ListMeta,
    payload: PhantomData<fn() -> K>,
}

enum ListState<K> {
    Next,
    /// Waiting for the client-side rate limit.
    Throttled(BoxFuture<'static, Result<(Client, Prepared), Error>>),
    Requesting(BoxFuture<'static, Result<Box<ListResponse>, Error>>),
    Reading {
        response: Box<ListResponse>,
        /// Bytes of the body so far.
        received: usize,
        decoder: Box<ListDecoder<K>>,
    },
    /// An error that is returned after all items before it.
    Broken(Error),
    Done,
}

/// A response whose body has not been read, with the values that error messages need.
struct ListResponse {
    client: Client,
    prepared: Prepared,
    encoding: Encoding,
    body: ResponseBody,
}

/// A time limit whose clock runs only while the stream is pending.
struct ResponseTimeout {
    limit: Duration,
    left: Duration,
    /// The start of the current wait for the server; `None` while the reader is busy.
    waiting_since: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl ResponseTimeout {
    fn new(limit: Duration) -> Self {
        let alarm = Box::pin(tokio::time::sleep(limit));
        Self { limit, left: limit, waiting_since: None, alarm }
    }

    /// Subtracts the time since the stream became pending.
    fn stop_clock(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    /// Starts the clock and arms the timer; ready when no time is left.
    fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let now = Instant::now();
        self.waiting_since = Some(now);
        match now.checked_add(self.left) {
            Some(deadline) => {
                self.alarm.as_mut().reset(deadline);
                self.alarm.as_mut().poll(cx).map(|()| Error::TimedOut(self.limit))
            }
            None => Poll::Pending,
        }
    }
}

impl<K: DeserializeOwned> ListStream<K> {
    /// Creates a stream that follows the server's continue tokens.
    pub(crate) fn new(source: ListSource, params: ListParams, complete: CompleteItem<K>) -> Self {
        Self {
            source,
            complete,
            initial_params: params.clone(),
            params,
            follow_pages: true,
            requested: Encoding::Json,
            paginated: false,
            state: ListState::Next,
            timeout: None,
            ready: VecDeque::new(),
            metadata: ListMeta::default(),
            payload: PhantomData,
        }
    }

    /// Creates a stream that lists in pages, even if the caller set no limit.
    pub(crate) fn paged(source: ListSource, mut params: ListParams, complete: CompleteItem<K>) -> Self {
        params.limit = params.limit.or(Some(DEFAULT_PAGE_SIZE));
        Self::new(source, params, complete)
    }

    pub(crate) fn stop_after_first_page(&mut self) {
        self.follow_pages = false;
    }

    /// Returns the metadata of the last page. Once the stream has ended, its version is the version
    /// of the list.
    pub fn into_metadata(self) -> ListMeta {
        self.metadata
    }

    /// Builds the next request and waits for the client-side rate limit.
    fn throttle(&mut self) -> BoxFuture<'static, Result<(Client, Prepared), Error>> {
        let (encoding, accept) = self.source.accept.current();
        self.requested = encoding;
        let request = self.source.request.clone().accept(accept).checked_params(self.params.query());
        Box::pin(async move {
            let (client, prepared) = request.prepare_list()?;
            client.throttle(&prepared).await;
            Ok((client, prepared))
        })
    }

    /// Decides what follows a complete page.
    fn page_ended(&mut self, metadata: ListMeta) {
        match metadata.continue_token.clone().filter(|_| self.follow_pages) {
            Some(token) => {
                self.paginated = true;
                // The token contains the version; servers reject a request with both.
                self.params.continue_token = Some(token);
                self.params.version = ResourceVersion::UNSET;
                self.params.version_match = None;
                self.state = ListState::Next;
            }
            None => {
                let (version, paginated) = (metadata.version.clone(), self.paginated);
                self.ready.push_back(ListEvent::End { version, paginated });
                self.state = ListState::Done;
            }
        }
        self.metadata = metadata;
    }

    /// Restarts the list without a limit if the continue token expired; returns true if it does.
    fn restarts_after(&mut self, error: &Error) -> bool {
        // As in client-go v0.36.4 `tools/pager/pager.go`: only an expired continue token falls back
        // to a full list; an expiry on the first page is the caller's to handle.
        let expired = error.status().is_some_and(|it| it.is_expired());
        if !expired || !self.paginated {
            return false;
        }
        self.initial_params.limit = None;
        self.initial_params.continue_token = None;
        self.follow_pages = false;
        self.restart();
        true
    }

    /// Reads the list again from the start.
    fn restart(&mut self) {
        self.params = self.initial_params.clone();
        self.paginated = false;
        self.ready.clear();
        self.ready.push_back(ListEvent::Restarted);
        self.state = ListState::Next;
    }
}

impl<K: DeserializeOwned> Stream for ListStream<K> {
    type Item = Result<ListEvent<K>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(listed) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(listed)));
            }
            match &mut this.state {
                ListState::Done => return Poll::Ready(None),
                ListState::Broken(_) => {
                    let ListState::Broken(error) = std::mem::replace(&mut this.state, ListState::Done) else {
                        unreachable!("matched above")
                    };
                    return Poll::Ready(Some(Err(error)));
                }
                ListState::Next => this.state = ListState::Throttled(this.throttle()),
                ListState::Throttled(prepared) => match ready!(prepared.as_mut().poll(cx)) {
                    Ok((client, prepared)) => {
                        this.timeout = this.source.request.time_limit().map(ResponseTimeout::new);
                        this.state = ListState::Requesting(request_page(client, prepared));
                    }
                    Err(error) => this.state = ListState::Broken(error),
                },
                ListState::Requesting(_) | ListState::Reading { .. } => ready!(this.poll_answer(cx)),
            }
        }
    }
}

impl<K: DeserializeOwned> ListStream<K> {
    /// Advances the current response, within its time limit.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(timeout) = &mut self.timeout {
            timeout.stop_clock();
        }
        // Data that has arrived is read even if the time is over: the limit is for a server that
        // does not answer.
        if self.poll_progress(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(timeout) = &mut self.timeout else { return Poll::Pending };
        let error = ready!(timeout.poll_exceeded(cx));
        self.state = ListState::Broken(error);
        Poll::Ready(())
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            ListState::Requesting(answer) => match ready!(answer.as_mut().poll(cx)) {
                Ok(response) => {
                    let decoder = match response.encoding {
                        Encoding::Json => ListDecoder::json(),
                        Encoding::Protobuf => ListDecoder::protobuf(),
                    };
                    let decoder =
                        Box::new(decoder.fields(fields_to_decode(self.source.fields, self.requested)));
                    self.state = ListState::Reading { response, received: 0, decoder };
                }
                Err(error) if self.restarts_after(&error) => {}
                Err(error) => self.state = ListState::Broken(error),
            },
            ListState::Reading { response, received, decoder } => {
                let read = match ready!(Pin::new(&mut response.body).poll_frame(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(chunk) => {
                            *received += chunk.len();
                            let ready = &mut self.ready;
                            let (gvk, complete) = (&self.source.gvk, self.complete);
                            let can_restart = self.requested == Encoding::Protobuf;
                            let mut unknown = None;
                            let sink = |item: Result<K, UndecodableItem>| match item {
                                Ok(mut item) => {
                                    complete(&mut item, gvk);
                                    ready.push_back(ListEvent::Item(item));
                                }
                                Err(bad) if can_restart && bad.is_unknown_field() => unknown = Some(bad),
                                Err(bad) => ready.push_back(ListEvent::Bad(bad)),
                            };
                            let fed = decoder.feed(&chunk, sink);
                            let fed = fed.map_err(|error| response.not_a_list(error));
                            if let Some(bad) = unknown {
                                self.source.accept.encoding.found_unknown_field(&bad);
                                self.restart();
                                return Poll::Ready(());
                            }
                            fed
                        }
                        Err(_trailers) => Ok(()),
                    },
                    Some(Err(error)) => Err(response.client.connection_error(error)),
                    None => self.body_ended(),
                };
                if let Err(error) = read {
                    self.state = ListState::Broken(error);
                }
            }
            _ => {}
        }
        Poll::Ready(())
    }

    fn body_ended(&mut self) -> Result<(), Error> {
        let ListState::Reading { response, received, decoder } =
            std::mem::replace(&mut self.state, ListState::Done)
        else {
            unreachable!("a body is read in this state only")
        };
        if received == 0 {
            return Err(response.malformed("the response has no body".to_owned()));
        }
        response.client.record_response_size(&response.prepared.method, received);
        let metadata = decoder.finish().map_err(|error| response.not_a_list(error))?;
        self.page_ended(metadata);
        Ok(())
    }
}

fn request_page(client: Client, prepared: Prepared) -> BoxFuture<'static, Result<Box<ListResponse>, Error>> {
    Box::pin(async move {
        let answer = client.exchange(&prepared).await?;
        let encoding = Encoding::of(&answer.headers);
        Ok(Box::new(ListResponse { client, prepared, encoding, body: answer.body }))
    })
}

/// A function that fills in the fields that the items of a list leave out.
pub(crate) type CompleteItem<K> = fn(&mut K, &Gvk);

/// Leaves an item unchanged: a typed object knows its kind.
pub(crate) fn unchanged<K>(_: &mut K, _: &Gvk) {}

/// Sets `apiVersion` and `kind` of a dynamic object, which servers leave out of the items of
/// built-in lists. client-go does the same.
pub(crate) fn set_kind<K: 'static>(item: &mut K, gvk: &Gvk) {
    let item = item as &mut dyn Any;
    if let Some(object) = item.downcast_mut::<DynamicObject>() {
        object.types.get_or_insert_with(|| TypeMeta {
            api_version: gvk.api_version().into_owned(),
            kind: gvk.kind.to_string(),
        });
    } else if let Some(packed) = item.downcast_mut::<Packed<DynamicObject>>() {
        packed.set_kind(&gvk.api_version(), &gvk.kind);
    }
}

/// No field is pinned structurally.
impl<K> Unpin for ListStream<K> {}

impl<K> std::fmt::Debug for ListStream<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListStream")
            .field("params", &self.params)
            .field("paginated", &self.paginated)
            .finish_non_exhaustive()
    }
}

impl ListResponse {
    /// Converts a decoding error: a body that ended early is a lost connection, anything else a
    /// malformed response.
    fn not_a_list(&self, error: ListError) -> Error {
        match error {
            ListError::Torn { .. } => self
                .client
                .connection_error(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, error).into()),
            ListError::Refused(status) => Error::Refused(status),
            other => self.malformed(other.to_string()),
        }
    }

    fn malformed(&self, problem: String) -> Error {
        let request = format!("{} {}", self.prepared.method, self.prepared.template);
        Error::Malformed { request, problem }
    }
}
