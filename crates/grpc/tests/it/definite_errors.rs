//! Calls with a definite error: they fail soon, with the reason, because waiting does not help.

use std::time::Duration;

use dogwatch_grpc::{KubeChannel, Unavailable, WaitForReady};
use tokio::time::Instant;
use tonic::{Code, Request, Status};

use crate::echo::{EchoClient, message};
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, endpoints, until};

/// Makes a call while time passes; returns its status and its duration.
async fn call(clock: &ManualClock, channel: &KubeChannel) -> (Status, Duration) {
    let (client, began) = (EchoClient::new(channel), Instant::now());
    let call = tokio::spawn(async move { (client.one("hello").await, began.elapsed()) });
    clock.until(|| call.is_finished()).await;
    let (answer, took) = call.await.unwrap();
    (answer.expect_err("the call should fail"), took)
}

#[tokio::test]
async fn calls_to_a_service_that_does_not_exist_fail_within_seconds_and_others_wait() {
    let clock = ManualClock::begin();
    for (why, soon) in [
        (Unavailable::ServiceNotFound, true),
        (Unavailable::Forbidden("no".into()), true),
        (Unavailable::ExternalName("db.example.com".into()), true),
        (Unavailable::AmbiguousPort(vec!["a".into(), "b".into()]), true),
        (Unavailable::NoEndpoints, false),
        (Unavailable::NothingReady(3), false),
        (Unavailable::ApiUnreachable("no route".into()), false),
    ] {
        let service = Service::new();
        service.unavailable(why.clone());
        let channel = service.channel();
        let (status, took) = call(&clock, &channel).await;
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().ends_with(&why.to_string()), "{status}");
        let expected = if soon { STEP..6 * STEP } else { 10 * STEP..16 * STEP };
        assert!(expected.contains(&took), "{why}: after {took:?}");
        // Later calls do not wait at all.
        let (_, took) = call(&clock, &channel).await;
        assert!(took < 5 * STEP, "{why}: after {took:?}");
    }
}

/// The service is created a moment after the first call.
#[tokio::test]
async fn a_call_succeeds_if_the_missing_service_is_created_within_the_grace_period() {
    let _clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    service.unavailable(Unavailable::ServiceNotFound);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    let call = tokio::spawn(async move { client.one("hello").await });
    tokio::task::yield_now().await;
    service.set(endpoints(&pods));
    until(&channel, |it| it.ready_endpoints() == 1).await;
    call.await.unwrap().unwrap();
}

/// A Service that is deleted and created again is missing for a moment: a channel that had
/// endpoints waits for them.
#[tokio::test]
async fn once_there_were_endpoints_calls_wait_whatever_the_reason() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let service = Service::of(&pods);
    let channel = service.channel();
    until(&channel, |it| it.ready_endpoints() == 1).await;
    service.unavailable(Unavailable::ServiceNotFound);
    until(&channel, |it| it.ready_endpoints() == 0).await;
    let (status, took) = call(&clock, &channel).await;
    assert!(status.message().ends_with("there is no such service"), "{status}");
    assert!((9 * STEP..16 * STEP).contains(&took), "after {took:?}");
}

#[tokio::test]
async fn a_call_with_wait_for_ready_waits_until_its_deadline() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    service.unavailable(Unavailable::ServiceNotFound);
    let channel = service.channel();
    let call = |timeout: Option<Duration>| {
        let (client, mut request) = (EchoClient::new(&channel), Request::new(message("hello", 0)));
        request.extensions_mut().insert(WaitForReady);
        timeout.into_iter().for_each(|it| request.set_timeout(it));
        tokio::spawn(async move { client.ask(request).await })
    };
    let (bounded, unbounded) = (call(Some(20 * STEP)), call(None));
    let took = clock.until(|| bounded.is_finished()).await;
    assert!(took >= 20 * STEP, "{took:?}");
    assert_eq!(bounded.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    clock.advance(600 * STEP).await;
    assert!(!unbounded.is_finished());
    service.set(endpoints(&pods));
    until(&channel, |it| it.ready_endpoints() == 1).await;
    unbounded.await.unwrap().unwrap();
}
