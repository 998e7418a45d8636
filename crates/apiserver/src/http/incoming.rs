//! Reading the body of a request: all of it, but not more than the limit, and not for ever.

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use dogwatch_core::{Reason, Status};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body::Body;

use super::body_meter::Reservation;
use super::settings::Settings;
use crate::refusal::Refusal;
use crate::request::BodyForm;

/// How much of a body that is too long is read and thrown away, so that the client gets to read the answer.
const DRAINED: usize = 4 * 1024 * 1024;

/// Reads a body. Holds no more than what has come of it, and counts that in the reservation until the bytes are dropped.
///
/// # Errors
/// 413 for one that is too long, 504 for one that takes too long, 400 for one that breaks off, 429 where the reservation has no room.
pub(super) async fn read<B: Body<Data = Bytes>>(
    body: B,
    headers: &HeaderMap,
    settings: &Settings,
    reservation: Reservation,
) -> Result<Bytes, Refusal> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let said = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok()).unwrap_or(0usize);
    let read =
        tokio::time::timeout(settings.body_timeout, collect(body, said, settings.body_limit, reservation))
            .await;
    read.unwrap_or_else(|_| {
        let message = "Timeout: request did not complete within the allotted timeout";
        Err(Refusal(Box::new(Status::failure(Reason::Timeout, message))))
    })
}

/// In which form a body is.
///
/// # Errors
/// 415 for one nobody reads.
pub(super) fn form(headers: &HeaderMap) -> Result<BodyForm, Refusal> {
    BodyForm::of(content_type(headers)).map_err(|mut refusal| {
        refusal.0.details = None;
        refusal
    })
}

/// The content type a client gives its body.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok())
}

async fn collect<B: Body<Data = Bytes>>(
    body: B,
    said: usize,
    limit: usize,
    mut reservation: Reservation,
) -> Result<Bytes, Refusal> {
    let mut body = pin!(body);
    let mut read = Vec::new();
    let (mut length, mut too_long) = (0, said > limit);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return Err(Refusal::bad_request("unexpected EOF"));
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
            // Copied, not kept: a frame of one byte holds the buffer it was read into, and a place in a list, which
            // together are thousands of times as large as what the reservation counts.
            read.extend_from_slice(&data);
        } else if length > limit + DRAINED {
            break;
        } else {
            read = Vec::new();
            reservation.clear();
        }
    }
    if too_long {
        let message = format!("Request entity too large: limit is {limit}");
        return Err(Refusal(Box::new(Status::failure(Reason::RequestEntityTooLarge, message))));
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

    /// 3 MiB in frames of one byte took more than 100 MB of memory, of which 3 MiB were counted.
    #[tokio::test]
    async fn a_body_in_tiny_frames_keeps_none_of_the_buffers_they_came_in() {
        let buffer = Bytes::from(vec![b'x'; 1000]);
        let frames: Vec<_> = (0..1000).map(|at| buffer.slice(at..at + 1)).collect();
        let frames =
            futures_util::stream::iter(frames).map(|it| Ok::<_, Refusal>(http_body::Frame::data(it)));
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
        assert!(!held.get(), "no frame is held when the last has come");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let body =
            StreamBody::new(futures_util::stream::pending::<Result<http_body::Frame<Bytes>, Refusal>>());
        let refusal = read(body, &HeaderMap::new(), &small(), Reservation::default())
            .await
            .expect_err("it takes too long");
        assert!(refusal.0.is_timeout());
    }

    #[test]
    fn a_form_nobody_reads_is_refused_without_details() {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "text/plain".parse().expect("a value"))]);
        let refusal = form(&headers).expect_err("nobody reads it");
        assert!(refusal.0.code == 415 && refusal.0.details.is_none());
        assert_eq!(form(&HeaderMap::new()), Ok(BodyForm::Json));
    }
}
