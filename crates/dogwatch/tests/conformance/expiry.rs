//! Lists that the server forgets half-way (rule PG-1).
//!
//! A server forgets when it likes, a kube-apiserver minutes later; no test can wait for it. So [`Forgetful`] stands between
//! client and server and turns every continue token into one of the first version there ever was. Who has forgotten
//! that version says so, and that answer goes to the client as it is. Who still has it, or writes tokens that nobody else
//! can, is spoken for in the words of a kube-apiserver 1.36. Everything else is the server's own: the pages, their
//! tokens, and the list that is read again.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dogwatch::http::{Method, Request, Response, StatusCode, Uri};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{
    Api, BoxError, Client, DeleteParams, HttpService, ListParams, ListStream, Listed, RequestBody,
    ResponseBody, VersionMatch, WriteParams, boxed,
};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower::layer::layer_fn;
use tower::{ServiceExt, service_fn};

use crate::fixtures::{config_map, labelled, names};
use crate::support::{Space, chain, config, within};

/// What a kube-apiserver says of a continue token whose version it has dropped.
const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                       list without the continue parameter, or use the continue token in this response to retrieve the \
                       remainder of the results.";

/// Makes the server forget, and remembers what it was asked. Clones share what they remember.
#[derive(Clone, Debug, Default)]
struct Forgetful {
    lists: Arc<Mutex<Vec<Asked>>>,
}

/// One list as the client asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    limit: Option<String>,
    version: Option<String>,
    version_match: Option<String>,
    continued: bool,
}

impl Forgetful {
    /// A client whose lists are forgotten after their first page.
    fn client(&self) -> Client {
        let this = self.clone();
        let layer = layer_fn(move |server: HttpService| {
            let this = this.clone();
            service_fn(move |request| this.clone().carry(server.clone(), request))
        });
        Client::builder(config()).layer(layer).build().expect("the kubeconfig of the suite can be used")
    }

    /// The lists that were asked for since the last call.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.lists.lock().expect("no test panics while it holds this"))
    }

    async fn carry(
        self,
        server: HttpService,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let value = |name: &str| query(request.uri()).into_iter().find(|it| it.0 == name).map(|it| it.1);
        if request.method() != Method::GET || value("labelSelector").is_none() {
            return server.oneshot(request).await;
        }
        let token = value("continue");
        self.lists.lock().expect("no test panics while it holds this").push(Asked {
            limit: value("limit"),
            version: value("resourceVersion"),
            version_match: value("resourceVersionMatch"),
            continued: token.is_some(),
        });
        let Some(token) = token else { return server.oneshot(request).await };
        let Some(aged) = aged(&token) else { return Ok(expired()) };
        *request.uri_mut() = with_token(request.uri(), &aged);
        let answer = server.oneshot(request).await?;
        match answer.status() {
            StatusCode::GONE => Ok(answer),
            StatusCode::OK => Ok(expired()),
            code => panic!("a token of long ago must be served or expired, not answered with {code}"),
        }
    }
}

/// The pairs of a query, decoded.
fn query(uri: &Uri) -> Vec<(String, String)> {
    let url: url::Url = uri.to_string().parse().expect("requests have absolute addresses");
    url.query_pairs().into_owned().collect()
}

/// The same address with another continue token.
fn with_token(uri: &Uri, token: &str) -> Uri {
    let mut url: url::Url = uri.to_string().parse().expect("requests have absolute addresses");
    let others = query(uri).into_iter().filter(|it| it.0 != "continue");
    url.query_pairs_mut().clear().extend_pairs(others).append_pair("continue", token);
    url.as_str().parse().expect("an address stays one")
}

/// The token of the same place in the first version there was, if tokens are what they usually are: base64 of JSON with
/// the version in `rv`.
fn aged(token: &str) -> Option<String> {
    let text = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let mut value: Value = serde_json::from_slice(&text).ok()?;
    *value.get_mut("rv")? = json!(1);
    Some(URL_SAFE_NO_PAD.encode(value.to_string()))
}

/// What to say for a server that has not forgotten.
fn expired() -> Response<ResponseBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": EXPIRED, "reason": "Expired", "code": 410,
    });
    let answer = Response::builder().status(StatusCode::GONE).header("content-type", "application/json");
    answer.body(boxed(status.to_string())).expect("a valid response")
}

/// A namespace with objects `a` to `e`, a handle that is forgotten and one that is not.
struct Setting {
    forgetful: Forgetful,
    lists: Api<ConfigMap>,
    plain: Api<ConfigMap>,
    _space: Space,
}

impl Setting {
    async fn new() -> Self {
        let (forgetful, client) = (Forgetful::default(), crate::support::client());
        let space = Space::new(&client).await;
        let (lists, plain) = (space.api(&forgetful.client()), space.api(&client));
        let setting = Self { forgetful, lists, plain, _space: space };
        for name in ["a", "b", "c", "d", "e"] {
            setting.create(name).await;
        }
        setting
    }

    async fn create(&self, name: &str) {
        let object = config_map(name, json!({ "set": "this" }));
        self.plain.create(&WriteParams::default(), &object).await.expect("created");
    }
}

fn in_pages() -> ListParams {
    labelled("set=this").limit(2)
}

fn asked(limit: Option<&str>, continued: bool) -> Asked {
    Asked { limit: limit.map(str::to_owned), version: None, version_match: None, continued }
}

/// The next of the stream: a name, or `restarted`.
async fn next(stream: &mut ListStream<ConfigMap>) -> Option<String> {
    let listed = within("the next object of the list", stream.try_next()).await;
    match listed.unwrap_or_else(|error| panic!("the list broke: {}", chain(&error)))? {
        Listed::Item(object) => object.metadata.name,
        Listed::Restarted => Some("restarted".to_owned()),
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
async fn pg_1_a_list_that_expires_is_read_again_in_one_piece() {
    let setting = Setting::new().await;
    for mut stream in [setting.lists.list_pages(&in_pages()), setting.lists.list_stream(&in_pages())] {
        assert_eq!(rest(&mut stream).await, ["a", "b", "restarted", "a", "b", "c", "d", "e"]);
        assert!(!stream.paginated(), "what counts came in one answer");
        assert_eq!(
            setting.forgetful.asked(),
            [asked(Some("2"), false), asked(Some("2"), true), asked(None, false),]
        );
        let metadata = stream.into_metadata();
        assert!(metadata.version.is_exact() && metadata.continue_token.is_none());
    }
}

#[tokio::test]
async fn pg_1_what_is_read_again_is_what_is_there_now() {
    let setting = Setting::new().await;
    let mut stream = setting.lists.list_pages(&in_pages());
    assert_eq!(next(&mut stream).await.as_deref(), Some("a"));
    setting.plain.delete("c", &DeleteParams::default()).await.expect("deleted");
    setting.create("f").await;
    assert_eq!(rest(&mut stream).await, ["b", "restarted", "a", "b", "d", "e", "f"]);
}

#[tokio::test]
async fn pg_1_a_collected_list_that_expires_holds_everything_once() {
    let setting = Setting::new().await;
    let list = setting.lists.list_all(&in_pages()).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(names(&list.items), ["a", "b", "c", "d", "e"]);
    assert_eq!(setting.forgetful.asked().len(), 3);
}

#[tokio::test]
async fn pg_1_a_list_that_expires_is_read_again_at_the_version_asked_for() {
    let setting = Setting::new().await;
    let then = setting.plain.list(&labelled("set=this")).await.expect("listed").metadata.version;
    setting.plain.delete("c", &DeleteParams::default()).await.expect("deleted");
    let then_or_now: [(VersionMatch, &[&str]); 2] = [
        (VersionMatch::Exact, &["a", "b", "c", "d", "e"]),
        (VersionMatch::NotOlderThan, &["a", "b", "d", "e"]),
    ];
    for (version_match, expected) in then_or_now {
        let params = in_pages().at(then.clone()).matching(version_match);
        let list = setting.lists.list_all(&params).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert_eq!(names(&list.items), expected, "{version_match:?}");
        let lists = setting.forgetful.asked();
        let first = Asked {
            version: Some(then.to_string()),
            version_match: Some(format!("{version_match:?}")),
            ..asked(Some("2"), false)
        };
        // Servers may answer a list that is not older than a version whole, out of their memory.
        if version_match != VersionMatch::NotOlderThan || lists.len() > 1 {
            let again = Asked { limit: None, ..first.clone() };
            assert_eq!(lists, [first, asked(Some("2"), true), again]);
        }
    }
}

#[tokio::test]
async fn pg_1_a_list_that_begins_with_an_expired_token_is_an_error() {
    let setting = Setting::new().await;
    let page = setting.plain.list(&in_pages()).await.expect("a page");
    let token = page.metadata.continue_token.expect("there is more");
    let mut stream = setting.lists.list_pages(&in_pages().continue_token(token));
    let error = within("an answer", stream.try_next()).await.expect_err("nothing can be begun anew");
    assert!(error.is_expired(), "{}", chain(&error));
    let status = error.status().expect("the server says so");
    assert_eq!((status.code, status.is_expired()), (410, true), "{status:?}");
    assert_eq!(setting.forgetful.asked(), [asked(Some("2"), true)]);
}
