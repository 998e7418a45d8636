//! Remote commands over a WebSocket with channels: `v5.channel.k8s.io` and `v4.channel.k8s.io`.
//!
//! The first byte of a message is its channel. In version 5, a message of the byte 255 and a
//! channel closes that channel, which is how a client ends the input of a command.

use std::pin::pin;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use super::log_lines::Output;
use super::rejection::Rejection;
use super::remote_command::{RemoteCommand, StreamOptions, streams};

/// The protocol in which a client can close the input of a command.
pub(super) const V5: &str = "v5.channel.k8s.io";
pub(super) const V4: &str = "v4.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;

/// The largest message. kubectl sends 32 KiB.
const LARGEST_MESSAGE: usize = 1024 * 1024;

/// The time that a client has to close the connection after the end of its command
/// (`finishTimeout` in k8s.io/cri-streaming v0.36.4 pkg/streaming/remotecommand/httpstream.go).
pub(super) const FINISH: Duration = Duration::from_secs(15 * 60);

/// Returns true if a request is for a WebSocket.
pub(super) fn is_requested(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Selects the first protocol of a client that is supported, and returns it with the response.
pub(super) fn accept(
    headers: &HeaderMap,
    supported: &[&'static str],
) -> Result<(&'static str, Response<()>), Rejection> {
    let version = headers.get(SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes);
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY).filter(|_| version == Some(b"13")) else {
        return Err(Rejection::bad_request(
            "the request has no key, or another version than 13, of WebSockets",
        ));
    };
    let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|it| it.to_str().ok());
    let mut offers = offers.flat_map(|it| it.split(',')).map(str::trim);
    let Some(protocol) = offers.find_map(|offer| supported.iter().copied().find(|it| *it == offer)) else {
        let message = format!("requested protocol(s) are not supported; supports {supported:?}");
        return Err(Rejection::new(StatusCode::FORBIDDEN, message));
    };
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept.expect("base64 is valid in a header"));
    Ok((protocol, response))
}

/// Speaks the protocol on a connection whose handshake is done.
pub(super) async fn on<IO: AsyncRead + AsyncWrite + Unpin>(io: IO) -> WebSocketStream<IO> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_MESSAGE))
        .max_frame_size(Some(LARGEST_MESSAGE))
        .max_write_buffer_size(4 * LARGEST_MESSAGE);
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// Runs a command for a client until it ends, or the client is gone.
pub(super) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    protocol: &str,
    options: StreamOptions,
    command: RemoteCommand,
) {
    let (mut sink, source) = on(io).await.split();
    let (console, input, written) = streams(options);
    let mut reading = pin!(read(source, input, protocol == V5));
    let working = async {
        // Clients wait for a first message (`createWebSocketStreams` in k8s.io/cri-streaming
        // v0.36.4 pkg/streaming/remotecommand/websocket.go).
        let first = match options {
            StreamOptions { stdout: true, .. } => STDOUT,
            StreamOptions { stderr: true, .. } => STDERR,
            _ => STATUS,
        };
        sink.send(on_channel(first, b"")).await?;
        let performing = async { Ok(command.perform(console).await) };
        let (status, ()) = futures_util::try_join!(performing, write(&mut sink, written, options))?;
        sink.send(on_channel(STATUS, status.to_string().as_bytes())).await?;
        let end = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        sink.send(Message::Close(Some(end))).await
    };
    let worked = tokio::select! {
        biased;
        worked = working => worked,
        () = &mut reading => return,
    };
    match worked {
        // The client may still read: closing the connection now could discard its last output.
        Ok(()) => drop(tokio::time::timeout(FINISH, reading).await),
        Err(error) => tracing::debug!(%error, "cannot write to the client of a remote command"),
    }
}

/// Passes the input of a client on, until the client is gone.
async fn read<IO: AsyncRead + AsyncWrite + Unpin>(
    mut source: SplitStream<WebSocketStream<IO>>,
    input: mpsc::Sender<Bytes>,
    can_close: bool,
) {
    let mut input = Some(input);
    while let Some(Ok(message)) = source.next().await {
        let Message::Binary(mut message) = message else { continue };
        if message.is_empty() {
            continue;
        }
        let content = message.split_off(1);
        match message[0] {
            STDIN => {
                if let Some(sender) = &input
                    && !content.is_empty()
                    && sender.send(content).await.is_err()
                {
                    // The command has ended, or reads no input.
                    input = None;
                }
            }
            CLOSE if can_close => match content.first() {
                Some(&STDIN) => input = None,
                Some(_) => {}
                None => return,
            },
            // Sizes of the terminal, and channels that only the server writes to.
            _ => {}
        }
    }
}

/// Writes the output of a command to the client, until the command ends.
async fn write<IO: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<IO>, Message>,
    mut written: mpsc::Receiver<(Output, Bytes)>,
    options: StreamOptions,
) -> Result<(), Error> {
    while let Some((output, bytes)) = written.recv().await {
        let (channel, is_wanted) = match output {
            Output::Stdout => (STDOUT, options.stdout),
            Output::Stderr => (STDERR, options.stderr),
        };
        if is_wanted {
            sink.send(on_channel(channel, &bytes)).await?;
        }
    }
    Ok(())
}

fn on_channel(channel: u8, content: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(content.len().saturating_add(1));
    message.put_u8(channel);
    message.put_slice(content);
    Message::Binary(message.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_protocol_of_the_client_is_selected() {
        let mut headers = HeaderMap::new();
        assert!(accept(&headers, &[V5]).is_err_and(|it| it.status == StatusCode::BAD_REQUEST));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(accept(&headers, &[V5]).is_err_and(|it| it.status == StatusCode::FORBIDDEN));
        headers
            .insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v9.channel.k8s.io, v4.channel.k8s.io"));
        let (protocol, response) = accept(&headers, &[V5, V4]).unwrap();
        assert_eq!((protocol, response.status().as_u16()), (V4, 101));
        // The example of RFC 6455, section 1.3.
        assert_eq!(response.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
