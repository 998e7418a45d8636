//! For random feeds, selectors and views: a list equals the fold of a watch, at every version.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Maps, Seen, Watching, in_protobuf, key_of, map, version_of};
use crate::mirror::{MirrorEvent, MirrorEventType, MirrorObject, View};

const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// A step of the feed.
#[derive(Clone, Debug)]
enum Step {
    /// The object of this number gets this colour.
    Put(u8, u8),
    Delete(u8),
    Advance,
    /// Changes that the mirror does not see one by one, and then a list.
    Relist(Vec<(u8, Option<u8>)>),
    /// The server loses its history: its versions are lower from now on.
    Restore,
}

/// The mirrored server.
struct Server {
    version: u64,
    objects: BTreeMap<u8, Value>,
    in_protobuf: bool,
}

/// A client that lists and then watches.
struct Client {
    selector: &'static str,
    view: Option<u64>,
    is_in_protobuf: bool,
    watching: Watching,
    version: u64,
    objects: BTreeMap<String, Value>,
    /// Set after the watch was resumed, when events may repeat what the client has seen.
    is_resumed: bool,
}

impl Server {
    fn new(in_protobuf: bool) -> Self {
        Self { version: 1000, objects: BTreeMap::new(), in_protobuf }
    }

    fn object(&self, object: &Value) -> MirrorObject {
        if self.in_protobuf { in_protobuf(object) } else { MirrorObject::from_value(object) }
    }

    fn put(&mut self, number: u8, colour: u8) -> Value {
        self.version += 2;
        let object = map(&format!("o{number}"), self.version, COLOURS[usize::from(colour)]);
        self.objects.insert(number, object.clone());
        object
    }

    fn relist(&self, maps: &Maps) {
        let objects = self.objects.values().map(|it| self.object(it)).collect();
        maps.mirror.replace(self.version, objects).expect("the list is newer");
    }

    fn step(&mut self, step: &Step, maps: &Maps) {
        let event = |server: &Self, event_type, object: &Value| {
            let event = MirrorEvent::new(event_type, server.object(object));
            maps.mirror.apply(&event).expect("the event is newer");
        };
        match step {
            Step::Put(number, colour) => {
                let known = self.objects.contains_key(number);
                let object = self.put(*number, *colour);
                let event_type = if known { MirrorEventType::Modified } else { MirrorEventType::Added };
                event(self, event_type, &object);
            }
            Step::Delete(number) => {
                let Some(mut object) = self.objects.remove(number) else { return };
                self.version += 1;
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                event(self, MirrorEventType::Deleted, &object);
            }
            Step::Advance => {
                self.version += 3;
                maps.mirror.advance(self.version).expect("the bookmark is newer");
            }
            Step::Relist(changes) => {
                for (number, colour) in changes {
                    match colour {
                        Some(colour) => drop(self.put(*number, *colour)),
                        None => drop(self.objects.remove(number)),
                    }
                    self.version += 1;
                }
                self.relist(maps);
            }
            Step::Restore => {
                maps.mirror.reset();
                self.version -= 10;
                let version = self.version;
                self.objects.retain(|_, it| version_of(it) <= version);
                self.relist(maps);
            }
        }
    }
}

/// Returns the view with this identity: the first hides green objects, the second shows blue ones
/// as red.
fn view(identity: Option<u64>) -> View {
    let Some(identity) = identity else { return View::unchanged() };
    View::new(identity, move |object| {
        shown(&object.to_value().ok()?, Some(identity)).map(|it| MirrorObject::from_value(&it))
    })
}

fn shown(object: &Value, identity: Option<u64>) -> Option<Value> {
    let mut object = object.clone();
    match (identity, object["metadata"]["labels"]["colour"].as_str()) {
        (Some(1), Some("green")) => return None,
        (Some(2), Some("blue")) => object["metadata"]["labels"] = json!({ "colour": "red" }),
        _ => {}
    }
    Some(object)
}

fn selects(selector: &str, object: &Value) -> bool {
    let (colour, name) = (&object["metadata"]["labels"]["colour"], &object["metadata"]["name"]);
    match selector {
        "labelSelector=colour%3Dred" => colour == "red",
        "labelSelector=colour%21%3Dred" => colour != "red",
        "fieldSelector=metadata.name%3Do1" => name == "o1",
        _ => true,
    }
}

const SELECTORS: [&str; 4] =
    ["", "labelSelector=colour%3Dred", "labelSelector=colour%21%3Dred", "fieldSelector=metadata.name%3Do1"];

impl Client {
    async fn start(maps: &Maps, selector: &'static str, view: Option<u64>, is_in_protobuf: bool) -> Self {
        let (version, objects) = list(maps, selector, view).await;
        let watching = watch(maps, selector, view, is_in_protobuf, version).await;
        Self { selector, view, is_in_protobuf, watching, version, objects, is_resumed: false }
    }

    /// Receives what there is, and compares the result with a list.
    async fn follow(&mut self, maps: &Maps, server: &Server) {
        for seen in self.watching.now() {
            self.receive(seen);
            if self.objects.contains_key("expired") {
                *self = Self::start(maps, self.selector, self.view, self.is_in_protobuf).await;
                return;
            }
        }
        let expected: BTreeMap<_, _> = server
            .objects
            .values()
            .filter_map(|it| shown(it, self.view))
            .filter(|it| selects(self.selector, it))
            .map(|it| (key_of(&it), it))
            .collect();
        let (version, listed) = list(maps, self.selector, self.view).await;
        assert_eq!((version, &listed), (server.version, &expected), "list {} {:?}", self.selector, self.view);
        assert_eq!(&self.objects, &expected, "watch {} {:?}", self.selector, self.view);
    }

    fn receive(&mut self, seen: Seen) {
        let object = match &seen {
            Seen::Added(object) | Seen::Modified(object) | Seen::Deleted(object) => object.clone(),
            Seen::Bookmark(version, _) => {
                self.version = *version;
                return;
            }
            Seen::Error(410) | Seen::End => {
                self.objects = BTreeMap::from([("expired".to_owned(), Value::Null)]);
                return;
            }
            Seen::Error(code) => panic!("{code}"),
        };
        let version = version_of(&object);
        assert!(version >= self.version, "{version} after {}", self.version);
        self.version = version;
        let key = key_of(&object);
        let is_known = match seen {
            Seen::Deleted(_) => self.objects.remove(&key).is_some(),
            _ => self.objects.insert(key.clone(), object).is_some(),
        };
        let is_addition = matches!(seen, Seen::Added(_));
        assert!(self.is_resumed || is_known != is_addition, "{seen:?}");
    }

    /// Ends the watch and starts another at the last version that the client has seen.
    async fn resume(&mut self, maps: &Maps) {
        self.watching = watch(maps, self.selector, self.view, self.is_in_protobuf, self.version).await;
        self.is_resumed = true;
    }
}

async fn list(maps: &Maps, selector: &str, identity: Option<u64>) -> (u64, BTreeMap<String, Value>) {
    let path = format!("/api/v1/configmaps?resourceVersion=0&{selector}");
    let reply = maps.ask(&path, "application/json", view(identity), 0).await;
    let list = reply.json();
    let items = list["items"].as_array().expect("a list").iter();
    let typed = |it: &Value| {
        let mut object = it.clone();
        (object["kind"], object["apiVersion"]) = ("ConfigMap".into(), "v1".into());
        (key_of(&object), object)
    };
    (reply.version(), items.map(typed).collect())
}

async fn watch(
    maps: &Maps,
    selector: &str,
    identity: Option<u64>,
    is_in_protobuf: bool,
    version: u64,
) -> Watching {
    let accept = if is_in_protobuf { "application/vnd.kubernetes.protobuf" } else { "application/json" };
    maps.watch_as(&format!("resourceVersion={version}&{selector}"), accept, view(identity)).await
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (0..6u8, 0..3u8).prop_map(|(number, colour)| Step::Put(number, colour));
    let unseen = proptest::collection::vec((0..6u8, proptest::option::of(0..3u8)), 0..6);
    let step = prop_oneof![
        8 => put,
        3 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Advance),
        2 => unseen.prop_map(Step::Relist),
        1 => Just(Step::Restore),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_list_is_the_fold_of_a_watch_at_every_version(
        steps in steps(),
        in_protobuf: bool,
        resumes in proptest::collection::vec(any::<bool>(), 25),
        start in 0..5usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (maps, mut server) = (Maps::new(), Server::new(in_protobuf));
            server.relist(&maps);
            let mut clients = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                if at == start.min(steps.len() - 1) {
                    for (number, selector) in SELECTORS.into_iter().enumerate() {
                        for view in [None, Some(1), Some(2)] {
                            clients.push(Client::start(&maps, selector, view, number % 2 == 1).await);
                        }
                    }
                }
                server.step(step, &maps);
                for client in &mut clients {
                    client.follow(&maps, &server).await;
                    if resumes[at] {
                        client.resume(&maps).await;
                    }
                }
            }
        });
    }
}
