//! The handle that clients of the `grpc` crate hold.

use grpc::client::{CallOptions, Invoke};
use grpc::core::RequestHeaders;
use tokio::sync::oneshot;

use super::call_setup::CallSetup;
use super::head::Head;
use super::recv_stream::KubeRecvStream;
use super::send_stream::KubeSendStream;
use crate::channel::KubeChannel;
use crate::dial::{self, DialError};

/// The default limit of received messages: gRPC's own default in every language.
const LARGEST_RECEIVED: usize = 4 << 20;

/// A channel to all endpoints of a target, for any client generated for the `grpc` crate.
///
/// Clones share everything, also with the [`KubeChannel`] inside: endpoints, connections, retries
/// of calls that no server has processed, and the count of calls in flight. Messages are not
/// compressed.
///
/// A call is sent with its first message, or as soon as its response is requested; it waits for an
/// endpoint inside the channel, as that channel's calls do. It must be made on a tokio runtime.
/// Failures are statuses, whose trailers name the endpoint as `dogwatch-endpoint`.
///
/// ```
/// use dogwatch_grpc::KubeChannel;
/// use dogwatch_grpc::invoke::KubeInvoke;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.build()?;
/// let channel = KubeInvoke::new(channel).largest_received(16 << 20);
/// // let client = GreeterClient::new(channel);
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KubeInvoke {
    channel: KubeChannel,
    largest_sent: usize,
    largest_received: usize,
}

impl KubeInvoke {
    /// Creates a client whose calls go to the endpoints of this channel.
    pub fn new(channel: KubeChannel) -> Self {
        Self { channel, largest_sent: usize::MAX, largest_received: LARGEST_RECEIVED }
    }

    /// Sets the maximum size of a sent message in bytes; a call with a larger one ends with
    /// `RESOURCE_EXHAUSTED`. Defaults to gRPC's maximum.
    #[must_use]
    pub fn largest_sent(mut self, bytes: usize) -> Self {
        self.largest_sent = bytes;
        self
    }

    /// Sets the maximum size of a received message in bytes; a response with a larger one ends with
    /// `RESOURCE_EXHAUSTED`. Defaults to 4 MiB.
    #[must_use]
    pub fn largest_received(mut self, bytes: usize) -> Self {
        self.largest_received = bytes;
        self
    }

    /// Returns the channel that carries the calls, for inspection.
    pub fn channel(&self) -> &KubeChannel {
        &self.channel
    }
}

impl From<KubeChannel> for KubeInvoke {
    fn from(channel: KubeChannel) -> Self {
        Self::new(channel)
    }
}

impl Invoke for KubeInvoke {
    type SendStream = KubeSendStream;
    type RecvStream = KubeRecvStream;

    async fn invoke(
        &self,
        headers: RequestHeaders,
        options: CallOptions,
    ) -> (KubeSendStream, KubeRecvStream) {
        let setup = match Head::new(headers, &options) {
            Ok(head) => CallSetup::new(self.channel.clone(), head),
            Err(why) => CallSetup::failed(why),
        };
        let (sender, receiver) = oneshot::channel();
        let sending = KubeSendStream::new(setup.clone(), sender, self.largest_sent);
        (sending, KubeRecvStream::new(setup, receiver, self.largest_received))
    }
}

/// Creates a channel to a target for clients of the `grpc` crate, as
/// [`dogwatch_grpc::channel`](crate::channel) does for tonic's.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = dogwatch_grpc::invoke::channel("kubernetes:///greeter.shop:grpc").await?;
/// // let client = GreeterClient::new(channel);
/// // let reply = client.say_hello(request).await;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The same as those of [`dogwatch_grpc::channel`](crate::channel).
pub async fn channel(target: &str) -> Result<KubeInvoke, DialError> {
    dial::channel(target).await.map(KubeInvoke::new)
}
