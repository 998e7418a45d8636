//! Impersonation, for a whole client and for one request, verified with the server's
//! SelfSubjectReview.

use std::collections::BTreeMap;

use dogwatch::api::{ResourceType, Scope};
use dogwatch::config::Impersonation;
use dogwatch::k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use dogwatch::{Client, Error};

use crate::support::{client, config, whoami};

fn jane() -> Impersonation {
    Impersonation {
        user: Some("jane".to_owned()),
        uid: Some("42".to_owned()),
        groups: vec!["crew".to_owned(), "watch".to_owned()],
        extra: BTreeMap::from([(
            "example.com/ship".to_owned(),
            vec!["Gorch Fock".to_owned(), "Alex II".to_owned()],
        )]),
    }
}

/// Returns the user that the server sees for one request.
async fn whoami_once(client: &Client, who: Impersonation) -> UserInfo {
    let reviews = ResourceType::of::<SelfSubjectReview>(&(), Scope::Cluster);
    let request = client.post().resource(&reviews).impersonate(who).json(&SelfSubjectReview::default());
    let review: SelfSubjectReview = request.send().await.expect("a review");
    review.status.and_then(|it| it.user_info).expect("a review names the user")
}

fn assert_is_jane(user: &UserInfo) {
    assert_eq!((user.username.as_deref(), user.uid.as_deref()), (Some("jane"), Some("42")));
    let groups = user.groups.clone().unwrap_or_default();
    assert!(groups.contains(&"crew".to_owned()) && groups.contains(&"watch".to_owned()), "{groups:?}");
    let ships = user.extra.as_ref().and_then(|it| it.get("example.com/ship"));
    assert_eq!(ships.map(Vec::as_slice), Some(&["Gorch Fock".to_owned(), "Alex II".to_owned()][..]));
}

#[tokio::test]
async fn a_client_can_impersonate_a_user() {
    let mut config = config();
    config.impersonate = jane();
    let client = Client::new(config).expect("a client");
    assert_is_jane(&whoami(&client).await.expect("authenticated"));
}

#[tokio::test]
async fn impersonation_can_be_limited_to_one_request() {
    let client = client();
    let ourselves = whoami(&client).await.expect("authenticated");
    assert_is_jane(&whoami_once(&client, jane()).await);
    assert_eq!(whoami(&client).await.expect("authenticated"), ourselves);
}

#[tokio::test]
async fn a_request_can_override_or_drop_the_impersonation_of_its_client() {
    let ourselves = whoami(&client()).await.expect("authenticated");
    let mut config = config();
    config.impersonate = jane();
    let client = Client::new(config).expect("a client");
    let john = Impersonation { user: Some("john".to_owned()), ..Impersonation::default() };
    let third = whoami_once(&client, john).await;
    assert_eq!(
        (third.username.as_deref(), third.extra),
        (Some("john"), None),
        "no attribute of jane is left"
    );
    assert_eq!(whoami_once(&client, Impersonation::default()).await.username, ourselves.username);
}

#[test]
fn impersonation_without_a_user_is_rejected_before_anything_is_sent() {
    let mut config = config();
    config.impersonate = Impersonation { user: None, ..jane() };
    assert!(matches!(Client::new(config), Err(Error::Credentials(_))));
}
