//! The raw watch: the events of one open response (rule RQ-15).

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use dogwatch_core::WatchParams;
use dogwatch_wire::{Fields, UndecodableItem, WatchDecoder, WatchError, WatchEvent};
use futures_core::Stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::Body;
use serde::de::DeserializeOwned;

use crate::body::ResponseBody;
use crate::client::Client;
use crate::encoding::{Accept, Encoding, EncodingChoice, fields_to_decode};
use crate::error::Error;
use crate::request::{JSON, Request};
use crate::transport::TransportErrorKind;

/// The source of a watch: a request for a collection, without its parameters.
#[derive(Clone, Debug)]
pub(crate) struct WatchSource {
    pub(crate) request: Request,
    /// The `Accept` headers; `None` for a request that has its own.
    pub(crate) accept: Option<Accept>,
    pub(crate) fields: Fields,
}

/// A stream of the events of one watch, in the server's order.
///
/// - `Ok(event)`: the next event; this includes an `ERROR` event, which is usually the last.
/// - `Err(Error::Undecodable)`: one object could not be decoded. The stream continues after it.
/// - Any other `Err`: the connection was lost or the response is not a watch. The stream ends.
/// - `None`: the watch ended between two events, for example because the server ends every watch
///   after a while, or because the next object has a field that is not known in protobuf: the next
///   watch of the handle is in JSON.
///
/// Dropping the stream closes the watch. A slow reader applies backpressure to the server; no more
/// than one chunk is buffered.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::WatchParams;
/// use dogwatch_wire::WatchEvent;
/// use futures_util::TryStreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {colour: blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mut events = Api::<ConfigMap>::all(client).watch(&WatchParams::default()).await?;
/// while let Some(event) = events.try_next().await? {
///     match event {
///         WatchEvent::Added(map) => {
///             assert_eq!(map.metadata.name.as_deref(), Some("a"));
///             break; // closes the watch
///         }
///         WatchEvent::Error(status) => println!("{status}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a watch is read only as its stream is polled"]
pub struct WatchStream<K> {
    ready: VecDeque<Result<WatchEvent<K>, UndecodableItem>>,
    open: Option<Open<K>>,
    /// The error that ended the watch, returned after all events before it.
    broken: Option<Error>,
}

struct Open<K> {
    client: Client,
    request: String,
    body: ResponseBody,
    decoder: Box<WatchDecoder<K>>,
    /// The requested encoding, if it can be another one next time.
    encoding: Option<EncodingChoice>,
}

impl WatchSource {
    pub(crate) async fn open<K: DeserializeOwned>(
        &self,
        params: &WatchParams,
    ) -> Result<WatchStream<K>, Error> {
        let (requested, request) = match self.accept.as_ref().map(Accept::current) {
            Some((encoding, accept)) => (encoding, self.request.clone().accept(accept)),
            None => (Encoding::Json, self.request.clone()),
        };
        let with_initial_events = params.send_initial_events == Some(true);
        let request = request.checked_params(params.query());
        let (client, prepared) = request.prepare_watch(with_initial_events)?;
        let request = format!("{} {}", prepared.method, prepared.template);
        match client.exchange(&prepared).await {
            Ok(answer) => {
                let decoder = match Encoding::of(&answer.headers) {
                    Encoding::Protobuf => WatchDecoder::protobuf(),
                    Encoding::Json => WatchDecoder::json(),
                };
                if let (Encoding::Json, Some(other)) =
                    (Encoding::of(&answer.headers), other_than_json(&answer.headers))
                {
                    let problem = format!("expected events as JSON or protobuf, got {other:?}");
                    return Err(Error::Malformed { request, problem });
                }
                let encoding = self.accept.as_ref().map(|it| it.encoding.clone());
                let encoding = encoding.filter(|_| requested == Encoding::Protobuf);
                let decoder = Box::new(decoder.fields(fields_to_decode(self.fields, requested)));
                let open = Some(Open { client, request, body: answer.body, decoder, encoding });
                Ok(WatchStream { ready: VecDeque::new(), open, broken: None })
            }
            // If connections keep breaking while the watch is opened, return a watch that ended at
            // once: the caller resumes it like any other (rule RQ-8).
            Err(error)
                if matches!(
                    error.transport(),
                    Some(TransportErrorKind::Lost | TransportErrorKind::Timeout)
                ) =>
            {
                tracing::warn!(%error, request, "cannot open the watch");
                Ok(WatchStream { ready: VecDeque::new(), open: None, broken: None })
            }
            Err(error) => Err(error),
        }
    }
}

impl Request {
    /// Opens a watch on the collection of the request. Dropping the stream closes it.
    ///
    /// The payload is whatever the `Accept` header requests: [`Api::watch`](crate::Api::watch)
    /// supports whole objects and metadata, and this is for other forms, such as one `Table` for
    /// each event. An `Accept-Encoding` header is kept. Without one, gzip is requested only for
    /// initial events of a server on another machine.
    ///
    /// # Errors
    /// See [`Self::send`]; `Expired` if the server no longer keeps the version.
    pub async fn watch<T: DeserializeOwned>(self, params: &WatchParams) -> Result<WatchStream<T>, Error> {
        WatchSource { request: self, accept: None, fields: Fields::default() }.open(params).await
    }
}

/// Returns the content type of a response that is not JSON.
fn other_than_json(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(CONTENT_TYPE)?;
    let media = said.to_str().ok().and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    let json = media.eq_ignore_ascii_case(JSON) || media.to_ascii_lowercase().ends_with("+json");
    (!json).then(|| String::from_utf8_lossy(said.as_bytes()).into_owned())
}

impl<K: DeserializeOwned> Stream for WatchStream<K> {
    type Item = Result<WatchEvent<K>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event.map_err(Error::Undecodable)));
            }
            let Some(open) = &mut this.open else { return Poll::Ready(this.broken.take().map(Err)) };
            let more = match ready!(Pin::new(&mut open.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        let (mut unknown, ready) = (None, &mut this.ready);
                        let can_resume = open.encoding.is_some();
                        let fed = open.decoder.feed(&chunk, |event| match event {
                            // The next watch starts before this event, in JSON.
                            _ if unknown.is_some() => {}
                            Err(bad) if can_resume && bad.is_unknown_field() => unknown = Some(bad),
                            event => ready.push_back(event),
                        });
                        if let Some(bad) = unknown {
                            open.encoding.iter().for_each(|it| it.found_unknown_field(&bad));
                            this.open = None;
                            continue;
                        }
                        fed.map_err(|error| not_a_watch(&open.client, &open.request, error)).map(|()| true)
                    }
                    Err(_trailers) => Ok(true),
                },
                Some(Err(error)) => Err(open.client.connection_error(error)),
                None => Ok(false),
            };
            match more {
                Ok(true) => {}
                Ok(false) => this.broken = this.open.take().and_then(|open| open.finish().err()),
                Err(error) => {
                    this.open = None;
                    this.broken = Some(error);
                }
            }
        }
    }
}

impl<K: DeserializeOwned> Open<K> {
    /// Checks that the body ended between two events, not inside one.
    fn finish(self) -> Result<(), Error> {
        self.decoder.finish().map_err(|error| not_a_watch(&self.client, &self.request, error))
    }
}

/// No field is pinned structurally.
impl<K> Unpin for WatchStream<K> {}

impl<K> std::fmt::Debug for WatchStream<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream").field("open", &self.open.is_some()).finish_non_exhaustive()
    }
}

fn not_a_watch(client: &Client, request: &str, error: WatchError) -> Error {
    match error {
        WatchError::Torn { .. } => {
            client.connection_error(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, error).into())
        }
        other => Error::Malformed { request: request.to_owned(), problem: other.to_string() },
    }
}
