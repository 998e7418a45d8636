//! What the process that calls is told, a line of JSON each, and what it answers, a line of JSON each.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What is wanted of who calls. It does one after the other, and answers each.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum Wish {
    /// What do you hold? A [`Held`](super::held::Held).
    Held,
    /// Make a channel to the service, by this API server, and connect to so many endpoints.
    Connect { url: String, service: String, endpoints: usize },
    /// How do your endpoints stand? A list of [`Standing`].
    Endpoints,
    /// Begin to call so often a second.
    Begin { rate: u32 },
    /// End that: an [`Outcome`](super::load::Outcome).
    End,
    /// Begin a stream of so many messages, one each so often, and read the first of them.
    Stream { messages: u64, milliseconds: u64 },
    /// Read the stream to its end: a [`Streamed`].
    Streamed,
    /// Drop the channel, and all that belongs to it.
    Drop,
}

/// How a channel stands to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Standing {
    pub(super) id: String,
    /// Where it is connected, if it is.
    pub(super) peer: Option<SocketAddr>,
    /// It can be called.
    pub(super) ready: bool,
    pub(super) in_flight: u32,
    /// Of all that it was sent.
    pub(super) failures: u64,
}

/// How a stream went.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Streamed {
    /// In their order, from the first on.
    pub(super) messages: u64,
    pub(super) seconds: f64,
    /// Why it did not come to its end.
    pub(super) why: Option<String>,
}

/// Whether a channel is connected to exactly these endpoints, by their ids and addresses, and has nothing under way.
pub(super) fn agree(standings: &[Standing], expected: &BTreeMap<String, SocketAddr>) -> bool {
    let as_expected = |it: &Standing| {
        it.ready && it.in_flight == 0 && it.peer.is_some() && it.peer.as_ref() == expected.get(&it.id)
    };
    standings.len() == expected.len() && standings.iter().all(as_expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(id: &str, port: u16) -> Standing {
        let peer = Some(([127, 0, 0, 1], port).into());
        Standing { id: id.to_owned(), peer, ready: true, in_flight: 0, failures: 0 }
    }

    #[test]
    fn a_channel_agrees_with_a_set_when_it_is_connected_to_all_of_it_and_to_nobody_else() {
        let expected: BTreeMap<_, SocketAddr> =
            [("a", 1), ("b", 2)].map(|(id, port)| (id.to_owned(), ([127, 0, 0, 1], port).into())).into();
        let good = [standing("a", 1), standing("b", 2)];
        assert!(agree(&good, &expected));
        assert!(!agree(&good[..1], &expected), "one is missing");
        assert!(!agree(&[good[0].clone(), good[1].clone(), standing("c", 3)], &expected), "one is too many");
        assert!(!agree(&[good[0].clone(), standing("b", 3)], &expected), "one is elsewhere");
        assert!(!agree(&[good[0].clone(), standing("c", 2)], &expected), "one is another");
        let with = |change: fn(&mut Standing)| {
            let mut changed = good.clone();
            change(&mut changed[1]);
            agree(&changed, &expected)
        };
        assert!(!with(|it| it.peer = None) && !with(|it| it.ready = false) && !with(|it| it.in_flight = 1));
    }

    #[test]
    fn wishes_are_lines() {
        let wish = Wish::Connect { url: "http://127.0.0.1:1".into(), service: "echo".into(), endpoints: 3 };
        let line = serde_json::to_string(&wish).unwrap();
        assert!(!line.contains('\n'));
        assert!(matches!(serde_json::from_str(&line).unwrap(), Wish::Connect { endpoints: 3, .. }));
        assert_eq!(serde_json::to_string(&Wish::Held).unwrap(), "\"Held\"");
    }
}
