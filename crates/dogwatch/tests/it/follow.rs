//! A cache kept by list and watch ends up equal to the server's state, although the server rejects
//! requests, cuts connections and compacts its history.
//!
//! `cargo xtask follow` runs the same with more objects and real connections, and compares us with
//! kube-rs and client-go.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch::api::{DeleteParams, ListParams, WatchEvent, WatchParams, WriteParams};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::{Delay, FaultCounts, FaultInjector, Rule};
use futures_util::StreamExt;

const OBJECTS: usize = 300;
const CHANGES: usize = 400;
/// The last object that is created: a cache that contains it has seen every change.
const END: &str = "the-end";

/// The version of each object by name.
type Cache = BTreeMap<String, String>;

/// The final state of a follower.
#[derive(Debug)]
struct Followed {
    cache: Cache,
    events: usize,
    lists: usize,
}

/// A fault that is triggered during the run.
type Trigger = fn(&ApiServer);

fn expire(server: &ApiServer) {
    server.expire_history();
}

async fn start() -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().in_process().seed(1).start().await.expect("it starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    (server, Api::default_namespaced(client))
}

fn object(name: &str, change: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("change".to_owned(), change.to_string())].into());
    map
}

fn entry(map: &ConfigMap) -> (String, String) {
    let metadata = &map.metadata;
    (metadata.name.clone().expect("a name"), metadata.resource_version.clone().expect("a version"))
}

/// Lists, watches from that version, and lists again when the watch expires, until the last object
/// is seen.
async fn follow(api: Api<ConfigMap>) -> Followed {
    let (mut events, mut lists) = (0, 0);
    loop {
        let list = match api.list_all(&ListParams::default()).await {
            Ok(list) => list,
            // More failures in a row than the client retries.
            Err(_) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        lists += 1;
        let mut cache: Cache = list.items.iter().map(entry).collect();
        let mut watch =
            api.watch_from(WatchParams::after(list.metadata.version)).expect("a version to watch from");
        while !cache.contains_key(END) {
            match watch.next().await.transpose().expect("every object can be decoded") {
                Some(WatchEvent::Added(it) | WatchEvent::Modified(it)) => cache.extend([entry(&it)]),
                Some(WatchEvent::Deleted(it)) => {
                    assert!(cache.remove(&entry(&it).0).is_some(), "a deleted object is in the cache");
                }
                Some(WatchEvent::Error(_)) | None => break,
                Some(_) => continue,
            }
            events += 1;
        }
        if cache.contains_key(END) {
            return Followed { cache, events, lists };
        }
    }
}

/// Changes one object after another, triggers one of the faults every 40 changes, and creates the
/// last object at the end.
async fn change(server: &ApiServer, api: &Api<ConfigMap>, triggers: &[Trigger]) {
    let params = WriteParams::default();
    for turn in 0..CHANGES {
        // 7 shares no factor with OBJECTS, so the changes reach every object.
        let name = format!("object-{:03}", turn * 7 % OBJECTS);
        match turn % 5 {
            0 => drop(api.delete(&name, &DeleteParams::default()).await),
            1 => drop(api.create(&params, &object(&name, turn)).await),
            _ => drop(api.replace(&name, &params, &object(&name, turn)).await),
        }
        if turn % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if turn % 40 == 39 && !triggers.is_empty() {
            triggers[turn / 40 % triggers.len()](server);
        }
    }
    api.create(&params, &object(END, CHANGES)).await.expect("created");
}

/// Runs three followers under these rules and faults, and compares their caches with the server.
async fn run(rules: fn(&FaultInjector), triggers: &[Trigger]) -> (Vec<Followed>, FaultCounts) {
    let (server, api) = start().await;
    for number in 0..OBJECTS {
        let object = object(&format!("object-{number:03}"), 0);
        api.create(&WriteParams::default(), &object).await.expect("created");
    }
    rules(server.faults());
    let followers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(api.clone()))).collect();
    change(&server, &api, triggers).await;
    server.faults().resume();

    let mut followed = Vec::new();
    for follower in followers {
        followed.push(follower.await.expect("a follower does not panic"));
    }
    server.faults().clear();
    let expected: Cache =
        api.list(&ListParams::default()).await.expect("a list").items.iter().map(entry).collect();
    for it in &followed {
        assert_eq!(it.cache, expected);
        assert!(it.events > 0, "the follower received changes");
    }
    (followed, server.faults().tally())
}

#[tokio::test(start_paused = true)]
async fn a_follower_without_faults_lists_once() {
    let (followed, _) = run(|_| {}, &[]).await;
    assert!(followed.iter().all(|it| it.lists == 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_watches_end_and_break_does_not_list_again() {
    let rules = |faults: &FaultInjector| {
        faults.rule(Rule::on("watch").probability(0.5, 1).drop_after(20));
        faults.rule(Rule::on("watch").probability(0.5, 2).cut_after(7));
    };
    let triggers: [Trigger; 2] =
        [|server| server.faults().drop_watches(), |server| server.faults().cut_watches()];
    let (followed, _) = run(rules, &triggers).await;
    assert!(followed.iter().all(|it| it.lists == 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_watch_expires_lists_again() {
    let (followed, _) = run(|_| {}, &[expire]).await;
    assert!(followed.iter().all(|it| it.lists > 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_survives_all_faults_at_once() {
    let rules = |faults: &FaultInjector| {
        for (seed, verb) in (0..).step_by(10).zip(["list", "watch"]) {
            faults.rule(Rule::on(verb).probability(0.2, seed).refuse(429).retry_after(1));
            faults.rule(Rule::on(verb).probability(0.2, seed + 1).refuse(500));
            faults.rule(Rule::on(verb).probability(0.2, seed + 2).reset_before());
            faults.rule(Rule::on(verb).probability(0.2, seed + 3).reset_after());
            faults.rule(Rule::on(verb).probability(0.5, seed + 4).delay(Duration::from_millis(300)));
        }
        faults.rule(Rule::on("watch").probability(0.3, 30).cut_after(11));
        faults.rule(Rule::on("watch").probability(0.5, 31).split(7));
        faults.rule(Rule::on("watch").probability(0.5, 32).coalesce(Duration::from_millis(50)));
        let lag = Delay::between(Duration::ZERO, Duration::from_millis(100));
        faults.rule(Rule::on("watch").probability(0.3, 33).lag(lag));
    };
    let triggers: [Trigger; 6] = [
        |server| server.faults().drop_watches(),
        |server| server.faults().bookmark_now(),
        |server| {
            server.compact_history();
        },
        |server| server.faults().pause(),
        |server| server.faults().resume(),
        expire,
    ];
    let (_, tally) = run(rules, &triggers).await;
    for count in [tally.refused, tally.reset, tally.delayed, tally.dropped, tally.bookmarks] {
        assert!(count > 0, "{tally:?}");
    }
}
