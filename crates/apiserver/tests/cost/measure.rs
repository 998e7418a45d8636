//! Sends requests of two sizes to a server and compares what they cost.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use cpu_time::ThreadTime;
use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// The ratio of the two sizes. A cost that grows with the square of the size grows 64-fold.
const RATIO: usize = 8;

/// The factor by which the cost for each byte of a request may grow from the small size to the
/// large one. It would grow by [`RATIO`] if the cost were quadratic.
const TOLERANCE: f64 = 3.0;

/// The CPU time below which a cost is not compared, because it is mostly noise.
const NEGLIGIBLE: Duration = Duration::from_millis(20);

/// The number of bytes that may be allocated at one time for each byte of the requests. A map with
/// one short field takes about a hundred bytes for each byte of its text, and an apply holds four
/// copies of the object.
const PEAK_PER_BYTE: f64 = 400.0;

/// The number of bytes that any request may allocate at one time: the messages about an invalid
/// object are limited, but a short request can reach the limit.
const NEGLIGIBLE_PEAK: u64 = 16 * 1024 * 1024;

/// The text in a request that stands for the token in the response to the previous one.
pub(crate) const TOKEN: &str = "{token}";

/// One request.
#[derive(Clone)]
pub(crate) struct Sent {
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Bytes,
}

impl Sent {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), kind: "", body: Bytes::new() }
    }

    pub(crate) fn delete(path: impl Into<String>, body: &Value) -> Self {
        Self::of("DELETE", path, "application/json", body.to_string())
    }

    pub(crate) fn post(path: impl Into<String>, object: &Value) -> Self {
        Self::of("POST", path, "application/json", object.to_string())
    }

    pub(crate) fn put(path: impl Into<String>, object: &Value) -> Self {
        Self::of("PUT", path, "application/json", object.to_string())
    }

    pub(crate) fn merge(path: impl Into<String>, patch: &Value) -> Self {
        Self::of("PATCH", path, "application/merge-patch+json", patch.to_string())
    }

    pub(crate) fn strategic(path: impl Into<String>, patch: &Value) -> Self {
        Self::of("PATCH", path, "application/strategic-merge-patch+json", patch.to_string())
    }

    pub(crate) fn json_patch(path: impl Into<String>, operations: &Value) -> Self {
        Self::of("PATCH", path, "application/json-patch+json", operations.to_string())
    }

    pub(crate) fn apply(path: impl Into<String>, object: &Value) -> Self {
        Self::of("PATCH", path, "application/apply-patch+yaml", object.to_string())
    }

    pub(crate) fn of(
        method: &'static str,
        path: impl Into<String>,
        kind: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self { method, path: path.into(), kind, body: body.into() }
    }

    fn size(&self) -> usize {
        self.path.len() + self.body.len()
    }

    /// Returns the request with the token of the previous response in place of [`TOKEN`].
    fn with_token_of(&self, response: &[u8]) -> Self {
        let Ok(body) = std::str::from_utf8(&self.body) else { return self.clone() };
        if !body.contains(TOKEN) {
            return self.clone();
        }
        let response: Value = serde_json::from_slice(response).unwrap();
        let token = response["status"]["token"].as_str().unwrap();
        Self { body: body.replace(TOKEN, token).into(), ..self.clone() }
    }
}

/// A shape of request: its name, the size to begin with, the requests of a size, of which the last
/// is measured, and the status code of its response.
pub(crate) type Shape = (&'static str, usize, fn(usize) -> Vec<Sent>, u16);

/// The cost of a request.
#[derive(Clone, Copy, Debug)]
struct Cost {
    size: usize,
    allocated: u64,
    peak: u64,
    time: Duration,
}

/// A server without controllers.
struct Server {
    server: ApiServer,
    runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        // The runtime of the first server is kept with it.
        static FIRST: OnceLock<Server> = OnceLock::new();
        let runtime = || Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let first = FIRST.get_or_init(|| {
            let runtime = runtime();
            // Definitions are served only with their controller.
            let mut controllers = Controllers::none();
            controllers.definitions = true;
            let builder = ApiServer::builder().in_process().seed(1).controllers(controllers);
            Self { server: runtime.block_on(builder.start()).unwrap(), runtime }
        });
        let runtime = runtime();
        Self { server: runtime.block_on(first.server.fork()).unwrap(), runtime }
    }

    /// Returns the code and the body of the response.
    fn send(&self, sent: &Sent) -> (u16, Bytes) {
        let mut request = Request::builder().method(sent.method).uri(&sent.path);
        if !sent.kind.is_empty() {
            request = request.header("content-type", sent.kind);
        }
        if sent.method == "GET" {
            request =
                request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
        }
        let request = request.body(Full::new(sent.body.clone())).unwrap();
        self.runtime.block_on(async {
            let (parts, body) = self.server.service().oneshot(request).await.unwrap().into_parts();
            (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
        })
    }
}

/// Sends the requests of a size and returns the cost of the last one.
fn cost(&(name, _, requests, code): &Shape, size: usize) -> Cost {
    let server = Server::start();
    let requests = requests(size);
    let size = requests.iter().map(Sent::size).sum();
    let (last, before) = requests.split_last().unwrap();
    let mut previous = Bytes::new();
    for sent in before {
        let (code, body) = server.send(&sent.with_token_of(&previous));
        let shown = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
        assert!(code < 300, "{name}: {} {}: {shown}", sent.method, sent.path);
        previous = body;
    }
    let last = last.with_token_of(&previous);
    let mut response = None;
    let mut time = Duration::ZERO;
    let used = allocation_counter::measure(|| {
        let start = ThreadTime::now();
        response = Some(server.send(&last));
        time = start.elapsed();
    });
    let (found, body) = response.unwrap();
    let shown = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
    assert_eq!(found, code, "{name}: {shown}");
    Cost { size, allocated: used.bytes_total, peak: used.bytes_max, time }
}

/// Panics with all shapes whose cost grows faster than their size.
pub(crate) fn assert_proportional(shapes: &[Shape]) {
    let mut wrong = Vec::new();
    for shape in shapes {
        let (small, mut large) = (cost(shape, shape.1), cost(shape, shape.1 * RATIO));
        let per_byte = |cost: f64, of: Cost| cost / of.size as f64;
        let growth =
            |cost: fn(Cost) -> f64, large: Cost| per_byte(cost(large), large) / per_byte(cost(small), small);
        let allocated = growth(|it| it.allocated as f64, large);
        let growth_of_time = |large: Cost| growth(|it| it.time.as_secs_f64(), large);
        let is_slow = |large: Cost| large.time > NEGLIGIBLE && growth_of_time(large) > TOLERANCE;
        // The time of a thread includes work of the kernel, such as reclaiming memory: a long one
        // has to be confirmed.
        for _ in 0..2 {
            if is_slow(large) {
                large.time = large.time.min(cost(shape, shape.1 * RATIO).time);
            }
        }
        let (slow, time) = (is_slow(large), growth_of_time(large));
        let peak = per_byte(large.peak as f64, large);
        let report = format!(
            "{}: memory ×{allocated:.1}, time ×{time:.1}, {peak:.0} bytes at once for each byte: {small:?} {large:?}",
            shape.0
        );
        let greedy = large.peak > NEGLIGIBLE_PEAK && peak > PEAK_PER_BYTE;
        if slow || allocated > TOLERANCE || greedy {
            wrong.push(report);
        }
    }
    assert!(wrong.is_empty(), "a cost grows faster than the request:\n{}", wrong.join("\n"));
}

/// Returns the list of the items made for `0..size`.
pub(crate) fn list(size: usize, item: impl FnMut(usize) -> Value) -> Value {
    (0..size).map(item).collect()
}

/// Returns the object with a field for each of `0..size`.
pub(crate) fn map(size: usize, field: impl FnMut(usize) -> (String, Value)) -> Value {
    Value::Object((0..size).map(field).collect())
}
