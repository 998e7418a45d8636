//! A test server written frame by frame: it enforces the ping policy of the official gRPC servers,
//! and does things that no library lets a server do.
//!
//! The rule is that of gRPC's A8 as implemented by grpc-go (v1.85.0, `handlePing` in
//! `internal/transport/http2_server.go`), with all defaults: a ping within five minutes of the last
//! one is a strike, within two hours if no call is open, and the third strike ends the connection.
//! Headers and data that the server sends excuse the next ping and clear all strikes.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The length of a client's preface, and of a frame head.
const PREFACE: usize = 24;
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 11;
const LARGEST_STREAM: u32 = (1 << 31) - 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;

const MIN_TIME: Duration = Duration::from_secs(5 * 60);
const MIN_TIME_WITHOUT_CALLS: Duration = Duration::from_secs(2 * 60 * 60);
const MAX_STRIKES: u32 = 2;

/// The events that the server recorded.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) connections: AtomicUsize,
    /// Connections that were closed because of pings.
    pub(crate) ended: AtomicUsize,
    /// Streams that clients have reset.
    pub(crate) resets: AtomicUsize,
    pub(crate) pings: Mutex<Vec<Instant>>,
}

/// The server. A call whose message contains one of these words is answered in a special way, any
/// other with its own message:
///
/// | word | answer |
/// |---|---|
/// | `quiet` | the head, and then nothing |
/// | `mute` | nothing at all |
/// | `late` | everything once the server is released, whether or not the client has reset the stream |
/// | `unknown` | the status `UNIMPLEMENTED` |
pub(crate) struct EnforcingServer {
    pub(crate) record: Arc<Record>,
    /// The advertised number of concurrent streams.
    streams: watch::Sender<Option<u32>>,
    release: watch::Sender<bool>,
    /// The number of times that GOAWAY was sent to all clients.
    go_aways: watch::Sender<u32>,
}

impl EnforcingServer {
    /// Creates a server; [`serve`](Self::serve) hands it connections.
    pub(crate) fn new() -> Self {
        Self {
            record: Arc::default(),
            streams: watch::Sender::new(None),
            release: watch::Sender::new(false),
            go_aways: watch::Sender::new(0),
        }
    }

    /// Serves one connection until the client closes it.
    pub(crate) fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        self.record.connections.fetch_add(1, Ordering::SeqCst);
        let (io, mut write) = tokio::io::split(io);
        let (out, mut frames) = mpsc::unbounded_channel::<Vec<u8>>();
        // Separate from reading: two sides that only write would deadlock.
        tokio::spawn(async move {
            while let Some(frame) = frames.recv().await
                && write.write_all(&frame).await.is_ok()
            {}
        });
        let mut connection = Connection {
            io,
            out,
            record: Arc::clone(&self.record),
            open: BTreeMap::new(),
            late: HashMap::new(),
            last_ping: None,
            strikes: 0,
            excused: false,
        };
        let commands = Commands {
            streams: self.streams.subscribe(),
            release: self.release.subscribe(),
            go_aways: self.go_aways.subscribe(),
        };
        tokio::spawn(async move { connection.serve(commands).await });
    }

    /// Advertises to all clients, now and later, how many concurrent streams are allowed.
    pub(crate) fn limit_streams(&self, streams: u32) {
        self.streams.send_replace(Some(streams));
    }

    /// Answers the calls that are late.
    pub(crate) fn release(&self) {
        self.release.send_replace(true);
    }

    /// Sends GOAWAY on every connection, like a server whose connections have reached their maximum
    /// age. Open calls continue.
    pub(crate) fn send_go_away(&self) {
        self.go_aways.send_modify(|it| *it += 1);
    }

    pub(crate) fn ended(&self) -> usize {
        self.record.ended.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn pings(&self) -> usize {
        self.record.pings.lock().unwrap().len()
    }
}

/// The commands of the server to a connection.
struct Commands {
    streams: watch::Receiver<Option<u32>>,
    release: watch::Receiver<bool>,
    go_aways: watch::Receiver<u32>,
}

struct Connection<T> {
    io: ReadHalf<T>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    record: Arc<Record>,
    /// The received part of the message of every open call.
    open: BTreeMap<u32, Vec<u8>>,
    /// Calls that are answered later.
    late: HashMap<u32, Vec<u8>>,
    last_ping: Option<Instant>,
    strikes: u32,
    excused: bool,
}

impl<T: AsyncRead> Connection<T> {
    async fn serve(&mut self, commands: Commands) -> io::Result<()> {
        let Commands { streams: mut stream_limit, release: mut released, mut go_aways } = commands;
        self.send(SETTINGS, 0, 0, &[])?;
        // A window large enough for everything that clients send.
        self.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())?;
        self.io.read_exact(&mut [0; PREFACE]).await?;
        stream_limit.mark_changed();
        let mut read = Vec::new();
        loop {
            tokio::select! {
                biased;
                Ok(()) = stream_limit.changed() => {
                    let streams = *stream_limit.borrow_and_update();
                    if let Some(streams) = streams {
                        let setting =
                            [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &streams.to_be_bytes()].concat();
                        self.send(SETTINGS, 0, 0, &setting)?;
                    }
                }
                true = async { released.wait_for(|it| *it).await.is_ok() }, if !self.late.is_empty() => {
                    for (stream, message) in std::mem::take(&mut self.late) {
                        self.answer(stream, &message)?;
                    }
                }
                Ok(()) = go_aways.changed() => {
                    go_aways.mark_unchanged();
                    self.send(GOAWAY, 0, 0, &[LARGEST_STREAM.to_be_bytes(), NO_ERROR.to_be_bytes()].concat())?;
                }
                count = self.io.read_buf(&mut read) => if count? == 0 {
                    return Ok(());
                },
            }
            while let Some((head, rest)) = read.split_first_chunk::<HEAD>() {
                let [one, two, three, kind, flags, stream @ ..] = *head;
                let size = u32::from_be_bytes([0, one, two, three]) as usize;
                let Some(payload) = rest.get(..size).map(<[u8]>::to_vec) else { break };
                read.drain(..HEAD + size);
                if !self.frame(kind, flags, u32::from_be_bytes(stream), &payload)? {
                    return Ok(());
                }
            }
        }
    }

    /// Handles a frame. Returns false when the connection is over.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<bool> {
        match kind {
            SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[])?,
            PING if flags & ACK == 0 => {
                self.send(PING, ACK, 0, payload)?;
                return self.check_ping();
            }
            HEADERS => drop(self.open.insert(stream, Vec::new())),
            RST_STREAM => {
                self.open.remove(&stream);
                self.record.resets.fetch_add(1, Ordering::SeqCst);
            }
            DATA => self.open.entry(stream).or_default().extend(payload),
            _ => {}
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            let message = self.open[&stream].clone();
            let says = |word: &str| message.windows(word.len()).any(|it| it == word.as_bytes());
            if says("quiet") {
                self.head(stream)?;
            } else if says("late") {
                self.late.insert(stream, message);
            } else if says("unknown") {
                self.excused = true;
                let head =
                    [b"\x88\x00\x0ccontent-type\x10", &b"application/grpc\x00\x0bgrpc-status\x0212"[..]];
                self.send(HEADERS, END_HEADERS | END_STREAM, stream, &head.concat())?;
                self.open.remove(&stream);
            } else if !says("mute") {
                self.answer(stream, &message)?;
            }
        }
        Ok(true)
    }

    fn check_ping(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        self.record.pings.lock().unwrap().push(now);
        let last = self.last_ping.replace(now);
        if std::mem::take(&mut self.excused) {
            self.strikes = 0;
            return Ok(true);
        }
        let apart = if self.open.is_empty() { MIN_TIME_WITHOUT_CALLS } else { MIN_TIME };
        self.strikes += u32::from(last.is_some_and(|it| it + apart > now));
        if self.strikes <= MAX_STRIKES {
            return Ok(true);
        }
        let last = self.open.last_key_value().map_or(0, |it| *it.0).to_be_bytes();
        let go_away = [&last[..], &ENHANCE_YOUR_CALM.to_be_bytes(), b"too_many_pings"].concat();
        self.record.ended.fetch_add(1, Ordering::SeqCst);
        self.send(GOAWAY, 0, 0, &go_away)?;
        Ok(false)
    }

    fn head(&mut self, stream: u32) -> io::Result<()> {
        self.excused = true;
        // `:status: 200` of the static table, and one literal.
        let head = [b"\x88\x00\x0ccontent-type\x10", &b"application/grpc"[..]].concat();
        self.send(HEADERS, END_HEADERS, stream, &head)
    }

    fn answer(&mut self, stream: u32, message: &[u8]) -> io::Result<()> {
        self.head(stream)?;
        self.send(DATA, 0, stream, message)?;
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x0bgrpc-status\x010")?;
        self.open.remove(&stream);
        Ok(())
    }

    fn send(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let size = (payload.len() as u32).to_be_bytes();
        let head = [&size[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        let gone = |_| io::ErrorKind::BrokenPipe.into();
        self.out.send([&head[..], payload].concat()).map_err(gone)
    }
}
