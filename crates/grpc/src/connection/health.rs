//! Health checking of an endpoint with `grpc.health.v1.Health/Watch`, as in gRPC's A17.
//!
//! The two messages, of one field each, are encoded and decoded by hand. A server without the
//! health service counts as healthy; a broken stream counts as unhealthy until another one reports.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use tokio::time::sleep;

use super::backoff::Backoff;
use super::session::Link;
use crate::random;

/// `SERVING` of `HealthCheckResponse.ServingStatus`.
const SERVING: u64 = 1;
const UNIMPLEMENTED: &str = "12";
/// The limit of buffered bytes without a complete message. A valid message has two bytes.
const LARGEST: usize = 4 << 10;

/// The end of a health stream.
enum WatchEnd {
    /// The server has no health service: it counts as healthy for good.
    Unknown,
    /// The stream broke; watch again.
    Broken,
}

/// Watches the health of `service` on a connection, and calls `report` with each status. Never
/// returns.
///
/// `server` is the `:authority`, and true for a TLS connection.
pub(crate) async fn watch(link: Arc<Link>, server: (String, bool), service: String, report: impl Fn(bool)) {
    let backoff = Backoff { longest: Duration::from_secs(30), ..Backoff::default() };
    let mut failures = 0;
    loop {
        match watch_once(&link, &server, &service, &mut failures, &report).await {
            WatchEnd::Unknown => {
                report(true);
                std::future::pending::<()>().await;
            }
            WatchEnd::Broken => {
                report(false);
                failures += 1;
                sleep(backoff.wait(failures, random::unit())).await;
            }
        }
    }
}

async fn watch_once(
    link: &Link,
    server: &(String, bool),
    service: &str,
    failures: &mut u32,
    report: &impl Fn(bool),
) -> WatchEnd {
    let Some(request) = request(server) else {
        return WatchEnd::Broken;
    };
    let Ok((response, mut body)) = link.sender().send_request(request, false) else {
        return WatchEnd::Broken;
    };
    if body.send_data(encode(service), true).is_err() {
        return WatchEnd::Broken;
    }
    let Ok(response) = response.await else {
        return WatchEnd::Broken;
    };
    // A server that does not speak gRPC answers with an HTTP status.
    if is_unimplemented(response.headers()) || response.status() == StatusCode::NOT_FOUND {
        return WatchEnd::Unknown;
    }
    let mut stream = response.into_body();
    let mut buffered = BytesMut::new();
    while let Some(Ok(chunk)) = poll_fn(|cx| stream.poll_data(cx)).await {
        let _ = stream.flow_control().release_capacity(chunk.len());
        buffered.extend_from_slice(&chunk);
        while let Some(message) = take_message(&mut buffered) {
            *failures = 0;
            report(decode(&message) == SERVING);
        }
        if buffered.len() > LARGEST {
            return WatchEnd::Broken;
        }
    }
    match poll_fn(|cx| stream.poll_trailers(cx)).await {
        Ok(Some(trailers)) if is_unimplemented(&trailers) => WatchEnd::Unknown,
        _ => WatchEnd::Broken,
    }
}

fn is_unimplemented(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").is_some_and(|it| it == UNIMPLEMENTED)
}

fn request((authority, secure): &(String, bool)) -> Option<Request<()>> {
    let path = "/grpc.health.v1.Health/Watch";
    let scheme = if *secure { "https" } else { "http" };
    let uri =
        Uri::builder().scheme(scheme).authority(authority.as_str()).path_and_query(path).build().ok()?;
    let request = Request::builder().method(Method::POST).uri(uri);
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).ok()
}

/// Encodes a `HealthCheckRequest` with its length prefix: field 1 is the service.
fn encode(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put(message);
    framed.freeze()
}

/// Takes the next complete message, without its five bytes of prefix.
fn take_message(buffered: &mut BytesMut) -> Option<Bytes> {
    let length = buffered.get(1..5).map(|mut it| it.get_u32() as usize)?;
    if buffered.len() < 5 + length {
        return None;
    }
    buffered.advance(5);
    Some(buffered.split_to(length).freeze())
}

/// Decodes the status of a `HealthCheckResponse`: field 1, 0 if absent or invalid.
fn decode(message: &[u8]) -> u64 {
    match message {
        [0x08, status, ..] if *status < 0x80 => u64::from(*status),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_as_protobuf_encodes_them() {
        assert_eq!(encode("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(encode("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = encode(&"x".repeat(300));
        assert_eq!((long.len(), &long[5..8]), (5 + 303, &[0x0a, 0xac, 0x02][..]));
        assert_eq!((decode(&[0x08, 1]), decode(&[0x08, 2]), decode(&[])), (1, 2, 0));
    }

    #[test]
    fn the_scheme_matches_the_connection() {
        let scheme =
            |secure| request(&("shop".to_owned(), secure)).unwrap().uri().scheme_str().map(str::to_owned);
        assert_eq!((scheme(false).as_deref(), scheme(true).as_deref()), (Some("http"), Some("https")));
    }

    #[test]
    fn only_complete_messages_are_taken() {
        let mut buffered = BytesMut::from(&[0, 0, 0, 0, 2, 0x08, 1, 0, 0, 0, 0, 2, 0x08][..]);
        assert_eq!(take_message(&mut buffered).as_deref(), Some(&[0x08, 1][..]));
        assert_eq!(take_message(&mut buffered), None);
        buffered.put_u8(2);
        assert_eq!(take_message(&mut buffered).as_deref(), Some(&[0x08, 2][..]));
        assert_eq!(take_message(&mut buffered), None);
    }
}
