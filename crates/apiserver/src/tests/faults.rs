//! Fault injection without a server: the effect of rules and switches on requests and watches.

use std::time::Duration;

use crate::cluster::{Cluster, Source};
use crate::faults::{Act, Call, Delay, Disturbance, FaultInjector, Rule, Scope, WatchFaults, admin};
use crate::store::{CollectionName, Draft, Expect};
use bytes::Bytes;
use dogwatch_core::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

fn call<'a>(verb: &'a str, resource: &'a str) -> Call<'a> {
    Call { verb, resource, namespace: Some("default"), user: "admin", ..Call::default() }
}

fn acts(faults: &FaultInjector, verb: &str, resource: &str, count: usize) -> Vec<&'static str> {
    let act = |_| match faults.decide(&call(verb, resource)).1 {
        Act::Proceed => "proceed",
        Act::Refuse { .. } => "refuse",
        Act::ResetBefore => "before",
        Act::ResetAfter => "after",
    };
    (0..count).map(act).collect()
}

fn watch(faults: &FaultInjector, resource: &str) -> WatchFaults {
    faults.watch(&call("watch", resource))
}

/// Returns the output of a future that completes without time passing.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(Duration::from_nanos(1), future).await.ok()
}

#[test]
fn without_rules_there_are_no_faults() {
    assert_eq!(FaultInjector::default().decide(&call("list", "pods")), (None, Act::Proceed));
}

#[test]
fn a_rule_fires_on_matching_requests_as_often_as_configured() {
    let faults = FaultInjector::default();
    let busy = faults.rule(Rule::on("list").resource("pods").after(1).times(2).refuse(429).retry_after(5));
    assert_eq!(acts(&faults, "get", "pods", 1), ["proceed"]);
    assert_eq!(acts(&faults, "list", "services", 1), ["proceed"]);
    assert_eq!(acts(&faults, "list", "pods", 5), ["proceed", "refuse", "refuse", "proceed", "proceed"]);
    assert_eq!((busy.matched(), busy.fired(), faults.tally().refused), (5, 2, 2));
    let again = faults.rule(Rule::on("list").refuse(429).retry_after(5));
    let Act::Refuse { refusal, retry_after } = faults.decide(&call("list", "pods")).1 else {
        panic!("refused")
    };
    assert_eq!((refusal.0.code, retry_after), (429, Some(5)));
    again.remove();
    assert_eq!(acts(&faults, "list", "pods", 1), ["proceed"]);
}

#[test]
fn the_first_deciding_rule_wins_and_delays_add_up() {
    let faults = FaultInjector::default();
    faults.rule(Rule::on_everything().delay(Duration::from_secs(1)));
    faults.rule(Rule::on("create").delay(Duration::from_secs(2)).reset_after());
    let never = faults.rule(Rule::on("create").delay(Duration::from_secs(4)).refuse(500));
    assert_eq!(faults.decide(&call("create", "pods")), (Some(Duration::from_secs(3)), Act::ResetAfter));
    assert_eq!(faults.decide(&call("get", "pods")), (Some(Duration::from_secs(1)), Act::Proceed));
    assert_eq!(never.matched(), 0, "the rule was not consulted");
    faults.clear();
    faults.rule(Rule::on("create").reset_before());
    assert_eq!(acts(&faults, "create", "pods", 1), ["before"]);
    assert_eq!((faults.tally().reset, faults.tally().delayed), (2, 3));
}

#[test]
fn a_scoped_rule_ends_with_its_guard_and_a_rule_without_effect_only_counts() {
    let faults = FaultInjector::default();
    let probe = faults.rule(Rule::on("get"));
    {
        let broken = faults.rule(Rule::on("get").refuse(500)).scoped();
        assert_eq!(acts(&faults, "get", "pods", 2), ["refuse", "refuse"]);
        assert_eq!(broken.fired(), 2);
    }
    assert_eq!(acts(&faults, "get", "pods", 1), ["proceed"]);
    assert_eq!(probe.fired(), 3);
    assert_eq!(faults.rules().len(), 1);
}

#[test]
#[should_panic(expected = "invalid fault rule: on.verbs[0]: \"lst\" is not one of")]
fn an_invalid_rule_panics_when_it_is_added() {
    FaultInjector::default().rule(Rule::on("lst"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same seed gives the same faults for the same requests, about as often as the probability
    /// says.
    #[test]
    fn the_seed_determines_the_faults(seed in any::<u64>(), percent in 0..=100_u32) {
        let outcomes = |seed| {
            let faults = FaultInjector::default();
            let delay = Delay::between(Duration::ZERO, Duration::from_secs(1));
            faults.rule(Rule::on("get").probability(f64::from(percent) / 100.0, seed).delay(delay).refuse(500));
            (0..500).map(|_| faults.decide(&call("get", "pods"))).collect::<Vec<_>>()
        };
        let one = outcomes(seed);
        prop_assert_eq!(&one, &outcomes(seed));
        let refused = one.iter().filter(|(_, act)| *act != Act::Proceed).count();
        let expected = 5 * percent as usize;
        prop_assert!(refused.abs_diff(expected) < 75, "{} of {}", refused, expected);
    }

    /// For any chunks and any size, all bytes arrive in order, in writes of that size.
    #[test]
    fn splitting_and_coalescing_keep_all_bytes_in_order(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10),
        size in 1..30_usize,
    ) {
        let whole = chunks.concat();
        let chunks: Vec<Bytes> = chunks.into_iter().map(Bytes::from).collect();
        let faults = FaultInjector::default();
        prop_assert_eq!(watch(&faults, "pods").frames(chunks.clone()), vec![chunks.clone()]);
        let rule = faults.rule(Rule::on("watch").split(size));
        let groups: Vec<Vec<u8>> =
            watch(&faults, "pods").frames(chunks.clone()).iter().map(|it| it.concat()).collect();
        prop_assert_eq!(groups.concat(), whole.clone());
        prop_assert!(groups.iter().rev().skip(1).all(|it| it.len() == size));
        prop_assert!(groups.last().is_none_or(|it| (1..=size).contains(&it.len())));
        rule.remove();
        faults.rule(Rule::on("watch").coalesce(Duration::from_secs(1)));
        prop_assert_eq!(watch(&faults, "pods").frames(chunks), vec![vec![Bytes::from(whole)]]);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_watches_ends_open_watches_but_not_later_ones() {
    let faults = FaultInjector::default();
    let (mut pods, mut services) = (watch(&faults, "pods"), watch(&faults, "services"));
    assert_eq!(at_once(pods.disturbed()).await, None);
    faults.drop_watches_of(Scope::resource("pods"), true);
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Drop));
    assert!(pods.cuts() && !pods.gate().await);
    assert_eq!(at_once(services.disturbed()).await, None);
    assert!(watch(&faults, "pods").gate().await);
    faults.drop_watches();
    assert!(!services.gate().await && !services.cuts());
    assert!(!pods.gate().await, "a dropped watch stays ended");
    assert_eq!(faults.tally().dropped, 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_watch_is_woken_when_it_is_dropped() {
    let faults = FaultInjector::default();
    let mut waiting = watch(&faults, "pods");
    let task = tokio::spawn(async move { waiting.disturbed().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.drop_watches();
    assert_eq!(task.await.unwrap(), Disturbance::Drop);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_a_number_of_events_and_reports_the_remaining_ones() {
    let faults = FaultInjector::default();
    let drop = faults.rule(Rule::on("watch").times(1).cut_after(3));
    let (mut first, mut second) = (watch(&faults, "pods"), watch(&faults, "pods"));
    assert_eq!((first.room(), second.room()), (3, usize::MAX), "the rule fires once");
    assert!(first.gate().await);
    first.delivered(2);
    assert!(first.gate().await && first.room() == 1);
    assert_eq!(at_once(first.disturbed()).await, None);
    first.delivered(1);
    assert_eq!(at_once(first.disturbed()).await, Some(Disturbance::Drop));
    assert!(!first.gate().await && first.cuts());
    second.delivered(100);
    assert!(second.gate().await);
    assert_eq!((drop.fired(), faults.tally().dropped), (1, 1));
    faults.rule(Rule::on("watch").resource("pods").drop_after(0));
    assert!(!second.gate().await && !second.cuts(), "a rule also applies to open watches");
}

#[tokio::test(start_paused = true)]
async fn paused_watches_wait_until_they_are_resumed_or_dropped() {
    let faults = FaultInjector::default();
    let mut all = [watch(&faults, "pods"), watch(&faults, "services")];
    faults.pause();
    assert!(faults.is_paused());
    assert_eq!(at_once(all[0].gate()).await, None);
    faults.resume();
    assert_eq!(at_once(all[0].gate()).await, Some(true));

    let rule = faults.rule(Rule::on("watch").resource("services").pause());
    assert_eq!(at_once(all[0].gate()).await, Some(true));
    assert_eq!(at_once(all[1].gate()).await, None);
    rule.remove();
    assert_eq!(at_once(all[1].gate()).await, Some(true));

    faults.pause();
    let [mut waiting, _] = all;
    let task = tokio::spawn(async move { waiting.gate().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.drop_watches();
    assert!(!task.await.unwrap());
    faults.clear();
    assert!(!faults.is_paused());
}

#[tokio::test(start_paused = true)]
async fn every_delivery_lags_and_a_cancelled_wait_loses_no_time() {
    let faults = FaultInjector::default();
    faults.rule(Rule::on("watch").lag(Duration::from_secs(10)));
    let mut lagging = watch(&faults, "pods");
    let start = Instant::now();
    assert!(timeout(Duration::from_secs(4), lagging.gate()).await.is_err());
    assert!(lagging.gate().await);
    assert_eq!(start.elapsed(), Duration::from_secs(10), "not 14");
    assert!(lagging.gate().await);
    assert_eq!(start.elapsed(), Duration::from_secs(20), "each delivery");
    faults.clear();
    assert_eq!(at_once(lagging.gate()).await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_forced_bookmark_is_requested_once() {
    let faults = FaultInjector::default();
    let (mut pods, mut services) = (watch(&faults, "pods"), watch(&faults, "services"));
    faults.bookmark_now_of(Scope::resource("pods"));
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Bookmark));
    assert_eq!(at_once(pods.disturbed()).await, None);
    assert_eq!(at_once(services.disturbed()).await, None);
    faults.bookmark_now();
    assert_eq!(at_once(services.disturbed()).await, Some(Disturbance::Bookmark));
    assert!(pods.gate().await, "a pending bookmark does not end the watch");
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Bookmark));
    assert_eq!(faults.tally().bookmarks, 3);
}

fn with_a_pod() -> (Cluster, CollectionName, u64) {
    let cluster = Cluster::new(Source::real());
    let pods = CollectionName::from("/pods");
    let draft = Draft::new(&json!({ "metadata": { "name": "a", "namespace": "b" } }), vec![]).ok();
    let key = ObjectKey::namespaced("b", "a");
    let version = cluster.store().commit(&pods, &key, Expect::Absent, draft).unwrap().version();
    (cluster, pods, version)
}

#[tokio::test(start_paused = true)]
async fn compacting_drops_history_and_expiring_also_the_current_version() {
    let (cluster, pods, version) = with_a_pod();
    let faults = FaultInjector::default();
    let mut living = watch(&faults, "pods");
    assert_eq!(faults.compact(&cluster), version);
    assert!(cluster.store().watch(&pods, version - 1).is_err());
    assert!(cluster.store().watch(&pods, version).is_ok(), "a watcher at the newest version missed nothing");
    assert!(living.gate().await);
    let oldest = faults.expire(&cluster);
    assert!(oldest > version && cluster.store().watch(&pods, version).is_err());
    assert!(!living.gate().await);
    assert!(faults.expire(&cluster) > oldest, "expiring can be repeated");
    assert!(cluster.store().get(&pods, &ObjectKey::namespaced("b", "a")).is_some(), "no object is lost");
}

#[tokio::test(start_paused = true)]
async fn faults_can_be_controlled_over_http() {
    let (cluster, pods, version) = with_a_pod();
    let faults = FaultInjector::default();
    let ask = |method: &str, path: &str, body: &str| {
        admin(method, &format!("/_dogwatch/{path}"), body.as_bytes(), &faults, &cluster)
    };
    let rule =
        json!({ "on": { "verbs": ["list"], "resource": "pods" }, "times": 1, "refuse": { "code": 503 } });
    let (code, placed) = ask("POST", "faults", &rule.to_string());
    assert_eq!((code, &placed["id"], &placed["rule"]), (201, &json!(1), &rule));
    assert_eq!(acts(&faults, "list", "pods", 2), ["refuse", "proceed"]);
    let (code, all) = ask("GET", "faults", "");
    let expected = json!({ "id": 1, "rule": rule, "matched": 2, "fired": 1 });
    assert_eq!((code, &all["rules"][0], &all["tally"]["refused"]), (200, &expected, &json!(1)));
    assert_eq!(ask("GET", "faults/1", ""), (200, expected.clone()));
    assert_eq!(ask("DELETE", "faults/1", ""), (200, expected));
    assert_eq!(ask("DELETE", "faults/1", "").0, 404);

    let (mut cut, mut kept) = (watch(&faults, "pods"), watch(&faults, "services"));
    assert_eq!(ask("POST", "faults/bookmark", "").0, 200);
    assert_eq!(at_once(kept.disturbed()).await, Some(Disturbance::Bookmark));
    assert_eq!(ask("POST", "faults/drop-watches", r#"{"on":{"resource":"pods"},"cut":true}"#).0, 200);
    assert!(!cut.gate().await && cut.cuts() && kept.gate().await);
    assert_eq!(ask("POST", "faults/pause", ""), (200, json!({ "paused": true })));
    assert_eq!(at_once(kept.gate()).await, None);
    assert_eq!(ask("POST", "faults/resume", "{}"), (200, json!({ "paused": false })));
    assert_eq!(ask("POST", "faults/compact", ""), (200, json!({ "oldest": version })));
    assert_eq!(ask("POST", "faults/compact", r#"{"version":1}"#), (200, json!({ "oldest": 1 })));
    let (code, expired) = ask("POST", "faults/expire", "");
    assert!(code == 200 && expired["oldest"].as_u64() > Some(version), "{expired}");
    assert!(cluster.store().watch(&pods, version).is_err() && !kept.gate().await);
    ask("POST", "faults", r#"{"reset":"before"}"#);
    assert_eq!(ask("DELETE", "faults", "").1["rules"], json!([]));
    assert_eq!(acts(&faults, "list", "pods", 1), ["proceed"]);
}

#[test]
fn an_invalid_request_to_the_fault_api_is_rejected_with_a_message() {
    let (cluster, faults) = (Cluster::new(Source::real()), FaultInjector::default());
    for (method, path, body, code, expected) in [
        ("POST", "faults", "{", 400, "body: EOF"),
        ("POST", "faults", r#"{"refuse":{"code":"429"}}"#, 400, "refuse.code: invalid type: string"),
        ("POST", "faults", r#"{"on":{"verbs":["watch","lst"]}}"#, 400, "on.verbs[1]: \"lst\" is not one of"),
        ("POST", "faults/drop-watches", r#"{"cut":1}"#, 400, "cut: invalid type: integer `1`"),
        ("POST", "faults/pause", r#"{"on":{}}"#, 400, "on: unknown field `on`"),
        ("PUT", "faults", "", 405, "PUT is not served here"),
        ("GET", "faults/pause", "", 405, "GET is not served here"),
        ("GET", "faults/7", "", 404, "there is no rule 7"),
        ("POST", "faults/rain", "", 404, "nothing is served at /_dogwatch/faults/rain"),
        ("GET", "elsewhere", "", 404, "nothing is served at /_dogwatch/elsewhere"),
        ("GET", "faultsome", "", 404, "nothing is served at /_dogwatch/faultsome"),
    ] {
        let (got, status) = admin(method, &format!("/_dogwatch/{path}"), body.as_bytes(), &faults, &cluster);
        assert_eq!(
            (got, &status["kind"], &status["code"]),
            (code, &json!("Status"), &json!(code)),
            "{status}"
        );
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(expected), "{message}");
        assert_eq!(status["status"], Value::from("Failure"));
    }
    assert!(faults.rules().is_empty() && !faults.is_paused());
}
