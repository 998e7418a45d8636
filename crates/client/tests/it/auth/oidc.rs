//! The `oidc` provider, with a scripted issuer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use dogwatch_client::auth::{
    AuthError, AuthOptions, Credentials, HttpFetch, OidcError, RefreshedTokens, TokenStore,
};
use dogwatch_client::config::{AuthProvider, Pem};
use dogwatch_client::{BoxError, RequestBody, ResponseBody, boxed};
use futures_core::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;

use super::{Server, authorize, config};

/// An id-token that expires in this number of seconds.
fn id_token(name: &str, seconds: i64) -> String {
    let end = Timestamp::now() + SignedDuration::from_secs(seconds);
    let claims = format!(r#"{{"sub":"{name}","exp":{}}}"#, end.as_second());
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// An issuer that answers discovery itself and grants by script, and records the grant requests.
#[derive(Clone)]
struct Issuer {
    discovery: String,
    grants: Arc<Mutex<Vec<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    fn granting(grants: &[(u16, String)]) -> Self {
        let discovery =
            r#"{"issuer":"https://id.example","token_endpoint":"https://id.example/token"}"#.to_owned();
        let grants = grants.iter().rev().cloned().collect();
        Self { discovery, grants: Arc::new(Mutex::new(grants)), asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl HttpFetch for Issuer {
    fn fetch(
        &self,
        roots: Option<Pem>,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> {
        let issuer = self.clone();
        Box::pin(async move {
            assert!(matches!(roots, Some(Pem::Data(_))), "the issuer's own roots");
            let (parts, body) = request.into_parts();
            let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
            let (status, text) = match parts.uri.to_string().as_str() {
                "https://id.example/.well-known/openid-configuration" => (200, issuer.discovery),
                "https://id.example/token" => {
                    let login = parts.headers.get("authorization").map(|it| it.to_str().unwrap().to_owned());
                    issuer.asked.lock().unwrap().push(format!("{} {body}", login.unwrap_or_default()));
                    issuer.grants.lock().unwrap().pop().ok_or("the script has ended")?
                }
                other => return Err(format!("unexpected address {other}").into()),
            };
            let status = StatusCode::from_u16(status)?;
            Ok(Response::builder().status(status).body(boxed(Full::<Bytes>::from(text)))?)
        })
    }
}

/// A store that records its tokens.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(String, String)>>>);

impl TokenStore for Kept {
    fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>> {
        let pair =
            (tokens.id_token.expose_secret().to_owned(), tokens.refresh_token.expose_secret().to_owned());
        self.0.lock().unwrap().push(pair);
        Box::pin(async { Err("the disk is full".into()) })
    }
}

fn credentials(issuer: &Issuer, kept: &Kept, more: &[(&str, &str)]) -> Result<Credentials, AuthError> {
    let ca = STANDARD.encode("CA");
    let base = [
        ("idp-issuer-url", "https://id.example/"),
        ("client-id", "kubernetes"),
        ("idp-certificate-authority-data", ca.as_str()),
        ("extra-scopes", "groups"),
    ];
    let options: BTreeMap<String, String> =
        base.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut config = config();
    config.auth.provider = Some(AuthProvider { name: "oidc".to_owned(), config: options, origin: None });
    let mut options = AuthOptions::default();
    options.http = Some(Arc::new(issuer.clone()));
    options.tokens = Some(Arc::new(kept.clone()));
    Credentials::with_options(&config, options)
}

/// A refresh-token is invalid once it was used: if two clients used it independently, one of them
/// would be logged out.
#[tokio::test]
async fn au_4_clients_of_one_login_share_its_refresh_token() {
    let (old, next, last) = (id_token("a", -1), id_token("b", 3600), id_token("c", 3600));
    let issuer = Issuer::granting(&[grant(&next, Some("second")), grant(&last, Some("third"))]);
    let http: Arc<dyn HttpFetch> = Arc::new(issuer.clone());
    let client = |refresh: &str| {
        let options = [
            ("idp-issuer-url", "https://id.example/"),
            ("client-id", "kubernetes"),
            ("idp-certificate-authority-data", &STANDARD.encode("CA")),
            ("id-token", &old),
            ("refresh-token", refresh),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut config = config();
        let (name, config_) = ("oidc".to_owned(), BTreeMap::from(options));
        config.auth.provider = Some(AuthProvider { name, config: config_, origin: None });
        let mut options = AuthOptions::default();
        options.http = Some(Arc::clone(&http));
        Credentials::with_options(&config, options).unwrap()
    };
    let (one, two) = (client("first"), client("first"));
    for credentials in [&one, &two] {
        assert_eq!(authorize(credentials).await.unwrap().0, format!("Bearer {next}"));
    }
    // Settings that were read before the refresh, and settings that were read after it.
    for late in [client("first"), client("second")] {
        assert_eq!(authorize(&late).await.unwrap().0, format!("Bearer {next}"));
    }
    assert_eq!(issuer.asked().len(), 1);
}

fn grant(id: &str, refresh: Option<&str>) -> (u16, String) {
    match refresh {
        Some(refresh) => (200, format!(r#"{{"id_token":"{id}","refresh_token":"{refresh}"}}"#)),
        None => (200, format!(r#"{{"id_token":"{id}"}}"#)),
    }
}

#[tokio::test]
async fn an_id_token_with_time_left_is_used_as_it_is() {
    let token = id_token("jane", 3600);
    let issuer = Issuer::granting(&[]);
    let credentials = credentials(&issuer, &Kept::default(), &[("id-token", &token)]).unwrap();
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {token}"));
    assert!(issuer.asked().is_empty());
}

#[tokio::test]
async fn an_expired_id_token_is_refreshed_and_a_rotated_refresh_token_used_and_offered() {
    let (old, short, long) = (id_token("a", -1), id_token("b", -1), id_token("c", 3600));
    let issuer = Issuer::granting(&[grant(&short, Some("second")), grant(&long, None)]);
    let kept = Kept::default();
    let credentials =
        credentials(&issuer, &kept, &[("id-token", &old), ("refresh-token", "first one")]).unwrap();
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {short}"));
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {long}"));
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {long}"));
    assert_eq!(
        issuer.asked(),
        [
            " grant_type=refresh_token&refresh_token=first+one&client_id=kubernetes",
            " grant_type=refresh_token&refresh_token=second&client_id=kubernetes",
        ]
    );
    let expected = [(short, "second".to_owned()), (long, "second".to_owned())];
    assert_eq!(*kept.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_client_secret_is_sent_in_the_header_and_then_in_the_body() {
    let long = id_token("a", 3600);
    let refused = (401, r#"{"error":"invalid_client"}"#.to_owned());
    let issuer = Issuer::granting(&[refused, grant(&long, None)]);
    let options = [("refresh-token", "r"), ("client-secret", "s&/")];
    let credentials = credentials(&issuer, &Kept::default(), &options).unwrap();
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {long}"));
    let login = STANDARD.encode("kubernetes:s%26%2F");
    assert_eq!(
        issuer.asked(),
        [
            format!("Basic {login} grant_type=refresh_token&refresh_token=r"),
            " grant_type=refresh_token&refresh_token=r&client_id=kubernetes&client_secret=s%26%2F".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_rejected_id_token_is_refreshed_and_the_request_sent_again() {
    let (old, new) = (id_token("a", 3600), id_token("b", 3600));
    let issuer = Issuer::granting(&[grant(&new, None)]);
    let options = [("refresh-token", "r"), ("id-token", old.as_str())];
    let credentials = credentials(&issuer, &Kept::default(), &options).unwrap();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::OK);
    assert_eq!(server.authorizations(), [format!("Bearer {old}"), format!("Bearer {new}")]);
}

#[tokio::test]
async fn one_401_does_not_end_a_session_that_cannot_be_refreshed() {
    let token = id_token("a", 3600);
    let credentials = credentials(&Issuer::granting(&[]), &Kept::default(), &[("id-token", &token)]).unwrap();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn invalid_responses_of_the_issuer_are_distinct_errors() {
    let new = id_token("a", 3600);
    let mut elsewhere = Issuer::granting(&[]);
    elsewhere.discovery = r#"{"token_endpoint":"http://id.example/token"}"#.to_owned();
    let mut empty = Issuer::granting(&[]);
    empty.discovery = "{}".to_owned();
    let cases = [
        (Issuer::granting(&[(400, r#"{"error":"invalid_grant"}"#.to_owned())]), "status 400: invalid_grant"),
        (Issuer::granting(&[(302, String::new())]), "status 302"),
        (Issuer::granting(&[(200, "<html>".to_owned())]), "not JSON"),
        (Issuer::granting(&[(200, r#"{"access_token":"x"}"#.to_owned())]), "there is no id_token"),
        (Issuer::granting(&[grant("opaque", None)]), "not a JWT"),
        (Issuer::granting(&[]), "cannot reach the identity provider at https://id.example"),
        (elsewhere, "not an https address"),
        (empty, "names no token_endpoint"),
    ];
    for (issuer, expected) in cases {
        let credentials = credentials(&issuer, &Kept::default(), &[("refresh-token", "r")]).unwrap();
        let error = authorize(&credentials).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error} / {expected}");
        // The error is not final: a later request tries again.
        issuer.grants.lock().unwrap().push(grant(&new, None));
        let second = authorize(&credentials).await;
        assert_eq!(second.is_ok(), issuer.asked().len() == 2, "{expected}");
    }
}

#[tokio::test]
async fn an_expired_id_token_without_a_refresh_token_asks_for_a_login() {
    let old = id_token("a", -1);
    let credentials = credentials(&Issuer::granting(&[]), &Kept::default(), &[("id-token", &old)]).unwrap();
    let error = authorize(&credentials).await.unwrap_err();
    assert!(matches!(error, AuthError::Oidc(OidcError::NoRefreshToken)), "{error}");
}

#[test]
fn incomplete_options_are_rejected_at_once() {
    let issuer = Issuer::granting(&[]);
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], "neither a usable id-token nor a refresh-token"),
        (&[("id-token", "opaque")], "neither a usable id-token nor a refresh-token"),
        (&[("refresh-token", "r"), ("client-id", "")], "needs the option client-id"),
        (&[("refresh-token", "r"), ("idp-issuer-url", "nowhere")], "not an address"),
        (
            &[("refresh-token", "r"), ("idp-issuer-url", "http://id.example")],
            "in clear text to http://id.example",
        ),
    ];
    for (options, expected) in cases {
        let error = credentials(&issuer, &Kept::default(), options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// The provider invalidates the old refresh-token when it issues a new one, so a caller that is
/// dropped must not lose the response.
#[tokio::test]
async fn a_dropped_caller_does_not_lose_the_rotated_refresh_token() {
    let (one, two) = (id_token("a", -1), id_token("b", 3600));
    let issuer = Issuer::granting(&[grant(&one, Some("second")), grant(&two, None)]);
    let kept = Kept::default();
    let credentials = credentials(&issuer, &kept, &[("refresh-token", "first")]).unwrap();
    {
        let mut headers = http::HeaderMap::new();
        let dropped = credentials.authorize(&mut headers);
        tokio::select! {
            biased;
            _ = dropped => panic!("a refresh takes more than one step"),
            () = std::future::ready(()) => {}
        }
    }
    // The next caller joins the refresh in progress; its token has expired already, so that there
    // is another refresh.
    for token in [one, two] {
        assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {token}"));
    }
    let used: Vec<_> = kept.0.lock().unwrap().iter().map(|(_, refresh)| refresh.clone()).collect();
    assert_eq!(used, ["second", "second"]);
    assert!(issuer.asked()[1].contains("refresh_token=second"));
}

/// Returns the options of a login with these tokens.
fn options_of(id: &str, refresh: &str) -> BTreeMap<String, String> {
    let options = [
        ("idp-issuer-url", "https://id.example/"),
        ("client-id", "kubernetes"),
        ("idp-certificate-authority-data", &STANDARD.encode("CA")),
        ("id-token", id),
        ("refresh-token", refresh),
    ];
    BTreeMap::from(options.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// kubectl and a program that runs for days share one login: neither may refresh with a
/// refresh-token that the other has already used.
#[tokio::test]
async fn au_4_tokens_that_another_program_refreshed_are_taken_from_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let write = |id: &str, refresh: &str| {
        let provider = serde_json::json!({ "name": "oidc", "config": options_of(id, refresh) });
        let users = serde_json::json!([{ "name": "me", "user": { "auth-provider": provider } }]);
        std::fs::write(&file, serde_json::json!({ "kind": "Config", "users": users }).to_string()).unwrap();
    };
    let (old, theirs, ours) = (id_token("jane", -1), id_token("jane", 3600), id_token("jane", 7200));
    let issuer = Issuer::granting(&[grant(&ours, Some("third"))]);
    let credentials = || {
        let mut config = config();
        let (name, config_) = ("oidc".to_owned(), options_of(&old, "first"));
        config.auth.provider = Some(AuthProvider { name, config: config_, origin: Some(file.clone()) });
        let mut options = AuthOptions::default();
        options.http = Some(Arc::new(issuer.clone()));
        Credentials::with_options(&config, options).unwrap()
    };
    write(&theirs, "second");
    let credentials = credentials();
    let (text, ticket) = authorize(&credentials).await.unwrap();
    assert_eq!(text, format!("Bearer {theirs}"), "the other program's token is valid for an hour");
    assert!(issuer.asked().is_empty());
    credentials.rejected(ticket);
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {ours}"));
    assert!(issuer.asked()[0].contains("refresh_token=second"), "{:?}", issuer.asked());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("third") && text.contains(&ours), "{text}");
}

/// The file keeps the first, used-up refresh-token for as long as it cannot be written. It was
/// taken for a newer one, and its second use ended the login.
#[tokio::test]
async fn au_4_a_login_continues_while_its_tokens_cannot_be_written_back() {
    // More refreshes than the provider remembers tokens.
    const REFRESHES: usize = 70;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let old = id_token("jane", -1);
    let provider = serde_json::json!({ "name": "oidc", "config": options_of(&old, "token-0") });
    let users = serde_json::json!([{ "name": "me", "user": { "auth-provider": provider } }]);
    let text = serde_json::json!({ "kind": "Config", "users": users }).to_string();
    std::fs::write(&file, &text).unwrap();
    let set_readonly = |readonly| {
        let mut permissions = std::fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(readonly);
        std::fs::set_permissions(&file, permissions).unwrap();
    };
    set_readonly(true);
    let ids: Vec<_> = (0..REFRESHES + 1).map(|it| id_token("jane", 3600 + it as i64)).collect();
    let grants: Vec<_> =
        ids.iter().enumerate().map(|(at, id)| grant(id, Some(&format!("token-{}", at + 1)))).collect();
    let issuer = Issuer::granting(&grants);
    let http: Arc<dyn HttpFetch> = Arc::new(issuer.clone());
    let credentials = || {
        let mut config = config();
        let (name, config_) = ("oidc".to_owned(), options_of(&old, "token-0"));
        config.auth.provider = Some(AuthProvider { name, config: config_, origin: Some(file.clone()) });
        let mut options = AuthOptions::default();
        options.http = Some(Arc::clone(&http));
        Credentials::with_options(&config, options).unwrap()
    };
    let first = credentials();
    for id in &ids[..REFRESHES] {
        let (header, ticket) = authorize(&first).await.unwrap();
        assert_eq!(header, format!("Bearer {id}"));
        first.rejected(ticket);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    // A client with the settings of the file still belongs to this login.
    set_readonly(false);
    let late = credentials();
    assert_eq!(authorize(&late).await.unwrap().0, format!("Bearer {}", ids[REFRESHES]));
    for (at, asked) in issuer.asked().iter().enumerate() {
        assert!(asked.ends_with(&format!("refresh_token=token-{at}&client_id=kubernetes")), "{at}: {asked}");
    }
    // Now they can be written.
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains(&format!("\"token-{}\"", REFRESHES + 1)) && text.contains(&ids[REFRESHES]),
        "{text}"
    );
}

#[tokio::test]
async fn au_4_another_users_login_is_not_taken_from_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let (old, ours) = (id_token("jane", -1), id_token("jane", 7200));
    let issuer = Issuer::granting(&[grant(&ours, Some("third"))]);
    let provider =
        serde_json::json!({ "name": "oidc", "config": options_of(&id_token("eve", 3600), "of-eve") });
    let users = serde_json::json!([{ "name": "me", "user": { "auth-provider": provider } }]);
    let text = serde_json::json!({ "kind": "Config", "users": users }).to_string();
    std::fs::write(&file, &text).unwrap();
    let mut config = config();
    let (name, config_) = ("oidc".to_owned(), options_of(&old, "first"));
    config.auth.provider = Some(AuthProvider { name, config: config_, origin: Some(file.clone()) });
    let mut options = AuthOptions::default();
    options.http = Some(Arc::new(issuer.clone()));
    let credentials = Credentials::with_options(&config, options).unwrap();
    assert_eq!(authorize(&credentials).await.unwrap().0, format!("Bearer {ours}"));
    assert!(issuer.asked()[0].contains("refresh_token=first"), "{:?}", issuer.asked());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}
