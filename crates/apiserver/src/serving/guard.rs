//! Panic isolation: a panic in one response does not end its connection, which other streams share.
//!
//! The API service answers its own panics with 500. This is the safety net for any handler: a panic
//! ends the stream as [`Cut`] does.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::handler::{BoxError, Handler, RequestBody};
use crate::auth::PeerIdentity;
use crate::http::Cut;
use crate::panics::{Panicked, caught, caught_in};

/// Answers one request. A panic is logged and cuts the stream.
pub(super) async fn respond<H: Handler>(
    handler: &H,
    request: Request<RequestBody>,
    peer: Option<&PeerIdentity>,
) -> Result<Response<Guarded<H::Body>>, Cut> {
    let answered = caught(handler.respond(request, peer)).await;
    let answer = answered.unwrap_or_else(|panic| {
        log(&panic);
        Err(Cut)
    })?;
    Ok(answer.map(|body| Guarded { body, panicked: false }))
}

fn log(Panicked(panic): &Panicked) {
    tracing::error!(panic, "panic while producing a response; the stream is cut");
}

pin_project! {
    /// A response body that turns a panic into an error.
    pub(super) struct Guarded<B> {
        #[pin]
        body: B,
        // A body that panicked is not polled again.
        panicked: bool,
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for Guarded<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if *this.panicked {
            return Poll::Ready(None);
        }
        match caught_in(|| this.body.poll_frame(context)) {
            Ok(polled) => polled.map(|it| it.map(|it| it.map_err(Into::into))),
            Err(panic) => {
                log(&panic);
                *this.panicked = true;
                Poll::Ready(Some(Err(BoxError::from("the response body panicked"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
