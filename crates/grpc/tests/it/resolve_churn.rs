//! Hundreds of changes under injected faults: whatever happens meanwhile, the final endpoints are
//! the existing ones.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_grpc::{EndpointWatch, Resolver};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::{TestCluster, describe, until};

const SERVICES: usize = 3;
const SLICES: usize = 3;

/// The pods of each slice, by service and slice.
type Written = BTreeMap<(usize, usize), Vec<u8>>;

/// Writes, moves or deletes pods or slices.
async fn change(cluster: &TestCluster, written: &mut Written, dice: &mut StdRng) {
    let at = (dice.random_range(0..SERVICES), dice.random_range(0..SLICES));
    let name = format!("svc-{}-{}", at.0, at.1);
    if written.contains_key(&at) && dice.random_bool(0.15) {
        written.remove(&at);
        return cluster.delete_slice(&name).await;
    }
    let pods: Vec<u8> = (0..dice.random_range(0..6)).map(|_| dice.random_range(1..20)).collect();
    let texts: Vec<String> = pods
        .iter()
        .map(|it| format!("10.0.{}.{it} p{}-{it}{}", at.0, at.0, if it % 5 == 0 { " !" } else { "" }))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    cluster.slice(&format!("svc-{}", at.0), &name, &["=80"], &texts).await;
    written.insert(at, pods);
}

/// Injects faults, for some time or at once.
fn disturb(cluster: &TestCluster, dice: &mut StdRng) {
    let faults = cluster.server.faults();
    match dice.random_range(0..6) {
        0 => faults.drop_watches(),
        1 => faults.cut_watches(),
        2 => {
            cluster.server.expire_history();
        }
        3 => {
            faults.rule(Rule::on("watch").times(2).refuse(500));
        }
        4 => {
            faults.rule(Rule::on("watch").or("list").times(3).reset_before());
        }
        _ => {
            faults.rule(Rule::on("watch").times(1).cut_after(1));
        }
    }
}

/// Returns the formatted endpoints of a service once everything that was written is known.
fn expected(written: &Written, service: usize) -> String {
    let mut pods: Vec<u8> =
        written.iter().filter(|((it, _), _)| *it == service).flat_map(|(_, pods)| pods.clone()).collect();
    pods.sort_by_key(|it| format!("p{service}-{it}"));
    pods.dedup();
    let (unready, ready): (Vec<u8>, Vec<u8>) = pods.into_iter().partition(|it| it % 5 == 0);
    let mut words: Vec<String> = ready.iter().map(|it| format!("10.0.{service}.{it}:80")).collect();
    words.extend(unready.iter().map(|it| format!("-10.0.{service}.{it}:80")));
    if ready.is_empty() {
        words.push(match unready.len() {
            0 if written.keys().any(|(it, _)| *it == service) => "(it has no endpoints)".to_owned(),
            0 => "(there is no such service)".to_owned(),
            count => format!("(none of its {count} endpoints is ready)"),
        });
    }
    words.join(" ")
}

#[tokio::test(start_paused = true)]
async fn after_any_faults_the_endpoints_are_the_existing_ones() {
    for seed in 0..3 {
        let mut dice = StdRng::seed_from_u64(seed);
        let cluster = TestCluster::start().await;
        let mut written = Written::new();
        let mut watches: Vec<EndpointWatch> =
            (0..SERVICES).map(|it| cluster.watch(&format!("kubernetes:///svc-{it}"))).collect();
        for _ in 0..60 {
            change(&cluster, &mut written, &mut dice).await;
            if dice.random_bool(0.2) {
                disturb(&cluster, &mut dice);
            }
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..3000))).await;
        }
        cluster.server.faults().clear();
        let fresh = Resolver::new(cluster.client.clone());
        for (service, watch) in watches.iter_mut().enumerate() {
            let expected = expected(&written, service);
            until(watch, &expected).await;
            let target = format!("kubernetes:///svc-{service}").parse().expect("a target");
            let newcomer = fresh.watch(&target).known().await;
            assert_eq!(describe(&newcomer), expected, "seed {seed}: a new watch should see the same");
        }
    }
}
