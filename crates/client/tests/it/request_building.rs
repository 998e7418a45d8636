//! Building requests: the upstream scenarios, by rule.

use std::time::Duration;

use dogwatch_client::config::Impersonation;
use dogwatch_client::{Api, Client, InvalidRequest, Request, RequestBody};
use dogwatch_core::{Gvk, ListParams, ResourceType, WatchParams};
use http::header::{ACCEPT, CONTENT_TYPE};
use k8s_openapi::api::core::v1::Pod;

use crate::scripted::{Script, json, refusal, reply};

fn client() -> Client {
    Script::default().client()
}

fn pods() -> ResourceType {
    ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods")
}

fn target(request: Request) -> String {
    request.target().expect("a valid request")
}

#[tokio::test]
async fn rq_4_new_request_sets_accept() {
    let script = Script::new([json(200, "{}")]);
    let _: serde_json::Value = script.client().get().resource(&pods()).send().await.expect("answered");
    assert_eq!(script.seen()[0].headers[ACCEPT], "application/json, */*");
    assert!(
        !script.seen()[0].headers.contains_key(CONTENT_TYPE),
        "a request without a body has no content type"
    );
}

/// Whatever is done with the response, the same headers are sent.
#[tokio::test]
async fn rq_4_sets_headers() {
    let script =
        Script::new([refusal(403, "Forbidden"), refusal(403, "Forbidden"), refusal(403, "Forbidden")]);
    let request =
        || script.client().get().resource(&pods()).accept("text/plain").header(http::header::ETAG, "x");
    request().send::<serde_json::Value>().await.expect_err("refused");
    request().bytes().await.expect_err("refused");
    request().stream().await.map(drop).expect_err("refused");
    for seen in script.seen() {
        assert_eq!(seen.headers[ACCEPT], "text/plain");
        assert_eq!(seen.headers[http::header::ETAG], "x");
    }
    let script = Script::new([reply(200)]);
    let watch = Api::<Pod>::namespaced(script.client(), "a").watch(&WatchParams::default()).await;
    watch.map(drop).expect("opened");
    assert!(script.seen()[0].headers[ACCEPT].to_str().is_ok_and(|it| it.ends_with("application/json")));
}

#[tokio::test]
async fn rq_1_with_error_wont_change() {
    let broken = || client().get().resource(&pods()).name("..");
    let error = broken().target().expect_err("an invalid name");
    let changed = broken()
        .namespace("a")
        .name("b")
        .subresource("c")
        .suffix(&["s"])
        .param("d", "e")
        .header(ACCEPT, "x")
        .path(&["/abs"])
        .uri("/uri")
        .resource(&pods())
        .body("text/plain", "x")
        .json(&1)
        .timeout(Duration::from_secs(1));
    assert_eq!(changed.target(), Err(error.clone()));
    assert_eq!(changed.bytes().await.expect_err("never sent").to_string(), error.to_string());
}

#[tokio::test]
async fn rq_1_preserves_base_path() {
    let script = Script::new([json(200, "{}")]);
    let _: serde_json::Value = script.client().get().path(&["/api/"]).send().await.expect("answered");
    assert_eq!(script.targets(), ["/base/api/"]);
}

#[test]
fn rq_1_abs_path_preserves_trailing_slash_of_a_single_part_only() {
    for (parts, expected) in [
        (&["/foo/"][..], "/foo/"),
        (&["/foo"], "/foo"),
        (&["foo"], "/foo"),
        (&["/foo/", "bar/"], "/foo/bar"),
        (&["foo/bar", "baz"], "/foo/bar/baz"),
        (&["/"], "/"),
    ] {
        assert_eq!(target(client().get().path(parts)), expected, "{parts:?}");
    }
}

/// The upstream table AbsPath: the server's path, the requested path, the path sent.
#[tokio::test]
async fn rq_1_abs_path() {
    for (server, path, expected) in [
        ("", "/", "/"),
        ("", "/api", "/api"),
        ("", "/api/", "/api/"),
        ("", "/apis", "/apis"),
        ("", "/bar/foo", "/bar/foo"),
        ("/p1", "/", "/p1/"),
        ("/p1", "/api", "/p1/api"),
        ("/p1", "/apis", "/p1/apis"),
        ("/p1/api/p2", "/", "/p1/api/p2/"),
        ("/p1/api/p2", "/api", "/p1/api/p2/api"),
        ("/p1/api/p2", "/api/", "/p1/api/p2/api/"),
    ] {
        let script = Script::new([json(200, "{}")]);
        let url = format!("https://script.test{server}").parse().expect("a URL");
        let client = Client::from_service(url, "default", script.clone());
        client.post().path(&[path]).bytes().await.expect("answered");
        assert_eq!(script.targets(), [expected], "{server} {path}");
    }
}

/// The upstream scenarios RequestURI and RequestURIContext. A URI outside of the server's base path
/// is rejected here.
#[tokio::test]
async fn rq_1_a_uri_replaces_path_and_parameters() {
    let asked = || client().get().param("foo", "a").param("bar", "b");
    assert_eq!(target(asked().uri("/test?foo=b&a=b&c=1&c=2")), "/test?foo=b&a=b&c=1&c=2");
    assert_eq!(target(asked().uri("/test").param("x", "y")), "/test?x=y");
    assert_eq!(target(client().get().uri("/test/?q=a%20b%26")), "/test/?q=a+b%26");
    let script = Script::new([json(200, "{}")]);
    script.client().get().uri("/test?a=b").bytes().await.expect("answered");
    assert_eq!(script.targets(), ["/base/test?a=b"]);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
    assert_eq!(target(client().get().uri(role)), role);
    for elsewhere in
        ["../test", "/a/../../b", "https://elsewhere.test/", "//elsewhere.test/a", "/a#b", "mailto:x", "/a b"]
    {
        let refused = asked().uri(elsewhere).target();
        assert_eq!(refused, Err(InvalidRequest::Address(elsewhere.to_owned())));
    }
    assert!(client().get().path(&["x"]).uri("/y").target().is_err(), "the path is set once");
}

#[test]
fn rq_1_a_path_has_no_query_fragment_or_parent_segments() {
    for path in ["/a/../../secret", "/a?watch=true", "/a#b", "/a b", "."] {
        let refused = client().get().path(&["/api", path]).target();
        assert_eq!(refused, Err(InvalidRequest::Address(path.to_owned())));
    }
}

#[test]
fn rq_1_a_suffix_comes_last_in_any_order_of_calls() {
    let request = || client().get().suffix(&["metrics"]);
    assert_eq!(target(request().resource(&pods())), "/api/v1/pods/metrics");
    assert_eq!(target(request().path(&["/abs"])), "/abs/metrics");
    assert_eq!(target(client().get().path(&["/abs/"]).suffix(&["x", "y"])), "/abs/x/y");
}

#[test]
fn secrets_of_a_request_stay_out_of_its_debug_text() {
    let request = client()
        .post()
        .path(&["/x"])
        .header(http::header::AUTHORIZATION, "Bearer s3cret-token")
        .header(http::HeaderName::from_static("x-other"), "s3cret-other")
        .json(&serde_json::json!({ "data": { "password": "s3cret-body" } }));
    let shown = format!("{request:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("/x") && shown.contains("authorization"), "{shown}");
}

#[tokio::test]
async fn secrets_of_a_response_stay_out_of_its_debug_text() {
    let script = Script::new([json(200, r#"{"token":"s3cret"}"#).header("set-cookie", "s3cret")]);
    let response = script.client().get().path(&["/x"]).response().await.expect("answered");
    let shown = format!("{response:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("200") && shown.contains("set-cookie"), "{shown}");
}

#[tokio::test]
async fn an_address_with_a_password_or_a_query_is_rejected_and_never_shown() {
    for (address, word) in [
        ("https://me:s3cret@10.0.0.1/", "password"),
        ("https://10.0.0.1/base?token=s3cret", "query"),
        ("https://10.0.0.1/#s3cret", "fragment"),
    ] {
        let config = dogwatch_client::Config::new(address.parse().expect("a URL"));
        let error = dogwatch_client::Client::new(config).expect_err("refused");
        assert!(error.to_string().contains(word) && !error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn rq_1_verbs() {
    let script = Script::new((0..5).map(|_| json(200, "{}")));
    let client = script.client();
    let requests = [client.get(), client.post(), client.put(), client.delete(), client.patch("text/plain")];
    for request in requests {
        request.path(&["/x"]).bytes().await.expect("answered");
    }
    let verbs: Vec<_> = script.seen().iter().map(|it| it.method.to_string()).collect();
    assert_eq!(verbs, ["GET", "POST", "PUT", "DELETE", "PATCH"]);
}

#[test]
fn rq_1_sets_and_orders_namespace_and_subresource_in_the_path() {
    let request = || client().get().resource(&pods());
    assert_eq!(target(request().namespace("foo")), "/api/v1/namespaces/foo/pods");
    assert_eq!(target(request().name("bar").namespace("foo")), "/api/v1/namespaces/foo/pods/bar");
    let ordered = request().name("bar").subresource("log").namespace("foo").suffix(&["test"]);
    assert_eq!(target(ordered), "/api/v1/namespaces/foo/pods/bar/log/test");
}

#[test]
fn rq_1_set_twice_error() {
    let request = || client().get().resource(&pods());
    for twice in [
        request().namespace("a").namespace("b"),
        request().namespace("a").name("x").name("y"),
        request().namespace("a").name("x").subresource("y").subresource("z"),
        request().resource(&pods()),
        request().path(&["x"]),
        client().get().path(&["x"]).resource(&pods()),
    ] {
        assert!(twice.target().is_err(), "{twice:?}");
    }
}

#[test]
fn rq_2_invalid_segments() {
    let request = || client().get().resource(&pods());
    for invalid in [".", "..", "foo/bar", "foo%2fbar"] {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), invalid);
        for refused in [
            request().namespace("a").name(invalid),
            request().namespace(invalid),
            client().get().resource(&resource),
        ] {
            assert!(refused.target().is_err(), "{invalid:?} {refused:?}");
        }
    }
    // These may have several segments, and each of them is checked.
    for invalid in [".", "..", "foo/..", "foo//bar", "foo%2fbar", ""] {
        let object = || request().namespace("a").name("x");
        assert!(object().subresource(invalid).target().is_err(), "{invalid:?}");
        assert!(object().suffix(&[invalid]).target().is_err(), "{invalid:?}");
    }
    assert!(request().namespace("a").name("").target().is_err(), "a name is never empty");
    assert!(client().get().resource(&pods()).namespace("../../foo").target().is_err());
}

#[test]
fn rq_2_preflight_check() {
    let verbs = || [client().get(), client().put(), client().delete(), client().post()];
    for request in verbs() {
        let post = request.clone().resource(&pods()).name("x").namespace("a").target();
        assert!(post.is_ok(), "namespace and name: {post:?}");
    }
    let [get, put, delete, post] = verbs().map(|it| it.resource(&pods()));
    for request in [get, put, delete] {
        assert!(request.clone().target().is_ok(), "no namespace set: {request:?}");
        assert!(request.clone().namespace("").target().is_ok(), "all namespaces: {request:?}");
        assert!(request.clone().namespace("").name("x").target().is_err(), "one object: {request:?}");
    }
    assert!(post.clone().target().is_ok(), "no namespace was set");
    assert!(post.namespace("").target().is_err(), "create without a namespace");
    assert_eq!(client().get().target(), Err(InvalidRequest::NoTarget));
}

#[tokio::test]
async fn rq_2_an_invalid_request_is_never_sent() {
    let script = Script::new([json(200, "{}")]);
    let sent = script.client().get().resource(&pods()).name("a/../b").send::<serde_json::Value>().await;
    assert!(matches!(sent, Err(dogwatch_client::Error::InvalidRequest(_))));
    assert!(script.seen().is_empty());
}

#[test]
fn rq_3_params_are_added_and_encoded() {
    let request = client().get().resource(&pods()).param("foo", "a").param("foo", "b&c=d e");
    assert_eq!(target(request), "/api/v1/pods?foo=a&foo=b%26c%3Dd+e");
    let params = ListParams::default().labels("a in (b,c)".parse().expect("valid")).limit(5).at("0");
    let request = client().get().resource(&pods()).params(params.query().expect("valid"));
    assert_eq!(target(request), "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&resourceVersion=0&limit=5");
}

/// The upstream scenarios VersionedParams, …FromListOptions and UnacceptableParamNames: options are
/// added to existing parameters, and no name is reserved.
#[test]
fn rq_3_versioned_params() {
    let at = |version: &str| ListParams::default().at(version).query().expect("valid");
    let request = client().get().resource(&pods()).param("foo", "a").params(at("1"));
    assert_eq!(target(request.clone()), "/api/v1/pods?foo=a&resourceVersion=1");
    let mut later = ListParams::default().at("2");
    later.timeout = Some(Duration::from_secs(10));
    let request = request.params(later.query().expect("valid"));
    assert_eq!(target(request), "/api/v1/pods?foo=a&resourceVersion=1&resourceVersion=2&timeoutSeconds=10");
    assert_eq!(target(client().get().resource(&pods()).param("timeout", "42")), "/api/v1/pods?timeout=42");
}

/// The upstream scenario VersionedParamsWithInvalidScheme. Here, options are invalid only if they
/// contradict each other.
#[tokio::test]
async fn rq_3_options_that_contradict_each_other_are_never_sent() {
    let script = Script::new([json(200, "{}")]);
    let maps = Api::<Pod>::namespaced(script.client(), "a");
    let params = ListParams::default().continue_token("t").at("5");
    assert!(matches!(maps.list(&params).await, Err(dogwatch_client::Error::InvalidRequest(_))));
    assert!(script.seen().is_empty());
}

#[test]
fn rq_3_a_timeout_is_sent_to_the_server() {
    let request = || client().get().resource(&pods());
    assert_eq!(target(request().timeout(Duration::from_secs(32))), "/api/v1/pods?timeout=32s");
    assert_eq!(target(request().timeout(Duration::from_millis(1500))), "/api/v1/pods?timeout=1500ms");
    assert_eq!(target(request().timeout(Duration::ZERO)), "/api/v1/pods");
    assert_eq!(target(request().timeout(Duration::MAX)), "/api/v1/pods?timeout=9223372036854ms");
}

#[tokio::test]
async fn rq_4_bodies_carry_their_content_type() {
    let script = Script::new((0..4).map(|_| json(200, "{}")));
    let request = script.client().post().resource(&pods()).namespace("a").json(&serde_json::json!({"x": 1}));
    request.bytes().await.expect("answered");
    let patch =
        script.client().patch("application/merge-patch+json").resource(&pods()).namespace("a").name("b");
    patch.json(&serde_json::json!({})).bytes().await.expect("answered");
    script.client().post().path(&["/x"]).body("text/plain", &b"data"[..]).bytes().await.expect("answered");
    script.client().post().path(&["/x"]).bytes().await.expect("answered");
    let seen = script.seen();
    assert_eq!(
        (seen[2].body.as_str(), &seen[2].headers[CONTENT_TYPE]),
        ("data", &"text/plain".parse().unwrap())
    );
    assert!(seen[3].body.is_empty() && !seen[3].headers.contains_key(CONTENT_TYPE));
    assert_eq!(
        (seen[0].body.as_str(), &seen[0].headers[CONTENT_TYPE]),
        (r#"{"x":1}"#, &"application/json".parse().unwrap())
    );
    assert_eq!(seen[1].headers[CONTENT_TYPE], "application/merge-patch+json");
}

#[test]
fn a_value_that_cannot_be_serialised_is_the_first_error() {
    let unwritable = std::collections::HashMap::from([(vec![1u8], 1)]);
    let request = client().post().resource(&pods()).namespace("a").json(&unwritable);
    assert!(matches!(request.target(), Err(InvalidRequest::Body(_))));
    let request = client().get().resource(&pods()).header(ACCEPT, "a\nb");
    assert!(matches!(request.target(), Err(InvalidRequest::Header(_))));
}

/// client-go's usual chain sets the namespace first.
#[test]
fn rq_1_the_parts_of_a_resource_may_be_named_before_it() {
    let request = client().get().namespace("a").resource(&pods()).name("b").subresource("log");
    assert_eq!(target(request), "/api/v1/namespaces/a/pods/b/log");
    let request = client().get().name("b").namespace("a").resource(&pods());
    assert_eq!(target(request), "/api/v1/namespaces/a/pods/b");
    let unsafe_name = client().get().namespace("a/b").resource(&pods());
    assert!(matches!(unsafe_name.target(), Err(InvalidRequest::Path(_))));
    let twice = client().get().namespace("a").resource(&pods()).namespace("b");
    assert!(matches!(twice.target(), Err(InvalidRequest::Path(_))));
    assert!(matches!(client().get().namespace("a").target(), Err(InvalidRequest::NoTarget)));
    for mixed in [client().get().namespace("a").path(&["/x"]), client().get().path(&["/x"]).name("a")] {
        assert!(matches!(mixed.target(), Err(InvalidRequest::Object(_))));
    }
}

/// The headers were added by a layer that a client over a service did not have: its requests ran
/// with the rights of the service's own user.
#[tokio::test]
async fn a_client_over_a_service_impersonates_as_any_other() {
    let script = Script::new((0..4).map(|_| json(200, "{}")));
    let who = |name: &str| Impersonation { user: Some(name.to_owned()), ..Impersonation::default() };
    let client = script.client().acting_as(who("jane"));
    client.get().path(&["/version"]).response().await.unwrap();
    client.get().path(&["/version"]).impersonate(who("joe")).response().await.unwrap();
    client.send(http::Request::get("/version").body(RequestBody::default()).unwrap()).await.unwrap();
    script.client().get().path(&["/version"]).response().await.unwrap();
    let users: Vec<_> = script
        .seen()
        .iter()
        .map(|it| it.headers.get("impersonate-user").map(|it| it.to_str().unwrap().to_owned()))
        .collect();
    assert_eq!(users, [Some("jane".to_owned()), Some("joe".to_owned()), Some("jane".to_owned()), None]);
    let nameless = Impersonation { groups: vec!["admins".to_owned()], ..Impersonation::default() };
    script.client().acting_as(nameless).get().path(&["/version"]).response().await.unwrap_err();
    assert_eq!(script.seen().len(), 4, "a request with an invalid impersonation was sent");
}
