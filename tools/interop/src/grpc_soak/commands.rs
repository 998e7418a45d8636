//! The commands to the caller process and its responses, each one line of JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A command to the caller. It runs one at a time, and responds to each.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum CallerCommand {
    /// Returns the [`ResourceUsage`](super::resource_usage::ResourceUsage) of the process.
    ResourceUsage,
    /// Creates a channel to the service, found through this API server, and waits for the number of
    /// connected endpoints.
    Connect { url: String, service: String, endpoints: usize },
    /// Returns the state of the endpoints: a list of [`EndpointState`].
    Endpoints,
    /// Starts calling, this often per second.
    Begin { rate: u32 },
    /// Stops calling, and returns an [`Outcome`](super::load::Outcome).
    End,
    /// Starts a stream of this many messages at this interval, and reads the first of them.
    Stream { messages: u64, milliseconds: u64 },
    /// Reads the stream to its end, and returns a [`StreamOutcome`].
    EndStream,
    /// Drops the channel with everything that belongs to it.
    Drop,
}

/// The state of an endpoint in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct EndpointState {
    pub(super) id: String,
    /// The connected address, if it is connected.
    pub(super) peer: Option<SocketAddr>,
    /// True if it can be called.
    pub(super) ready: bool,
    pub(super) in_flight: u32,
    /// The number of failed calls so far.
    pub(super) failures: u64,
}

/// The outcome of a stream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct StreamOutcome {
    /// The number of messages received in order, from the first on.
    pub(super) messages: u64,
    pub(super) seconds: f64,
    /// The error that ended it early.
    pub(super) why: Option<String>,
}

/// Returns true if a channel is connected to exactly these endpoints, by their ids and addresses,
/// and has no calls in flight.
pub(super) fn matches_expected(states: &[EndpointState], expected: &BTreeMap<String, SocketAddr>) -> bool {
    let as_expected = |it: &EndpointState| {
        it.ready && it.in_flight == 0 && it.peer.is_some() && it.peer.as_ref() == expected.get(&it.id)
    };
    states.len() == expected.len() && states.iter().all(as_expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(id: &str, port: u16) -> EndpointState {
        let peer = Some(([127, 0, 0, 1], port).into());
        EndpointState { id: id.to_owned(), peer, ready: true, in_flight: 0, failures: 0 }
    }

    #[test]
    fn a_channel_matches_a_set_when_it_is_connected_to_exactly_its_endpoints() {
        let expected: BTreeMap<_, SocketAddr> =
            [("a", 1), ("b", 2)].map(|(id, port)| (id.to_owned(), ([127, 0, 0, 1], port).into())).into();
        let good = [endpoint("a", 1), endpoint("b", 2)];
        assert!(matches_expected(&good, &expected));
        assert!(!matches_expected(&good[..1], &expected), "an endpoint is missing");
        assert!(
            !matches_expected(&[good[0].clone(), good[1].clone(), endpoint("c", 3)], &expected),
            "there is an additional endpoint"
        );
        assert!(
            !matches_expected(&[good[0].clone(), endpoint("b", 3)], &expected),
            "an endpoint has another address"
        );
        assert!(
            !matches_expected(&[good[0].clone(), endpoint("c", 2)], &expected),
            "an endpoint has another id"
        );
        let with = |change: fn(&mut EndpointState)| {
            let mut changed = good.clone();
            change(&mut changed[1]);
            matches_expected(&changed, &expected)
        };
        assert!(!with(|it| it.peer = None) && !with(|it| it.ready = false) && !with(|it| it.in_flight = 1));
    }

    #[test]
    fn a_command_is_one_line() {
        let command =
            CallerCommand::Connect { url: "http://127.0.0.1:1".into(), service: "echo".into(), endpoints: 3 };
        let line = serde_json::to_string(&command).unwrap();
        assert!(!line.contains('\n'));
        assert!(matches!(serde_json::from_str(&line).unwrap(), CallerCommand::Connect { endpoints: 3, .. }));
        assert_eq!(serde_json::to_string(&CallerCommand::ResourceUsage).unwrap(), "\"ResourceUsage\"");
    }
}
