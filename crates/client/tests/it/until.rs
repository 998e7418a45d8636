//! Waiting on watches: the upstream scenarios of Until, and waiting for states despite faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::{Api, BoxError, Error, EventCondition, UntilError, in_order, until};
use dogwatch_core::{ListParams, Object, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;

use crate::scripted::{Reply, Script, fails, json, refusal, reply};

type Event = WatchEvent<ConfigMap>;
type Condition = fn(&Event) -> Result<bool, BoxError>;

const MINUTE: Duration = Duration::from_secs(60);

fn object(name: &str, version: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"{version}"}}}}"#)
}

fn event(kind: &str, name: &str, version: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{}}}"#, object(name, version))
}

fn gone() -> String {
    r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}"#
        .to_owned()
}

fn watching(events: &[String]) -> Reply {
    events.iter().fold(reply(200), |all, it| all.chunk(it.clone()))
}

fn listing(version: &str, objects: &[String]) -> Reply {
    json(200, format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#, objects.join(",")))
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a")
}

/// A stream of these events that then stays pending.
fn fed(kinds: &[fn(ConfigMap) -> Event]) -> impl Stream<Item = Result<Event, Error>> + use<> {
    let events: Vec<_> = kinds.iter().map(|it| Ok(it(ConfigMap::default()))).collect();
    stream::iter(events).chain(stream::pending())
}

fn is_added(event: &Event) -> Result<bool, BoxError> {
    Ok(matches!(event, WatchEvent::Added(_)))
}

fn is_modified(event: &Event) -> Result<bool, BoxError> {
    Ok(matches!(event, WatchEvent::Modified(_)))
}

fn is_deleted(event: &Event) -> Result<bool, BoxError> {
    Ok(matches!(event, WatchEvent::Deleted(_)))
}

fn conditions(all: &[Condition]) -> Vec<EventCondition<ConfigMap>> {
    all.iter().map(|it| Box::new(*it) as EventCondition<ConfigMap>).collect()
}

#[tokio::test(start_paused = true)]
async fn until_conditions_are_met_in_order_and_the_last_event_is_returned() {
    let events = fed(&[WatchEvent::Added, WatchEvent::Modified]);
    let met = timeout(MINUTE, until(events, in_order(conditions(&[is_added, is_modified])))).await;
    assert!(matches!(met, Ok(Ok(WatchEvent::Modified(_)))), "{met:?}");
}

#[tokio::test(start_paused = true)]
async fn until_multiple_conditions_may_be_met_by_one_event() {
    let events = fed(&[WatchEvent::Added]);
    let met = timeout(MINUTE, until(events, in_order(conditions(&[is_added, is_added])))).await;
    assert!(matches!(met, Ok(Ok(WatchEvent::Added(_)))), "{met:?}");
}

#[tokio::test(start_paused = true)]
async fn until_multiple_conditions_time_out_if_one_is_never_met() {
    let events = fed(&[WatchEvent::Added]);
    let last = Arc::new(Mutex::new(None));
    let mut all = in_order(conditions(&[is_added, is_added, is_deleted]));
    let seen = Arc::clone(&last);
    let waiting = until(events, move |event| {
        *seen.lock().expect("not poisoned") = Some(event.clone());
        all(event)
    });
    assert!(timeout(Duration::from_secs(10), waiting).await.is_err());
    assert!(matches!(*last.lock().expect("not poisoned"), Some(WatchEvent::Added(_))));
}

#[tokio::test(start_paused = true)]
async fn until_has_no_timeout_unless_the_caller_sets_one() {
    let events = fed(&[WatchEvent::Added, WatchEvent::Modified]);
    let met = until(events, in_order(conditions(&[is_added, is_modified]))).await;
    assert!(matches!(met, Ok(WatchEvent::Modified(_))), "{met:?}");
    let never = until(fed(&[]), |_: &Event| true);
    assert!(timeout(Duration::from_secs(1 << 20), never).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn until_error_condition_ends_the_wait() {
    let events = fed(&[WatchEvent::Added]);
    let bad: EventCondition<ConfigMap> = Box::new(|_| Err("something bad".into()));
    let all: Vec<EventCondition<ConfigMap>> = vec![Box::new(is_added), bad];
    let error = until(events, in_order(all)).await.expect_err("the condition fails");
    let UntilError::Condition(cause) = &error else { panic!("{error:?}") };
    assert_eq!(cause.to_string(), "something bad");
    assert_eq!(error.to_string(), "the condition returned an error");
}

#[tokio::test]
async fn until_a_watch_that_ends_first_is_closed() {
    let error = until(stream::empty(), |_: &Event| true).await.expect_err("nothing came");
    assert!(matches!(error, UntilError::Closed));
    let script = Script::new([watching(&[event("ADDED", "x", "6")])]);
    let events = maps(&script).watch(&WatchParams::after("5")).await.expect("opened");
    assert!(matches!(until(events, is_deleted).await, Err(UntilError::Closed)));
}

/// Neither may be mistaken for an event that did not meet the condition.
#[tokio::test]
async fn until_an_error_event_and_an_undecodable_object_end_the_wait() {
    let script = Script::new([watching(&[gone(), event("ADDED", "x", "6")])]);
    let events = maps(&script).watch(&WatchParams::after("5")).await.expect("opened");
    let Err(UntilError::Watch(error)) = until(events, is_added).await else { panic!("an error") };
    assert!(error.is_expired(), "{error}");
    let poison = r#"{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"6"},"data":5}}"#;
    let script = Script::new([watching(&[poison.to_owned()])]);
    let events = maps(&script).watch(&WatchParams::after("5")).await.expect("opened");
    assert!(matches!(until(events, is_added).await, Err(UntilError::Watch(Error::Undecodable(_)))));
}

#[tokio::test(start_paused = true)]
async fn until_with_retry_sees_every_event_over_many_watches() {
    let script = Script::new([
        watching(&[event("ADDED", "x", "6")]),
        fails(std::io::ErrorKind::ConnectionRefused),
        watching(&[event("MODIFIED", "x", "7"), event("BOOKMARK", "x", "8")]),
        watching(&[event("DELETED", "x", "9")]).silence(),
    ]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&seen);
    let maps = maps(&script);
    let met = maps.until(WatchParams::after("5"), move |event: &Event| {
        recorded.lock().expect("not poisoned").push(format!("{event:?}").chars().take(5).collect::<String>());
        matches!(event, WatchEvent::Deleted(_))
    });
    assert!(matches!(met.await, Ok(WatchEvent::Deleted(_))));
    assert_eq!(*seen.lock().expect("not poisoned"), ["Added", "Modif", "Delet"]);
    assert!(script.targets()[3].ends_with("resourceVersion=8"), "{:?}", script.targets());
    assert_eq!(script.open_bodies(), 0, "the watch is closed with the wait");

    for version in ["", "0"] {
        let refused = maps.until(WatchParams::after(version), is_added).await;
        assert!(matches!(refused, Err(UntilError::Watch(Error::InvalidRequest(_)))), "{version:?}");
    }
    let script = Script::new([watching(&[gone()])]);
    let forgotten = self::maps(&script).until(WatchParams::after("5"), is_added).await;
    assert!(matches!(forgotten, Err(UntilError::Watch(error)) if error.is_expired()));
}

/// The upstream scenarios "doesn't wait for sync with no precondition" and "waits indefinitely with
/// precondition if it can't sync": no condition is checked before the state is known.
#[tokio::test(start_paused = true)]
async fn until_with_sync_checks_no_condition_before_the_list_is_complete() {
    let script = Script::new([listing("5", &[]).silence()]);
    let maps = maps(&script);
    let everything = ListParams::default();
    let waiting = maps.wait_until(&everything, |_| -> bool { panic!("the list never ends") });
    assert!(timeout(Duration::from_millis(500), waiting).await.is_err());
    assert_eq!((script.seen().len(), script.open_bodies()), (1, 0));
}

/// The upstream scenario "precondition can stop the loop".
#[tokio::test]
async fn until_with_sync_a_condition_that_already_holds_needs_no_watch() {
    let script = Script::new([listing("5", &[object("first", "3")])]);
    let state = maps(&script).wait_until(&ListParams::default(), |state| state.len() == 1).await;
    assert_eq!(
        state.expect("the condition holds").keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["a/first"]
    );
    assert_eq!(script.seen().len(), 1);
}

/// The upstream scenario "precondition lets it proceed to regular condition".
#[tokio::test(start_paused = true)]
async fn until_with_sync_continues_with_a_watch_from_the_version_of_the_list() {
    let script = Script::new([
        listing("5", &[object("first", "3")]),
        watching(&[
            event("ADDED", "second", "6"),
            event("DELETED", "first", "7"),
            event("MODIFIED", "second", "8"),
        ])
        .silence(),
    ]);
    let selected = ListParams::default().labels("app=web".parse().expect("a selector"));
    let mut sizes = Vec::new();
    let state = maps(&script)
        .wait_until(&selected, |state| {
            sizes.push(state.len());
            state.values().all(|it| it.version().as_str() == "8")
        })
        .await
        .expect("the condition holds");
    assert_eq!((sizes, state.len()), (vec![1, 2, 1, 1], 1));
    assert_eq!(
        script.targets(),
        [
            "/base/api/v1/namespaces/a/configmaps?labelSelector=app%3Dweb&limit=500",
            "/base/api/v1/namespaces/a/configmaps?labelSelector=app%3Dweb&watch=true&allowWatchBookmarks=true&resourceVersion=5",
        ]
    );
}

/// Changes that the watch missed are in the next list, including deletions.
#[tokio::test(start_paused = true)]
async fn until_with_sync_lists_again_when_the_history_is_compacted() {
    for forgotten in [watching(&[gone()]), refusal(410, "Gone")] {
        let script = Script::new([
            listing("5", &[object("x", "3")]),
            watching(&[event("MODIFIED", "x", "6")]),
            forgotten,
            fails(std::io::ErrorKind::ConnectionRefused),
            refusal(503, "ServiceUnavailable"),
            listing("900", &[]),
        ]);
        let state = maps(&script).wait_until(&ListParams::default().at("4"), |it| it.is_empty()).await;
        assert!(state.expect("deleted").is_empty());
        let targets = script.targets();
        assert!(targets[0].contains("resourceVersion=4"), "{targets:?}");
        assert!(targets[5].ends_with("configmaps?limit=500"), "the newest state: {targets:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn until_with_sync_lists_at_most_once_a_second() {
    let forgets = (0..50).flat_map(|_| [listing("5", &[]), watching(&[gone()])]);
    let script = Script::new(forgets);
    let (maps, everything) = (maps(&script), ListParams::default());
    let waiting = maps.wait_until(&everything, |_| false);
    assert!(timeout(Duration::from_millis(9500), waiting).await.is_err());
    assert_eq!(script.targets().iter().filter(|it| !it.contains("watch=true")).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn until_with_sync_a_permanent_error_ends_the_wait() {
    let forbidden = Script::new([refusal(403, "Forbidden")]);
    let no_watch = Script::new([listing("5", &[]), refusal(403, "Forbidden")]);
    for script in [forbidden, no_watch] {
        let waiting = maps(&script).wait_until(&ListParams::default(), |_| false).await;
        assert!(matches!(waiting, Err(UntilError::Watch(error)) if error.is_forbidden()));
    }
    let poison = r#"{"metadata":{"name":"x","namespace":"a"},"data":5}"#.to_owned();
    let script = Script::new([listing("5", &[poison])]);
    let waiting = maps(&script).wait_until(&ListParams::default(), |_| false).await;
    assert!(matches!(waiting, Err(UntilError::Watch(Error::Undecodable(_)))));
    let script = Script::new([listing("5", &[])]);
    let never = maps(&script).wait_until(&ListParams::default(), |_| Err::<bool, _>("never")).await;
    assert!(matches!(never, Err(UntilError::Condition(_))));
}

#[tokio::test(start_paused = true)]
async fn one_object_is_awaited_by_its_name() {
    let script = Script::new([
        listing("5", &[]),
        watching(&[event("ADDED", "x", "6"), event("MODIFIED", "x", "7")]).silence(),
    ]);
    let wanted = |it: Option<&ConfigMap>| it.is_some_and(|it| it.version().as_str() == "7");
    let found = maps(&script).wait_for("x", wanted).await.expect("changed").expect("there");
    assert_eq!(found.version().as_str(), "7");
    assert!(script.targets().iter().all(|it| it.contains("fieldSelector=metadata.name%3Dx")));

    let script = Script::new([listing("5", &[object("x", "3")]), watching(&[event("DELETED", "x", "6")])]);
    assert_eq!(maps(&script).wait_for("x", |it| it.is_none()).await.expect("gone"), None);

    let script = Script::default();
    for name in ["", "..", "a/b"] {
        assert!(maps(&script).wait_for(name, |_| true).await.is_err(), "{name:?}");
    }
    let everywhere = Api::<ConfigMap>::all(script.client());
    assert!(everywhere.wait_for("x", |_| true).await.is_err(), "one name may be many objects");
    assert!(script.seen().is_empty());
}
