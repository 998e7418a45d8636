//! Reading of request bodies, within limits of size and time.

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use dogwatch_core::{Reason, Status};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body::Body;

use super::body_meter::{BodyMeter, Reservation};
use super::connection_info::ConnectionInfo;
use super::settings::Settings;
use crate::ApiError;
use crate::request::BodyForm;

/// The number of bytes of an oversized body that are read and discarded, so that the client gets to
/// read the response.
const MAX_DRAINED: usize = 4 * 1024 * 1024;

/// The body of a request, as it arrives: read within limits, or passed on to another server.
pub(crate) trait ArrivingBody:
    Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

impl<B> ArrivingBody for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

/// Reads request bodies within all limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyReader<'a> {
    /// The bodies of the whole server.
    pub(super) bodies: &'a BodyMeter,
    pub(super) settings: &'a Settings,
}

impl BodyReader<'_> {
    /// Reads the body of a request on a connection, which is `None` for a function call in this
    /// process.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub(super) async fn read<B: Body<Data = Bytes>>(
        self,
        body: B,
        headers: &HeaderMap,
        connection: Option<&ConnectionInfo>,
    ) -> Result<Bytes, ApiError> {
        let settings = self.settings;
        let all = (self.bodies.clone(), settings.bodies_limit);
        let of_connection = connection.map(|it| (it.bodies.clone(), settings.connection_bodies_limit));
        let reservation = Reservation::new([all].into_iter().chain(of_connection));
        read(body, headers, settings, reservation).await
    }
}

/// Reads a body. Holds no more than what has arrived, and counts it in the reservation until the
/// bytes are dropped.
///
/// # Errors
///
/// Returns 413 for a body that is too long, 504 for one that takes too long, 400 for one that
/// breaks off, and 429 if the reservation has no room.
async fn read<B: Body<Data = Bytes>>(
    body: B,
    headers: &HeaderMap,
    settings: &Settings,
    reservation: Reservation,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let said = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok()).unwrap_or(0usize);
    let read =
        tokio::time::timeout(settings.body_timeout, collect(body, said, settings.body_limit, reservation))
            .await;
    read.unwrap_or_else(|_| {
        let message = "Timeout: request did not complete within the allotted timeout";
        Err(ApiError(Box::new(Status::failure(Reason::Timeout, message))))
    })
}

/// Returns the format of a body.
///
/// # Errors
///
/// Returns 415 for an unsupported one.
pub(super) fn form(headers: &HeaderMap) -> Result<BodyForm, ApiError> {
    BodyForm::of(content_type(headers)).map_err(|mut refusal| {
        refusal.0.details = None;
        refusal
    })
}

/// Returns the content type of a request body.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok())
}

async fn collect<B: Body<Data = Bytes>>(
    body: B,
    said: usize,
    limit: usize,
    mut reservation: Reservation,
) -> Result<Bytes, ApiError> {
    let mut body = pin!(body);
    let mut read = Vec::new();
    let (mut length, mut too_long) = (0, said > limit);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return Err(ApiError::bad_request("unexpected EOF"));
        };
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        too_long |= length > limit;
        if !too_long {
            reservation.grow(data.len())?;
            if length == data.len() && body.is_end_stream() {
                // Most bodies are one frame.
                return Ok(reservation.hold(data));
            }
            // Copied, not kept: a frame of one byte pins the buffer it was read into and an entry
            // in a list, which together are thousands of times larger than what the reservation
            // counts.
            read.extend_from_slice(&data);
        } else if length > limit + MAX_DRAINED {
            break;
        } else {
            read = Vec::new();
            reservation.clear();
        }
    }
    if too_long {
        let message = format!("Request entity too large: limit is {limit}");
        return Err(ApiError(Box::new(Status::failure(Reason::RequestEntityTooLarge, message))));
    }
    Ok(reservation.hold(Bytes::from(read)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt;
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn small() -> Settings {
        Settings { body_limit: 5, body_timeout: Duration::from_secs(10), ..Settings::default() }
    }

    #[tokio::test]
    async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
        let read = |text: &'static str| async move {
            read(Full::new(Bytes::from(text)), &HeaderMap::new(), &small(), Reservation::default()).await
        };
        assert_eq!(read("12345").await, Ok(Bytes::from("12345")));
        let refusal = read("123456").await.expect_err("too long");
        assert_eq!(
            (refusal.0.code, refusal.0.message.as_str()),
            (413, "Request entity too large: limit is 5")
        );
        assert!(refusal.0.details.is_none());
    }

    /// Regression test: 3 MiB in frames of one byte took more than 100 MB of memory, of which 3 MiB
    /// were counted.
    #[tokio::test]
    async fn a_body_in_tiny_frames_does_not_pin_their_buffers() {
        let buffer = Bytes::from(vec![b'x'; 1000]);
        let frames: Vec<_> = (0..1000).map(|at| buffer.slice(at..at + 1)).collect();
        let frames =
            futures_util::stream::iter(frames).map(|it| Ok::<_, ApiError>(http_body::Frame::data(it)));
        let (held, counted) = (std::cell::Cell::new(true), buffer.clone());
        drop(buffer);
        let last = futures_util::stream::poll_fn(|_| {
            held.set(!counted.is_unique());
            std::task::Poll::Ready(None)
        });
        let body = StreamBody::new(frames.chain(last));
        let settings = Settings { body_limit: 1000, ..small() };
        let read = read(body, &HeaderMap::new(), &settings, Reservation::default()).await;
        assert_eq!(read.map(|it| it.len()), Ok(1000));
        assert!(!held.get(), "no frame is held after the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_times_out() {
        let body =
            StreamBody::new(futures_util::stream::pending::<Result<http_body::Frame<Bytes>, ApiError>>());
        let refusal = read(body, &HeaderMap::new(), &small(), Reservation::default())
            .await
            .expect_err("it takes too long");
        assert!(refusal.0.is_timeout());
    }

    #[test]
    fn an_unsupported_body_format_is_rejected_without_details() {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "text/plain".parse().expect("a value"))]);
        let refusal = form(&headers).expect_err("the format is not supported");
        assert!(refusal.0.code == 415 && refusal.0.details.is_none());
        assert_eq!(form(&HeaderMap::new()), Ok(BodyForm::Json));
    }
}
