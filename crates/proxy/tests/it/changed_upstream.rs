//! An API server whose state changes in ways that its watches do not show, and rules that change
//! while its answers are passed on.

use dogwatch_client::api::List;
use dogwatch_client::transport::{Transport, TransportOptions};
use dogwatch_client::{Api, Client};
use dogwatch_core::ListParams;
use dogwatch_proxy::Proxy;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;

use crate::map_server::{BEGIN_OF_LIST, MapServer};
use crate::support::{caller, caller_config, maps, plain, within};
use crate::upstream_double::text;

async fn proxy_of(server: &MapServer, rules: Option<&std::path::Path>) -> Proxy {
    let mut options = plain();
    options.resources = vec!["configmaps".to_owned()];
    options.rules = rules.map(Into::into);
    Proxy::start(server.config.clone(), options).await.unwrap()
}

fn names(list: &List<ConfigMap>) -> Vec<String> {
    list.items.iter().filter_map(|it| it.metadata.name.clone()).collect()
}

/// Waits until a list is answered from memory, and returns its names and its version.
async fn from_memory(server: &MapServer, maps: &Api<ConfigMap>) -> (Vec<String>, String) {
    within("an answer from memory", async {
        loop {
            let before = server.lists();
            let listed = maps.list(&ListParams::default().at("0")).await;
            if let Ok(listed) = listed
                && server.lists() == before
            {
                return (names(&listed), listed.metadata.version.as_str().to_owned());
            }
        }
    })
    .await
}

/// Regression test: the API server was restored from a backup, and a watch of the proxy stayed open
/// at a version of the future. Lists showed the old state, as if it were the newest.
#[tokio::test]
async fn a_list_of_a_server_whose_versions_went_back_is_passed_on_and_the_cache_begins_again() {
    let server = MapServer::start(5_000, &[("a", 4_000)]).await;
    let proxy = proxy_of(&server, None).await;
    let maps = maps(caller(&proxy, "alice-token"));
    assert_eq!(from_memory(&server, &maps).await, (vec!["a".to_owned()], "5000".to_owned()));
    let newest = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!((names(&newest), newest.metadata.version.as_str()), (vec!["a".to_owned()], "5000"));

    server.set(100, &[("b", 50)]);
    let newest = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!((names(&newest), newest.metadata.version.as_str()), (vec!["b".to_owned()], "100"));
    within("the new state in memory", async {
        while from_memory(&server, &maps).await != (vec!["b".to_owned()], "100".to_owned()) {}
    })
    .await;
}

/// Regression test: a list was passed on, the rules changed, and the response ended as if it were
/// complete.
#[tokio::test]
async fn a_list_that_was_passed_on_fails_when_rules_appear() {
    let server = MapServer::start(10, &[("a", 5)]).await;
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, "rules: []\n").unwrap();
    let proxy = proxy_of(&server, Some(&rules)).await;
    let config = caller_config(&proxy, "alice-token");
    from_memory(&server, &maps(Client::new(config.clone()).unwrap())).await;

    let no_plugin = watch::channel(None).1;
    let transport = Transport::with_options(&config, no_plugin, TransportOptions::default()).unwrap();
    // A token of the API server.
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJkZWZhdWx0L2FcdTAwMDAifQ";
    let uri = format!("{}/api/v1/configmaps?limit=1&continue={token}", proxy.url());
    let request = Request::get(uri).header("authorization", "Bearer alice-token").body(text("")).unwrap();
    let mut body = within("an answer", transport.forward(request)).await.unwrap().into_body();
    let begin = within("the first items", body.frame()).await.unwrap().unwrap();
    assert_eq!(begin.into_data().unwrap(), BEGIN_OF_LIST);
    std::fs::write(&rules, "rules:\n- match: {resource: configmaps}\n  hide: true\n").unwrap();
    let rest = within("the end of the list", body.collect()).await;
    assert!(rest.is_err(), "it is not complete");
}
