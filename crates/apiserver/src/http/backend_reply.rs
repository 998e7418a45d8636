//! Responses of backends, as responses of this server: passed on as they arrive, or as the begin of
//! a tunnel.

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http::header::{CONNECTION, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyDataStream, BodyExt, Empty};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::answer::{self, Answer};
use super::backend_request::to_backend;
use super::body::{Cut, ResponseBody};
use super::connection_info::{AfterSwitch, ConnectionInfo};
use super::pieces::Pieces;
use crate::ApiError;
use crate::upstream::{self, Failure, Location, ReplyBody, RequestBody};

/// The client's side of a switch of protocols.
pub(super) struct ProtocolSwitch {
    client: OnUpgrade,
    after_switch: AfterSwitch,
    /// The protocols that the client asks for.
    protocols: HeaderValue,
}

impl ProtocolSwitch {
    /// Returns the switch that a request asks for, or `None` if it asks for none. HTTP/2 has none.
    ///
    /// # Errors
    /// 500 if the request has no connection that could switch: it is a function call.
    pub(super) fn of(parts: &Parts) -> Result<Option<Self>, ApiError> {
        if !upstream::requests_upgrade(&parts.headers) || parts.version != Version::HTTP_11 {
            return Ok(None);
        }
        let Some(connection) = parts.extensions.get::<ConnectionInfo>() else {
            return Err(ApiError::unexplained(
                "this request is a function call and has no connection that could switch protocols: send it over a \
                 socket, or over ApiServer::connector",
            ));
        };
        let client = parts.extensions.get::<OnUpgrade>();
        let protocols = parts.headers.get(http::header::UPGRADE);
        Ok(client.zip(protocols).map(|(client, protocols)| Self {
            client: client.clone(),
            after_switch: connection.after_switch.clone(),
            protocols: protocols.clone(),
        }))
    }

    /// Returns the request that asks a backend to switch to the same protocols. It has no body.
    ///
    /// # Errors
    /// 400 if the location cannot be the target of a request.
    pub(super) fn request(
        &self,
        parts: &Parts,
        location: &Location,
    ) -> Result<Request<RequestBody>, ApiError> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let mut request = to_backend(parts, location, body)?;
        upstream::announce_upgrade(request.headers_mut(), self.protocols.clone());
        Ok(request)
    }

    /// Returns the response to the client for that of the backend. If the backend has switched
    /// protocols, so does the client's connection, and bytes pass both ways from then on.
    ///
    /// # Errors
    /// 500 for a response that is neither a switch nor an error (`tryUpgrade` in
    /// k8s.io/apimachinery v0.36.4 pkg/util/proxy/upgradeaware.go).
    pub(super) fn answer(self, mut reply: Response<ReplyBody>) -> Result<Answer, ApiError> {
        let code = reply.status();
        if code.is_client_error() || code.is_server_error() {
            let mut answer = passed_on(reply);
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Ok(answer);
        }
        if code != StatusCode::SWITCHING_PROTOCOLS {
            return Err(ApiError::unexplained(format!(
                "invalid upgrade response: status code {}",
                code.as_u16()
            )));
        }
        let backend = hyper::upgrade::on(&mut reply);
        let (head, connection) = reply.into_parts();
        let mut answer = answer::empty(code);
        *answer.headers_mut() = head.headers;
        let chosen = upstream::remove_hop_by_hop(answer.headers_mut()).unwrap_or(self.protocols);
        upstream::announce_upgrade(answer.headers_mut(), chosen);
        let client = self.client;
        self.after_switch.set(async move {
            let switched = tokio::try_join!(client, backend);
            match switched {
                Ok((client, backend)) => {
                    if let Err(error) = upstream::tunnel(TokioIo::new(client), TokioIo::new(backend)).await {
                        tracing::debug!(%error, "a tunnel to a backend broke");
                    }
                }
                Err(error) => tracing::debug!(%error, "a connection did not switch protocols"),
            }
            // The task of this connection hands over the backend's bytes.
            drop(connection);
        });
        Ok(answer)
    }
}

/// Returns the error for a backend that did not answer a request to switch protocols.
pub(super) fn undialled(failure: &Failure) -> ApiError {
    ApiError::unexplained(match failure {
        Failure::Unconnected(reason) => format!("error dialing backend: {reason}"),
        Failure::Unanswered(reason) => reason.clone(),
    })
}

/// Returns the response of a backend, without the headers of its connection. The body is read as
/// fast as the client takes it, and dropping it closes the connection.
pub(super) fn passed_on(reply: Response<ReplyBody>) -> Answer {
    let (head, body) = reply.into_parts();
    let mut answer = answer::of(head.status, None, streamed(body));
    *answer.headers_mut() = head.headers;
    upstream::remove_hop_by_hop(answer.headers_mut());
    answer
}

/// Returns the body of a response that is passed on. If the backend breaks off, so does the
/// response.
pub(super) fn streamed(body: ReplyBody) -> ResponseBody {
    let bytes = BodyDataStream::new(body).map_err(|error| {
        tracing::debug!(%error, "the response of a backend broke off");
        Cut
    });
    ResponseBody::events(bytes.map(|it| it.map(|it: Bytes| Pieces::from_iter([it]))))
}
