//! Frame boundaries in one direction of an HTTP/2 connection, found in the bytes however they are
//! split.
//!
//! Only the nine bytes of each frame head are parsed; payloads are skipped.

/// The connection preface of a client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame's length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// Frame types (RFC 9113, section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
/// The flag of DATA and HEADERS frames that end their stream.
pub(crate) const END_STREAM: u8 = 1;

/// The type, flags and stream of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    /// Returns true if the frame ends its stream, for the side that sent it or for both.
    pub(crate) fn ends_stream(self) -> bool {
        match self.kind {
            DATA | HEADERS => self.flags & END_STREAM != 0,
            kind => kind == RST_STREAM,
        }
    }
}

/// The position in the frames of one direction of a connection.
#[derive(Debug)]
pub(crate) enum Frames {
    /// This number of bytes of the preface have passed.
    Preface(usize),
    /// The bytes of a frame head that have passed, and their number.
    Head([u8; FRAME_HEAD], usize),
    /// This number of payload bytes is still to come.
    Payload(usize),
    /// The bytes are not HTTP/2.
    Unreadable,
}

impl Frames {
    /// Starts the direction from the client, which begins with the preface.
    pub(crate) fn of_client() -> Self {
        Self::Preface(0)
    }

    /// Starts the direction from the server, which begins with a frame.
    pub(crate) fn of_server() -> Self {
        Self::Head([0; FRAME_HEAD], 0)
    }

    /// Consumes the next bytes, and calls `begun` with each frame head as soon as it is complete.
    pub(crate) fn pass(&mut self, mut bytes: &[u8], mut begun: impl FnMut(FrameHead)) {
        while !bytes.is_empty() {
            let taken = match self {
                Self::Unreadable => return,
                Self::Preface(at) => {
                    let count = bytes.len().min(PREFACE.len() - *at);
                    let is_preface = bytes[..count] == PREFACE[*at..*at + count];
                    *self = match *at + count {
                        _ if !is_preface => Self::Unreadable,
                        at if at < PREFACE.len() => Self::Preface(at),
                        _ => Self::Head([0; FRAME_HEAD], 0),
                    };
                    count
                }
                Self::Head(head, at) => {
                    let count = bytes.len().min(FRAME_HEAD - *at);
                    head[*at..*at + count].copy_from_slice(&bytes[..count]);
                    *at += count;
                    if *at == FRAME_HEAD {
                        let [one, two, three, kind, flags, stream @ ..] = *head;
                        let size = u32::from_be_bytes([0, one, two, three]) as usize;
                        let stream = u32::from_be_bytes(stream) & !(1 << 31);
                        begun(FrameHead { kind, flags, stream });
                        *self = Self::after(size);
                    }
                    count
                }
                Self::Payload(left) => {
                    let count = bytes.len().min(*left);
                    *self = Self::after(*left - count);
                    count
                }
            };
            bytes = &bytes[taken..];
        }
    }

    /// Returns the position with this number of payload bytes to come.
    fn after(left: usize) -> Self {
        if left == 0 { Self::Head([0; FRAME_HEAD], 0) } else { Self::Payload(left) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes the client preface, and then frames of these types, streams and sizes.
    pub(crate) fn client_bytes(frames: &[(u8, u32, usize)]) -> Vec<u8> {
        let mut wire = PREFACE.to_vec();
        for (kind, stream, size) in frames {
            wire.extend(&(*size as u32).to_be_bytes()[1..]);
            wire.extend([*kind, 0xff]);
            wire.extend(stream.to_be_bytes());
            wire.extend(std::iter::repeat_n(1, *size));
        }
        wire
    }

    /// Encodes the frames without the preface, as a server sends them.
    pub(crate) fn server_bytes(frames: &[(u8, u32, usize)]) -> Vec<u8> {
        client_bytes(frames).split_off(PREFACE.len())
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_bytes_are_split(
            frames in prop::collection::vec((0u8..10, 1u32..100, 0usize..50), 0..10),
            cuts in prop::collection::vec(1usize..40, 1..20),
            server in any::<bool>(),
        ) {
            let wire = if server { server_bytes(&frames) } else { client_bytes(&frames) };
            let mut state = if server { Frames::of_server() } else { Frames::of_client() };
            let (mut rest, mut found) = (&wire[..], Vec::new());
            let mut cuts = cuts.into_iter().cycle();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                state.pass(piece, |it| found.push((it.kind, it.stream)));
                rest = more;
            }
            prop_assert!(matches!(state, Frames::Head(_, 0)));
            let sent: Vec<_> = frames.iter().map(|it| (it.0, it.1)).collect();
            prop_assert_eq!(found, sent);
        }
    }

    #[test]
    fn bytes_that_are_not_http2_yield_no_frames() {
        let mut state = Frames::of_client();
        state.pass(b"\x16\x03\x01 something else", |it| panic!("{it:?}"));
        assert!(matches!(state, Frames::Unreadable));
    }
}
