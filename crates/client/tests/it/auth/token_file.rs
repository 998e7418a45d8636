//! Tokens in a file (rule AU-2).

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dogwatch_client::auth::{AuthError, Credentials};
use http::StatusCode;
use tempfile::TempDir;
use tokio::time::advance;

use super::{Server, authorize, config};

struct Mount {
    _home: TempDir,
    path: PathBuf,
}

impl Mount {
    fn new(text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        fs::write(&path, text).unwrap();
        Self { _home: home, path }
    }

    fn credentials(&self, first: Option<&str>) -> Credentials {
        let mut config = config();
        config.auth.token = first.map(Into::into);
        config.auth.token_file = Some(self.path.clone());
        Credentials::new(&config, None).unwrap()
    }
}

async fn token(credentials: &Credentials) -> String {
    authorize(credentials).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn au_2_the_file_is_read_again_after_fifty_seconds() {
    let mount = Mount::new("  one\n");
    let credentials = mount.credentials(None);
    assert_eq!(token(&credentials).await, "Bearer one");
    fs::write(&mount.path, "two").unwrap();
    advance(Duration::from_secs(49)).await;
    assert_eq!(token(&credentials).await, "Bearer one");
    advance(Duration::from_secs(1)).await;
    assert_eq!(token(&credentials).await, "Bearer two");
}

#[tokio::test(start_paused = true)]
async fn au_2_the_last_good_token_outlives_an_unreadable_file() {
    let mount = Mount::new("one");
    let credentials = mount.credentials(None);
    assert_eq!(token(&credentials).await, "Bearer one");
    for broken in ["", " \n", "a\nb"] {
        fs::write(&mount.path, broken).unwrap();
        advance(Duration::from_secs(60)).await;
        assert_eq!(token(&credentials).await, "Bearer one", "{broken:?}");
    }
    fs::remove_file(&mount.path).unwrap();
    advance(Duration::from_secs(60)).await;
    assert_eq!(token(&credentials).await, "Bearer one");
    fs::write(&mount.path, "two").unwrap();
    advance(Duration::from_secs(10)).await;
    assert_eq!(token(&credentials).await, "Bearer two");
}

#[tokio::test(start_paused = true)]
async fn au_2_the_file_takes_precedence_over_the_token_once_it_can_be_read() {
    let mount = Mount::new("");
    let credentials = mount.credentials(Some("first"));
    assert_eq!(token(&credentials).await, "Bearer first");
    fs::write(&mount.path, "file").unwrap();
    advance(Duration::from_secs(10)).await;
    assert_eq!(token(&credentials).await, "Bearer file");
}

#[tokio::test(start_paused = true)]
async fn an_unusable_file_is_an_error_that_names_it_and_is_retried() {
    let mount = Mount::new("");
    let credentials = mount.credentials(None);
    let error = authorize(&credentials).await.unwrap_err();
    assert!(error.to_string().contains(mount.path.to_str().unwrap()), "{error}");
    assert!(matches!(error, AuthError::TokenFile { .. }));
    fs::write(&mount.path, "late").unwrap();
    assert_eq!(token(&credentials).await, "Bearer late");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_token_is_read_again_at_once_and_the_request_sent_again() {
    let mount = Mount::new("one");
    let credentials = mount.credentials(None);
    assert_eq!(token(&credentials).await, "Bearer one");
    fs::write(&mount.path, "two").unwrap();

    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::OK);
    assert_eq!(server.authorizations(), ["Bearer one", "Bearer two"]);
    let seen = server.seen();
    assert_eq!(seen[1].method, http::Method::POST);
    assert_eq!(seen[1].body, "payload");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_token_that_has_not_changed_is_not_sent_twice() {
    let mount = Mount::new("one");
    let credentials = mount.credentials(None);
    let server = Server::answering(&[StatusCode::UNAUTHORIZED; 2]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.authorizations(), ["Bearer one"]);
    // It is still used when there is no better one.
    fs::remove_file(&mount.path).unwrap();
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::OK);
    assert_eq!(server.authorizations(), ["Bearer one"; 3]);
}

#[tokio::test(start_paused = true)]
async fn the_response_to_a_second_attempt_is_final() {
    let mount = Mount::new("one");
    let credentials = mount.credentials(None);
    assert_eq!(token(&credentials).await, "Bearer one");
    fs::write(&mount.path, "two").unwrap();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED; 2]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.authorizations(), ["Bearer one", "Bearer two"]);
}
