//! Putting a request together: the upstream scenarios of REST request building, by rule.

use std::time::Duration;

use dogwatch_client::{Client, InvalidRequest, Request};
use dogwatch_core::{Gvk, ListParams, ResourceType};
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::scripted::{Script, json};

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

#[tokio::test]
async fn rq_4_sets_headers() {
    let script = Script::new([json(200, "{}")]);
    let request =
        script.client().get().resource(&pods()).accept("text/plain").header(http::header::ETAG, "x");
    let _: serde_json::Value = request.send().await.expect("answered");
    let headers = &script.seen()[0].headers;
    assert_eq!(
        (&headers[ACCEPT], &headers[http::header::ETAG]),
        (&"text/plain".parse().unwrap(), &"x".parse().unwrap())
    );
}

#[test]
fn rq_1_with_error_wont_change() {
    let broken = client().get().resource(&pods()).name("..");
    let error = broken.target().expect_err("an invalid name");
    let changed =
        broken.namespace("a").name("b").subresource("c").param("d", "e").timeout(Duration::from_secs(1));
    assert_eq!(changed.target(), Err(error));
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
    for invalid in [".", "..", "foo/bar", "foo%2fbar", ""] {
        assert!(
            client().get().resource(&pods()).namespace("a").name(invalid).target().is_err(),
            "{invalid:?}"
        );
    }
    assert!(client().get().resource(&pods()).namespace("../../foo").target().is_err());
}

#[test]
fn rq_2_preflight_check() {
    let all = |request: Request| request.resource(&pods()).namespace("");
    assert!(all(client().get()).target().is_ok(), "list over all namespaces");
    assert!(all(client().post()).target().is_err(), "create without a namespace");
    assert!(all(client().get()).name("a").target().is_err());
    assert!(all(client().put()).name("a").target().is_err());
    assert!(all(client().delete()).name("a").target().is_err());
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

#[test]
fn rq_3_a_timeout_is_told_to_the_server() {
    let request = || client().get().resource(&pods());
    assert_eq!(target(request().timeout(Duration::from_secs(32))), "/api/v1/pods?timeout=32s");
    assert_eq!(target(request().timeout(Duration::from_millis(1500))), "/api/v1/pods?timeout=1500ms");
    assert_eq!(target(request().timeout(Duration::ZERO)), "/api/v1/pods");
}

#[tokio::test]
async fn rq_4_bodies_carry_their_content_type() {
    let script = Script::new([json(200, "{}"), json(200, "{}")]);
    let request = script.client().post().resource(&pods()).namespace("a").json(&serde_json::json!({"x": 1}));
    request.bytes().await.expect("answered");
    let patch =
        script.client().patch("application/merge-patch+json").resource(&pods()).namespace("a").name("b");
    patch.json(&serde_json::json!({})).bytes().await.expect("answered");
    let seen = script.seen();
    assert_eq!(
        (seen[0].body.as_str(), &seen[0].headers[CONTENT_TYPE]),
        (r#"{"x":1}"#, &"application/json".parse().unwrap())
    );
    assert_eq!(seen[1].headers[CONTENT_TYPE], "application/merge-patch+json");
}

#[test]
fn a_value_that_cannot_be_written_is_the_first_error() {
    let unwritable = std::collections::HashMap::from([(vec![1u8], 1)]);
    let request = client().post().resource(&pods()).namespace("a").json(&unwritable);
    assert!(matches!(request.target(), Err(InvalidRequest::Body(_))));
    let request = client().get().resource(&pods()).header(ACCEPT, "a\nb");
    assert!(matches!(request.target(), Err(InvalidRequest::Header(_))));
}
