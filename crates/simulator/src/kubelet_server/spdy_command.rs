//! Remote commands over SPDY: one stream each for the status, the input, the outputs and the sizes
//! of the terminal, named by the header `streamType`.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::log_lines::Output;
use super::remote_command::{RemoteCommand, StreamOptions, WAITING_MESSAGES, streams};
use super::spdy::{Frame, FrameReader, FrameWriter, Reply, SpdyError};
use super::web_socket::FINISH;

/// The time for a client to create its streams (`StreamCreationTimeout` in k8s.io/cri-streaming
/// v0.36.4 pkg/streaming/server.go).
pub(super) const STREAM_CREATION: Duration = Duration::from_secs(30);

/// Runs a command for a client until it ends, or the client is gone.
pub(super) async fn serve<IO: AsyncRead + AsyncWrite>(
    io: IO,
    options: StreamOptions,
    command: RemoteCommand,
) {
    let (reading, writing) = tokio::io::split(io);
    let (replies, outgoing) = mpsc::channel(WAITING_MESSAGES);
    let session = session(FrameReader::new(reading), replies, options, command);
    let ended = tokio::select! {
        biased;
        ended = session => ended,
        ended = write_all(writing, outgoing) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection of a remote command ended early");
    }
}

/// Writes the replies of a session until it ends.
pub(super) async fn write_all<W: AsyncWrite>(
    mut io: WriteHalf<W>,
    mut replies: mpsc::Receiver<Reply>,
) -> Result<(), SpdyError> {
    let mut frames = FrameWriter::new();
    while let Some(reply) = replies.recv().await {
        io.write_all(&frames.encode(&reply)).await?;
        if replies.is_empty() {
            io.flush().await?;
        }
    }
    Ok(())
}

async fn session<IO: AsyncRead>(
    mut frames: FrameReader<ReadHalf<IO>>,
    replies: mpsc::Sender<Reply>,
    options: StreamOptions,
    command: RemoteCommand,
) -> Result<(), SpdyError> {
    let creating = tokio::time::timeout(STREAM_CREATION, created(&mut frames, &replies, options));
    let ids = creating.await.map_err(|_| SpdyError::Malformed("the streams were not created in time"))??;
    let id = |kind: &str| ids.get(kind).copied();
    let (console, input, mut written) = streams(options);
    let mut reading = pin!(read(frames, input, id("stdin"), &replies));
    let working = async {
        let writing = async {
            while let Some((output, bytes)) = written.recv().await {
                let stream = match output {
                    Output::Stdout => id("stdout"),
                    Output::Stderr => id("stderr"),
                };
                if let Some(id) = stream {
                    send(&replies, id, bytes, false).await;
                }
            }
        };
        let (status, ()) = tokio::join!(command.perform(console), writing);
        if let Some(id) = id("error") {
            send(&replies, id, status.to_string().into(), true).await;
        }
        for id in [id("stdout"), id("stderr")].into_iter().flatten() {
            send(&replies, id, Bytes::new(), true).await;
        }
    };
    tokio::select! {
        biased;
        () = working => {}
        ended = &mut reading => return ended,
    }
    // The client may still read: closing the connection now could discard its last output.
    tokio::time::timeout(FINISH, reading).await.unwrap_or(Ok(()))
}

async fn send(replies: &mpsc::Sender<Reply>, id: u32, bytes: Bytes, is_last: bool) {
    // The session ends with the writer.
    let _ = replies.send(Reply::Data { id, bytes, is_last }).await;
}

/// Accepts the streams that the options name, and returns their ids by type.
async fn created<IO: AsyncRead>(
    frames: &mut FrameReader<ReadHalf<IO>>,
    replies: &mpsc::Sender<Reply>,
    options: StreamOptions,
) -> Result<HashMap<String, u32>, SpdyError> {
    let StreamOptions { stdin, stdout, stderr, tty } = options;
    let wanted = [("error", true), ("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("resize", tty)];
    let wanted: Vec<_> =
        wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind).collect();
    let mut ids = HashMap::new();
    while ids.len() < wanted.len() {
        let Some(frame) = frames.next().await? else {
            return Err(SpdyError::Malformed("the connection ended before the streams were created"));
        };
        match frame {
            Frame::SynStream { id, headers, .. } => {
                let kind = headers.get("streamtype");
                let is_wanted = wanted.contains(&kind) && !ids.contains_key(kind);
                if is_wanted {
                    ids.insert(kind.to_owned(), id);
                }
                let reply = if is_wanted { Reply::Accept { id } } else { Reply::Refuse { id } };
                let _ = replies.send(reply).await;
            }
            Frame::Ping { id } => drop(replies.send(Reply::Ping { id }).await),
            Frame::Data { bytes, .. } if !bytes.is_empty() => {
                return Err(SpdyError::Malformed("data came before all streams were created"));
            }
            _ => {}
        }
    }
    Ok(ids)
}

/// Passes the input of a client on, until the client is gone.
async fn read<IO: AsyncRead>(
    mut frames: FrameReader<ReadHalf<IO>>,
    input: mpsc::Sender<Bytes>,
    stdin: Option<u32>,
    replies: &mpsc::Sender<Reply>,
) -> Result<(), SpdyError> {
    let mut input = Some(input);
    while let Some(frame) = frames.next().await? {
        match frame {
            Frame::Data { id, bytes, is_last } if Some(id) == stdin => {
                let is_read = match &input {
                    Some(sender) if !bytes.is_empty() => sender.send(bytes).await.is_ok(),
                    _ => true,
                };
                if is_last || !is_read {
                    input = None;
                }
            }
            Frame::Reset { id } if Some(id) == stdin => input = None,
            Frame::Ping { id } => drop(replies.send(Reply::Ping { id }).await),
            Frame::SynStream { id, .. } => drop(replies.send(Reply::Refuse { id }).await),
            Frame::GoAway => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::io::DuplexStream;
    use tokio::sync::watch;

    use super::*;
    use crate::environment::Environment;
    use crate::kubelet_server::container::Container;
    use crate::kubelet_server::followers::Followed;
    use crate::object::Pod;

    const ALL: StreamOptions = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };

    struct Client {
        io: WriteHalf<DuplexStream>,
        frames: FrameWriter,
        answers: FrameReader<ReadHalf<DuplexStream>>,
    }

    impl Client {
        async fn send(&mut self, frame: Bytes) {
            self.io.write_all(&frame).await.unwrap();
        }

        async fn open(&mut self, id: u32, kind: &str) {
            let frame = self.frames.open(id, &[("streamtype", kind)]);
            self.send(frame).await;
        }

        async fn write(&mut self, reply: Reply) {
            let frame = self.frames.encode(&reply);
            self.send(frame).await;
        }
    }

    /// Returns a client, and the session that serves it.
    fn client(query: &str) -> (Client, impl Future<Output = ()>) {
        let pod = Arc::new(Pod::from(
            json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] },
            "status": { "containerStatuses": [{ "name": "c", "containerID": "1", "state": { "running": {} } }] } }),
        ));
        let (sender, receiver) = watch::channel(Followed { pod: Arc::clone(&pod), is_gone: false });
        let run = Container::find(&pod, "c").unwrap().logged_run(false).unwrap();
        let environment = Arc::new(Environment::new(Box::new(jiff::Timestamp::now), Some(1)));
        let command = RemoteCommand::exec(query, &run, receiver, &environment).unwrap();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (reading, io) = tokio::io::split(near);
        let client = Client { io, frames: FrameWriter::new(), answers: FrameReader::new(reading) };
        let serving = async move {
            serve(far, ALL, command).await;
            drop(sender);
        };
        (client, serving)
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_runs_over_the_streams_of_its_client() {
        let (mut client, serving) = client("command=sh&command=-c&command=cat;+false");
        let asking = async {
            for (id, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
                client.open(id, kind).await;
            }
            client.write(Reply::Ping { id: 11 }).await;
            client.write(Reply::Data { id: 3, bytes: "hello".into(), is_last: true }).await;
            let (mut seen, mut ended, mut pings) = (HashMap::<u32, String>::new(), 0, 0);
            while ended < 3 {
                match client.answers.next().await.unwrap().expect("an answer before the end") {
                    Frame::Data { id, bytes, is_last } => {
                        seen.entry(id).or_default().push_str(std::str::from_utf8(&bytes).unwrap());
                        ended += usize::from(is_last);
                    }
                    Frame::Ping { id: 11 } => pings += 1,
                    _ => {}
                }
            }
            assert_eq!((seen[&5].as_str(), seen[&7].as_str(), pings), ("hello", "", 1));
            let status: serde_json::Value = serde_json::from_str(&seen[&1]).unwrap();
            assert_eq!(status["details"]["causes"][0]["message"], "1");
            drop(client);
        };
        tokio::join!(asking, serving);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_all_streams_is_disconnected_after_a_while() {
        let (mut client, serving) = client("command=true");
        let begun = tokio::time::Instant::now();
        let asking = async {
            client.open(1, "error").await;
            client.open(3, "unknown").await;
            let mut refused = Vec::new();
            while let Some(frame) = client.answers.next().await.unwrap() {
                if let Frame::Reset { id } = frame {
                    refused.push(id);
                }
            }
            assert_eq!(refused, [3]);
        };
        tokio::join!(asking, serving);
        assert_eq!(begun.elapsed(), STREAM_CREATION);
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_ends_when_its_client_is_gone() {
        let (mut client, serving) = client("command=sleep&command=infinity");
        let asking = async {
            for (id, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
                client.open(id, kind).await;
            }
            drop(client);
        };
        tokio::join!(asking, serving);
    }
}
