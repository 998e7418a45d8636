//! An operator that publishes websites. Every `Website` gets a ConfigMap with its page, and an
//! entry in an index of all sites.

use std::sync::Arc;

use dogwatch::api::{PartialObjectMeta, Patch, PatchParams};
use dogwatch::controller::finalizer::{Finalizer, Phase};
use dogwatch::controller::{Owner, create_or_update};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use dogwatch::kube_core::{CustomResourceExt, ResourceExt};
use dogwatch::{Action, Api, Client, Context, Controller, CustomResource, Error, Manager, conditions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The name of the operator in the fields that it owns.
const FIELD_MANAGER: &str = "website-operator";

/// The index of all sites, a ConfigMap in the namespace `default`.
pub const INDEX: &str = "website-index";

/// The desired state of a website.
#[derive(Clone, Debug, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
pub struct WebsiteSpec {
    /// The title in the index.
    pub title: String,
    /// The page.
    pub html: String,
}

/// The actual state of a website.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation of the specification that is published.
    pub observed_generation: Option<i64>,
    /// The ConfigMap with the page.
    pub config_map: String,
}

/// The state that all reconciles share.
struct Operator {
    client: Client,
    index: Api<ConfigMap>,
    finalizer: Finalizer<Website>,
}

/// Returns the controller of websites, with informers from this manager.
pub fn controller(manager: &Manager, client: Client) -> anyhow::Result<Controller> {
    let operator = Operator {
        index: Api::namespaced(client.clone(), "default"),
        finalizer: Finalizer::new(Api::all(client.clone()), "example.com/website-index")?,
        client,
    };
    // The metadata of config maps is enough to notice that one was changed or deleted.
    let builder = manager.controller_for::<Website>().owns::<PartialObjectMeta<ConfigMap>>();
    Ok(builder.reconcile_with(operator, reconcile))
}

/// Installs the definition of websites and waits until the server serves them.
pub async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    definitions.apply(Website::crd_name(), &params, &Website::crd()).await?;
    definitions.wait_for(Website::crd_name(), conditions::is_crd_established).await?;
    Ok(())
}

async fn reconcile(site: Arc<Website>, context: Context, operator: Arc<Operator>) -> anyhow::Result<Action> {
    match operator.finalizer.phase(site, &context).await? {
        Phase::Live(site) => operator.publish(&site, &context).await?,
        Phase::CleanUp(site) => {
            operator.set_index_entry(&site, None).await?;
            operator.finalizer.done(&site, &context).await?;
        }
        _ => {} // gone, or waits for the finalizers of others
    }
    Ok(Action::Done)
}

impl Operator {
    async fn publish(&self, site: &Website, context: &Context) -> anyhow::Result<()> {
        let (name, namespace) = (site.name_any(), site.namespace().unwrap_or_default());

        let page = format!("{name}-page"); // never the name of the index
        let mut map = ConfigMap::default();
        map.metadata.name = Some(page.clone());
        map.metadata.namespace = Some(namespace.clone());
        map.data = Some([("index.html".to_owned(), site.spec.html.clone())].into());
        Owner::of(site)?.set_controller_reference(&mut map)?;
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        context.wrote(&maps.apply(&page, &params, &map).await?);

        self.set_index_entry(site, Some(&site.spec.title)).await?;

        let status = WebsiteStatus { observed_generation: site.metadata.generation, config_map: page };
        if site.status.as_ref() != Some(&status) {
            let sites = Api::<Website>::namespaced(self.client.clone(), &namespace);
            let patch = json!({ "status": status });
            let written = sites.patch_status(&name, &PatchParams::default(), Patch::Merge(&patch)).await?;
            context.wrote(&written);
        }
        Ok(())
    }

    /// Writes the title of a site into the index, or removes it.
    async fn set_index_entry(&self, site: &Website, title: Option<&str>) -> Result<(), Error> {
        let key = format!("{}.{}", site.namespace().unwrap_or_default(), site.name_any());
        create_or_update(&self.index, INDEX, |current: Option<ConfigMap>| {
            let mut index = current.unwrap_or_default();
            index.metadata.name = Some(INDEX.to_owned());
            let entries = index.data.get_or_insert_default();
            match title {
                Some(title) => entries.insert(key.clone(), title.to_owned()),
                None => entries.remove(&key),
            };
            index
        })
        .await?;
        Ok(())
    }
}
