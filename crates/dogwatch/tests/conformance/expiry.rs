//! Lists whose continue token expires (rule PG-1).
//!
//! A server compacts its history whenever it likes, kube-apiserver after minutes; no test can wait
//! for it. So [`TokenExpirer`] sits between client and server and rewrites every continue token to
//! the first version there ever was. If the server has compacted that version, its 410 goes to the
//! client unchanged. If the server still has it, or its tokens are opaque, the layer answers 410 in
//! the words of kube-apiserver 1.36. Everything else comes from the server: the pages, their
//! tokens, and the list that is read again.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dogwatch::api::{DeleteParams, ListEvent, ListParams, ListStream, VersionMatch, WriteParams};
use dogwatch::client::{BoxError, HttpService, RequestBody, ResponseBody, boxed};
use dogwatch::http::{Method, Request, Response, StatusCode, Uri};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower::layer::layer_fn;
use tower::{ServiceExt, service_fn};

use crate::fixtures::{config_map, labelled, names};
use crate::support::{TestNamespace, chain, config, within};

/// The message of kube-apiserver for a continue token whose version is compacted.
const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                       list without the continue parameter, or use the continue token in this response to retrieve the \
                       remainder of the results.";

/// A client layer that makes continue tokens expire, and records the list requests. Clones share
/// the record.
#[derive(Clone, Debug, Default)]
struct TokenExpirer {
    lists: Arc<Mutex<Vec<ListRequest>>>,
}

/// The parameters of one list request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListRequest {
    limit: Option<String>,
    version: Option<String>,
    version_match: Option<String>,
    continued: bool,
}

impl TokenExpirer {
    /// Returns a client whose lists expire after their first page.
    fn client(&self) -> Client {
        let this = self.clone();
        let layer = layer_fn(move |server: HttpService| {
            let this = this.clone();
            service_fn(move |request| this.clone().handle(server.clone(), request))
        });
        Client::builder(config()).layer(layer).build().expect("the kubeconfig of the suite can be used")
    }

    /// Returns the list requests since the last call.
    fn requested(&self) -> Vec<ListRequest> {
        std::mem::take(&mut self.lists.lock().expect("no test panics while it holds this"))
    }

    async fn handle(
        self,
        server: HttpService,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let value = |name: &str| query(request.uri()).into_iter().find(|it| it.0 == name).map(|it| it.1);
        if request.method() != Method::GET || value("labelSelector").is_none() {
            return server.oneshot(request).await;
        }
        let token = value("continue");
        self.lists.lock().expect("no test panics while it holds this").push(ListRequest {
            limit: value("limit"),
            version: value("resourceVersion"),
            version_match: value("resourceVersionMatch"),
            continued: token.is_some(),
        });
        let Some(token) = token else { return server.oneshot(request).await };
        let Some(with_first_version) = with_first_version(&token) else { return Ok(expired()) };
        *request.uri_mut() = with_token(request.uri(), &with_first_version);
        let response = server.oneshot(request).await?;
        match response.status() {
            StatusCode::GONE => Ok(response),
            StatusCode::OK => Ok(expired()),
            code => {
                panic!("a token for an old version must be served or expired, but the response is {code}")
            }
        }
    }
}

/// Returns the decoded query parameters.
fn query(uri: &Uri) -> Vec<(String, String)> {
    let url: url::Url = uri.to_string().parse().expect("requests have absolute URLs");
    url.query_pairs().into_owned().collect()
}

/// Returns the URI with another continue token.
fn with_token(uri: &Uri, token: &str) -> Uri {
    let mut url: url::Url = uri.to_string().parse().expect("requests have absolute URLs");
    let others = query(uri).into_iter().filter(|it| it.0 != "continue");
    url.query_pairs_mut().clear().extend_pairs(others).append_pair("continue", token);
    url.as_str().parse().expect("the URL stays valid")
}

/// Returns the token for the same position at version 1, or `None` if the token is not base64 of
/// JSON with the version in `rv`.
fn with_first_version(token: &str) -> Option<String> {
    let text = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let mut value: Value = serde_json::from_slice(&text).ok()?;
    *value.get_mut("rv")? = json!(1);
    Some(URL_SAFE_NO_PAD.encode(value.to_string()))
}

/// Returns the 410 for a server that has not compacted the version.
fn expired() -> Response<ResponseBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": EXPIRED, "reason": "Expired", "code": 410,
    });
    let response = Response::builder().status(StatusCode::GONE).header("content-type", "application/json");
    response.body(boxed(status.to_string())).expect("a valid response")
}

/// A namespace with objects `a` to `e`, a handle whose lists expire and one whose lists do not.
struct Fixture {
    expirer: TokenExpirer,
    lists: Api<ConfigMap>,
    plain: Api<ConfigMap>,
    _space: TestNamespace,
}

impl Fixture {
    async fn new() -> Self {
        let (expirer, client) = (TokenExpirer::default(), crate::support::client());
        let space = TestNamespace::new(&client).await;
        let (lists, plain) = (space.api(&expirer.client()), space.api(&client));
        let fixture = Self { expirer, lists, plain, _space: space };
        for name in ["a", "b", "c", "d", "e"] {
            fixture.create(name).await;
        }
        fixture
    }

    async fn create(&self, name: &str) {
        let object = config_map(name, json!({ "set": "this" }));
        self.plain.create(&WriteParams::default(), &object).await.expect("created");
    }
}

fn in_pages() -> ListParams {
    labelled("set=this").limit(2)
}

fn requested(limit: Option<&str>, continued: bool) -> ListRequest {
    ListRequest { limit: limit.map(str::to_owned), version: None, version_match: None, continued }
}

/// Returns the next entry of the stream: a name, or `restarted`.
async fn next(stream: &mut ListStream<ConfigMap>) -> Option<String> {
    let listed = within("the next object of the list", stream.try_next()).await;
    match listed.unwrap_or_else(|error| panic!("the list broke: {}", chain(&error)))? {
        ListEvent::Item(object) => object.metadata.name,
        ListEvent::Restarted => Some("restarted".to_owned()),
        ListEvent::End { paginated, .. } => {
            assert!(!paginated, "the final list came in one response");
            None
        }
        other => panic!("an object that cannot be decoded: {other:?}"),
    }
}

async fn rest(stream: &mut ListStream<ConfigMap>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(name) = next(stream).await {
        all.push(name);
    }
    all
}

#[tokio::test]
async fn pg_1_an_expired_list_is_read_again_without_pages() {
    let fixture = Fixture::new().await;
    for mut stream in [fixture.lists.list_pages(&in_pages()), fixture.lists.list_stream(&in_pages())] {
        assert_eq!(rest(&mut stream).await, ["a", "b", "restarted", "a", "b", "c", "d", "e"]);
        assert_eq!(
            fixture.expirer.requested(),
            [requested(Some("2"), false), requested(Some("2"), true), requested(None, false),]
        );
        let metadata = stream.into_metadata();
        assert!(metadata.version.is_exact() && metadata.continue_token.is_none());
    }
}

#[tokio::test]
async fn pg_1_a_restarted_list_shows_the_current_objects() {
    let fixture = Fixture::new().await;
    let mut stream = fixture.lists.list_pages(&in_pages());
    assert_eq!(next(&mut stream).await.as_deref(), Some("a"));
    fixture.plain.delete("c", &DeleteParams::default()).await.expect("deleted");
    fixture.create("f").await;
    assert_eq!(rest(&mut stream).await, ["b", "restarted", "a", "b", "d", "e", "f"]);
}

#[tokio::test]
async fn pg_1_a_collected_list_that_expires_holds_every_object_once() {
    let fixture = Fixture::new().await;
    let list = fixture.lists.list_all(&in_pages()).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(names(&list.items), ["a", "b", "c", "d", "e"]);
    assert_eq!(fixture.expirer.requested().len(), 3);
}

#[tokio::test]
async fn pg_1_an_expired_list_is_read_again_at_the_requested_version() {
    let fixture = Fixture::new().await;
    let then = fixture.plain.list(&labelled("set=this")).await.expect("listed").metadata.version;
    fixture.plain.delete("c", &DeleteParams::default()).await.expect("deleted");
    let then_or_now: [(VersionMatch, &[&str]); 2] = [
        (VersionMatch::Exact, &["a", "b", "c", "d", "e"]),
        (VersionMatch::NotOlderThan, &["a", "b", "d", "e"]),
    ];
    for (version_match, expected) in then_or_now {
        let params = in_pages().at(then.clone()).matching(version_match);
        let list = fixture.lists.list_all(&params).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert_eq!(names(&list.items), expected, "{version_match:?}");
        let lists = fixture.expirer.requested();
        let first = ListRequest {
            version: Some(then.to_string()),
            version_match: Some(format!("{version_match:?}")),
            ..requested(Some("2"), false)
        };
        // kube-apiserver may serve a NotOlderThan list from its watch cache and ignore the limit.
        if version_match != VersionMatch::NotOlderThan || lists.len() > 1 {
            let again = ListRequest { limit: None, ..first.clone() };
            assert_eq!(lists, [first, requested(Some("2"), true), again]);
        }
    }
}

#[tokio::test]
async fn pg_1_a_list_that_begins_with_an_expired_token_is_an_error() {
    let fixture = Fixture::new().await;
    let page = fixture.plain.list(&in_pages()).await.expect("a page");
    let token = page.metadata.continue_token.expect("there is more");
    let mut stream = fixture.lists.list_pages(&in_pages().continue_token(token));
    let error = within("a response", stream.try_next())
        .await
        .expect_err("a list that began with a token cannot restart");
    assert!(error.is_expired(), "{}", chain(&error));
    let status = error.status().expect("the server says so");
    assert_eq!((status.code, status.is_expired()), (410, true), "{status:?}");
    assert_eq!(fixture.expirer.requested(), [requested(Some("2"), true)]);
}
