//! Results of a response: decoded, rejected, or a clear error (rules RQ-12, RQ-14, RQ-16, RQ-17).

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::config::Impersonation;
use dogwatch_client::{Api, BoxError, Client, Config, Error, Warning, WarningHandler};
use dogwatch_core::{Reason, WriteParams};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;

use crate::scripted::{Reply, Script, fails, json, refusal, reply};
use crate::support::{ServerSetup, text};

async fn get(answer: Reply) -> Result<Value, Error> {
    Script::new([answer]).client().get().path(&["/api"]).send().await
}

#[tokio::test]
async fn rq_12_transform_response() {
    assert_eq!(get(json(200, r#"{"a":1}"#)).await.expect("ok")["a"], 1);
    for (answer, reason) in [
        (reply(199), Reason::Unknown),
        (reply(500), Reason::InternalError),
        (refusal(404, "NotFound"), Reason::NotFound),
        (refusal(410, "Expired"), Reason::Expired),
        (reply(422), Reason::Invalid),
        (reply(409), Reason::Conflict),
        (reply(404), Reason::NotFound),
        (reply(401), Reason::Unauthorized),
        (json(401, "aaaaa"), Reason::Unauthorized),
        (reply(403), Reason::Forbidden),
        (json(400, "{not json"), Reason::BadRequest),
        (reply(503), Reason::ServiceUnavailable),
        (reply(301).header("location", "https://elsewhere.test/"), Reason::Unknown),
    ] {
        let error = get(answer).await.expect_err("refused");
        assert_eq!(error.status().map(|it| it.reason.clone()), Some(reason));
        assert!(!error.to_string().contains("aaaaa"), "only text is shown: {error}");
    }
    let error = get(reply(401).header("content-type", "text/any").chunk("aaaaa")).await.expect_err("refused");
    assert!(
        error.is_unauthorized() && error.to_string().contains("asked for the client to provide"),
        "{error}"
    );
    for (code, body) in [(200, "aaaaa"), (200, ""), (201, "")] {
        let script = Script::new([reply(code).chunk(body)]);
        let response = script.client().get().path(&["/x"]).response().await.expect("answered");
        assert_eq!((&response.body[..], response.was_created()), (body.as_bytes(), code == 201));
    }
}

/// Whatever its content type, an error response is recognised by its code.
#[tokio::test]
async fn rq_12_transform_response_negotiate() {
    for (code, content_type) in [
        (401, "application/json"),
        (401, "application/protobuf"),
        (500, "application/,others"),
        (404, "application/unrecognized"),
    ] {
        let error = get(reply(code).header("content-type", content_type).chunk("aaaaa")).await;
        let error = error.expect_err("refused");
        assert_eq!(error.status().map(|it| it.code), Some(code), "{content_type}");
        assert!(!error.to_string().contains("aaaaa"), "{error}");
    }
    for answer in [reply(200).header("content-type", "text/any"), reply(200)] {
        let script = Script::new([answer.chunk("aaaaa")]);
        assert_eq!(script.client().get().path(&["/x"]).bytes().await.expect("answered"), "aaaaa");
    }
}

#[tokio::test]
async fn rq_12_transform_unstructured_error() {
    let script = Script::new([reply(409), reply(409), reply(404)]);
    let maps = Api::<ConfigMap>::namespaced(script.client(), "a");
    let created = maps.create(&WriteParams::default(), &ConfigMap::default()).await.expect_err("refused");
    assert!(created.is_already_exists() && created.to_string().contains("configmaps"), "{created}");
    let replaced = maps.replace("bar", &WriteParams::default(), &ConfigMap::default()).await;
    let replaced = replaced.expect_err("refused");
    assert!(replaced.is_conflict() && replaced.to_string().contains("configmaps bar"), "{replaced}");
    let missing = maps.get("bar").await.expect_err("refused");
    assert!(missing.is_not_found() && missing.to_string().contains("configmaps bar"), "{missing}");
    for error in [created, replaced, missing] {
        assert!(error.status().is_some_and(|it| it.is_unexpected_server_response()));
    }
    // The source of the code: the response, or the Status in its body.
    for (body, code) in [
        ("", 400),
        (r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404}"#, 404),
        (r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":404}"#, 400),
        ("{}", 400),
        (r#"{"kind":"Status","status":"Failure","code":404}"#, 404),
        (r#"{"status":"Failure","code":404}"#, 400),
    ] {
        let error = get(reply(400).chunk(body)).await.expect_err("refused");
        assert_eq!(error.status().map(|it| it.code), Some(code), "{body}");
        assert_eq!(error.is_not_found(), code == 404, "{body}");
    }
}

/// The upstream scenario BadRequest, and the Status of an error response as it was sent.
#[tokio::test]
async fn rq_12_an_error_response_is_the_status_the_server_sent() {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404,"details":{"name":"x","kind":"pods"}}"#;
    let whole = get(json(404, body)).await.expect_err("refused");
    let raw = Script::new([json(404, body)]).client().get().path(&["/api"]).bytes().await;
    for error in [whole, raw.expect_err("refused")] {
        let status = error.status().expect("a status");
        assert_eq!((status.code, status.message.as_str()), (404, "pods \"x\" not found"));
        assert_eq!(status.details.as_ref().map(|it| it.name.as_str()), Some("x"));
    }
    assert!(get(refusal(400, "BadRequest")).await.expect_err("refused").status().unwrap().is_bad_request());
}

#[tokio::test]
async fn rq_12_was_created() {
    for (code, created) in [(200, false), (201, true), (202, false)] {
        let script = Script::new([json(code, r#"{"metadata":{"name":"x"}}"#)]);
        let request = script.client().put().path(&["/x"]).json(&1).timeout(Duration::from_secs(1));
        let response = request.response().await.expect("answered");
        assert_eq!(response.was_created(), created);
        assert_eq!(response.json::<Value>().expect("an object")["metadata"]["name"], "x");
        assert_eq!(script.targets(), ["/base/x?timeout=1s"]);
    }
}

#[tokio::test]
async fn rq_12_into_with_no_body() {
    let error = get(reply(200)).await.expect_err("nothing to decode");
    assert_eq!(
        error.to_string(),
        "cannot decode the response to GET /api: 0-length response with status code 200"
    );
}

#[tokio::test]
async fn rq_12_success_without_content_is_a_response() {
    let response = Script::new([reply(204)]).client().get().path(&["/x"]).response().await.expect("answered");
    assert!(response.body.is_empty() && !response.was_created());
    let response = Script::new([reply(201)]).client().get().path(&["/x"]).response().await.expect("answered");
    assert!(response.was_created());
}

#[tokio::test]
async fn rq_12_a_success_with_a_failed_status_is_an_error() {
    let error =
        get(json(200, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden"}"#))
            .await;
    assert!(error.expect_err("refused").is_forbidden());
}

#[tokio::test]
async fn an_html_page_is_a_decoding_error_that_shows_it() {
    let error = get(reply(200).header("content-type", "text/html").chunk("<html>login</html>"))
        .await
        .expect_err("no JSON");
    assert!(error.to_string().starts_with("cannot decode the response to GET /api: "), "{error}");
    let error = get(reply(403).header("content-type", "text/html").chunk("<html>no</html>"))
        .await
        .expect_err("refused");
    assert!(error.is_forbidden() && error.to_string().contains("<html>no</html>"), "{error}");
}

#[tokio::test]
async fn invalid_utf_8_is_a_clear_error() {
    let pods = Api::<Pod>::namespaced(Script::new([json(200, "")]).client(), "a");
    drop(pods);
    let body: &[u8] = b"{\"metadata\":{\"name\":\"\xff\"}}";
    let script = Script::new([reply(200).chunk(bytes::Bytes::from_static(body))]);
    let error = Api::<Pod>::namespaced(script.client(), "a").get("x").await.expect_err("not UTF-8");
    assert!(matches!(error, Error::Malformed { .. }) && error.to_string().contains("UTF-8"), "{error}");
}

#[tokio::test]
async fn an_undecodable_object_names_the_field() {
    let script = Script::new([json(
        200,
        r#"{"metadata":{"name":"x","namespace":"a"},"spec":{"containers":[{"name":5}]}}"#,
    )]);
    let error = Api::<Pod>::namespaced(script.client(), "a").get("x").await.expect_err("no pod");
    let text = error.to_string();
    assert!(text.contains("a/x") && text.contains("spec.containers[0].name"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn half_a_body_then_silence_ends_at_the_time_limit() {
    let script = Script::new([json(200, r#"{"a":"#).silence()]);
    let request = script.client().get().path(&["/api"]).timeout(Duration::from_secs(3));
    let error = request.send::<Value>().await.expect_err("no complete response");
    assert!(matches!(error, Error::TimedOut(limit) if limit == Duration::from_secs(3)), "{error}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_lost_connection() {
    let error = get(json(200, r#"{"a":"#).lost()).await.expect_err("cut");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = get(fails(ErrorKind::ConnectionRefused)).await.expect_err("refused");
    assert_eq!(error.to_string(), "cannot reach the API server at https://script.test/base/");
}

#[derive(Clone, Debug, Default)]
struct RecordedWarnings(Arc<Mutex<Vec<Warning>>>);

impl WarningHandler for RecordedWarnings {
    fn warn(&self, warning: &Warning) {
        self.0.lock().expect("not poisoned").push(warning.clone());
    }
}

#[tokio::test]
async fn rq_14_warnings_reach_the_handler_even_if_the_request_fails() {
    let script = Script::new([
        json(200, "{}").header("warning", r#"299 - "old""#).header("warning", r#"299 - "older""#),
        refusal(404, "NotFound").header("warning", r#"299 - "gone""#),
    ]);
    let heard = RecordedWarnings::default();
    let config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
    let layer = tower::layer::layer_fn(move |_| script.clone());
    let client = Client::builder(config).warnings(heard.clone()).layer(layer).build().expect("valid");
    for _ in 0..2 {
        let _ = client.get().path(&["/x"]).bytes().await;
    }
    let texts: Vec<_> = heard.0.lock().expect("not poisoned").iter().map(|it| it.text.clone()).collect();
    assert_eq!(texts, ["old", "older", "gone"]);
}

/// kube-apiserver limits the length of all warnings together and not their number. A client that
/// rejects the response reports a failure although the object was created.
#[tokio::test]
async fn rq_14_a_write_over_http_1_succeeds_however_many_warnings_it_gets() {
    let server = ServerSetup::default()
        .start(async |_, _| {
            let mut response = text(r#"{"metadata": {"name": "x"}}"#);
            *response.status_mut() = http::StatusCode::CREATED;
            for number in 0..240 {
                let warning = format!(r#"299 - "warning {number}""#).parse().expect("a header");
                response.headers_mut().append("warning", warning);
            }
            response
        })
        .await;
    let heard = RecordedWarnings::default();
    let config = Config::new(server.url().parse().expect("a URL"));
    let client = Client::builder(config).warnings(heard.clone()).build().expect("valid");
    let maps = Api::<ConfigMap>::namespaced(client, "a");
    maps.create(&WriteParams::default(), &ConfigMap::default()).await.expect("created");
    let heard = heard.0.lock().expect("not poisoned");
    let texts: Vec<_> = heard.iter().map(|it| it.text.clone()).collect();
    assert_eq!(texts, (0..240).map(|it| format!("warning {it}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn rq_16_every_request_has_a_user_agent_and_may_set_its_own() {
    let script = Script::new([json(200, "{}"), json(200, "{}")]);
    let config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
    let seen = script.clone();
    let client = Client::builder(config)
        .layer(tower::layer::layer_fn(move |_| script.clone()))
        .build()
        .expect("valid");
    client.get().path(&["/x"]).bytes().await.expect("answered");
    client.get().path(&["/x"]).header(http::header::USER_AGENT, "mine").bytes().await.expect("answered");
    let agents: Vec<_> =
        seen.seen().into_iter().map(|it| it.headers[http::header::USER_AGENT].clone()).collect();
    assert!(agents[0].to_str().is_ok_and(|it| it.contains("dogwatch/")), "{agents:?}");
    assert_eq!(agents[1], "mine");
}

#[tokio::test]
async fn an_anonymous_copy_of_a_configuration_has_no_credentials() {
    let mut config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
    config.auth.token = Some("hush-hush".into());
    config.impersonate.user = Some("jane".to_owned());
    assert!(!format!("{config:?}").contains("hush-hush"), "secrets are not shown");
    let script = Script::new([json(200, "{}"), json(200, "{}")]);
    for (config, expected) in [(config.clone(), true), (config.anonymous(), false)] {
        let service = script.clone();
        let layer = tower::layer::layer_fn(move |_| service.clone());
        let client = Client::builder(config).layer(layer).build().expect("valid settings");
        client.get().path(&["/x"]).bytes().await.expect("answered");
        let headers = script.seen().pop().expect("a request").headers;
        assert_eq!(headers.contains_key(http::header::AUTHORIZATION), expected);
        assert_eq!(headers.contains_key("impersonate-user"), expected);
    }
}

#[tokio::test]
async fn au_1_impersonation_is_set_per_settings_per_client_and_per_request() {
    let script = Script::new((0..4).map(|_| json(200, r#"{"metadata":{"name":"x"}}"#)));
    let mut config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
    config.impersonate.user = Some("settings".to_owned());
    let service = script.clone();
    let layer = tower::layer::layer_fn(move |_| service.clone());
    let client = Client::builder(config).layer(layer).build().expect("valid settings");
    let user = |name: &str| Impersonation { user: Some(name.to_owned()), ..Impersonation::default() };
    let other = client.acting_as(user("client"));
    Api::<Pod>::namespaced(client.clone(), "a").get("x").await.expect("answered");
    Api::<Pod>::namespaced(other.clone(), "a").get("x").await.expect("answered");
    other.get().path(&["/x"]).impersonate(user("request")).bytes().await.expect("answered");
    client.acting_as(Impersonation::default()).get().path(&["/x"]).bytes().await.expect("answered");
    let users: Vec<_> = script.seen().iter().map(|it| it.headers.get("impersonate-user").cloned()).collect();
    let users: Vec<_> = users.iter().map(|it| it.as_ref().and_then(|it| it.to_str().ok())).collect();
    assert_eq!(users, [Some("settings"), Some("client"), Some("request"), None]);
}

#[tokio::test]
async fn a_response_beyond_the_limit_of_the_client_is_not_read_to_its_end() {
    let chunk = vec![b'x'; 1 << 10];
    let long = || (0..10).fold(reply(200), |reply, _| reply.chunk(chunk.clone())).silence();
    let script = Script::new([long(), reply(200).chunk(chunk.clone()).chunk(chunk.clone())]);
    let client = script.builder(|_| {}).max_response_bytes(4 << 10).build().expect("a client");
    let error = client.get().path(&["/x"]).bytes().await.expect_err("too long");
    assert!(matches!(&error, Error::Malformed { problem, .. } if problem.contains("4096 bytes")), "{error}");
    assert_eq!(client.get().path(&["/x"]).bytes().await.expect("answered").len(), 2 << 10);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_stream_ends_when_the_response_begins() {
    let second = Duration::from_secs(1);
    let script = Script::new([reply(200).chunk("a").pause(60 * second).chunk("b")]);
    let body = script.client().get().path(&["/x"]).timeout(second).stream().await.expect("answered");
    assert_eq!(body.collect().await.expect("whole").to_bytes(), "ab");

    let never = tower::service_fn(|_| std::future::pending::<Result<_, BoxError>>());
    let client = Client::from_service("https://server.test".parse().expect("a URL"), "a", never);
    let error = client.get().path(&["/x"]).timeout(second).stream().await.expect_err("no answer");
    assert!(matches!(error, Error::TimedOut(_)), "{error}");
}
