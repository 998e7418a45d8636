//! Raw HTTP/1.1 over a socket, for requests that no client library sends.

use std::net::SocketAddr;
use std::time::Duration;

use crate::ApiServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any response takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a server.
pub(crate) struct RawConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response: its status code, its headers as lower-case text, and its body.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Returns the address of a server without TLS.
pub(crate) fn address(server: &ApiServer) -> SocketAddr {
    server.url().strip_prefix("http://").expect("a server without TLS").parse().expect("an address")
}

/// Sends one request on its own connection. Every header line must end with `\r\n`.
pub(crate) async fn exchange(address: SocketAddr, line: &str, headers: &str, body: &str) -> RawResponse {
    let mut connection = RawConnection::open(address).await;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    connection.send(&format!("{line} HTTP/1.1\r\n{headers}{length}\r\n{body}")).await;
    connection.response().await.expect("a response")
}

impl RawConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("connected"), buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the connection is open");
    }

    /// Returns the next response, or `None` if the connection was closed. The response must have a
    /// Content-Length or no body.
    pub(crate) async fn response(&mut self) -> Option<RawResponse> {
        let response = tokio::time::timeout(TIMEOUT, self.read_response()).await;
        response.expect("a response, or the end of the connection, within a minute")
    }

    async fn read_response(&mut self) -> Option<RawResponse> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|it| it == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).expect("headers are text");
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |it| it.parse().expect("a number"));
        while self.buffer.len() < length {
            self.more().await?;
        }
        let body = String::from_utf8(self.buffer.drain(..length).collect()).expect("the body is text");
        let code = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a code");
        Some(RawResponse { code, head, body })
    }

    async fn more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap_or(0);
        (read > 0).then_some(())
    }
}
