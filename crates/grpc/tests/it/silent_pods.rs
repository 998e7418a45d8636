//! Pods that fall silent: their sockets are open, and nothing is sent on them. Only a ping detects
//! it.

use std::time::Duration;

use dogwatch_grpc::{ConnectionState, KubeChannel, LeastRequest, Policy, Retry};
use tonic::Code;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, black_hole, connected, endpoint, full_accept_queue, until};
use crate::traffic::{CallOutcome, Traffic};

/// The detection time of the default keep-alive: a ping after 30 s, and 10 s for its response.
const DETECTED: Duration = Duration::from_secs(40);

/// Sends ten calls per second for a minute and a half, to five pods of which one falls silent after
/// the first second.
async fn calls_with_a_silent_pod(policy: impl Into<Policy>, retry: Option<Retry>) -> Vec<CallOutcome> {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(5).await;
    let mut builder = KubeChannel::builder(Service::of(&pods).receiver()).policy(policy);
    if let Some(retry) = retry {
        builder = builder.retry(retry);
    }
    let channel = builder.build().unwrap();
    connected(&channel, 5).await;
    let silent = pods[0].address;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    traffic.issue(10);
    traffic.settled().await;
    pods[0].freeze().await;
    for _ in 0..90 {
        for _ in 0..10 {
            let sent = |it: &KubeChannel| it.endpoints().iter().map(|it| it.calls).sum::<u64>();
            let before = sent(&channel);
            traffic.issue(1);
            // All pods but the silent one have answered, so that pings are answered in time.
            let quiet = |it: &KubeChannel| {
                it.endpoints().iter().all(|it| it.in_flight == 0 || it.endpoint.addresses == [silent])
            };
            until(&channel, |it| sent(it) > before && quiet(it)).await;
        }
        clock.advance(STEP).await;
    }
    clock.until(|| traffic.pending() == 0).await;
    let statuses = channel.endpoints();
    let of = statuses.iter().find(|it| it.endpoint.addresses == [silent]).unwrap();
    assert!(matches!(of.state, ConnectionState::Connecting | ConnectionState::Backoff), "{of:?}");
    assert!(statuses.iter().filter(|it| it.endpoint.addresses != [silent]).all(|it| it.failures == 0));
    traffic.outcomes()
}

fn slow(outcomes: &[CallOutcome]) -> usize {
    outcomes.iter().filter(|it| it.took > Duration::ZERO).count()
}

/// With round robin, a fifth of the calls reach the silent pod until it is detected. Calls that may
/// be retried are, and no call takes longer than the detection.
#[tokio::test]
async fn a_silent_pod_is_detected_by_a_ping_and_its_calls_are_retried_if_allowed() {
    let outcomes = calls_with_a_silent_pod(Policy::RoundRobin, Some(Retry::default())).await;
    assert!(outcomes.iter().all(|it| it.failure.is_none()), "{outcomes:?}");
    let longest = outcomes.iter().map(|it| it.took).max().unwrap();
    assert!(longest <= DETECTED + 3 * STEP, "{longest:?}");
    assert!(
        (60..=90).contains(&slow(&outcomes)),
        "expected two per second until the detection: {}",
        slow(&outcomes)
    );
}

#[tokio::test]
async fn calls_to_a_silent_pod_fail_once_it_is_detected_without_retries() {
    let outcomes = calls_with_a_silent_pod(Policy::RoundRobin, None).await;
    for outcome in outcomes.iter().filter(|it| it.took > Duration::ZERO) {
        let status = outcome.failure.as_ref().expect("the call should fail");
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(outcome.took <= DETECTED + 3 * STEP, "{outcome:?}");
    }
    assert!(outcomes.iter().all(|it| it.failure.is_none() || it.took > Duration::ZERO));
    assert!((60..=90).contains(&slow(&outcomes)), "{}", slow(&outcomes));
}

/// A policy that counts calls in flight avoids a pod that does not answer: more than 99 of 100
/// calls never reach it.
#[tokio::test]
async fn least_request_avoids_a_silent_pod() {
    let outcomes = calls_with_a_silent_pod(LeastRequest::default(), Some(Retry::default())).await;
    assert!(outcomes.iter().all(|it| it.failure.is_none()), "{outcomes:?}");
    assert!(slow(&outcomes) * 100 <= outcomes.len(), "{} of {}", slow(&outcomes), outcomes.len());
}

/// The kernel accepts connections for a listener whose process hangs, until its queue is full; a
/// pod is not called before it has answered.
#[tokio::test]
async fn a_pod_that_never_answers_is_never_called() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(4).await;
    let ((_listener, hole), (_guests, full)) = (black_hole(), full_accept_queue());
    let service = Service::of(&pods);
    service.add(endpoint("hole", hole));
    service.add(endpoint("full", full));
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().build().unwrap();
    connected(&channel, 4).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    for _ in 0..60 {
        traffic.issue(4);
        traffic.settled().await;
        clock.advance(STEP).await;
    }
    assert!(traffic.failures().is_empty() && slow(&traffic.outcomes()) == 0);
    assert!(pods.iter().all(|it| it.seen.calls() == 60));
    for silent in
        channel.endpoints().into_iter().filter(|it| [hole, full].contains(&it.endpoint.addresses[0]))
    {
        assert_eq!(silent.calls, 0);
        assert_eq!(silent.error.as_deref(), Some("no connection within 20s"), "{silent:?}");
    }
}
