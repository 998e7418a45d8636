//! Lists as streams: objects come out while the body arrives, page after page (rule PG-1).
//!
//! ```text
//! Next page ──answer──► Reading ──end of body──► Next page, while there is a continue token, else Done
//!     ▲                                             │
//!     └── Restarted, whole list at the first version ◄── 410 Expired on a later page
//! ```

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dogwatch_core::{ListParams, ResourceVersion};
use dogwatch_wire::{BadItem, Fields, ListDecoder, ListError, ListMeta};
use futures_core::Stream;
use futures_core::future::BoxFuture;
use http_body::Body;
use serde::de::DeserializeOwned;
use tokio::time::Sleep;

use crate::body::ResponseBody;
use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// How many objects a page holds unless the caller says otherwise: client-go's and kubectl's number.
pub const DEFAULT_PAGE_SIZE: u32 = 500;

/// Where lists come from: a request on a collection, without its parameters.
#[derive(Clone, Debug)]
pub(crate) struct ListSource {
    pub(crate) request: Request,
    pub(crate) fields: Fields,
}

/// What a [`ListStream`] gives.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Listed<K> {
    /// The next object.
    Item(K),
    /// The next object could not be decoded. It is there on the server: do not take it for deleted.
    Bad(BadItem),
    /// The server forgot the list half-way, and it is read again from the start: forget what came before.
    Restarted,
}

/// A list, object by object in the server's order.
///
/// The time limit of the settings, where there is one, holds for each answer, its body included. An error ends the stream. Only when it has ended without one is the list whole, and [`ListStream::into_metadata`] its
/// version. Dropping the stream ends the request.
#[must_use = "a list is read only as its stream is polled"]
pub struct ListStream<K> {
    source: ListSource,
    /// Of the request under way or next to come.
    params: ListParams,
    /// As the caller gave them, for the whole list after an expiry.
    original: ListParams,
    follow_pages: bool,
    /// True once a continue token was followed.
    paginated: bool,
    state: State<K>,
    /// When the answer under way must have come, its body included.
    deadline: Option<(Duration, Pin<Box<Sleep>>)>,
    ready: VecDeque<Listed<K>>,
    metadata: ListMeta,
    payload: PhantomData<fn() -> K>,
}

enum State<K> {
    Next,
    Asking(BoxFuture<'static, Result<(Client, String, ResponseBody), Error>>),
    Reading {
        client: Client,
        request: String,
        body: ResponseBody,
        decoder: Box<ListDecoder<K>>,
    },
    /// Told once everything before it has been.
    Broken(Error),
    Done,
}

impl<K: DeserializeOwned> ListStream<K> {
    /// One answer after another as the parameters and the server's continue tokens say.
    pub(crate) fn new(source: ListSource, params: ListParams) -> Self {
        Self {
            source,
            original: params.clone(),
            params,
            follow_pages: true,
            paginated: false,
            state: State::Next,
            deadline: None,
            ready: VecDeque::new(),
            metadata: ListMeta::default(),
            payload: PhantomData,
        }
    }

    /// In pages, even where the caller set no limit.
    pub(crate) fn paged(source: ListSource, mut params: ListParams) -> Self {
        params.limit = params.limit.or(Some(DEFAULT_PAGE_SIZE));
        Self::new(source, params)
    }

    pub(crate) fn stop_after_first_page(&mut self) {
        self.follow_pages = false;
    }

    /// Whether the server answered in more than one page.
    pub fn paginated(&self) -> bool {
        self.paginated
    }

    /// What the last answer said besides its items; its version is the list's, once the stream has ended.
    pub fn into_metadata(self) -> ListMeta {
        self.metadata
    }

    fn ask(&self) -> BoxFuture<'static, Result<(Client, String, ResponseBody), Error>> {
        let request = self.source.request.clone().checked_params(self.params.query());
        Box::pin(async move {
            let (client, prepared) = request.prepare_list()?;
            let name = format!("{} {}", prepared.method, prepared.template);
            let answer = client.exchange(&prepared).await?;
            Ok((client, name, answer.body))
        })
    }

    /// Decides what follows a whole page.
    fn page_ended(&mut self, metadata: ListMeta) {
        self.state = State::Done;
        if let Some(token) = metadata.continue_token.clone().filter(|_| self.follow_pages) {
            self.paginated = true;
            // The token carries the version; servers refuse to be told twice.
            self.params.continue_token = Some(token);
            self.params.version = ResourceVersion::UNSET;
            self.params.version_match = None;
            self.state = State::Next;
        }
        self.metadata = metadata;
    }

    /// Whether a refusal means that the list must be read again, in one piece.
    fn restarts_after(&mut self, error: &Error) -> bool {
        let expired = error.status().is_some_and(|it| it.is_expired());
        if !expired || !self.paginated {
            return false;
        }
        self.params = self.original.clone();
        self.params.limit = None;
        self.params.continue_token = None;
        self.paginated = false;
        self.follow_pages = false;
        self.ready.clear();
        self.ready.push_back(Listed::Restarted);
        self.state = State::Next;
        true
    }
}

impl<K: DeserializeOwned> Stream for ListStream<K> {
    type Item = Result<Listed<K>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(listed) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(listed)));
            }
            if let (State::Asking(_) | State::Reading { .. }, Some((limit, deadline))) =
                (&this.state, &mut this.deadline)
                && deadline.as_mut().poll(cx).is_ready()
            {
                this.state = State::Broken(Error::TimedOut(*limit));
            }
            match &mut this.state {
                State::Done => return Poll::Ready(None),
                State::Broken(_) => {
                    let State::Broken(error) = std::mem::replace(&mut this.state, State::Done) else {
                        unreachable!("matched above")
                    };
                    return Poll::Ready(Some(Err(error)));
                }
                State::Next => {
                    let limit = this.source.request.time_limit();
                    this.deadline = limit.map(|limit| (limit, Box::pin(tokio::time::sleep(limit))));
                    this.state = State::Asking(this.ask());
                }
                State::Asking(answer) => match ready!(answer.as_mut().poll(cx)) {
                    Ok((client, request, body)) => {
                        let decoder = Box::new(ListDecoder::json().fields(this.source.fields));
                        this.state = State::Reading { client, request, body, decoder };
                    }
                    Err(error) if this.restarts_after(&error) => {}
                    Err(error) => this.state = State::Broken(error),
                },
                State::Reading { client, request, body, decoder } => {
                    let outcome = match ready!(Pin::new(body).poll_frame(cx)) {
                        Some(Ok(frame)) => match frame.into_data() {
                            Ok(chunk) => {
                                let sink = |item| {
                                    this.ready.push_back(match item {
                                        Ok(item) => Listed::Item(item),
                                        Err(bad) => Listed::Bad(bad),
                                    })
                                };
                                decoder.feed(&chunk, sink).map_err(|error| not_a_list(client, request, error))
                            }
                            Err(_) => Ok(()),
                        },
                        Some(Err(error)) => Err(client.lost(error)),
                        None => {
                            let (client, request) = (client.clone(), std::mem::take(request));
                            let State::Reading { decoder, .. } =
                                std::mem::replace(&mut this.state, State::Done)
                            else {
                                unreachable!("matched above")
                            };
                            match decoder.finish() {
                                Ok(metadata) => {
                                    this.page_ended(metadata);
                                    Ok(())
                                }
                                Err(error) => Err(not_a_list(&client, &request, error)),
                            }
                        }
                    };
                    if let Err(error) = outcome {
                        this.state = State::Broken(error);
                    }
                }
            }
        }
    }
}

/// Objects are only ever moved through it.
impl<K> Unpin for ListStream<K> {}

impl<K> std::fmt::Debug for ListStream<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListStream")
            .field("params", &self.params)
            .field("paginated", &self.paginated)
            .finish_non_exhaustive()
    }
}

/// A body that ended early is a lost connection; anything else is an answer that makes no sense.
fn not_a_list(client: &Client, request: &str, error: ListError) -> Error {
    match error {
        ListError::Torn { .. } => {
            client.lost(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, error).into())
        }
        ListError::Refused(status) => Error::Refused(status),
        other => Error::Malformed { request: request.to_owned(), problem: other.to_string() },
    }
}
