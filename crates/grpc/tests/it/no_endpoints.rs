//! Sets without endpoints: calls report the reason, and continue as soon as there are endpoints.

use std::time::Duration;

use dogwatch_grpc::{KubeChannel, Unavailable};
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, connected, endpoint, endpoints, refused, until};

#[tokio::test]
async fn an_empty_set_fails_calls_with_the_reason_and_recovers() {
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    let impatient =
        KubeChannel::builder(service.receiver()).authority("echo.test").ready_timeout(Duration::ZERO);
    let channel = impatient.build().unwrap();
    let client = EchoClient::new(&channel);
    let reasons = [
        (Unavailable::ServiceNotFound, "echo.test cannot be called: there is no such service"),
        (Unavailable::NothingReady(3), "echo.test cannot be called: none of its 3 endpoints is ready"),
        (
            Unavailable::Forbidden("no".into()),
            "echo.test cannot be called: its endpoints may not be read: no",
        ),
    ];
    for (why, expected) in reasons {
        let mut changed = channel.subscribe();
        changed.mark_unchanged();
        service.unavailable(why);
        changed.changed().await.unwrap();
        let status = client.one("hello").await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unavailable, expected));
    }
    service.set(endpoints(&pods));
    connected(&channel, 1).await;
    client.one("hello").await.unwrap();
}

#[tokio::test]
async fn a_call_waits_for_endpoints() {
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    let channel =
        KubeChannel::builder(service.receiver()).ready_timeout(Duration::from_secs(600)).build().unwrap();
    let client = EchoClient::new(&channel);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.one("hello").await }
    });
    tokio::task::yield_now().await;
    service.set(endpoints(&pods));
    waiting.await.unwrap().unwrap();
    // The deadline of a call also applies while it waits.
    service.set(Vec::new());
    until(&channel, |it| it.ready_endpoints() == 0).await;
    let mut request = Request::new(message("hello", 0));
    request.set_timeout(Duration::from_millis(10));
    let status = client.ask(request).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().ends_with("none of its 0 endpoints is ready"), "{}", status.message());
}

#[tokio::test]
async fn if_no_endpoint_is_reachable_calls_report_the_last_error() {
    let (_held, dead) = refused();
    let service = Service::new();
    service.set(vec![endpoint("dead", dead)]);
    let channel = KubeChannel::builder(service.receiver()).ready_timeout(Duration::ZERO).build().unwrap();
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.error.is_some())).await;
    let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let expected =
        format!("none of its 1 endpoints is connected: cannot connect to {dead}: Connection refused");
    assert!(status.message().contains(&expected), "{}", status.message());
}

/// The wrong object was deleted: for a while calls continue, and then the change is applied.
#[tokio::test]
async fn a_set_that_becomes_empty_is_held_back_for_the_configured_time() {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let builder = KubeChannel::builder(service.receiver()).no_keep_alive().ready_timeout(Duration::ZERO);
    let channel = builder.hold_when_emptied(Duration::from_secs(30)).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    service.unavailable(Unavailable::NoEndpoints);
    for _ in 0..29 {
        clock.advance(STEP).await;
        client.one("hello").await.unwrap();
    }
    // Another reason does not extend the time.
    service.unavailable(Unavailable::ServiceNotFound);
    clock.until(|| channel.ready_endpoints() == 0).await;
    let status = tokio::join!(client.one("hello"), clock.advance(STEP)).0.unwrap_err();
    assert!(status.message().ends_with("there is no such service"), "{status:?}");

    // A set with usable endpoints is applied at once.
    service.set(endpoints(&pods[..1]));
    connected(&channel, 1).await;
    service.unavailable(Unavailable::NoEndpoints);
    clock.advance(STEP).await;
    service.set(endpoints(&pods[1..]));
    let second = pods[1].address;
    until(&channel, |it| it.endpoints().len() == 1 && it.endpoints()[0].peer == Some(second)).await;
    client.one("hello").await.unwrap();

    // When the held endpoints are gone, there is nothing to hold on to.
    service.unavailable(Unavailable::NoEndpoints);
    pods[1].kill().await;
    until(&channel, |it| it.endpoints().is_empty()).await;
    let status = tokio::join!(client.one("hello"), clock.advance(STEP)).0.unwrap_err();
    assert!(status.message().ends_with("it has no endpoints"), "{status:?}");
}
