//! HTTP/1.1 by hand over a socket, for requests that no client library sends.

use std::net::SocketAddr;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any answer takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A connection to a server.
pub(crate) struct RawConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer: its code, its headers as text, and its body.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The address of a server in the clear.
pub(crate) fn address(server: &ApiServer) -> SocketAddr {
    server.url().strip_prefix("http://").expect("in the clear").parse().expect("an address")
}

/// Sends one request on a connection of its own. Every header line ends with `\r\n`.
pub(crate) async fn exchange(address: SocketAddr, line: &str, headers: &str, body: &str) -> RawAnswer {
    let mut connection = RawConnection::open(address).await;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    connection.send(&format!("{line} HTTP/1.1\r\n{headers}{length}\r\n{body}")).await;
    connection.answer().await.expect("an answer")
}

impl RawConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("it listens"), buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the connection is open");
    }

    /// The next answer, which has a length; none where the connection was closed instead.
    pub(crate) async fn answer(&mut self) -> Option<RawAnswer> {
        let answer = tokio::time::timeout(LONG, self.read_answer()).await;
        answer.expect("an answer, or the end of the connection, within a minute")
    }

    async fn read_answer(&mut self) -> Option<RawAnswer> {
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
        Some(RawAnswer { code, head, body })
    }

    async fn more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap_or(0);
        (read > 0).then_some(())
    }
}
