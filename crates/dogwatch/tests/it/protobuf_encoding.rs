//! A client gets protobuf from our own server, and reads the same objects.

use std::sync::{Arc, Mutex};

use dogwatch::api::{DeleteParams, ListParams, WatchEvent, WatchParams, WriteParams};
use dogwatch::client::{Encoding, ResponseBody};
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use futures_util::StreamExt;
use tower::util::MapResponse;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The content types of the responses that a client has received.
#[derive(Clone, Default)]
struct ContentTypes(Arc<Mutex<Vec<String>>>);

impl ContentTypes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

async fn start() -> (ApiServer, Client, ContentTypes) {
    let server = ApiServer::builder().in_process().seed(1).start().await.expect("it starts");
    let seen = ContentTypes::default();
    let recorded = seen.clone();
    let record = move |response: http::Response<ResponseBody>| {
        let content_type = response.headers()[http::header::CONTENT_TYPE].to_str().expect("text");
        recorded.0.lock().expect("not poisoned").push(content_type.to_owned());
        response
    };
    let service = MapResponse::new(server.service(), record);
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", service);
    (server, client, seen)
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("key".to_owned(), "välue".to_owned())].into());
    map
}

#[tokio::test]
async fn a_client_reads_lists_and_watches_in_protobuf() {
    let (_server, client, seen) = start().await;
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let json = maps.clone().with_encoding(Encoding::Json);
    let created = maps.create(&WriteParams::default(), &map("a")).await.expect("created");
    assert_eq!(created.data, map("a").data);
    assert_eq!(maps.get("a").await.expect("it exists"), created);
    let list = maps.list_all(&ListParams::default()).await.expect("listed");
    assert_eq!(list.items, std::slice::from_ref(&created));
    assert_eq!(seen.take(), ["application/json", "application/json", PROTOBUF]);
    assert_eq!(json.list_all(&ListParams::default()).await.expect("listed").items, list.items);
    assert_eq!(seen.take(), ["application/json"]);

    let mut watch = maps.watch_from(WatchParams::after(list.metadata.version)).expect("a version");
    let added = json.create(&WriteParams::default(), &map("b")).await.expect("created");
    let Some(Ok(WatchEvent::Added(event))) = watch.next().await else { panic!("no event") };
    assert_eq!(event, added);
    json.delete("b", &DeleteParams::default()).await.expect("deleted");
    let Some(Ok(WatchEvent::Deleted(event))) = watch.next().await else { panic!("no event") };
    assert_eq!((event.metadata.name.as_deref(), event.data), (Some("b"), added.data));
    assert!(seen.take().contains(&format!("{PROTOBUF};stream=watch")));
}

#[tokio::test]
async fn an_error_in_protobuf_is_the_error_of_the_server() {
    let (_server, client, seen) = start().await;
    let secrets = Api::<Secret>::default_namespaced(client);
    let params = ListParams::default().fields("nope=x".parse().expect("a selector"));
    let error = secrets.list(&params).await.expect_err("there is no such field");
    assert!(error.to_string().contains("field label not supported: nope"), "{error}");
    assert_eq!(seen.take(), [PROTOBUF]);
}
