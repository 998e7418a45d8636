//! The head of a client's request, as it is passed on to a backend.

use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Request, Uri};

use super::connection_info::ConnectionInfo;
use crate::ApiError;
use crate::upstream::{self, Location, RequestBody};

/// Returns the request to a backend: the head of the client's, without its credentials and the
/// headers of its connection.
///
/// # Errors
/// 400 if the location cannot be the target of a request.
pub(super) fn to_backend(
    parts: &Parts,
    location: &Location,
    body: RequestBody,
) -> Result<Request<RequestBody>, ApiError> {
    let target: Uri = location
        .path_and_query()
        .parse()
        .map_err(|error| ApiError::bad_request(format!("invalid path or query for the backend: {error}")))?;
    let mut headers: HeaderMap = parts.headers.clone();
    upstream::remove_credentials(&mut headers);
    upstream::remove_hop_by_hop(&mut headers);
    // Of the client's body, which a request to switch protocols does not have.
    headers.remove(CONTENT_LENGTH);
    if !headers.contains_key(HOST) {
        let own = parts.uri.authority().map_or_else(|| location.origin.authority(), ToString::to_string);
        headers.extend(HeaderValue::try_from(own).ok().map(|it| (HOST, it)));
    }
    // The peer of a loopback address is on the loopback. For other connections only the server's
    // own address is known here.
    let connection = parts.extensions.get::<ConnectionInfo>();
    let local = connection.and_then(|it| it.local).map(|it| it.ip().to_canonical());
    if let Some(address) = local.filter(std::net::IpAddr::is_loopback) {
        upstream::append_forwarded_for(&mut headers, address);
    }
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    Ok(request)
}
