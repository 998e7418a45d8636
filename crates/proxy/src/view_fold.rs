//! For generated rules, callers, selectors and feeds: a list of a mirror equals the fold of a
//! watch, in the view that the caller has.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_apiserver::mirror::{
    Freshness, Mirror, MirrorEvent, MirrorEventType, MirrorObject, MirrorSettings, MirroredResource, Pending,
};
use dogwatch_apiserver::{ApiError, ResponseBody};
use futures_util::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::active_rules::Generation;
use crate::rules::Rule;
use crate::rules::generated::{any_caller, any_object, any_rule, rules_for};

const PATH: &str = "/apis/example.com/v1/maps";

/// A step of the feed.
#[derive(Clone, Debug)]
enum Step {
    /// Writes the object.
    Put(Value),
    /// Deletes the object with this key.
    Delete(Value),
    /// Changes that the mirror does not see one by one, and then a list.
    Relist(Vec<Value>),
    /// The server comes back with an older state: its versions are lower from now on.
    Restore,
    /// The rules have changed: everything begins again.
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_object().prop_map(Step::Put),
        3 => any_object().prop_map(Step::Delete),
        1 => proptest::collection::vec(any_object(), 0..4).prop_map(Step::Relist),
        1 => Just(Step::Restore),
        1 => Just(Step::Restart),
    ]
}

/// The mirrored server.
struct Server {
    version: u64,
    objects: BTreeMap<String, Value>,
    mirror: Mirror,
}

fn key(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"])
}

impl Server {
    fn new() -> Self {
        let resource = MirroredResource::new("example.com", "v1", "maps", "Map").namespaced();
        let mirror = Mirror::new(resource, MirrorSettings::default());
        let server = Self { version: 1_000, objects: BTreeMap::new(), mirror };
        server.relist();
        server
    }

    fn write(&mut self, object: &Value) -> (Value, MirrorEventType) {
        self.version += 2;
        let mut object = object.clone();
        object["apiVersion"] = "example.com/v1".into();
        object["kind"] = "Map".into();
        object["metadata"]["uid"] = key(&object).into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let before = self.objects.insert(key(&object), object.clone());
        (object, if before.is_some() { MirrorEventType::Modified } else { MirrorEventType::Added })
    }

    fn apply(&self, event_type: MirrorEventType, object: &Value) {
        let event = MirrorEvent::new(event_type, MirrorObject::from_value(object));
        self.mirror.apply(&event).unwrap();
    }

    fn relist(&self) {
        let objects = self.objects.values().map(MirrorObject::from_value).collect();
        self.mirror.replace(self.version, objects).unwrap();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Put(object) => {
                let (object, event_type) = self.write(object);
                self.apply(event_type, &object);
            }
            Step::Delete(object) => {
                let Some(mut gone) = self.objects.remove(&key(object)) else { return };
                self.version += 1;
                gone["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.apply(MirrorEventType::Deleted, &gone);
            }
            Step::Relist(objects) => {
                let missed: Vec<String> = self.objects.keys().take(1).cloned().collect();
                missed.iter().for_each(|it| drop(self.objects.remove(it)));
                for object in objects {
                    self.write(object);
                }
                self.version += 5;
                self.relist();
            }
            Step::Restore => {
                self.version = self.version.saturating_sub(500).max(10);
                let all: Vec<Value> = std::mem::take(&mut self.objects).into_values().collect();
                all.iter().for_each(|it| drop(self.write(it)));
                self.mirror.reset();
                self.relist();
            }
            Step::Restart => {
                self.mirror.reset();
                self.relist();
            }
        }
    }
}

struct At(u64);

impl Freshness for At {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(std::future::ready(Ok(self.0)))
    }
}

/// A client that lists and then watches.
struct Client<'a> {
    selector: &'static str,
    generation: &'a Generation,
    rules: Vec<Arc<Rule>>,
    watch: Option<ResponseBody>,
    /// The part of the last event that has arrived.
    line: Vec<u8>,
    objects: BTreeMap<String, Value>,
}

impl Client<'_> {
    async fn respond(&self, server: &Server, query: &str) -> http::Response<ResponseBody> {
        let view = self.generation.view(self.rules.clone());
        let uri = format!("{PATH}?{query}{}", self.selector);
        let request = Request::get(uri).body(()).unwrap();
        server.mirror.respond(request, view, &At(server.version)).await
    }

    async fn list(&self, server: &Server) -> (String, BTreeMap<String, Value>) {
        let response = self.respond(server, "").await;
        assert_eq!(response.status(), 200);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&bytes).unwrap();
        let items = list["items"].as_array().unwrap().iter().map(|it| (key(it), it.clone())).collect();
        (list["metadata"]["resourceVersion"].as_str().unwrap().to_owned(), items)
    }

    /// Reads the events that are there, and lists again after an error.
    async fn follow(&mut self, server: &Server) {
        let mut idle = 0;
        while idle < 3 {
            let Some(watch) = &mut self.watch else {
                let (version, objects) = self.list(server).await;
                self.objects = objects;
                self.line.clear();
                let watch = self.respond(server, &format!("watch=1&resourceVersion={version}")).await;
                self.watch = Some(watch.into_body());
                continue;
            };
            match watch.frame().now_or_never() {
                None => idle += 1,
                Some(None) => self.watch = None,
                Some(Some(frame)) => {
                    let data = frame.unwrap().into_data().unwrap();
                    self.line.extend_from_slice(&data.concat());
                    self.read_lines();
                }
            }
        }
    }

    fn read_lines(&mut self) {
        while let Some(end) = self.line.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let object = event["object"].clone();
            match event["type"].as_str().unwrap() {
                "ADDED" => assert_eq!(self.objects.insert(key(&object), object), None),
                "MODIFIED" => assert!(self.objects.insert(key(&object), object).is_some()),
                "DELETED" => assert!(self.objects.remove(&key(&object)).is_some()),
                "ERROR" => {
                    assert_eq!(object["code"], json!(410), "{object}");
                    self.watch = None;
                    return;
                }
                other => panic!("{other}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_list_in_a_view_is_the_fold_of_a_watch(
        texts in proptest::collection::vec(any_rule(), 0..4),
        caller in any_caller(),
        selector in prop_oneof![Just(""), Just("&labelSelector=tier%3Ddb"), Just("&labelSelector=!tier")],
        steps in proptest::collection::vec((any_step(), any::<bool>()), 0..25),
    ) {
        let generation = Generation::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut server = Server::new();
            let mut client = Client {
                selector, generation: &generation, rules: rules_for(&texts, caller),
                watch: None, line: Vec::new(), objects: BTreeMap::new(),
            };
            client.follow(&server).await;
            for (step, reads) in &steps {
                server.step(step);
                if *reads {
                    client.follow(&server).await;
                }
            }
            client.follow(&server).await;
            // A watch that had ended was opened again at the end of that.
            client.follow(&server).await;
            let (_, listed) = client.list(&server).await;
            assert_eq!(listed, client.objects);
        });
    }
}
