//! Frames of SPDY/3.1, as far as Kubernetes uses them: streams with headers, data and pings. There
//! is no flow control, since neither client-go nor kube-apiserver has it
//! (github.com/moby/spdystream v0.5.0).

use std::fmt;
use std::sync::LazyLock;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateError, InflateFlush};

/// The largest frames with headers and with data. client-go sends 32 KiB.
const LARGEST_CONTROL: usize = 64 * 1024;
const LARGEST_DATA: usize = 1024 * 1024;
/// The size of decompressed headers.
const LARGEST_HEADERS: usize = 64 * 1024;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

const FIN: u8 = 1;
const REFUSED_STREAM: u32 = 3;

/// The words of the dictionary with which headers are compressed, each after its length, and the
/// text after them: 2.6.10.1 in
/// <https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/>.
const DICTIONARY_WORDS: &str = "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,\
    accept-language,accept-ranges,age,allow,authorization,cache-control,connection,content-base,\
    content-encoding,content-language,content-length,content-location,content-md5,content-range,\
    content-type,date,etag,expect,expires,from,host,if-match,if-modified-since,if-none-match,if-range,\
    if-unmodified-since,last-modified,location,max-forwards,pragma,proxy-authenticate,\
    proxy-authorization,range,referer,retry-after,server,te,trailer,transfer-encoding,upgrade,user-agent,\
    vary,via,warning,www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,\
    keep-alive,origin";
const DICTIONARY_TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415\
    416417502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request\
    401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented\
    503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, \
    Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,\
    application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch\
    charset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dictionary = Vec::new();
    for word in DICTIONARY_WORDS.split(',') {
        dictionary.put_u32(u32::try_from(word.len()).expect("words are short"));
        dictionary.extend_from_slice(word.as_bytes());
    }
    dictionary.extend_from_slice(DICTIONARY_TEXT.as_bytes());
    dictionary
});

/// A frame of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    SynStream {
        id: u32,
        headers: Headers,
        is_last: bool,
    },
    Data {
        id: u32,
        bytes: Bytes,
        is_last: bool,
    },
    Reset {
        id: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// A frame without an effect here.
    Other,
}

/// The headers of a stream. Names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Returns the first value of a header, or an empty text.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// The end of a connection because of its peer.
#[derive(Debug)]
pub(super) enum SpdyError {
    Io(std::io::Error),
    /// The bytes are no frames, or too large ones.
    Malformed(&'static str),
}

impl fmt::Display for SpdyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => f.write_str(reason),
        }
    }
}

impl From<std::io::Error> for SpdyError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The size of the windows of compressed headers, as a power of two, and their level: the defaults
/// of zlib.
const WINDOW_BITS: u8 = 15;
const LEVEL: i32 = 6;

/// Reads frames.
pub(super) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    headers: Inflate,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new(), headers: Inflate::new(true, WINDOW_BITS) }
    }

    /// Returns the next frame; `None` at the end of the connection.
    ///
    /// # Cancel safety
    /// No bytes are lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, SpdyError> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            if self.io.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn buffered(&mut self) -> Result<Option<Frame>, SpdyError> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<8>() else { return Ok(None) };
        let [b0, b1, b2, b3, flags, l0, l1, l2] = *head;
        let is_control = b0 & 0x80 != 0;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        if length > if is_control { LARGEST_CONTROL } else { LARGEST_DATA } {
            return Err(SpdyError::Malformed("the frame is too large"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(8);
        let mut body = self.buffer.split_to(length).freeze();
        let is_last = flags & FIN != 0;
        if !is_control {
            let id = u32::from_be_bytes([b0, b1, b2, b3]);
            return Ok(Some(Frame::Data { id, bytes: body, is_last }));
        }
        if [b0 & 0x7f, b1] != [0, 3] {
            return Err(SpdyError::Malformed("the version of SPDY is not 3"));
        }
        let frame = match u16::from_be_bytes([b2, b3]) {
            SYN_STREAM if body.len() >= 10 => {
                let id = body.get_u32() & 0x7fff_ffff;
                body.advance(6);
                Frame::SynStream { id, headers: self.headers(&body)?, is_last }
            }
            // Decompressed all the same: all headers of a connection are one compressed stream.
            SYN_REPLY | HEADERS if body.len() >= 4 => {
                self.headers(&body[4..])?;
                Frame::Other
            }
            RST_STREAM if body.len() >= 4 => Frame::Reset { id: body.get_u32() & 0x7fff_ffff },
            PING if body.len() >= 4 => Frame::Ping { id: body.get_u32() },
            GO_AWAY => Frame::GoAway,
            SYN_STREAM | SYN_REPLY | HEADERS | RST_STREAM | PING => {
                return Err(SpdyError::Malformed("the frame is too short"));
            }
            _ => Frame::Other,
        };
        Ok(Some(frame))
    }

    fn headers(&mut self, compressed: &[u8]) -> Result<Headers, SpdyError> {
        let malformed = || SpdyError::Malformed("the headers are not valid");
        let mut block = Bytes::from(self.inflated(compressed)?);
        let count = block.try_get_u32().map_err(|_| malformed())?;
        let mut headers = Headers::default();
        for _ in 0..count {
            let mut field = || -> Option<String> {
                let length = block.try_get_u32().ok()? as usize;
                let bytes = (block.len() >= length).then(|| block.split_to(length))?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            let (name, value) = (field().ok_or_else(malformed)?, field().ok_or_else(malformed)?);
            headers.0.push((name.to_ascii_lowercase(), value));
        }
        Ok(headers)
    }

    fn inflated(&mut self, compressed: &[u8]) -> Result<Vec<u8>, SpdyError> {
        let (mut all, mut rest) = (Vec::new(), compressed);
        loop {
            let mut part = [0; 4096];
            let (read, written) = (self.headers.total_in(), self.headers.total_out());
            let result = self.headers.decompress(rest, &mut part, InflateFlush::SyncFlush);
            let advance = |now: u64, before: u64| usize::try_from(now.saturating_sub(before)).unwrap_or(0);
            let read = advance(self.headers.total_in(), read);
            let written = advance(self.headers.total_out(), written);
            rest = rest.get(read..).unwrap_or_default();
            all.extend_from_slice(part.get(..written).unwrap_or_default());
            match result {
                Err(InflateError::NeedDict { .. }) => {
                    let set = self.headers.set_dictionary(&DICTIONARY);
                    set.map_err(|_| SpdyError::Malformed("the headers need another dictionary"))?;
                    continue;
                }
                Err(_) => return Err(SpdyError::Malformed("the headers are not compressed")),
                Ok(_) => {}
            }
            if all.len() > LARGEST_HEADERS {
                return Err(SpdyError::Malformed("the headers are too large"));
            }
            if written < part.len() && (rest.is_empty() || read == 0) {
                return Ok(all);
            }
        }
    }
}

/// Encodes frames.
pub(super) struct FrameWriter {
    headers: Deflate,
    buffer: BytesMut,
}

/// A frame for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Accepts a stream.
    Accept {
        id: u32,
    },
    /// Refuses a stream.
    Refuse {
        id: u32,
    },
    Data {
        id: u32,
        bytes: Bytes,
        is_last: bool,
    },
    Ping {
        id: u32,
    },
}

impl FrameWriter {
    pub(super) fn new() -> Self {
        let mut headers = Deflate::new(LEVEL, true, WINDOW_BITS);
        headers.set_dictionary(&DICTIONARY).expect("nothing was compressed before");
        Self { headers, buffer: BytesMut::new() }
    }

    /// Returns the bytes of a frame.
    pub(super) fn encode(&mut self, reply: &Reply) -> Bytes {
        match reply {
            Reply::Accept { id } => {
                let headers = self.compressed(&0_u32.to_be_bytes());
                self.control(SYN_REPLY, 0, &[&id.to_be_bytes(), &headers]);
            }
            Reply::Refuse { id } => {
                self.control(RST_STREAM, 0, &[&id.to_be_bytes(), &REFUSED_STREAM.to_be_bytes()]);
            }
            Reply::Ping { id } => self.control(PING, 0, &[&id.to_be_bytes()]),
            Reply::Data { id, bytes, is_last } => {
                self.buffer.put_u32(*id);
                self.length(if *is_last { FIN } else { 0 }, bytes.len());
                self.buffer.put_slice(bytes);
            }
        }
        self.buffer.split().freeze()
    }

    fn control(&mut self, kind: u16, flags: u8, body: &[&[u8]]) {
        self.buffer.put_u16(0x8003);
        self.buffer.put_u16(kind);
        self.length(flags, body.iter().map(|it| it.len()).sum());
        body.iter().for_each(|it| self.buffer.put_slice(it));
    }

    fn length(&mut self, flags: u8, length: usize) {
        let [_, l0, l1, l2] = u32::try_from(length).expect("frames have less than 16 MiB").to_be_bytes();
        self.buffer.put_slice(&[flags, l0, l1, l2]);
    }

    fn compressed(&mut self, headers: &[u8]) -> Vec<u8> {
        // Enough for the few headers of Kubernetes, with the end of the compressed part.
        let mut compressed = vec![0; headers.len().saturating_mul(2).saturating_add(256)];
        let before = self.headers.total_out();
        let done = self.headers.compress(headers, &mut compressed, DeflateFlush::SyncFlush);
        done.expect("compression does not fail");
        let length = self.headers.total_out().saturating_sub(before);
        compressed.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        compressed
    }
}

/// The frames of a client, for tests.
#[cfg(test)]
pub(super) mod client {
    use super::*;

    impl FrameWriter {
        pub(crate) fn open(&mut self, id: u32, headers: &[(&str, &str)]) -> Bytes {
            let mut block = Vec::new();
            block.put_u32(u32::try_from(headers.len()).unwrap());
            for field in headers.iter().flat_map(|(name, value)| [name, value]) {
                block.put_u32(u32::try_from(field.len()).unwrap());
                block.extend_from_slice(field.as_bytes());
            }
            let headers = self.compressed(&block);
            self.control(SYN_STREAM, 0, &[&id.to_be_bytes(), &[0; 6], &headers]);
            self.buffer.split().freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    async fn frames(bytes: &[u8]) -> Result<Vec<Frame>, SpdyError> {
        let (mut reader, mut all) = (FrameReader::new(bytes), Vec::new());
        while let Some(frame) = reader.next().await? {
            all.push(frame);
        }
        Ok(all)
    }

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        // Its Adler-32 checksum, which each compressed stream names.
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in DICTIONARY.iter() {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!((DICTIONARY.len(), b << 16 | a), (1423, 0xe3c6_a7c2));
    }

    #[tokio::test]
    async fn frames_are_read_whatever_their_parts() {
        let mut writer = FrameWriter::new();
        let mut bytes = writer.open(1, &[("streamType", "error"), ("port", "80")]).to_vec();
        bytes.extend_from_slice(&writer.open(3, &[("streamtype", "data")]));
        let data = Reply::Data { id: 3, bytes: Bytes::from_static(b"hello"), is_last: true };
        bytes.extend_from_slice(&writer.encode(&data));
        bytes.extend_from_slice(&writer.encode(&Reply::Ping { id: 7 }));
        bytes.extend_from_slice(&writer.encode(&Reply::Refuse { id: 3 }));
        bytes.extend_from_slice(&writer.encode(&Reply::Accept { id: 3 }));
        let all = frames(&bytes).await.unwrap();
        let [
            Frame::SynStream { id: 1, headers, is_last: false },
            Frame::SynStream { id: 3, headers: later, .. },
            rest @ ..,
        ] = &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((headers.get("streamtype"), headers.get("port"), headers.get("x")), ("error", "80", ""));
        assert_eq!(later.get("streamtype"), "data");
        let expected = [
            Frame::Data { id: 3, bytes: Bytes::from_static(b"hello"), is_last: true },
            Frame::Ping { id: 7 },
            Frame::Reset { id: 3 },
            Frame::Other,
        ];
        assert_eq!(rest, expected);
        let (mut near, far) = tokio::io::duplex(3);
        let slowly = async {
            tokio::io::AsyncWriteExt::write_all(&mut near, &bytes).await.unwrap();
            drop(near);
        };
        let reading = async {
            let (mut reader, mut all) = (FrameReader::new(far), Vec::new());
            while let Some(frame) = reader.next().await.unwrap() {
                all.push(frame);
            }
            all
        };
        assert_eq!(tokio::join!(slowly, reading).1, all);
    }

    #[tokio::test]
    async fn frames_that_are_too_large_or_malformed_end_the_connection() {
        for bytes in [
            &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..],
            &[0, 0, 0, 1, 0, 0x7f, 0xff, 0xff],
            &[0x80, 2, 0, 1, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2],
        ] {
            let ended = frames(bytes).await;
            assert!(matches!(ended, Err(SpdyError::Malformed(_))), "{bytes:?}: {ended:?}");
        }
        let mut writer = FrameWriter::new();
        let bomb = writer.open(1, &[("x", &"x".repeat(LARGEST_HEADERS + 1))]);
        assert!(bomb.len() < 1000);
        assert!(matches!(frames(&bomb).await, Err(SpdyError::Malformed("the headers are too large"))));
    }
    proptest! {
        #[test]
        fn hostile_frames_end_the_connection_at_worst(
            all in proptest::collection::vec(
                (any::<bool>(), 0..12_u16, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..80)), 0..8),
            cut in 0..16_usize,
        ) {
            let mut writer = FrameWriter::new();
            let mut bytes = writer.open(1, &[("streamtype", "data")]).to_vec();
            for (is_control, kind, flags, body) in &all {
                if *is_control {
                    writer.control(*kind, *flags, &[body]);
                    bytes.extend_from_slice(&writer.buffer.split());
                } else {
                    let data = Reply::Data { id: u32::from(*kind), bytes: body.clone().into(), is_last: flags & 1 > 0 };
                    bytes.extend_from_slice(&writer.encode(&data));
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let read = frames(&bytes).now_or_never().expect("all bytes are there");
            if let Ok(read) = read {
                prop_assert!(read.len() <= all.len() + 1);
            }
        }
    }
}
