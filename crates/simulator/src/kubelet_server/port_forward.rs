//! Forwarded ports: each connection of a client is a pair of SPDY streams, for data and an error.
//! The ports of a simulated pod answer HTTP requests with a short page.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::Message;

use super::container::Container;
use super::remote_command::WAITING_MESSAGES;
use super::spdy::{Frame, FrameReader, Headers, Reply, SpdyError};
use super::spdy_command::write_all;
use super::web_socket;
use crate::json_access::{items, number, text};

/// The protocol of frames in the messages of a WebSocket.
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The protocol of frames on a connection of their own.
pub(super) const PROTOCOL: &str = "portforward.k8s.io";

/// The number of streams that a client may have open.
const MOST_STREAMS: usize = 256;
/// The size of the head of a request to a simulated port, and the time for it.
const LARGEST_HEAD: usize = 16 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// The size of the buffers between a WebSocket and its frames.
const TUNNEL_BUFFER: usize = 64 * 1024;

/// The ports of a pod, with the names of the pod for messages.
#[derive(Clone, Debug)]
pub(super) struct PodPorts {
    pod: String,
    namespace: String,
    uid: String,
    /// The containers that run, by their TCP ports.
    ports: HashMap<u16, String>,
}

impl PodPorts {
    pub(super) fn of(pod: &Value) -> Self {
        let mut ports = HashMap::new();
        for container in Container::running(pod) {
            for port in items(container.spec, "/ports") {
                let number = number(port, "/containerPort").and_then(|it| u16::try_from(it).ok());
                if let (Some(number), "" | "TCP") = (number, text(port, "/protocol")) {
                    ports.entry(number).or_insert_with(|| container.name().to_owned());
                }
            }
        }
        let field = |it: &str| text(pod, it).to_owned();
        let (name, namespace) = (field("/metadata/name"), field("/metadata/namespace"));
        Self { pod: name, namespace, uid: field("/metadata/uid"), ports }
    }

    /// Returns the message for a port that no container has.
    fn refusal(&self, port: u16) -> String {
        let (pod, uid) = (&self.pod, &self.uid);
        format!(
            "error forwarding port {port} to pod {pod}, uid {uid}: dial tcp4 127.0.0.1:{port}: connect: \
             connection refused: no container of the simulated pod has this port"
        )
    }

    /// Returns the response of a container to a request. `None` if the request is not complete.
    fn response(&self, port: u16, container: &str, request: &[u8]) -> Option<String> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        let (status, text) = match parsed.parse(request) {
            Ok(httparse::Status::Partial) if request.len() < LARGEST_HEAD => return None,
            Ok(httparse::Status::Complete(_)) if matches!(parsed.method, Some("GET" | "HEAD")) => (
                "200 OK",
                format!(
                    "Port {port} of container {container} in pod {}/{}.\nThe pod is simulated by dogwatch: no \
                     container runs.\n",
                    self.namespace, self.pod
                ),
            ),
            Ok(httparse::Status::Complete(_)) => (
                "405 Method Not Allowed\r\nAllow: GET, HEAD",
                "A simulated container answers GET and HEAD.\n".to_owned(),
            ),
            _ => ("400 Bad Request", "A simulated container speaks HTTP/1.1.\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            text.len()
        );
        let is_head = parsed.method == Some("HEAD");
        Some(if is_head { head } else { head + &text })
    }
}

/// Forwards ports over frames in a WebSocket, until the client is gone.
pub(super) async fn serve_tunnel<IO: AsyncRead + AsyncWrite + Unpin>(io: IO, ports: PodPorts) {
    let (mut sink, mut source) = web_socket::on(io).await.split();
    let (near, far) = tokio::io::duplex(TUNNEL_BUFFER);
    let (mut from_session, mut to_session) = tokio::io::split(far);
    let receiving = async {
        while let Some(Ok(message)) = source.next().await {
            if let Message::Binary(bytes) = message
                && to_session.write_all(&bytes).await.is_err()
            {
                break;
            }
        }
    };
    let sending = async {
        loop {
            let mut buffer = BytesMut::with_capacity(TUNNEL_BUFFER);
            match from_session.read_buf(&mut buffer).await {
                Ok(1..) if sink.send(Message::Binary(buffer.freeze())).await.is_ok() => {}
                _ => break,
            }
        }
        let _ = sink.send(Message::Close(None)).await;
    };
    tokio::select! {
        biased;
        () = serve(near, ports) => {}
        () = receiving => {}
        () = sending => {}
    }
}

/// Forwards ports over frames, until the client is gone.
pub(super) async fn serve<IO: AsyncRead + AsyncWrite>(io: IO, ports: PodPorts) {
    let (reading, writing) = tokio::io::split(io);
    let (replies, outgoing) = mpsc::channel(WAITING_MESSAGES);
    let ended = tokio::select! {
        biased;
        ended = session(FrameReader::new(reading), replies, &ports) => ended,
        ended = write_all(writing, outgoing) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection of forwarded ports ended early");
    }
}

/// The streams of a client that have no partner yet, and the input of those that are connected.
#[derive(Default)]
struct Streams {
    waiting: HashMap<String, Waiting>,
    inputs: HashMap<u32, mpsc::Sender<Bytes>>,
}

/// One of the two streams of a connection.
struct Waiting {
    id: u32,
    is_data: bool,
    port: u16,
    since: Instant,
}

/// The two streams of a connection.
#[derive(Clone, Copy, Debug)]
struct Pair {
    data: u32,
    error: u32,
    port: u16,
}

async fn session<IO: AsyncRead>(
    mut frames: FrameReader<ReadHalf<IO>>,
    replies: mpsc::Sender<Reply>,
    ports: &PodPorts,
) -> Result<(), SpdyError> {
    let (mut streams, mut connections) = (Streams::default(), FuturesUnordered::new());
    loop {
        let frame = tokio::select! {
            biased;
            Some(ended) = connections.next() => {
                let ended: Pair = ended;
                streams.inputs.remove(&ended.data);
                continue;
            }
            frame = frames.next() => frame?,
        };
        match frame {
            None | Some(Frame::GoAway) => return Ok(()),
            Some(Frame::SynStream { id, headers, .. }) => {
                let is_full = streams.waiting.len().saturating_add(streams.inputs.len()) >= MOST_STREAMS;
                let opened = if is_full { Err(()) } else { streams.open(id, &headers) };
                let reply = if opened.is_ok() { Reply::Accept { id } } else { Reply::Refuse { id } };
                let _ = replies.send(reply).await;
                if let Ok(Some(pair)) = opened {
                    let (input, data) = mpsc::channel(WAITING_MESSAGES);
                    streams.inputs.insert(pair.data, input);
                    connections.push(connect(pair, data, replies.clone(), ports).boxed());
                }
            }
            Some(Frame::Data { id, bytes, is_last }) => {
                if let Some(input) = streams.inputs.get(&id)
                    && !bytes.is_empty()
                {
                    // A connection that has answered reads no more: the rest is dropped. One that
                    // has not never lets this wait.
                    let _ = input.try_send(bytes);
                }
                if is_last {
                    streams.inputs.remove(&id);
                }
            }
            Some(Frame::Reset { id }) => drop(streams.inputs.remove(&id)),
            Some(Frame::Ping { id }) => drop(replies.send(Reply::Ping { id }).await),
            Some(Frame::Other) => {}
        }
    }
}

impl Streams {
    /// Adds a stream. Returns the pair if its partner is there already.
    fn open(&mut self, id: u32, headers: &Headers) -> Result<Option<Pair>, ()> {
        let now = Instant::now();
        self.waiting.retain(|_, it| now.duration_since(it.since) < super::spdy_command::STREAM_CREATION);
        let port = headers.get("port").parse::<u16>().ok().filter(|it| *it > 0).ok_or(())?;
        let is_data = match headers.get("streamtype") {
            "data" => true,
            "error" => false,
            _ => return Err(()),
        };
        // Older clients name no request: its streams are next to each other, the error first
        // (`requestID` in k8s.io/cri-streaming v0.36.4 pkg/streaming/portforward/httpstream.go).
        let request = match headers.get("requestid") {
            "" if is_data => id.saturating_sub(2).to_string(),
            "" => id.to_string(),
            request => request.to_owned(),
        };
        match self.waiting.remove(&request) {
            Some(other) if other.is_data != is_data && other.port == port => {
                let (data, error) = if is_data { (id, other.id) } else { (other.id, id) };
                Ok(Some(Pair { data, error, port }))
            }
            Some(other) => {
                self.waiting.insert(request, other);
                Err(())
            }
            None => {
                self.waiting.insert(request, Waiting { id, is_data, port, since: now });
                Ok(None)
            }
        }
    }
}

/// Answers one connection to a port.
async fn connect(
    pair: Pair,
    mut data: mpsc::Receiver<Bytes>,
    replies: mpsc::Sender<Reply>,
    ports: &PodPorts,
) -> Pair {
    let Pair { data: data_id, error, port } = pair;
    let (message, response) = match ports.ports.get(&port) {
        None => (ports.refusal(port), String::new()),
        Some(container) => {
            let answering = async {
                let mut request = BytesMut::new();
                while let Some(bytes) = data.recv().await {
                    request.extend_from_slice(&bytes);
                    if let Some(response) = ports.response(port, container, &request) {
                        return response;
                    }
                }
                String::new()
            };
            (String::new(), tokio::time::timeout(REQUEST_TIMEOUT, answering).await.unwrap_or_default())
        }
    };
    // The session ends with the writer.
    for (id, text) in [(error, message), (data_id, response)] {
        let _ = replies.send(Reply::Data { id, bytes: text.into(), is_last: true }).await;
    }
    pair
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::DuplexStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;
    use crate::kubelet_server::spdy::FrameWriter;

    fn ports() -> PodPorts {
        PodPorts::of(&json!({ "metadata": { "name": "web-0", "namespace": "shop", "uid": "u" },
            "spec": { "containers": [
                { "name": "web", "ports": [{ "containerPort": 80 }, { "containerPort": 53, "protocol": "UDP" }] },
                { "name": "down", "ports": [{ "containerPort": 81 }] }] },
            "status": { "containerStatuses": [{ "name": "web", "state": { "running": {} } }] } }))
    }

    struct Client {
        io: tokio::io::WriteHalf<DuplexStream>,
        writer: FrameWriter,
        answers: FrameReader<ReadHalf<DuplexStream>>,
    }

    impl Client {
        async fn connect(&mut self, first: u32, port: &str, request: &str) -> (String, String) {
            for (id, kind) in [(first, "error"), (first + 2, "data")] {
                let headers = [("streamtype", kind), ("port", port), ("requestid", &first.to_string())];
                let frame = self.writer.open(id, &headers);
                self.io.write_all(&frame).await.unwrap();
            }
            // In two parts, as a slow client sends it.
            for part in [&request[..request.len() / 2], &request[request.len() / 2..]] {
                let data = Reply::Data { id: first + 2, bytes: part.to_owned().into(), is_last: false };
                let frame = self.writer.encode(&data);
                self.io.write_all(&frame).await.unwrap();
            }
            let (mut texts, mut ended) =
                (HashMap::from([(first, String::new()), (first + 2, String::new())]), 0);
            while ended < 2 {
                match self.answers.next().await.unwrap().expect("an answer before the end") {
                    Frame::Data { id, bytes, is_last } => {
                        texts.get_mut(&id).unwrap().push_str(std::str::from_utf8(&bytes).unwrap());
                        ended += usize::from(is_last);
                    }
                    Frame::Reset { id } => panic!("{id} was refused"),
                    _ => {}
                }
            }
            (texts.remove(&first).unwrap(), texts.remove(&(first + 2)).unwrap())
        }
    }

    fn client() -> (Client, impl Future<Output = ()>) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (reading, io) = tokio::io::split(near);
        let client = Client { io, writer: FrameWriter::new(), answers: FrameReader::new(reading) };
        (client, serve(far, ports()))
    }

    #[tokio::test(start_paused = true)]
    async fn ports_of_running_containers_answer_http_requests() {
        let (mut client, serving) = client();
        let asking = async {
            let get = client.connect(1, "80", "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            assert_eq!(get.0, "");
            assert!(get.1.starts_with("HTTP/1.1 200 OK\r\n"), "{}", get.1);
            assert!(get.1.contains("Port 80 of container web in pod shop/web-0."), "{}", get.1);
            let head = client.connect(5, "80", "HEAD / HTTP/1.1\r\n\r\n").await;
            assert!(head.1.starts_with("HTTP/1.1 200 OK\r\n") && head.1.ends_with("\r\n\r\n"));
            let post = client.connect(9, "80", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").await;
            assert!(post.1.starts_with("HTTP/1.1 405 "), "{}", post.1);
            let other = client.connect(13, "80", "\x16\x03\x01 no HTTP").await;
            assert!(other.1.starts_with("HTTP/1.1 400 "), "{}", other.1);
        };
        tokio::select! {
            biased;
            () = asking => {}
            () = serving => panic!("the session ended"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_come_in_the_messages_of_a_web_socket() {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let asking = async {
            let mut socket =
                tokio_tungstenite::WebSocketStream::from_raw_socket(near, Role::Client, None).await;
            let mut writer = FrameWriter::new();
            let (mut frames, mut answers) = (BytesMut::new(), Vec::new());
            for (id, kind) in [(1, "error"), (3, "data")] {
                frames.extend_from_slice(&writer.open(id, &[("streamtype", kind), ("port", "80")]));
            }
            let request = Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n");
            frames.extend_from_slice(&writer.encode(&Reply::Data { id: 3, bytes: request, is_last: false }));
            // Messages do not end where frames do.
            for part in frames.chunks(7) {
                socket.send(Message::Binary(Bytes::copy_from_slice(part))).await.unwrap();
            }
            while !String::from_utf8_lossy(&answers).contains("no container runs") {
                match socket.next().await.unwrap().unwrap() {
                    Message::Binary(bytes) => answers.extend_from_slice(&bytes),
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::select! {
            biased;
            () = asking => {}
            () = serve_tunnel(far, ports()) => panic!("the session ended"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_ports_are_refused_with_an_error() {
        let (mut client, serving) = client();
        let asking = async {
            for (first, port) in [(1, "81"), (5, "53"), (9, "8080")] {
                let (error, data) = client.connect(first, port, "").await;
                assert!(error.starts_with(&format!("error forwarding port {port} to pod web-0, uid u: ")));
                assert!(error.contains("connection refused") && data.is_empty());
            }
        };
        tokio::select! {
            biased;
            () = asking => {}
            () = serving => panic!("the session ended"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_are_invalid_or_too_many_are_refused() {
        let (mut client, serving) = client();
        let asking = async {
            let mut refused = Vec::new();
            let mut next = 1;
            let invalid = [
                vec![("streamtype", "data")],
                vec![("streamtype", "x"), ("port", "80")],
                vec![("streamtype", "data"), ("port", "0")],
            ];
            for headers in &invalid {
                let frame = client.writer.open(next, headers);
                client.io.write_all(&frame).await.unwrap();
                next += 2;
            }
            for _ in 0..=MOST_STREAMS {
                let headers = [("streamtype", "error"), ("port", "80"), ("requestid", &next.to_string())];
                let frame = client.writer.open(next, &headers);
                client.io.write_all(&frame).await.unwrap();
                next += 2;
            }
            for _ in 0..invalid.len() + MOST_STREAMS + 1 {
                if let Frame::Reset { id } = client.answers.next().await.unwrap().unwrap() {
                    refused.push(id);
                }
            }
            assert_eq!(refused, [1, 3, 5, next - 2]);
        };
        tokio::select! {
            biased;
            () = asking => {}
            () = serving => panic!("the session ended"),
        }
    }
}
