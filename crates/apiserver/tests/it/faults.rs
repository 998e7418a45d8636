//! The fault lab, without a server: what happens to requests and watches under rules and switches.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_apiserver::cluster::{Cluster, Source};
use dogwatch_apiserver::faults::{Act, Call, Delay, Disturbance, Lab, Rule, Scope, WatchLab, admin};
use dogwatch_apiserver::store::{CollectionName, Draft, Expect};
use dogwatch_core::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

fn call<'a>(verb: &'a str, resource: &'a str) -> Call<'a> {
    Call { verb, resource, namespace: Some("default"), user: "admin", ..Call::default() }
}

fn acts(lab: &Lab, verb: &str, resource: &str, count: usize) -> Vec<&'static str> {
    let act = |_| match lab.decide(&call(verb, resource)).1 {
        Act::Proceed => "proceed",
        Act::Refuse { .. } => "refuse",
        Act::ResetBefore => "before",
        Act::ResetAfter => "after",
        _ => "another",
    };
    (0..count).map(act).collect()
}

fn watch(lab: &Lab, resource: &str) -> WatchLab {
    lab.watch(&call("watch", resource))
}

/// Whether a future is done without any time passing.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(Duration::from_nanos(1), future).await.ok()
}

#[test]
fn without_rules_nothing_happens() {
    assert_eq!(Lab::default().decide(&call("list", "pods")), (None, Act::Proceed));
}

#[test]
fn a_rule_fires_on_what_it_covers_as_often_as_it_says() {
    let lab = Lab::default();
    let busy = lab.rule(Rule::on("list").resource("pods").after(1).times(2).refuse(429).retry_after(5));
    assert_eq!(acts(&lab, "get", "pods", 1), ["proceed"]);
    assert_eq!(acts(&lab, "list", "services", 1), ["proceed"]);
    assert_eq!(acts(&lab, "list", "pods", 5), ["proceed", "refuse", "refuse", "proceed", "proceed"]);
    assert_eq!((busy.matched(), busy.fired(), lab.tally().refused), (5, 2, 2));
    let again = lab.rule(Rule::on("list").refuse(429).retry_after(5));
    let Act::Refuse { refusal, retry_after } = lab.decide(&call("list", "pods")).1 else { panic!("refused") };
    assert_eq!((refusal.0.code, retry_after), (429, Some(5)));
    again.remove();
    assert_eq!(acts(&lab, "list", "pods", 1), ["proceed"]);
}

#[test]
fn the_first_rule_that_decides_wins_and_delays_add_up() {
    let lab = Lab::default();
    lab.rule(Rule::on_everything().delay(Duration::from_secs(1)));
    lab.rule(Rule::on("create").delay(Duration::from_secs(2)).reset_after());
    let never = lab.rule(Rule::on("create").delay(Duration::from_secs(4)).refuse(500));
    assert_eq!(lab.decide(&call("create", "pods")), (Some(Duration::from_secs(3)), Act::ResetAfter));
    assert_eq!(lab.decide(&call("get", "pods")), (Some(Duration::from_secs(1)), Act::Proceed));
    assert_eq!(never.matched(), 0, "it was not asked");
    lab.clear();
    lab.rule(Rule::on("create").reset_before());
    assert_eq!(acts(&lab, "create", "pods", 1), ["before"]);
    assert_eq!((lab.tally().reset, lab.tally().delayed), (2, 3));
}

#[test]
fn a_scoped_rule_goes_with_its_guard_and_one_without_effect_only_counts() {
    let lab = Lab::default();
    let probe = lab.rule(Rule::on("get"));
    {
        let broken = lab.rule(Rule::on("get").refuse(500)).scoped();
        assert_eq!(acts(&lab, "get", "pods", 2), ["refuse", "refuse"]);
        assert_eq!(broken.fired(), 2);
    }
    assert_eq!(acts(&lab, "get", "pods", 1), ["proceed"]);
    assert_eq!(probe.fired(), 3);
    assert_eq!(lab.rules().len(), 1);
}

#[test]
#[should_panic(expected = "invalid fault rule: on.verbs[0]: \"lst\" is not one of")]
fn a_rule_that_makes_no_sense_stops_the_test_that_places_it() {
    Lab::default().rule(Rule::on("lst"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same seed meets the same requests with the same faults, about as often as the probability says.
    #[test]
    fn chance_follows_from_the_seed(seed in any::<u64>(), percent in 0..=100_u32) {
        let fates = |seed| {
            let lab = Lab::default();
            let delay = Delay::between(Duration::ZERO, Duration::from_secs(1));
            lab.rule(Rule::on("get").probability(f64::from(percent) / 100.0, seed).delay(delay).refuse(500));
            (0..500).map(|_| lab.decide(&call("get", "pods"))).collect::<Vec<_>>()
        };
        let one = fates(seed);
        prop_assert_eq!(&one, &fates(seed));
        let refused = one.iter().filter(|(_, act)| *act != Act::Proceed).count();
        let expected = 5 * percent as usize;
        prop_assert!(refused.abs_diff(expected) < 75, "{} of {}", refused, expected);
    }

    /// Whatever the pieces and the size: all bytes, in order, in writes of that size.
    #[test]
    fn splitting_and_coalescing_keep_every_byte_in_its_place(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10),
        size in 1..30_usize,
    ) {
        let whole = pieces.concat();
        let pieces: Vec<Bytes> = pieces.into_iter().map(Bytes::from).collect();
        let lab = Lab::default();
        prop_assert_eq!(watch(&lab, "pods").frames(pieces.clone()), vec![pieces.clone()]);
        let rule = lab.rule(Rule::on("watch").split(size));
        let groups: Vec<Vec<u8>> =
            watch(&lab, "pods").frames(pieces.clone()).iter().map(|it| it.concat()).collect();
        prop_assert_eq!(groups.concat(), whole.clone());
        prop_assert!(groups.iter().rev().skip(1).all(|it| it.len() == size));
        prop_assert!(groups.last().is_none_or(|it| (1..=size).contains(&it.len())));
        rule.remove();
        lab.rule(Rule::on("watch").coalesce(Duration::from_secs(1)));
        prop_assert_eq!(watch(&lab, "pods").frames(pieces), vec![vec![Bytes::from(whole)]]);
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_there_end_when_told_and_later_ones_do_not() {
    let lab = Lab::default();
    let (mut pods, mut services) = (watch(&lab, "pods"), watch(&lab, "services"));
    assert_eq!(at_once(pods.disturbed()).await, None);
    lab.drop_watches_of(Scope::resource("pods"), true);
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Drop));
    assert!(pods.cuts() && !pods.gate().await);
    assert_eq!(at_once(services.disturbed()).await, None);
    assert!(watch(&lab, "pods").gate().await);
    lab.drop_watches();
    assert!(!services.gate().await && !services.cuts());
    assert!(!pods.gate().await, "it stays over");
    assert_eq!(lab.tally().dropped, 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_is_woken_to_end() {
    let lab = Lab::default();
    let mut waiting = watch(&lab, "pods");
    let task = tokio::spawn(async move { waiting.disturbed().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    lab.drop_watches();
    assert_eq!(task.await.unwrap(), Disturbance::Drop);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_so_many_events_and_tells_how_many_may_still_come() {
    let lab = Lab::default();
    let drop = lab.rule(Rule::on("watch").times(1).cut_after(3));
    let (mut first, mut second) = (watch(&lab, "pods"), watch(&lab, "pods"));
    assert_eq!((first.room(), second.room()), (3, usize::MAX), "it fires once");
    assert!(first.gate().await);
    first.told(2);
    assert!(first.gate().await && first.room() == 1);
    assert_eq!(at_once(first.disturbed()).await, None);
    first.told(1);
    assert_eq!(at_once(first.disturbed()).await, Some(Disturbance::Drop));
    assert!(!first.gate().await && first.cuts());
    second.told(100);
    assert!(second.gate().await);
    assert_eq!((drop.fired(), lab.tally().dropped), (1, 1));
    lab.rule(Rule::on("watch").resource("pods").drop_after(0));
    assert!(!second.gate().await && !second.cuts(), "a rule also meets the watches that are there");
}

#[tokio::test(start_paused = true)]
async fn paused_watches_wait_until_they_are_resumed_or_dropped() {
    let lab = Lab::default();
    let mut all = [watch(&lab, "pods"), watch(&lab, "services")];
    lab.pause();
    assert!(lab.is_paused());
    assert_eq!(at_once(all[0].gate()).await, None);
    lab.resume();
    assert_eq!(at_once(all[0].gate()).await, Some(true));

    let rule = lab.rule(Rule::on("watch").resource("services").pause());
    assert_eq!(at_once(all[0].gate()).await, Some(true));
    assert_eq!(at_once(all[1].gate()).await, None);
    rule.remove();
    assert_eq!(at_once(all[1].gate()).await, Some(true));

    lab.pause();
    let [mut waiting, _] = all;
    let task = tokio::spawn(async move { waiting.gate().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    lab.drop_watches();
    assert!(!task.await.unwrap());
    lab.clear();
    assert!(!lab.is_paused());
}

#[tokio::test(start_paused = true)]
async fn every_delivery_lags_by_the_clock_and_giving_up_loses_no_time() {
    let lab = Lab::default();
    lab.rule(Rule::on("watch").lag(Duration::from_secs(10)));
    let mut lagging = watch(&lab, "pods");
    let start = Instant::now();
    assert!(timeout(Duration::from_secs(4), lagging.gate()).await.is_err());
    assert!(lagging.gate().await);
    assert_eq!(start.elapsed(), Duration::from_secs(10), "not 14");
    assert!(lagging.gate().await);
    assert_eq!(start.elapsed(), Duration::from_secs(20), "each delivery");
    lab.clear();
    assert_eq!(at_once(lagging.gate()).await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_forced_bookmark_is_asked_for_once() {
    let lab = Lab::default();
    let (mut pods, mut services) = (watch(&lab, "pods"), watch(&lab, "services"));
    lab.bookmark_now_of(Scope::resource("pods"));
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Bookmark));
    assert_eq!(at_once(pods.disturbed()).await, None);
    assert_eq!(at_once(services.disturbed()).await, None);
    lab.bookmark_now();
    assert_eq!(at_once(services.disturbed()).await, Some(Disturbance::Bookmark));
    assert!(pods.gate().await, "a bookmark that waits ends nothing");
    assert_eq!(at_once(pods.disturbed()).await, Some(Disturbance::Bookmark));
    assert_eq!(lab.tally().bookmarks, 3);
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
async fn compacting_forgets_the_past_and_expiring_also_the_present() {
    let (cluster, pods, version) = with_a_pod();
    let lab = Lab::default();
    let mut living = watch(&lab, "pods");
    assert_eq!(lab.compact(&cluster), version);
    assert!(cluster.store().watch(&pods, version - 1).is_err());
    assert!(cluster.store().watch(&pods, version).is_ok(), "who knows the newest state missed nothing");
    assert!(living.gate().await);
    let oldest = lab.expire(&cluster);
    assert!(oldest > version && cluster.store().watch(&pods, version).is_err());
    assert!(!living.gate().await);
    assert!(lab.expire(&cluster) > oldest, "as often as wanted");
    assert!(cluster.store().get(&pods, &ObjectKey::namespaced("b", "a")).is_some(), "no object is lost");
}

#[tokio::test(start_paused = true)]
async fn the_lab_can_be_driven_by_requests_alone() {
    let (cluster, pods, version) = with_a_pod();
    let lab = Lab::default();
    let ask = |method: &str, path: &str, body: &str| {
        admin(method, &format!("/_dogwatch/{path}"), body.as_bytes(), &lab, &cluster)
    };
    let rule =
        json!({ "on": { "verbs": ["list"], "resource": "pods" }, "times": 1, "refuse": { "code": 503 } });
    let (code, placed) = ask("POST", "faults", &rule.to_string());
    assert_eq!((code, &placed["id"], &placed["rule"]), (201, &json!(1), &rule));
    assert_eq!(acts(&lab, "list", "pods", 2), ["refuse", "proceed"]);
    let (code, all) = ask("GET", "faults", "");
    let expected = json!({ "id": 1, "rule": rule, "matched": 2, "fired": 1 });
    assert_eq!((code, &all["rules"][0], &all["tally"]["refused"]), (200, &expected, &json!(1)));
    assert_eq!(ask("GET", "faults/1", ""), (200, expected.clone()));
    assert_eq!(ask("DELETE", "faults/1", ""), (200, expected));
    assert_eq!(ask("DELETE", "faults/1", "").0, 404);

    let (mut cut, mut kept) = (watch(&lab, "pods"), watch(&lab, "services"));
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
    assert_eq!(acts(&lab, "list", "pods", 1), ["proceed"]);
}

#[test]
fn a_request_that_the_lab_does_not_understand_is_refused_in_words() {
    let (cluster, lab) = (Cluster::new(Source::real()), Lab::default());
    for (method, path, body, code, words) in [
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
        let (got, status) = admin(method, &format!("/_dogwatch/{path}"), body.as_bytes(), &lab, &cluster);
        assert_eq!(
            (got, &status["kind"], &status["code"]),
            (code, &json!("Status"), &json!(code)),
            "{status}"
        );
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{message}");
        assert_eq!(status["status"], Value::from("Failure"));
    }
    assert!(lab.rules().is_empty() && !lab.is_paused());
}
