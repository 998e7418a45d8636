//! The part of a collection that an informer of a factory holds.

use dogwatch_core::{FieldSelector, LabelSelector, Selectors};

/// The objects of a collection that an informer holds. Defaults to all.
///
/// ```
/// use dogwatch_informer::{InformerFactory, Selection};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let selection = Selection::default().namespace("default").labels("app=web".parse()?);
/// let factory = InformerFactory::new(client);
/// let maps = factory.get_with::<ConfigMap>(selection, |it| it.name("web-maps"));
/// factory.start();
/// maps.synced().await?;
/// assert!(maps.store().is_empty(), "no config map has this label");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub(crate) namespaces: Vec<String>,
    pub(crate) selectors: Selectors,
}

impl Selection {
    /// Selects a namespace, or all namespaces if it is empty. Several calls select several
    /// namespaces. Ignored for cluster-scoped resources.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Selects objects by their labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.selectors.labels = labels;
        self
    }

    /// Selects objects by their fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.selectors.fields = fields;
        self
    }

    /// Selects the objects of one shard, with a shard selector in the server's syntax.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.selectors.shard = Some(selector.into());
        self
    }
}
