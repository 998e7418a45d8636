//! Responses in protobuf: objects are encoded once for all of them.

use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The number of bytes that may be allocated at one time for each byte of a stored object: its
/// value takes most of them.
const PEAK_PER_BYTE: u64 = 30;

type Body = UnsyncBoxBody<bytes::Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A server in this process, with a client that accepts only protobuf.
struct Server {
    server: ApiServer,
    runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let builder = ApiServer::builder().in_process().seed(1).controllers(Controllers::none());
        Self { server: runtime.block_on(builder.start()).unwrap(), runtime }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Body {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("accept", "application/vnd.kubernetes.protobuf");
        let request = request.body(Full::<bytes::Bytes>::from(body)).unwrap();
        let response = self.runtime.block_on(self.server.service().oneshot(request)).unwrap();
        assert!(response.status().is_success(), "{method} {path}: {}", response.status());
        response.into_body()
    }

    fn create(&self, name: &str, value: &str) {
        drop(self.send("POST", MAPS, &json!({ "metadata": { "name": name }, "data": { "k": value } })));
    }

    /// Returns the number of bytes in all frames of a body, which are dropped one by one.
    fn read(&self, mut body: Body) -> usize {
        let mut length = 0;
        while let Some(frame) = self.runtime.block_on(body.frame()) {
            length += frame.unwrap().into_data().map_or(0, |it| bytes::Buf::remaining(&it));
        }
        length
    }
}

#[test]
fn an_object_is_encoded_once_for_its_writer_and_all_watches() {
    let server = Server::start();
    let watch = |_| server.send("GET", &format!("{MAPS}?watch=true&resourceVersion=1"), &Value::Null);
    let mut open: Vec<_> = (0..64).map(watch).collect();
    server.create("a", &"x".repeat(100_000));
    let send = || {
        for body in &mut open {
            let frame = server.runtime.block_on(body.frame()).unwrap().unwrap();
            assert!(frame.into_data().map_or(0, |it| bytes::Buf::remaining(&it)) > 100_000);
        }
    };
    let used = allocation_counter::measure(send).bytes_total;
    assert!(used < 100_000, "{used} bytes");
}

#[test]
fn a_list_is_assembled_from_encoded_objects() {
    let server = Server::start();
    for at in 0..100 {
        server.create(&format!("a{at}"), &"x".repeat(10_000));
    }
    let list = || {
        let body = server.send("GET", MAPS, &Value::Null);
        assert!(server.read(body) > 1_000_000);
    };
    list();
    // Only a client in the same process joins the pieces to one frame.
    let again = allocation_counter::measure(list).bytes_total;
    assert!(again < 1_300_000, "{again} bytes");
}

/// A message is written after its length, so each level of messages could copy all below it.
#[test]
fn the_depth_of_an_object_does_not_multiply_the_memory_of_its_encoding() {
    let server = Server::start();
    let leaf = json!({ "type": "string", "description": "d".repeat(200_000) });
    let schema = (0..30).fold(leaf, |inner, _| json!({ "type": "array", "items": inner }));
    let schema = json!({ "type": "object", "properties": { "spec": schema } });
    let names = json!({ "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" });
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let definition = json!({ "metadata": { "name": "things.ex.io" },
        "spec": { "group": "ex.io", "scope": "Cluster", "names": names, "versions": [version] } });
    drop(server.send("POST", DEFINITIONS, &definition));
    let size = definition.to_string().len() as u64;
    let read = || {
        let body = server.send("GET", &format!("{DEFINITIONS}/things.ex.io?resourceVersion=0"), &Value::Null);
        assert!(server.read(body) > 200_000);
    };
    let used = allocation_counter::measure(read);
    assert!(used.bytes_total < size * PEAK_PER_BYTE, "{} bytes for {size}", used.bytes_total);
}
