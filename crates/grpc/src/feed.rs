//! A stream of endpoint changes, for programs that keep their own balancer: tower's, or the one
//! inside tonic's channel.
//!
//! Contains only usable endpoints. The balancer decides what to do with one that refuses
//! connections.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tonic::transport::channel::Change as TonicChange;
use tower::discover::Change;

use crate::endpoints::{Endpoint, EndpointId, EndpointSet};
use crate::resolver::EndpointWatch;

type Item = Change<EndpointId, Arc<Endpoint>>;

/// The usable endpoints of a target as insertions and removals: a tower `Discover`.
///
/// Insertions come before removals, so that a balancer is not left without endpoints in between. An
/// endpoint whose addresses changed is inserted again. The stream ends with its watch.
///
/// With tonic's own channel:
///
/// ```
/// use dogwatch_grpc::{Feed, Resolver, Target};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let resolver = Resolver::new(client);
/// let target: Target = "kubernetes:///greeter.shop:grpc".parse()?;
/// let (channel, changes) = tonic::transport::Channel::balance_channel(64);
/// tokio::spawn(Feed::new(resolver.watch(&target)).send_to(changes, Feed::plain));
/// # let _ = channel;
/// # Ok(())
/// # }
/// ```
pub struct Feed(BoxStream<'static, Result<Item, Infallible>>);

/// The changes that were sent, and those that are pending.
struct FeedState {
    watch: EndpointWatch,
    sent: BTreeMap<EndpointId, Arc<Endpoint>>,
    pending: VecDeque<Item>,
}

impl Feed {
    /// Creates a feed of the endpoints of this watch.
    pub fn new(watch: EndpointWatch) -> Self {
        let feeding = FeedState { watch, sent: BTreeMap::new(), pending: VecDeque::new() };
        // Fused: an `unfold` panics if it is polled after its end.
        Self(stream::unfold(feeding, FeedState::next).fuse().boxed())
    }

    /// Sends every change to a tonic channel (`Channel::balance_channel`), until the channel or the
    /// watch ends. `make` builds the tonic endpoint: [`Feed::plain`], or a closure that adds TLS,
    /// limits and timeouts.
    ///
    /// Changes are sent in order. While the channel is full, as a tonic channel without calls is,
    /// this waits; then it goes on from what it has sent to the newest set, so that nothing
    /// accumulates.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; no more changes are sent then.
    pub async fn send_to(
        mut self,
        channel: mpsc::Sender<TonicChange<EndpointId, tonic::transport::Endpoint>>,
        mut make: impl FnMut(&Endpoint) -> tonic::transport::Endpoint,
    ) {
        loop {
            let change = tokio::select! {
                () = channel.closed() => return,
                change = self.0.next() => change,
            };
            let change = match change {
                Some(Ok(Change::Insert(id, endpoint))) => TonicChange::Insert(id, make(&endpoint)),
                Some(Ok(Change::Remove(id))) => TonicChange::Remove(id),
                Some(Err(never)) => match never {},
                None => return,
            };
            if channel.send(change).await.is_err() {
                return;
            }
        }
    }

    /// Builds a tonic endpoint for the first address of an endpoint, without TLS.
    pub fn plain(endpoint: &Endpoint) -> tonic::transport::Endpoint {
        let uri = format!("http://{}", endpoint.addresses[0]);
        tonic::transport::Endpoint::from_shared(uri).expect("an address and a port are a URI")
    }
}

impl FeedState {
    async fn next(mut self) -> Option<(Result<Item, Infallible>, Self)> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Some((Ok(change), self));
            }
            let set = self.watch.changed().await?;
            self.pending = changes(&mut self.sent, &set);
        }
    }
}

/// Returns the changes from `sent` to `set`, and updates `sent`.
fn changes(sent: &mut BTreeMap<EndpointId, Arc<Endpoint>>, set: &EndpointSet) -> VecDeque<Item> {
    let usable: BTreeMap<_, _> = set.usable().map(|it| (it.id.clone(), Arc::clone(it))).collect();
    let inserted =
        usable.values().filter(|it| sent.get(&it.id).is_none_or(|old| old.addresses != it.addresses));
    let mut changes: VecDeque<_> = inserted.map(|it| Change::Insert(it.id.clone(), Arc::clone(it))).collect();
    changes.extend(sent.keys().filter(|it| !usable.contains_key(*it)).cloned().map(Change::Remove));
    *sent = usable;
    changes
}

impl Stream for Feed {
    type Item = Result<Item, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::watch;

    use super::*;

    /// Builds endpoints from names and the last part of their addresses; a leading `-` means not
    /// usable.
    fn set(endpoints: &[(&str, u8)]) -> Arc<EndpointSet> {
        let endpoint = |(name, last): &(&str, u8)| {
            let usable = !name.starts_with('-');
            Arc::new(Endpoint {
                id: EndpointId::new(name.trim_start_matches('-')),
                addresses: vec![([127, 0, 0, *last], 80).into()],
                usable,
                ready: usable,
                serving: true,
                terminating: !usable,
                zone: None,
                node: None,
                pod: None,
                weight: 1,
            })
        };
        let endpoints = endpoints.iter().map(endpoint).collect();
        Arc::new(EndpointSet { generation: 1, endpoints, unavailable: None })
    }

    fn drain(feed: &mut Feed) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(Some(Ok(change))) = feed.next().now_or_never() {
            sent.push(match change {
                Change::Insert(id, endpoint) => format!("+{id} {}", endpoint.addresses[0].ip()),
                Change::Remove(id) => format!("-{id}"),
            });
        }
        sent
    }

    #[test]
    fn insertions_come_before_removals() {
        let (sender, receiver) = watch::channel(set(&[("a", 1), ("b", 2), ("-c", 3)]));
        let mut feed = Feed::new(EndpointWatch::of(receiver));
        assert_eq!(drain(&mut feed), ["+a 127.0.0.1", "+b 127.0.0.2"]);
        sender.send_replace(set(&[("a", 1), ("-b", 2), ("c", 3)]));
        assert_eq!(drain(&mut feed), ["+c 127.0.0.3", "-b"]);
        sender.send_replace(set(&[("a", 9), ("c", 3)]));
        assert_eq!(drain(&mut feed), ["+a 127.0.0.9"], "a changed address should be inserted again");
        sender.send_replace(set(&[]));
        assert_eq!(drain(&mut feed), ["-a", "-c"]);
        drop(sender);
        assert!(matches!(feed.next().now_or_never(), Some(None)), "the feed should end with its watch");
    }

    #[tokio::test]
    async fn a_tonic_channel_gets_changes_until_it_is_dropped() {
        let (sender, receiver) = watch::channel(set(&[("a", 1)]));
        let (channel, mut changes) = mpsc::channel(1);
        let feeding = tokio::spawn(Feed::new(EndpointWatch::of(receiver)).send_to(channel, Feed::plain));
        let Some(TonicChange::Insert(id, endpoint)) = changes.recv().await else {
            panic!("expected an insertion")
        };
        assert_eq!((id.as_str(), endpoint.uri().to_string().as_str()), ("a", "http://127.0.0.1:80/"));
        sender.send_replace(set(&[]));
        assert!(matches!(changes.recv().await, Some(TonicChange::Remove(_))));
        drop(changes);
        feeding.await.expect("the task ends without a panic");
    }
}
