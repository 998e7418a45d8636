//! The requests that the kubelet answers: logs, remote commands, forwarded ports and usage.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use dogwatch_core::ObjectKey;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::sync::watch;

use super::container::Container;
use super::followers::{Followed, Followers};
use super::log_lines;
use super::log_options::LogOptions;
use super::log_stream::{LogBody, LogFollower};
use super::port_forward::{self, PodPorts};
use super::rejection::Rejection;
use super::remote_command::{RemoteCommand, StreamOptions};
use super::{spdy_command, usage, web_socket};
use crate::collection::Collection;
use crate::environment::Environment;
use crate::json_access::text;
use crate::object::{JsonObject, Pod};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The rest of a connection after the response to an upgrade.
pub(super) type Session = BoxFuture<'static, ()>;

/// Answers requests from the cached pods.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) pods: Collection<Pod>,
    pub(super) nodes: Collection<JsonObject>,
    pub(super) followers: Arc<Followers>,
    pub(super) environment: Arc<Environment>,
}

/// A response, and the session that begins after it.
type Answer = (Response<Body>, Option<Session>);

impl Routes {
    /// Answers a request.
    pub(super) fn respond<B>(&self, request: Request<B>) -> Answer {
        self.answer(request).unwrap_or_else(|Rejection { status, message }| {
            let mut response = plain(message);
            *response.status_mut() = status;
            (response, None)
        })
    }

    fn answer<B>(&self, request: Request<B>) -> Result<Answer, Rejection> {
        if !is_for_loopback(&request) {
            // A web page could send requests to this address under a name of its own.
            let message = "the host of the request is not a loopback address";
            return Err(Rejection::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let path = request.uri().path().trim_matches('/').to_owned();
        let segments: Result<Vec<_>, _> =
            path.split('/').map(|it| percent_decode_str(it).decode_utf8().map(String::from)).collect();
        let segments = segments.map_err(|_| Rejection::bad_request("the path is not UTF-8"))?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_stream = matches!(segments.first(), Some(&("exec" | "attach" | "portForward")));
        let is_allowed = request.method() == Method::GET || (is_stream && request.method() == Method::POST);
        if !is_allowed {
            let mut response = plain("Method Not Allowed");
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = if is_stream { "GET, POST" } else { "GET" };
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Ok((response, None));
        }
        match segments[..] {
            ["healthz"] => Ok((plain("ok"), None)),
            ["pods"] => Ok((self.pods(), None)),
            ["stats", "summary"] => Ok((self.summary(), None)),
            ["metrics", "resource"] => {
                let text = usage::metrics(self.assigned().iter().map(|it| &***it), self.environment.now());
                let mut response = plain(text);
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                Ok((response, None))
            }
            ["containerLogs", namespace, pod, container] => {
                let query = request.uri().query().unwrap_or_default();
                Ok((self.logs(namespace, pod, container, query)?, None))
            }
            [work @ ("exec" | "attach"), namespace, pod, container] => {
                self.command(request, work, (namespace, pod, ""), container)
            }
            [work @ ("exec" | "attach"), namespace, pod, uid, container] => {
                self.command(request, work, (namespace, pod, uid), container)
            }
            ["portForward", namespace, pod] => self.forward(request, namespace, pod, ""),
            ["portForward", namespace, pod, uid] => self.forward(request, namespace, pod, uid),
            _ => Err(Rejection::not_found("404 page not found\n")),
        }
    }

    /// Follows a pod that the kubelet knows: one that has a node.
    fn follow(&self, namespace: &str, pod: &str) -> Option<(Arc<Pod>, watch::Receiver<Followed>)> {
        let key = ObjectKey::from_parts(Some(namespace), pod).ok()?;
        let receiver = self.followers.follow(&key, &self.pods.store)?;
        let followed = receiver.borrow().clone();
        let is_known = !followed.is_gone && !followed.pod.node().is_empty();
        is_known.then_some((followed.pod, receiver))
    }

    fn logs(
        &self,
        namespace: &str,
        pod_name: &str,
        container: &str,
        query: &str,
    ) -> Result<Response<Body>, Rejection> {
        let options = LogOptions::parse(query, self.environment.now())?;
        let (pod, receiver) = self
            .follow(namespace, pod_name)
            .ok_or_else(|| Rejection::not_found(format!("pod {pod_name:?} does not exist")))?;
        let container = Container::find(&pod, container).ok_or_else(|| {
            Rejection::not_found(format!("container {container:?} not found in pod {pod_name:?}"))
        })?;
        let run = container.logged_run(options.previous).map_err(Rejection::bad_request)?;
        let lines = log_lines::of_run(&run);
        let later = options.follow.then(|| LogFollower::after(&run, lines.len(), receiver));
        let body = LogBody::new(options, &lines, later);
        let parts = stream::unfold(body, |mut body| async move { Some((body.next().await?, body)) });
        Ok(response("text/plain", streamed(parts)))
    }

    fn command<B>(
        &self,
        request: Request<B>,
        work: &str,
        (namespace, pod, uid): (&str, &str, &str),
        container: &str,
    ) -> Result<Answer, Rejection> {
        let query = request.uri().query().unwrap_or_default();
        let options = StreamOptions::parse(query)?;
        let (pod, receiver) =
            self.follow(namespace, pod).ok_or_else(|| Rejection::not_found("pod does not exist"))?;
        let is_meant = uid.is_empty() || uid == text(&pod, "/metadata/uid");
        let running = Container::find(&pod, container).filter(|it| is_meant && it.runs());
        let run = running.and_then(|it| it.logged_run(false).ok()).ok_or_else(|| {
            let message = format!("container not found ({container:?})");
            Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        let command = match work {
            "exec" => RemoteCommand::exec(query, &run, receiver, &self.environment)?,
            _ => RemoteCommand::attach(&run, receiver),
        };
        if web_socket::is_requested(request.headers()) {
            let supported = [web_socket::V5, web_socket::V4];
            let (protocol, response) = web_socket::accept(request.headers(), &supported)?;
            let session = session(hyper::upgrade::on(request), move |io| {
                web_socket::serve(io, protocol, options, command)
            });
            return Ok((response.map(|()| empty()), Some(session)));
        }
        let response = accept_spdy(request.headers(), web_socket::V4)?;
        let session =
            session(hyper::upgrade::on(request), move |io| spdy_command::serve(io, options, command));
        Ok((response, Some(session)))
    }

    fn forward<B>(
        &self,
        request: Request<B>,
        namespace: &str,
        pod_name: &str,
        uid: &str,
    ) -> Result<Answer, Rejection> {
        let (pod, _) =
            self.follow(namespace, pod_name).ok_or_else(|| Rejection::not_found("pod does not exist"))?;
        if !uid.is_empty() && uid != text(&pod, "/metadata/uid") {
            return Err(Rejection::not_found("pod not found"));
        }
        if Container::running(&pod).is_empty() {
            let message = format!("pod not found ({:?})", format!("{pod_name}_{namespace}"));
            return Err(Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, message));
        }
        let ports = PodPorts::of(&pod);
        if web_socket::is_requested(request.headers()) {
            let (_, response) = web_socket::accept(request.headers(), &[port_forward::TUNNEL])?;
            let session = session(hyper::upgrade::on(request), |io| port_forward::serve_tunnel(io, ports));
            return Ok((response.map(|()| empty()), Some(session)));
        }
        let response = accept_spdy(request.headers(), port_forward::PROTOCOL)?;
        let session = session(hyper::upgrade::on(request), |io| port_forward::serve(io, ports));
        Ok((response, Some(session)))
    }

    /// Returns the pods on nodes.
    fn assigned(&self) -> Vec<Arc<Pod>> {
        self.pods.store.snapshot().iter().filter(|it| usage::is_assigned(it)).cloned().collect()
    }

    /// Returns the list of all pods on nodes, encoded while it is sent.
    fn pods(&self) -> Response<Body> {
        let pods = self.assigned();
        let items = pods.into_iter().enumerate().map(|(at, pod)| {
            let comma = if at == 0 { "" } else { "," };
            Bytes::from(format!("{comma}{}", **pod))
        });
        let begin =
            Bytes::from_static(b"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[");
        let all = [begin].into_iter().chain(items).chain([Bytes::from_static(b"]}")]);
        response("application/json", streamed(stream::iter(all)))
    }

    fn summary(&self) -> Response<Body> {
        let nodes = self.nodes.store.snapshot();
        let nodes: Vec<&Value> = nodes.iter().take(2).map(|it| &***it).collect();
        let (name, pods) = (usage::node_name(&nodes), self.assigned());
        let summary = usage::summary(&name, pods.iter().map(|it| &***it), self.environment.now());
        response("application/json", Full::from(summary.to_string()).boxed_unsync())
    }
}

/// Returns true if a request names a loopback address, or none.
fn is_for_loopback<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(HOST).map(|it| it.to_str().unwrap_or("invalid"));
    let Some(host) = host.or_else(|| request.uri().authority().map(|it| it.as_str())) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback())
}

/// Accepts an upgrade to SPDY with a protocol in it (`Handshake` in k8s.io/streaming v0.36.4
/// pkg/httpstream/httpstream.go).
fn accept_spdy(headers: &HeaderMap, protocol: &'static str) -> Result<Response<Body>, Rejection> {
    let is_spdy = headers.get(UPGRADE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"SPDY/3.1"));
    if !is_spdy {
        return Err(Rejection::bad_request("Upgrade request required"));
    }
    let offers = headers.get_all(PROTOCOL_VERSION).iter().filter_map(|it| it.to_str().ok());
    if !offers.flat_map(|it| it.split(',')).any(|it| it.trim() == protocol) {
        let message =
            format!("unable to upgrade: unable to negotiate protocol: server supports [{protocol}]");
        return Err(Rejection::new(StatusCode::FORBIDDEN, message));
    }
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
    Ok(response)
}

/// Returns the session that serves a connection once it is upgraded.
fn session<F>(upgrade: OnUpgrade, serve: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static) -> Session
where
    F: Future<Output = ()> + Send,
{
    async move {
        match upgrade.await {
            Ok(upgraded) => serve(TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    }
    .boxed()
}

fn plain(text: impl Into<Bytes>) -> Response<Body> {
    response("text/plain; charset=utf-8", Full::from(text.into()).boxed_unsync())
}

fn response(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn streamed(parts: impl stream::Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|it| Ok(Frame::data(it)))).boxed_unsync()
}

fn empty() -> Body {
    Empty::new().boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_loopback_addresses_are_answered() {
        for (host, expected) in [
            ("127.0.0.1:10250", true),
            ("127.8.8.8", true),
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("[::1]:10250", true),
            ("[::ffff:127.0.0.1]", true),
            ("example.com", false),
            ("127.0.0.1.example.com:80", false),
            ("10.0.0.1:10250", false),
            ("", false),
        ] {
            let request = Request::builder().header(HOST, host).body(()).unwrap();
            assert_eq!(is_for_loopback(&request), expected, "{host}");
        }
        assert!(!is_for_loopback(&Request::new(())));
    }

    #[test]
    fn spdy_needs_an_upgrade_with_a_known_protocol() {
        let mut headers = HeaderMap::new();
        let status = |headers: &HeaderMap| {
            accept_spdy(headers, "v4.channel.k8s.io").map_or_else(|it| it.status, |it| it.status()).as_u16()
        };
        assert_eq!(status(&headers), 400);
        headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        assert_eq!(status(&headers), 403);
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static("v9.channel.k8s.io"));
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static("v4.channel.k8s.io"));
        assert_eq!(status(&headers), 101);
    }
}
