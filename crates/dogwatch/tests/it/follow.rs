//! A copy kept by list and watch, while the server refuses, cuts and forgets: it ends up as what the server has.
//!
//! `cargo xtask follow` is the same with more objects, real connections, and kube-rs and client-go beside us.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, DeleteParams, ListParams, WatchEvent, WatchParams, WriteParams};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::{Delay, Lab, Rule, Tally};
use futures_util::StreamExt;

const OBJECTS: usize = 300;
const CHANGES: usize = 400;
/// The object that says that it is over. It is the last change, so a copy that has it has everything.
const END: &str = "the-end";

/// Names and versions.
type Copy = BTreeMap<String, String>;

/// What a follower ended up with.
#[derive(Debug)]
struct Followed {
    copy: Copy,
    events: usize,
    lists: usize,
}

/// Something that goes wrong at a point of the story.
type Order = fn(&ApiServer);

fn expire(server: &ApiServer) {
    server.faults().expire(server.cluster());
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

/// Lists, watches from there, and lists again when the server says so, until the end is there.
async fn follow(api: Api<ConfigMap>) -> Followed {
    let (mut events, mut lists) = (0, 0);
    loop {
        let list = match api.list_all(&ListParams::default()).await {
            Ok(list) => list,
            // Refused more often than the client tries by itself.
            Err(_) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        lists += 1;
        let mut copy: Copy = list.items.iter().map(entry).collect();
        let mut watch =
            api.watch_from(WatchParams::from(list.metadata.version)).expect("a version to watch from");
        while !copy.contains_key(END) {
            match watch.next().await.transpose().expect("every object can be read") {
                Some(WatchEvent::Added(it) | WatchEvent::Modified(it)) => copy.extend([entry(&it)]),
                Some(WatchEvent::Deleted(it)) => {
                    assert!(copy.remove(&entry(&it).0).is_some(), "what goes was there");
                }
                Some(WatchEvent::Error(_)) | None => break,
                Some(_) => continue,
            }
            events += 1;
        }
        if copy.contains_key(END) {
            return Followed { copy, events, lists };
        }
    }
}

/// Changes one object after another, with one of the orders given now and then, and the end as the last change.
async fn change(server: &ApiServer, api: &Api<ConfigMap>, orders: &[Order]) {
    let params = WriteParams::default();
    for turn in 0..CHANGES {
        // A prime, so that each object has its turn.
        let name = format!("object-{:03}", turn * 7 % OBJECTS);
        match turn % 5 {
            0 => drop(api.delete(&name, &DeleteParams::default()).await),
            1 => drop(api.create(&params, &object(&name, turn)).await),
            _ => drop(api.replace(&name, &params, &object(&name, turn)).await),
        }
        if turn % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if turn % 40 == 39 && !orders.is_empty() {
            orders[turn / 40 % orders.len()](server);
        }
    }
    api.create(&params, &object(END, CHANGES)).await.expect("the end comes");
}

/// Lets three followers follow under these rules and orders, and compares what they have with what there is.
async fn run(rules: fn(&Lab), orders: &[Order]) -> (Vec<Followed>, Tally) {
    let (server, api) = start().await;
    for number in 0..OBJECTS {
        let object = object(&format!("object-{number:03}"), 0);
        api.create(&WriteParams::default(), &object).await.expect("it is created");
    }
    rules(server.faults());
    let followers: Vec<_> = (0..3).map(|_| tokio::spawn(follow(api.clone()))).collect();
    change(&server, &api, orders).await;
    server.faults().resume();

    let mut followed = Vec::new();
    for follower in followers {
        followed.push(follower.await.expect("it does not panic"));
    }
    server.faults().clear();
    let truth: Copy =
        api.list(&ListParams::default()).await.expect("a list").items.iter().map(entry).collect();
    for it in &followed {
        assert_eq!(it.copy, truth);
        assert!(it.events > 0, "it was told of changes");
    }
    (followed, server.faults().tally())
}

#[tokio::test(start_paused = true)]
async fn a_follower_in_good_weather_lists_once() {
    let (followed, _) = run(|_| {}, &[]).await;
    assert!(followed.iter().all(|it| it.lists == 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_watches_end_and_break_does_not_list_again() {
    let rules = |lab: &Lab| {
        lab.rule(Rule::on("watch").probability(0.5, 1).drop_after(20));
        lab.rule(Rule::on("watch").probability(0.5, 2).cut_after(7));
    };
    let orders: [Order; 2] =
        [|server| server.faults().drop_watches(), |server| server.faults().cut_watches()];
    let (followed, _) = run(rules, &orders).await;
    assert!(followed.iter().all(|it| it.lists == 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_history_is_forgotten_lists_again() {
    let (followed, _) = run(|_| {}, &[expire]).await;
    assert!(followed.iter().all(|it| it.lists > 1), "{:?}", followed.iter().map(|it| it.lists));
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_through_everything_at_once() {
    let rules = |lab: &Lab| {
        for (seed, verb) in (0..).step_by(10).zip(["list", "watch"]) {
            lab.rule(Rule::on(verb).probability(0.2, seed).refuse(429).retry_after(1));
            lab.rule(Rule::on(verb).probability(0.2, seed + 1).refuse(500));
            lab.rule(Rule::on(verb).probability(0.2, seed + 2).reset_before());
            lab.rule(Rule::on(verb).probability(0.2, seed + 3).reset_after());
            lab.rule(Rule::on(verb).probability(0.5, seed + 4).delay(Duration::from_millis(300)));
        }
        lab.rule(Rule::on("watch").probability(0.3, 30).cut_after(11));
        lab.rule(Rule::on("watch").probability(0.5, 31).split(7));
        lab.rule(Rule::on("watch").probability(0.5, 32).coalesce(Duration::from_millis(50)));
        let lag = Delay::between(Duration::ZERO, Duration::from_millis(100));
        lab.rule(Rule::on("watch").probability(0.3, 33).lag(lag));
    };
    let orders: [Order; 6] = [
        |server| server.faults().drop_watches(),
        |server| server.faults().bookmark_now(),
        |server| {
            server.faults().compact(server.cluster());
        },
        |server| server.faults().pause(),
        |server| server.faults().resume(),
        expire,
    ];
    let (_, tally) = run(rules, &orders).await;
    for count in [tally.refused, tally.reset, tally.delayed, tally.dropped, tally.bookmarks] {
        assert!(count > 0, "{tally:?}");
    }
}
