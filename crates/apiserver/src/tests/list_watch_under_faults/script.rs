//! The script: random writes, with faults of all kinds between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ApiServer;
use crate::cluster::Cluster;
use crate::faults::{Delay, FaultInjector, Rule, Scope};
use dogwatch_core::ObjectKey;
use http::Method;
use proptest::prelude::*;
use serde_json::json;

use super::recorded_history::RecordedHistory;
use crate::tests::requests::Transport;

const NAMESPACES: [&str; 2] = ["default", "kube-system"];
const COLOURS: [&str; 3] = ["red", "green", "blue"];
const PHASES: [&str; 2] = ["Pending", "Running"];

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sets the label `colour`; creates the pod if it does not exist.
    Paint {
        pod: u8,
        colour: u8,
    },
    Phase {
        pod: u8,
        phase: u8,
    },
    Delete {
        pod: u8,
    },
    DeleteAll {
        colour: u8,
    },
    Wait(u64),
    ObjectRef(Box<Rule>),
    Clear,
    Drop {
        cut: bool,
        scoped: bool,
    },
    Bookmark,
    Pause,
    Resume,
    Compact {
        back: u64,
    },
    Expire,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let pod = || 0..8_u8;
    prop_oneof![
        16 => (pod(), 0..3_u8).prop_map(|(pod, colour)| Step::Paint { pod, colour }),
        8 => (pod(), 0..2_u8).prop_map(|(pod, phase)| Step::Phase { pod, phase }),
        5 => pod().prop_map(|pod| Step::Delete { pod }),
        1 => (0..3_u8).prop_map(|colour| Step::DeleteAll { colour }),
        8 => (0..500_u64).prop_map(Step::Wait),
        1 => (500..5000_u64).prop_map(Step::Wait),
        5 => rule().prop_map(|rule| Step::ObjectRef(Box::new(rule))),
        1 => Just(Step::Clear),
        2 => any::<(bool, bool)>().prop_map(|(cut, scoped)| Step::Drop { cut, scoped }),
        1 => Just(Step::Bookmark),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        1 => (0..10_u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Expire),
    ]
}

/// Generates a rule of any kind. Rules that would block everything fire only a few times.
fn rule() -> impl Strategy<Value = Rule> {
    let verb = prop_oneof![
        Just("list"),
        Just("watch"),
        Just("create"),
        Just("patch"),
        Just("delete"),
        Just("deletecollection")
    ];
    let on_request = (verb, 1..4_u64, 0..6_u8, any::<u64>()).prop_map(|(verb, times, effect, seed)| {
        let rule = Rule::on(verb).resource("pods").times(times).probability(0.7, seed);
        match effect {
            0 => rule.refuse(429).retry_after(1),
            1 => rule.refuse(500),
            2 => rule.refuse(503).delay(Duration::from_millis(30)),
            3 => rule.reset_before(),
            4 => rule.reset_after(),
            _ => rule.delay(Delay::between(Duration::ZERO, Duration::from_secs(2))),
        }
    });
    let on_delivery =
        (1..4_u64, 0..6_u8, 1..9_u64, any::<u64>()).prop_map(|(times, effect, number, seed)| {
            let rule = Rule::on("watch").times(times).seed(seed);
            match effect {
                0 => rule.split(usize::try_from(number * number).unwrap()),
                1 => rule.coalesce(Duration::from_millis(100 * number)),
                2 => rule.lag(Delay::between(Duration::ZERO, Duration::from_millis(200 * number))),
                3 => rule.drop_after(number - 1),
                4 => rule.cut_after(number - 1),
                _ => rule.namespace("default").pause(),
            }
        });
    prop_oneof![on_request, on_delivery]
}

/// The executor of a script.
pub(crate) struct Script {
    transport: Transport,
    faults: FaultInjector,
    cluster: Arc<Cluster>,
    history: Arc<Mutex<RecordedHistory>>,
}

impl Script {
    pub(crate) fn new(server: &ApiServer, history: Arc<Mutex<RecordedHistory>>, seed: u64) -> Self {
        let transport = if seed.is_multiple_of(2) {
            Transport::direct(server)
        } else {
            Transport::wire(server, seed % 4 == 1)
        };
        Self { transport, faults: server.faults().clone(), cluster: Arc::clone(server.cluster()), history }
    }

    pub(crate) async fn run_step(&mut self, step: Step) {
        match step {
            Step::Paint { .. } | Step::Phase { .. } | Step::Delete { .. } | Step::DeleteAll { .. } => {
                self.write(step).await;
            }
            Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::ObjectRef(rule) => {
                self.faults.rule(*rule);
            }
            Step::Clear => self.faults.clear(),
            Step::Drop { cut, scoped: true } => {
                self.faults
                    .drop_watches_of(Scope { namespace: Some("default".into()), ..Scope::default() }, cut);
            }
            Step::Drop { cut: true, scoped: false } => self.faults.cut_watches(),
            Step::Drop { cut: false, scoped: false } => self.faults.drop_watches(),
            Step::Bookmark => self.faults.bookmark_now(),
            Step::Pause => self.faults.pause(),
            Step::Resume => self.faults.resume(),
            Step::Compact { back } => {
                self.history.lock().unwrap().read();
                let version = self.cluster.store().revision().saturating_sub(back);
                self.faults.compact_to(&self.cluster, version);
            }
            Step::Expire => {
                self.history.lock().unwrap().read();
                self.faults.expire(&self.cluster);
            }
        }
    }

    fn exists(&self, pod: u8) -> bool {
        let key = ObjectKey::namespaced(namespace(pod), &format!("pod-{pod}"));
        self.cluster.store().get(&"/pods".into(), &key).is_some()
    }

    /// Sends a write and accepts any outcome: the history records what happened.
    async fn write(&self, step: Step) {
        let location =
            |pod: u8| (format!("/api/v1/namespaces/{}/pods", namespace(pod)), format!("pod-{pod}"));
        let colour = |colour: u8| COLOURS[usize::from(colour)];
        let (method, path, body) = match step {
            Step::Paint { pod, colour: new } if !self.exists(pod) => {
                let (path, name) = location(pod);
                let body = json!({ "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": name, "labels": { "colour": colour(new) } },
                    "spec": { "containers": [{ "name": "main", "image": "main:1" }] } });
                (Method::POST, path, body)
            }
            Step::Paint { pod, colour: new } => {
                let (path, name) = location(pod);
                let body = json!({ "metadata": { "labels": { "colour": colour(new) } } });
                (Method::PATCH, format!("{path}/{name}"), body)
            }
            Step::Phase { pod, phase } => {
                let (path, name) = location(pod);
                let body = json!({ "status": { "phase": PHASES[usize::from(phase)] } });
                (Method::PATCH, format!("{path}/{name}/status"), body)
            }
            Step::Delete { pod } => {
                let (path, name) = location(pod);
                (Method::DELETE, format!("{path}/{name}"), json!({ "gracePeriodSeconds": 0 }))
            }
            Step::DeleteAll { colour: gone } => {
                let path = format!("/api/v1/namespaces/default/pods?labelSelector=colour%3D{}", colour(gone));
                (Method::DELETE, path, json!({ "gracePeriodSeconds": 0 }))
            }
            _ => return,
        };
        if let Ok(reply) = self.transport.send(method, &path, Some(&body)).await {
            let expected = [200, 201, 404, 409, 429, 500, 503];
            assert!(expected.contains(&reply.code), "{path}: {}", reply.body);
        }
    }
}

fn namespace(pod: u8) -> &'static str {
    NAMESPACES[usize::from(pod) % 2]
}
