//! A stand-in for an API server: exactly what the examples ask for, on loopback, for as long as a guard lives.
//!
//! The answers are canned but honest: the shapes, versions and refusals are those of a real server. It keeps nothing and
//! serves nobody else; tests of behaviour belong to the conformance suite.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The version of the list, before the events of the watch.
const LIST_VERSION: u32 = 100;
/// What a client sends to say that it reads aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Keeps the stand-in alive; dropping it ends the server and every connection.
#[derive(Debug)]
pub(crate) struct Guard {
    _runtime: Runtime,
}

/// Starts the stand-in on a free port of loopback, plain HTTP.
pub(crate) fn start() -> anyhow::Result<(SocketAddr, Guard)> {
    let runtime = Runtime::new().context("cannot start a runtime for the stand-in server")?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = listener.context("cannot listen on loopback")?;
    let address = listener.local_addr().context("cannot tell where the stand-in server listens")?;
    runtime.spawn(serve(listener));
    Ok((address, Guard { _runtime: runtime }))
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away in the middle of an answer is no concern of ours.
            let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let accept = parts.headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let answer = match (&parts.method, path.as_slice()) {
        (&Method::GET, ["api"]) if accept.contains(AGGREGATED) => discovery(core_group()),
        (&Method::GET, ["apis"]) if accept.contains(AGGREGATED) => discovery(apps_group()),
        (&Method::GET, ["api", "v1", "pods"]) if query.contains("watch=true") => pod_events(query),
        (&Method::GET, ["api", "v1", "pods"]) => {
            list("v1", "Pod", &[pod("web-0", 90), pod("web-1", 95)], accept)
        }
        (&Method::GET, ["apis", "apps", "v1", "deployments"]) => {
            list("apps/v1", "Deployment", &[deployment()], accept)
        }
        (&Method::PATCH, ["api", "v1", "namespaces", namespace, "configmaps", name]) => {
            // What cannot be read to its end is no object either.
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            applied(namespace, name, query, &body)
        }
        _ => refusal(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource"),
    };
    Ok(answer)
}

fn pod(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": metadata(name, version),
        "spec": { "nodeName": "node-1", "containers": [{ "name": "main", "image": "example.invalid/main" }] },
        "status": { "phase": "Running" },
    })
}

fn deployment() -> Value {
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] } });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": metadata("web", 80),
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template },
    })
}

fn metadata(name: &str, version: u32) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": format!("00000000-0000-4000-8000-{version:012}"),
        "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": { "app": "web" },
    })
}

/// The list, as whole objects or as nothing but their metadata.
fn list(api_version: &str, kind: &str, items: &[Value], accept: &str) -> Response<Full<Bytes>> {
    let metadata = json!({ "resourceVersion": LIST_VERSION.to_string() });
    if !accept.contains("as=PartialObjectMetadataList") {
        let kind = format!("{kind}List");
        return ok(&json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items }));
    }
    let items: Vec<_> = items.iter().map(|it| json!({ "metadata": it["metadata"] })).collect();
    let list = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items,
    });
    ok(&list)
}

/// A pod comes, changes and goes; then the server ends the watch, as servers do when their time is up. One that asks for
/// what came after all this is told that there is nothing.
fn pod_events(query: &str) -> Response<Full<Bytes>> {
    let since = query.split('&').find_map(|it| it.strip_prefix("resourceVersion="));
    let since: u32 = since.and_then(|it| it.parse().ok()).unwrap_or_default();
    let mut body = String::new();
    for (version, kind) in (LIST_VERSION + 1..).zip(["ADDED", "MODIFIED", "DELETED"]) {
        if version > since {
            body += &json!({ "type": kind, "object": pod("web-2", version) }).to_string();
            body.push('\n');
        }
    }
    reply(StatusCode::OK, "application/json", body)
}

/// The object that was stated, as it would be stored.
fn applied(namespace: &str, name: &str, query: &str, body: &[u8]) -> Response<Full<Bytes>> {
    if !query.contains("fieldManager=") {
        return refusal(StatusCode::BAD_REQUEST, "BadRequest", "an apply must name its manager");
    }
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else {
        return refusal(StatusCode::BAD_REQUEST, "BadRequest", "the body is not an object");
    };
    if object["kind"] != "ConfigMap" || object["metadata"]["name"] != name {
        return refusal(StatusCode::BAD_REQUEST, "BadRequest", "the body contradicts the path");
    }
    let mut stored = metadata(name, LIST_VERSION + 1);
    stored["namespace"] = json!(namespace);
    object["metadata"] = stored;
    reply(StatusCode::CREATED, "application/json", object.to_string())
}

fn core_group() -> Value {
    let resources = [
        served("", "Pod", "pods", "po", &["list", "watch", "get"]),
        served("", "ConfigMap", "configmaps", "cm", &["get", "patch"]),
    ];
    json!({ "metadata": {}, "versions": [{ "version": "v1", "freshness": "Current", "resources": resources }] })
}

fn apps_group() -> Value {
    let resources = [served("apps", "Deployment", "deployments", "deploy", &["list", "get"])];
    let versions = json!([{ "version": "v1", "freshness": "Current", "resources": resources }]);
    json!({ "metadata": { "name": "apps" }, "versions": versions })
}

fn served(group: &str, kind: &str, plural: &str, short: &str, verbs: &[&str]) -> Value {
    json!({
        "resource": plural, "singularResource": kind.to_lowercase(), "scope": "Namespaced",
        "responseKind": { "group": group, "version": "v1", "kind": kind }, "shortNames": [short], "verbs": verbs,
    })
}

fn discovery(group: Value) -> Response<Full<Bytes>> {
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [group],
    });
    reply(StatusCode::OK, AGGREGATED, list.to_string())
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response<Full<Bytes>> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    reply(code, "application/json", status.to_string())
}

fn ok(value: &Value) -> Response<Full<Bytes>> {
    reply(StatusCode::OK, "application/json", value.to_string())
}

fn reply(code: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}
