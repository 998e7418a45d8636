//! A rolling restart of ten pods under an open-loop load, with a long stream on the first pod to be
//! replaced: no call fails.
//!
//! The pod with the stream is stopped like the others and finishes the stream first, as a server
//! does. Its endpoint is marked as terminating, and is removed from the slices in the middle of the
//! stream.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::asking::Asking;
use super::load::Outcome;
use super::pods::{Pod, Street, addresses};
use super::promises::Promises;
use super::town::{Listed, Town};
use super::wishes::{Standing, Streamed};

const PODS: usize = 10;
const RATE: u32 = 5_000;
/// The interval between two messages of the stream.
const EVERY: Duration = Duration::from_millis(500);
/// The pause between two steps of replacing one pod.
const BEAT: Duration = Duration::from_millis(100);
/// The pause before the first pod is replaced, and after the last one.
const REST: Duration = Duration::from_secs(1);
/// The numbers of replaced pods after which the caller surely knows that the first pod is
/// terminating, and after which half of the stream is over.
const A_WHILE: usize = 2;
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
pub(super) async fn play(order: Order, stream: Duration, promises: &mut Promises) -> Result<()> {
    println!("rollout of {PODS} pods, {order}; a stream of {} s", stream.as_secs());
    let mut deployment = Deployment::start().await?;
    let mut caller = Asking::start()?;
    caller.connect(&deployment.town, PODS).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    let messages = (stream.as_millis() / EVERY.as_millis()) as u64;
    caller.stream(messages, EVERY).await?;
    let carrier = deployment.carrier().context("no pod has the stream")?;
    let parting = deployment.roll(order, carrier, stream).await?;
    let streamed = caller.streamed().await?;
    sleep(REST).await;
    let outcome = caller.end().await?;
    let (standings, replaced) = caller.settled(&deployment.replaced()).await?;
    caller.dismiss().await?;
    let seen = Seen { deployment, carrier, parting, outcome, streamed, messages, standings, replaced };
    seen.print();
    seen.judge(promises);
    Ok(())
}

/// The state of a pod in the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Ready,
    Terminating,
}

/// The old pods, then the new ones, and the published state of each.
struct Deployment {
    town: Town,
    port: u16,
    pods: Vec<Pod>,
    said: Vec<Said>,
}

impl Deployment {
    async fn start() -> Result<Self> {
        let street = Street::open(&addresses(2 * PODS))?;
        let (port, town) = (street.port, Town::start(street.port).await?);
        let said = [[Said::Ready; PODS], [Said::Nothing; PODS]].concat();
        let deployment = Self { town, port, pods: street.pods(), said };
        for slice in 0..SLICES {
            deployment.write(slice).await?;
        }
        Ok(deployment)
    }

    /// Replaces all pods one by one in about `time`, beginning with the one with the stream.
    /// Returns the number of calls of that pod after it has been terminating for a while.
    async fn roll(&mut self, order: Order, carrier: usize, time: Duration) -> Result<u64> {
        let (began, step) = (Instant::now(), time / PODS as u32);
        let mut parting = 0;
        for (turn, old) in leaving(carrier).into_iter().enumerate() {
            match turn {
                A_WHILE => parting = self.pods[carrier].seen.calls(),
                HALF => self.say(carrier, Said::Nothing).await?,
                _ => {}
            }
            self.say(PODS + turn, Said::Ready).await?;
            sleep(BEAT).await;
            if order == Order::Racing {
                self.pods[old].stop();
                sleep(BEAT).await;
            }
            self.say(old, Said::Terminating).await?;
            sleep(BEAT).await;
            if order == Order::Announced {
                self.pods[old].stop();
                sleep(BEAT).await;
            }
            if old != carrier {
                self.say(old, Said::Nothing).await?;
            }
            sleep_until(began + step * (turn as u32 + 1)).await;
        }
        Ok(parting)
    }

    async fn say(&mut self, pod: usize, said: Said) -> Result<()> {
        self.said[pod] = said;
        self.write(pod % SLICES).await
    }

    async fn write(&self, slice: usize) -> Result<()> {
        let here = |number: &usize| number % SLICES == slice && self.said[*number] != Said::Nothing;
        let listed: Vec<_> = (0..self.pods.len()).filter(here).map(|it| self.listed(it)).collect();
        self.town.write(slice, &listed).await
    }

    fn listed(&self, pod: usize) -> Listed {
        let terminating = self.said[pod] == Said::Terminating;
        Listed { id: format!("pod-{pod:02}"), address: self.pods[pod].address, terminating }
    }

    /// Returns the pod with the stream.
    fn carrier(&self) -> Option<usize> {
        self.pods.iter().position(|it| it.seen.streams() > 0)
    }

    /// Returns the expected endpoints after the rollout.
    fn replaced(&self) -> BTreeMap<String, SocketAddr> {
        let pod = |it| (self.listed(it).id, SocketAddr::from((self.pods[it].address, self.port)));
        (PODS..2 * PODS).map(pod).collect()
    }

    fn calls(&self) -> Vec<u64> {
        self.pods.iter().map(|it| it.seen.calls()).collect()
    }
}

/// Returns the order in which pods are replaced: the one with the stream is the first.
fn leaving(carrier: usize) -> Vec<usize> {
    [carrier].into_iter().chain((0..PODS).filter(|it| *it != carrier)).collect()
}

/// The results of the scenario.
struct Seen {
    deployment: Deployment,
    carrier: usize,
    /// The number of calls of the pod with the stream, after it had been terminating for a while.
    parting: u64,
    outcome: Outcome,
    streamed: Streamed,
    messages: u64,
    standings: Vec<Standing>,
    replaced: bool,
}

impl Seen {
    fn print(&self) {
        println!("  {}", self.outcome);
        let range = |calls: &[u64]| {
            format!("{} to {}", calls.iter().min().unwrap_or(&0), calls.iter().max().unwrap_or(&0))
        };
        let calls = self.deployment.calls();
        let (old, new) = calls.split_at(PODS);
        println!("  calls by pod: {} on old pods, {} on new pods", range(old), range(new));
        let Streamed { messages, seconds, why } = &self.streamed;
        let why = why.as_ref().map_or(String::new(), |it| format!("; it failed: {it}"));
        let address = self.deployment.pods[self.carrier].address;
        println!("  stream: {messages} of {} messages in {seconds:.1} s, on {address}{why}", self.messages);
    }

    fn judge(&self, promises: &mut Promises) {
        let (outcome, calls) = (&self.outcome, self.deployment.calls());
        promises.add(outcome.failed == 0, "no call failed");
        promises.add(outcome.lost == 0, "no call was lost");
        let carried: u64 = calls.iter().sum();
        let answered = outcome.answered();
        promises.add(
            carried == answered,
            &format!("the pods served as many calls as were answered ({carried} and {answered})"),
        );
        let idle = calls.iter().filter(|it| **it == 0).count();
        promises.add(idle == 0, &format!("every pod got calls ({idle} got none)"));
        let whole = self.streamed.messages == self.messages && self.streamed.why.is_none();
        let streams: u64 = self.deployment.pods.iter().map(|it| it.seen.streams()).sum();
        promises.add(whole && streams == 1, "the stream ran to its end on the pod where it started");
        let late = calls[self.carrier] - self.parting;
        promises.add(late == 0, &format!("its terminating pod got no other calls ({late})"));
        promises.add(self.replaced, "the channel is connected to exactly the new pods");
        let failures: u64 = self.standings.iter().map(|it| it.failures).sum();
        promises.add(failures == 0, "the channel counts no failures of the new pods");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_with_the_stream_is_replaced_first_and_every_other_pod_once() {
        assert_eq!(leaving(3), [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(leaving(0), (0..PODS).collect::<Vec<_>>());
    }

    #[test]
    fn the_stream_is_longer_than_the_steps_of_replacing_its_pod() {
        // Half of the shortest stream is longer than the time until its pod is stopped.
        assert!(Duration::from_secs(6) / 2 > 3 * BEAT);
        // The steps of one pod fit into its share of the shortest rollout.
        assert!(Duration::from_secs(6) / PODS as u32 > 3 * BEAT);
    }
}
