//! A rolling restart of ten pods under an open-loop load, with a long stream on the first pod to be
//! replaced: no call fails.
//!
//! The pod with the stream is stopped like the others and finishes the stream first, as a server
//! does. Its endpoint is marked as terminating, and is removed from the slices in the middle of the
//! stream.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use grpc_testkit::{Pod, addresses, listeners_on_one_port};
use tokio::time::{Instant, sleep, sleep_until};

use super::caller_process::CallerProcess;
use super::checks::Checks;
use super::commands::{EndpointState, StreamOutcome};
use super::echo::CallCounts;
use super::load::Outcome;
use super::test_cluster::{SlicePod, TestCluster};

const PODS: usize = 10;
const RATE: u32 = 5_000;
/// The interval between two messages of the stream.
const EVERY: Duration = Duration::from_millis(500);
/// The pause between two steps of replacing one pod.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// The pause before the first pod is replaced, and after the last one.
const REST: Duration = Duration::from_secs(1);
/// The numbers of replaced pods after which the caller surely knows that the first pod is
/// terminating, and after which half of the stream is over.
const TERMINATION_SEEN: usize = 2;
const HALF: usize = PODS / 2;
/// The number of slices.
const SLICES: usize = 2;

/// The order in which a pod is marked as terminating in the slices and stops. Both orders happen in
/// a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Announced,
    Racing,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Announced => "terminating, then stopped, then deleted",
            Self::Racing => "stopped before the slices are updated",
        })
    }
}

/// Replaces all pods during a stream of this length, prints the results and judges them.
///
/// # Errors
/// If the scenario cannot run.
pub(super) async fn run(order: Order, stream: Duration, checks: &mut Checks) -> Result<()> {
    println!("rollout of {PODS} pods, {order}; a stream of {} s", stream.as_secs());
    let mut deployment = Deployment::start().await?;
    let mut caller = CallerProcess::start()?;
    caller.connect(&deployment.cluster, PODS).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    let messages = (stream.as_millis() / EVERY.as_millis()) as u64;
    caller.stream(messages, EVERY).await?;
    let stream_pod = deployment.stream_pod().context("no pod has the stream")?;
    let calls_when_terminating = deployment.roll(order, stream_pod, stream).await?;
    let stream_outcome = caller.end_stream().await?;
    sleep(REST).await;
    let outcome = caller.end().await?;
    let (states, replaced) = caller.wait_for_endpoints(&deployment.replaced()).await?;
    caller.shut_down().await?;
    let seen = RolloutResult {
        deployment,
        stream_pod,
        calls_when_terminating,
        outcome,
        stream_outcome,
        messages,
        states,
        replaced,
    };
    seen.print();
    seen.judge(checks);
    Ok(())
}

/// The state of a pod in the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    Nothing,
    Ready,
    Terminating,
}

/// The old pods, then the new ones, and the published state of each.
struct Deployment {
    cluster: TestCluster,
    pods: Vec<Pod<CallCounts>>,
    published: Vec<Published>,
}

impl Deployment {
    async fn start() -> Result<Self> {
        let listeners = listeners_on_one_port(&addresses(2 * PODS))?;
        let pods = listeners.into_iter().map(|it| Pod::on_current_runtime([it]));
        let pods = pods.collect::<io::Result<Vec<_>>>()?;
        let cluster = TestCluster::start(pods[0].address.port()).await?;
        let published = [[Published::Ready; PODS], [Published::Nothing; PODS]].concat();
        let deployment = Self { cluster, pods, published };
        for slice in 0..SLICES {
            deployment.write(slice).await?;
        }
        Ok(deployment)
    }

    /// Replaces all pods one by one in about `time`, beginning with the one with the stream.
    /// Returns the number of calls of that pod after it has been terminating for a while.
    async fn roll(&mut self, order: Order, stream_pod: usize, time: Duration) -> Result<u64> {
        let (began, step) = (Instant::now(), time / PODS as u32);
        let mut calls_when_terminating = 0;
        for (turn, old) in replacement_order(stream_pod).into_iter().enumerate() {
            match turn {
                TERMINATION_SEEN => calls_when_terminating = self.pods[stream_pod].seen.calls(),
                HALF => self.publish(stream_pod, Published::Nothing).await?,
                _ => {}
            }
            self.publish(PODS + turn, Published::Ready).await?;
            sleep(STEP_PAUSE).await;
            if order == Order::Racing {
                self.pods[old].terminate();
                sleep(STEP_PAUSE).await;
            }
            self.publish(old, Published::Terminating).await?;
            sleep(STEP_PAUSE).await;
            if order == Order::Announced {
                self.pods[old].terminate();
                sleep(STEP_PAUSE).await;
            }
            if old != stream_pod {
                self.publish(old, Published::Nothing).await?;
            }
            sleep_until(began + step * (turn as u32 + 1)).await;
        }
        Ok(calls_when_terminating)
    }

    async fn publish(&mut self, pod: usize, published: Published) -> Result<()> {
        self.published[pod] = published;
        self.write(pod % SLICES).await
    }

    async fn write(&self, slice: usize) -> Result<()> {
        let here = |number: &usize| number % SLICES == slice && self.published[*number] != Published::Nothing;
        let listed: Vec<_> = (0..self.pods.len()).filter(here).map(|it| self.listed(it)).collect();
        self.cluster.write(slice, &listed).await
    }

    fn listed(&self, pod: usize) -> SlicePod {
        let terminating = self.published[pod] == Published::Terminating;
        SlicePod { id: format!("pod-{pod:02}"), address: self.pods[pod].address.ip(), terminating }
    }

    /// Returns the pod with the stream.
    fn stream_pod(&self) -> Option<usize> {
        self.pods.iter().position(|it| it.seen.streams() > 0)
    }

    /// Returns the expected endpoints after the rollout.
    fn replaced(&self) -> BTreeMap<String, SocketAddr> {
        let pod = |it| (self.listed(it).id, self.pods[it].address);
        (PODS..2 * PODS).map(pod).collect()
    }

    fn calls(&self) -> Vec<u64> {
        self.pods.iter().map(|it| it.seen.calls()).collect()
    }
}

/// Returns the order in which pods are replaced: the one with the stream is the first.
fn replacement_order(stream_pod: usize) -> Vec<usize> {
    [stream_pod].into_iter().chain((0..PODS).filter(|it| *it != stream_pod)).collect()
}

/// The results of the scenario.
struct RolloutResult {
    deployment: Deployment,
    stream_pod: usize,
    /// The number of calls of the pod with the stream, after it had been terminating for a while.
    calls_when_terminating: u64,
    outcome: Outcome,
    stream_outcome: StreamOutcome,
    messages: u64,
    states: Vec<EndpointState>,
    replaced: bool,
}

impl RolloutResult {
    fn print(&self) {
        println!("  {}", self.outcome);
        let range = |calls: &[u64]| {
            format!("{} to {}", calls.iter().min().unwrap_or(&0), calls.iter().max().unwrap_or(&0))
        };
        let calls = self.deployment.calls();
        let (old, new) = calls.split_at(PODS);
        println!("  calls by pod: {} on old pods, {} on new pods", range(old), range(new));
        let StreamOutcome { messages, seconds, why } = &self.stream_outcome;
        let why = why.as_ref().map_or(String::new(), |it| format!("; it failed: {it}"));
        let address = self.deployment.pods[self.stream_pod].address.ip();
        println!("  stream: {messages} of {} messages in {seconds:.1} s, on {address}{why}", self.messages);
    }

    fn judge(&self, checks: &mut Checks) {
        let (outcome, calls) = (&self.outcome, self.deployment.calls());
        checks.add(outcome.failed == 0, "no call failed");
        checks.add(outcome.lost == 0, "no call was lost");
        let carried: u64 = calls.iter().sum();
        let answered = outcome.answered();
        checks.add(
            carried == answered,
            &format!("the pods served as many calls as were answered ({carried} and {answered})"),
        );
        let idle = calls.iter().filter(|it| **it == 0).count();
        checks.add(idle == 0, &format!("every pod got calls ({idle} got none)"));
        let whole = self.stream_outcome.messages == self.messages && self.stream_outcome.why.is_none();
        let streams: u64 = self.deployment.pods.iter().map(|it| it.seen.streams()).sum();
        checks.add(whole && streams == 1, "the stream ran to its end on the pod where it started");
        let late = calls[self.stream_pod] - self.calls_when_terminating;
        checks.add(late == 0, &format!("its terminating pod got no other calls ({late})"));
        checks.add(self.replaced, "the channel is connected to exactly the new pods");
        let failures: u64 = self.states.iter().map(|it| it.failures).sum();
        checks.add(failures == 0, "the channel counts no failures of the new pods");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_with_the_stream_is_replaced_first_and_every_other_pod_once() {
        assert_eq!(replacement_order(3), [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(replacement_order(0), (0..PODS).collect::<Vec<_>>());
    }

    #[test]
    fn the_stream_is_longer_than_the_steps_of_replacing_its_pod() {
        // Half of the shortest stream is longer than the time until its pod is stopped.
        assert!(Duration::from_secs(6) / 2 > 3 * STEP_PAUSE);
        // The steps of one pod fit into its share of the shortest rollout.
        assert!(Duration::from_secs(6) / PODS as u32 > 3 * STEP_PAUSE);
    }
}
