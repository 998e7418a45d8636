//! The request log and its queries.

use std::time::Duration;

use crate::log::{Record, RequestLog};

fn record(verb: &str, resource: &str, name: &str) -> Record {
    Record {
        verb: verb.to_owned(),
        group: if resource == "deployments" { "apps".to_owned() } else { String::new() },
        resource: resource.to_owned(),
        namespace: Some("default".to_owned()),
        name: Some(name.to_owned()),
        user: "admin".to_owned(),
        manager: format!("{verb}-er"),
        status: if verb == "create" { 201 } else { 200 },
        duration: Duration::from_millis(1),
        ..Record::default()
    }
}

fn filled() -> RequestLog {
    let log = RequestLog::keeping(100);
    for (verb, resource, name) in [
        ("create", "pods", "a"),
        ("patch", "pods", "a"),
        ("patch", "pods", "b"),
        ("patch", "deployments", "a"),
        ("get", "pods", "a"),
    ] {
        log.record(|| record(verb, resource, name));
    }
    log
}

#[test]
fn queries_are_narrowed_step_by_step() {
    let log = filled();
    let all = log.requests();
    assert_eq!(all.count(), 5);
    assert_eq!(all.clone().verb("patch").resource("pods").manager("patch-er").count(), 2);
    assert_eq!(all.clone().verb("patch").resource("pods").name("b").user("admin").count(), 1);
    assert_eq!(all.clone().resource("deployments.apps").namespace("default").count(), 1);
    assert_eq!(all.clone().resource("deployments.extensions").count(), 0);
    assert_eq!(all.clone().status(201).last().map(|it| it.verb.as_str()), Some("create"));
    assert_eq!(all.clone().part("status").count() + all.clone().namespace("other").count(), 0);
    let names: Vec<_> = all.filter(|it| it.verb == "patch").iter().map(|it| it.name.clone()).collect();
    assert_eq!(names, ["a", "b", "a"].map(|it| Some(it.to_owned())));
}

#[test]
fn a_disabled_log_does_not_build_records() {
    let log = RequestLog::default();
    log.record(|| panic!("the record must not be built"));
    assert!(!log.is_on() && log.requests().count() == 0);
    log.clear();
}

#[test]
fn only_the_newest_records_are_kept_and_clearing_removes_all() {
    let log = RequestLog::keeping(3);
    for name in ["a", "b", "c", "d"] {
        log.record(|| record("get", "pods", name));
    }
    let kept = |log: &RequestLog| {
        log.requests().iter().filter_map(|it| it.name.clone()).collect::<Vec<_>>().concat()
    };
    assert_eq!(kept(&log), "bcd");
    log.clone().clear();
    assert_eq!(kept(&log), "");
    log.record(|| record("get", "pods", "e"));
    assert_eq!(kept(&log), "e");
}

#[tokio::test(start_paused = true)]
async fn waiting_counts_past_and_new_records_even_if_the_ring_is_small() {
    let log = RequestLog::keeping(2);
    log.record(|| record("get", "pods", "0"));
    let writer = log.clone();
    tokio::spawn(async move {
        for name in ["1", "2", "3", "4"] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            writer.record(|| record("list", "pods", "x"));
            writer.record(|| record("get", "pods", name));
        }
    });
    let waited = log.wait_for(|it| it.verb == "get", 4).await;
    let names: Vec<_> = waited.iter().filter_map(|it| it.name.clone()).collect();
    assert_eq!(names, ["0", "1", "2", "3"]);
    assert_eq!(log.wait_for(|it| it.verb == "get", 1).await.count(), 1, "immediately");
    log.clear();
    let late = tokio::time::timeout(Duration::from_secs(60), log.wait_for(|it| it.verb == "get", 2)).await;
    assert!(late.is_err(), "only one more matching record follows");
}

#[test]
fn long_records_are_dropped_before_the_count_limit() {
    let log = RequestLog::keeping(10_000);
    for at in 0..1_000 {
        log.record(|| Record { path: "x".repeat(100_000), query: at.to_string(), ..Record::default() });
    }
    let kept = log.requests();
    assert!((300..400).contains(&kept.count()), "{} of 100 KB each", kept.count());
    assert_eq!(kept.iter().last().map(|it| it.query.as_str()), Some("999"));
    log.clear();
    log.record(|| record("get", "pods", "a"));
    assert_eq!(log.requests().count(), 1);
}
