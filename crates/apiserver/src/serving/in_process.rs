//! Clients in the same process: connections without a socket, and requests without a connection.
//!
//! A [`Connector`] provides all of HTTP over an in-memory pipe: for hyper's clients, kube's, and
//! this project's own where the encoding is part of a test. An [`InProcess`] leaves the encoding
//! out: requests are function calls. Neither keeps the server alive; once it is stopped, they
//! return errors.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tokio::io::DuplexStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use super::handler::{BoxError, Handler};
use super::limits::Limits;
use super::{connection, guard, inner::Inner};
use crate::auth::PeerIdentity;

/// The buffer size of a pipe in each direction.
const PIPE: usize = 64 * 1024;

/// Connects to the server without a socket. Clones are equivalent.
///
/// A tower service from any [`Uri`] to a stream, like hyper's connectors:
///
/// ```
/// # async fn example(connector: dogwatch_apiserver::Connector) {
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
/// # type Body = http_body_util::Full<bytes::Bytes>;
///
/// let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
/// let version = client.get("http://any.name/version".parse().unwrap()).await;
/// # }
/// ```
#[derive(Clone)]
pub struct Connector {
    connect: Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>,
}

impl Connector {
    pub(super) fn new<H: Handler>(inner: &Arc<Inner<H>>) -> Self {
        let inner = Arc::downgrade(inner);
        Self { connect: Arc::new(move || connect(&inner)) }
    }

    /// Opens a new connection. Must be called inside a runtime, which will run the server's side of
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is stopped.
    pub fn connect(&self) -> io::Result<DuplexStream> {
        (self.connect)()
    }
}

fn connect<H: Handler>(inner: &Weak<Inner<H>>) -> io::Result<DuplexStream> {
    let inner = inner.upgrade().filter(|it| !it.shutdown.graceful.is_cancelled()).ok_or_else(gone)?;
    let (client, server) = tokio::io::duplex(PIPE);
    let serve = connection::serve(TokioIo::new(server), None, None, Limits::IN_PROCESS, Arc::clone(&inner));
    inner.spawn(serve);
    Ok(client)
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "the server is stopped")
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Service<Uri> for Connector {
    type Response = InProcessStream;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<InProcessStream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.connect().map(|it| InProcessStream(TokioIo::new(it))))
    }
}

/// A connection without a socket, for hyper's clients.
#[derive(Debug)]
pub struct InProcessStream(TokioIo<DuplexStream>);

impl Connection for InProcessStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for InProcessStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for InProcessStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }
}

/// Takes requests without a connection. Clones are equivalent.
///
/// A tower service of requests, for `Client::from_service` of this project's client and
/// `Client::new` of kube. Dropping the future of a call, or the body of a response, corresponds to
/// closing a connection.
#[derive(Clone)]
pub struct InProcess {
    // Not generic over the handler, so that the whole server is compiled in this crate, and not
    // again in each crate that sends a request to it.
    respond: Arc<dyn Fn(Request<BoxedBody>) -> Responding + Send + Sync>,
}

type BoxedBody = UnsyncBoxBody<Bytes, BoxError>;
type Responding = Pin<Box<dyn Future<Output = Result<Response<BoxedBody>, BoxError>> + Send>>;

/// A component of the cluster that runs in the process of the server.
struct Component<H> {
    /// Answers its requests in place of the handler of the server.
    handler: H,
    identity: PeerIdentity,
}

impl InProcess {
    pub(super) fn new<H: Handler>(inner: &Arc<Inner<H>>) -> Self {
        Self::with(inner, None)
    }

    /// Answers requests with another handler, as those of this user. The server itself decides how
    /// long requests are accepted.
    pub(super) fn of_component<H: Handler>(
        inner: &Arc<Inner<H>>,
        handler: H,
        identity: PeerIdentity,
    ) -> Self {
        Self::with(inner, Some(Component { handler, identity }))
    }

    fn with<H: Handler>(inner: &Arc<Inner<H>>, component: Option<Component<H>>) -> Self {
        let (inner, component) = (Arc::downgrade(inner), component.map(Arc::new));
        let respond = move |request| -> Responding {
            let inner = inner.upgrade().filter(|it| !it.shutdown.graceful.is_cancelled());
            Box::pin(respond(inner, component.clone(), request))
        };
        Self { respond: Arc::new(respond) }
    }
}

async fn respond<H: Handler>(
    inner: Option<Arc<Inner<H>>>,
    component: Option<Arc<Component<H>>>,
    request: Request<BoxedBody>,
) -> Result<Response<BoxedBody>, BoxError> {
    let Some((handler, now)) = inner.map(|it| (Arc::clone(&it.handler), it.shutdown.immediate.clone()))
    else {
        return Err(gone().into());
    };
    let (handler, peer) = match &component {
        Some(component) => (&component.handler, Some(&component.identity)),
        None => (&*handler, None),
    };
    match now.clone().run_until_cancelled(guard::respond(handler, request, peer)).await {
        Some(Ok(response)) => Ok(response.map(|body| ServerBoundBody::new(body, now).boxed_unsync())),
        Some(Err(_cut)) => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        None => Err(gone().into()),
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        (self.respond)(request.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

pin_project! {
    /// A response body that breaks off when the server is stopped.
    struct ServerBoundBody<B> {
        #[pin]
        body: B,
        #[pin]
        gone: WaitForCancellationFutureOwned,
    }
}

impl<B> ServerBoundBody<B> {
    fn new(body: B, now: CancellationToken) -> Self {
        Self { body, gone: now.cancelled_owned() }
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for ServerBoundBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(context) {
            // A connection writes several pieces with one system call; here they are copied into
            // one.
            let whole =
                |frame: Frame<B::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
            return Poll::Ready(frame.map(|it| it.map(whole).map_err(Into::into)));
        }
        this.gone.poll(context).map(|()| Some(Err(io::Error::from(io::ErrorKind::ConnectionReset).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
