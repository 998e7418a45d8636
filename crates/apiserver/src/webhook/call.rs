//! One question to a webhook: a connection, a POST, an answer in JSON, in the time it has.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::target::Target;
use super::trust;
use crate::patch::json_mistake;
use crate::request::json;

/// How long an answer may be: an object of the greatest size, several times over.
const LONGEST: usize = 16 * 1024 * 1024;

/// Asks a webhook something. Connects anew each time, so that a webhook that was restarted is found again.
///
/// # Errors
/// Why there is no answer, in words like the original's.
pub(crate) async fn post(target: &Target, question: &Value, limit: Duration) -> Result<Value, String> {
    let url = format!("https://{}{}?timeout={}s", target.authority, target.path, limit.as_secs());
    let failed = |why: String| format!("Post {url:?}: {why}");
    let (code, body) = match tokio::time::timeout(limit, exchange(target, question, limit)).await {
        Err(_) => return Err(failed("context deadline exceeded".to_owned())),
        Ok(Err(why)) => return Err(failed(why)),
        Ok(Ok(answered)) => answered,
    };
    match code {
        code if code.is_success() => {
            let (text, answer) = json::parse(&body);
            let why = |it: serde_json::Error| json_mistake(&text).unwrap_or_else(|| it.to_string());
            answer.map_err(|it| format!("couldn't get version/kind; json parse error: {}", why(it)))
        }
        StatusCode::NOT_FOUND => Err("the server could not find the requested resource".to_owned()),
        code if code.is_server_error() => {
            let said = String::from_utf8_lossy(&body);
            Err(format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                said.trim()
            ))
        }
        _ => Err("the server rejected our request for an unknown reason".to_owned()),
    }
}

async fn exchange(target: &Target, question: &Value, limit: Duration) -> Result<(StatusCode, Bytes), String> {
    let stream = connect(target).await?;
    let request = Request::post(format!("{}?timeout={}s", target.path, limit.as_secs()))
        .header(HOST, &target.authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(question.to_string())))
        .map_err(|why| why.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
    let asked = async move {
        let answer = sender.send_request(request).await.map_err(|why| why.to_string())?;
        let code = answer.status();
        let body =
            Limited::new(answer.into_body(), LONGEST).collect().await.map_err(|why| why.to_string())?;
        Ok((code, body.to_bytes()))
    };
    tokio::pin!(asked);
    tokio::select! {
        biased;
        answer = &mut asked => answer,
        // It may end with the last byte of the answer, which is then there to be taken.
        _ = connection => asked.await,
    }
}

async fn connect(target: &Target) -> Result<TlsStream<TcpStream>, String> {
    let (host, port) = &target.address;
    let unreached = |why: io::Error| match why.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        _ => format!("dial tcp {host}:{port}: {why}"),
    };
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreached)?;
    let name = ServerName::try_from(target.name.clone()).map_err(|why| why.to_string())?;
    let config = trust::config(target.bundle.clone()).map_err(|why| why.to_string())?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|why| format!("tls: failed to verify certificate: {why}"))
}
