//! An observer of a channel, which does not keep it alive.

use std::fmt;
use std::sync::Weak;

use super::channel_state::{ChannelState, EndpointStatus};
use crate::policy::Policy;

/// A channel at one moment, for debugging.
///
/// ```
/// use dogwatch_grpc::{ChannelStats, KubeChannel};
///
/// fn line(stats: &ChannelStats) -> String {
///     let problem = stats.problem.as_deref().unwrap_or("ok");
///     format!("{}: {} of {} ready, {problem}", stats.target, stats.ready, stats.endpoints.len())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = KubeChannel::to(["127.0.0.1:9"])?.lazy().build()?;
/// let stats = channel.monitor().stats().expect("the channel is open");
/// println!("{}", line(&stats));
/// assert_eq!(stats.ready, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChannelStats {
    /// The target, as in the label `target` of the metrics.
    pub target: String,
    /// The number of endpoints that can be picked now.
    pub ready: usize,
    /// The reason why no endpoint can be picked; `None` while one can.
    pub problem: Option<String>,
    /// True if the latencies of the endpoints are measured, which one policy needs.
    pub measures_latency: bool,
    /// The endpoints: see [`KubeChannel::endpoints`](crate::KubeChannel::endpoints).
    pub endpoints: Vec<EndpointStatus>,
}

/// Reads the state of a channel without keeping it open.
///
/// ```
/// use dogwatch_grpc::KubeChannel;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = KubeChannel::to(["127.0.0.1:9"])?.lazy().build()?;
/// let monitor = channel.monitor();
/// let stats = monitor.stats().expect("the channel is open");
/// assert_eq!(stats.ready, 0);
/// drop(channel);
/// assert!(monitor.stats().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ChannelMonitor(Weak<dyn Observed>);

/// The handle of a channel, as far as a monitor knows it.
pub(super) trait Observed: Send + Sync {
    fn channel(&self) -> &ChannelState;
}

impl ChannelMonitor {
    pub(super) fn new(handle: Weak<dyn Observed>) -> Self {
        Self(handle)
    }

    /// Returns the state of the channel. Returns `None` once its last clone was dropped and no call
    /// waits for a response.
    pub fn stats(&self) -> Option<ChannelStats> {
        let handle = self.0.upgrade()?;
        let channel = handle.channel();
        let snapshot = channel.snapshot.load();
        Some(ChannelStats {
            target: channel.metrics.target().to_owned(),
            ready: snapshot.group.len(),
            problem: snapshot.unready.as_ref().map(|it| it.why.to_string()),
            measures_latency: matches!(channel.settings.policy, Policy::PeakEwma(_)),
            endpoints: channel.members.load().iter().map(EndpointStatus::of).collect(),
        })
    }
}

impl PartialEq for ChannelMonitor {
    /// True for monitors of one channel.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

impl Eq for ChannelMonitor {}

impl fmt::Debug for ChannelMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelMonitor").finish_non_exhaustive()
    }
}
