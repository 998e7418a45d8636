//! An informer of packed objects, on our own server.

use dogwatch::api::{DeleteParams, DynamicObject, Packed, WriteParams};
use dogwatch::client::Encoding;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Object, ObjectKey, SharedInformer};
use dogwatch_apiserver::ApiServer;

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    map.data = Some([("key".to_owned(), value.to_owned())].into());
    map
}

#[tokio::test]
async fn a_packed_informer_shows_what_a_typed_one_shows() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().in_process().seed(1).start().await?;
    let client = Client::from_service(server.url().parse()?, "default", server.service());
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        maps.create(&WriteParams::default(), &map("a", "first")).await?;
        let api = Api::<Packed<ConfigMap>>::default_namespaced(client.clone()).with_encoding(encoding);
        let informer = SharedInformer::new(api);
        informer.start();
        informer.synced().await?;
        let store = informer.store();
        let key = ObjectKey::namespaced("default", "a");
        let packed = store.get(&key).expect("it exists");
        assert_eq!(packed.get()?, maps.get("a").await?);
        assert_eq!(packed.header().labels.get("app"), Some("web"));
        let before = store.memory().expect("packed objects are measured");
        assert_eq!(before, packed.memory().expect("measured"));

        let mut changed = maps.get("a").await?;
        changed.data = map("a", &"second".repeat(100)).data;
        let changed = maps.replace("a", &WriteParams::default(), &changed).await?;
        store.wait_until(&changed.version()).await?;
        assert_eq!(store.get(&key).expect("it exists").get()?, changed);
        assert!(store.memory() > Some(before + 500), "{:?} after {before}", store.memory());

        maps.delete("a", &DeleteParams::default()).await?;
        let created = maps.create(&WriteParams::default(), &map("b", "first")).await?;
        store.wait_until(&created.version()).await?;
        assert_eq!(store.memory(), Some(before));
        maps.delete("b", &DeleteParams::default()).await?;
        informer.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn any_kind_can_be_packed() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().in_process().seed(1).start().await?;
    let client = Client::from_service(server.url().parse()?, "default", server.service());
    let typed = Api::<ConfigMap>::default_namespaced(client.clone());
    typed.create(&WriteParams::default(), &map("a", "first")).await?;
    let dynamic = Api::<Packed<DynamicObject>>::dynamic(client, typed.resource().clone());
    let list = dynamic.list_all(&Default::default()).await?;
    let found = list.items.iter().find(|it| it.header().name == "a").expect("it exists");
    let found = found.get()?;
    assert_eq!(found.data["data"]["key"], "first");
    assert_eq!(found.types.map(|it| it.kind).as_deref(), Some("ConfigMap"));
    Ok(())
}
