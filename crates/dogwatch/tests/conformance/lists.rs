//! Lists: selectors, pages, versions, and lists that arrive as streams.

use dogwatch::Api;
use dogwatch::api::{
    DeleteParams, FieldSelector, ListEvent, ListParams, ResourceVersion, VersionMatch, WriteParams,
};
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use futures_util::TryStreamExt;
use serde_json::json;

use crate::fixtures::{config_map, labelled, names, pod};
use crate::support::{TestNamespace, chain, client, client_without_retries, refused};

/// Creates objects labelled `set=this`, so that others in the namespace are ignored.
async fn filled(names: &[&str]) -> (TestNamespace, Api<ConfigMap>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    for name in names {
        let object = config_map(name, json!({ "set": "this", "name": name }));
        api.create(&WriteParams::default(), &object).await.expect("created");
    }
    (space, api)
}

fn this() -> ListParams {
    labelled("set=this")
}

#[tokio::test]
async fn label_selectors_match_the_same_objects_on_the_server_and_in_the_library() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<ConfigMap>(&client);
    let sets = [
        ("a", json!({ "set": "this", "tier": "web", "size": "1" })),
        ("b", json!({ "set": "this", "tier": "db", "size": "5" })),
        ("c", json!({ "set": "this", "tier": "cache" })),
        ("d", json!({ "set": "this" })),
    ];
    for (name, labels) in sets {
        api.create(&WriteParams::default(), &config_map(name, labels)).await.expect("created");
    }
    let all = api.list(&this()).await.expect("listed").items;
    for (selector, expected) in [
        ("set=this", &["a", "b", "c", "d"][..]),
        ("set=this,tier=web", &["a"]),
        ("set=this,tier!=web", &["b", "c", "d"]),
        ("set=this,tier in (web,db)", &["a", "b"]),
        ("set=this,tier notin (web,db)", &["c", "d"]),
        ("set=this,tier", &["a", "b", "c"]),
        ("set=this,!tier", &["d"]),
        ("set=this,size>1", &["b"]),
        ("set=this,size<5", &["a"]),
        ("set=that", &[]),
    ] {
        let params = labelled(selector);
        let listed = api.list(&params).await.unwrap_or_else(|error| panic!("{selector}: {}", chain(&error)));
        assert_eq!(names(&listed.items), expected, "{selector}");
        let here =
            all.iter().filter(|it| params.selectors.labels.matches(dogwatch::Object::header(*it).labels));
        assert_eq!(names(here), expected, "{selector}");
    }
}

#[tokio::test]
async fn field_selectors_select_by_name_and_unknown_fields_are_rejected() {
    let (_space, api) = filled(&["a", "b", "c"]).await;
    let one = api.list(&this().fields(FieldSelector::name("b"))).await.expect("listed");
    assert_eq!(names(&one.items), ["b"]);
    let others = FieldSelector::everything().not_equals("metadata.name", "b");
    assert_eq!(names(&api.list(&this().fields(others)).await.expect("listed").items), ["a", "c"]);
    let unknown = FieldSelector::everything().equals("data.key", "value");
    assert!(refused(api.list(&this().fields(unknown)).await).is_bad_request());
}

#[tokio::test]
async fn pods_are_selected_by_phase_and_node() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<Pod>(&client);
    api.create(&WriteParams::default(), &pod("a")).await.expect("created");
    for (field, value, found) in [
        ("status.phase", "Pending", true),
        ("status.phase", "Running", false),
        ("spec.nodeName", "", true),
        ("spec.nodeName", "node-1", false),
    ] {
        let fields = FieldSelector::everything().equals(field, value);
        let listed = api.list(&ListParams::default().fields(fields)).await.expect("listed");
        assert_eq!(!listed.items.is_empty(), found, "{field}={value}");
    }
}

#[tokio::test]
async fn one_handle_sees_all_namespaces() {
    let (space, api) = filled(&["a"]).await;
    let client = api.client().clone();
    let other = TestNamespace::new(&client).await;
    // A label that only this test uses.
    let mark = json!({ "only-in": space.name });
    for (space, name) in [(&space, "x"), (&other, "y")] {
        let made = space.api(&client).create(&WriteParams::default(), &config_map(name, mark.clone())).await;
        made.expect("created");
    }
    let everywhere = Api::<ConfigMap>::all(client);
    let listed = everywhere.list(&labelled(&format!("only-in={}", space.name))).await.expect("listed");
    assert_eq!(names(&listed.items), ["x", "y"]);
}

#[tokio::test]
async fn a_limit_makes_pages_that_continue_to_the_end() {
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    let (_space, api) = filled(&all).await;
    let mut params = this().limit(3);
    let mut pages = Vec::new();
    let mut versions = Vec::new();
    loop {
        let page = api.list(&params).await.expect("a page");
        versions.push(page.metadata.version.clone());
        pages.push(names(&page.items));
        match page.metadata.continue_token {
            Some(token) => params = this().limit(3).continue_token(token),
            None => break,
        }
    }
    assert_eq!(pages, [&all[..3], &all[3..6], &all[6..]]);
    assert!(versions.windows(2).all(|it| it[0] == it[1]), "all pages are of one version: {versions:?}");
}

#[tokio::test]
async fn all_pages_of_a_list_show_one_version() {
    let (_space, api) = filled(&["a", "b", "c", "d"]).await;
    let first = api.list(&this().limit(2)).await.expect("a page");
    let token = first.metadata.continue_token.expect("there is more");
    api.delete("c", &DeleteParams::default()).await.expect("deleted");
    api.create(&WriteParams::default(), &config_map("e", json!({ "set": "this" }))).await.expect("created");
    let rest = api.list(&this().continue_token(token)).await.expect("the rest");
    assert_eq!(names(&rest.items), ["c", "d"]);
    assert_eq!(names(&api.list(&this()).await.expect("listed").items), ["a", "b", "d", "e"]);
}

#[tokio::test]
async fn pages_streams_and_whole_lists_hold_the_same_objects() {
    let (_space, api) = filled(&["a", "b", "c", "d", "e"]).await;
    let whole = api.list(&this()).await.expect("listed");
    let all = api.list_all(&this().limit(2)).await.expect("listed");
    assert_eq!(all.items, whole.items);
    assert_eq!(all.metadata.continue_token, None);

    let mut stream = api.list_stream(&this());
    let mut streamed = Vec::new();
    let version = loop {
        match stream.try_next().await.expect("streamed").expect("the list has an end") {
            ListEvent::Item(item) => streamed.push(item),
            ListEvent::End { version, paginated: false } => break version,
            other => panic!("{other:?}"),
        }
    };
    assert!(!version.is_older_than(&whole.metadata.version));
    assert_eq!(stream.into_metadata().version, version);
    assert_eq!(streamed, whole.items);

    let mut pages = api.list_pages(&this().limit(2));
    let mut paged = Vec::new();
    loop {
        match pages.try_next().await.expect("streamed").expect("the list has an end") {
            ListEvent::Item(item) => paged.push(item),
            ListEvent::End { paginated: true, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(paged, whole.items);
}

#[tokio::test]
async fn a_list_carries_its_kind_and_api_version() {
    let (_space, api) = filled(&["a"]).await;
    let list = api.list(&this()).await.expect("listed");
    assert_eq!((list.metadata.kind.as_str(), list.metadata.api_version.as_str()), ("ConfigMapList", "v1"));
    assert!(list.metadata.version.is_exact());
}

#[tokio::test]
async fn a_list_at_an_exact_version_shows_the_objects_of_that_version() {
    let (_space, api) = filled(&["a", "b"]).await;
    let then = api.list(&this()).await.expect("listed").metadata.version;
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    api.create(&WriteParams::default(), &config_map("c", json!({ "set": "this" }))).await.expect("created");
    let exact = this().at(then.clone()).matching(VersionMatch::Exact);
    let past = api.list(&exact).await.expect("not compacted yet");
    assert_eq!(names(&past.items), ["a", "b"]);
    assert_eq!(past.metadata.version, then);
    let paged = api.list_all(&exact.limit(1)).await.expect("not compacted yet");
    assert_eq!(names(&paged.items), ["a", "b"]);
}

#[tokio::test]
async fn a_list_not_older_than_a_write_shows_it() {
    let (_space, api) = filled(&["a"]).await;
    let made = api.create(&WriteParams::default(), &config_map("b", json!({ "set": "this" }))).await;
    let version = made.expect("created").metadata.resource_version.expect("stored objects have a version");
    let fresh = this().at(version.clone()).matching(VersionMatch::NotOlderThan);
    let listed = api.list(&fresh).await.expect("listed");
    assert_eq!(names(&listed.items), ["a", "b"]);
    assert!(!listed.metadata.version.is_older_than(&ResourceVersion::new(&version)));
}

#[tokio::test]
async fn a_version_in_the_future_is_too_large() {
    let client = client_without_retries();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<ConfigMap>(&client);
    let far = this().at("9000000000000000000").matching(VersionMatch::NotOlderThan);
    let status = refused(api.list(&far).await);
    assert!(status.is_too_large_resource_version(), "{status:?}");
}

#[tokio::test]
async fn an_invalid_continue_token_is_a_bad_request() {
    let (_space, api) = filled(&["a"]).await;
    let status = refused(api.list(&this().limit(1).continue_token("nonsense")).await);
    assert!(status.is_bad_request(), "{status:?}");
}

#[tokio::test]
async fn an_empty_list_has_a_version_to_watch_from() {
    let (_space, api) = filled(&[]).await;
    let list = api.list_all(&this()).await.expect("listed");
    assert!(list.items.is_empty() && list.bad.is_empty());
    assert!(list.metadata.version.is_exact());
}
