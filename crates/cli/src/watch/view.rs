//! One of the watched collections: its resource, its scope, and the informer over it.
//!
//! Made from the options; read by the lines on stdout and by the screen, which differ in the type
//! of the objects.

use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::{FieldSelector, LabelSelector, ListParams};
use dogwatch::discovery::ServedResource;
use dogwatch::informer::{ListWatch, NotFound, OnGone};
use dogwatch::{Api, Client, Object, SharedInformer};
use futures_util::future::try_join_all;
use serde::de::IgnoredAny;

use super::format::{Names, Objects};
use super::layout::Shape;
use super::name_filter::NameFilter;
use super::options::{Options, Output};
use super::rows::{Columns, PlainObject, Row, Rows, WholeObject};
use super::status::{StatusMessages, StatusPrinter};
use crate::target;

/// The interval at which a collection whose definition was removed is requested again.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The resource to watch, and the options.
pub(super) struct View {
    pub(super) options: Arc<Options>,
    pub(super) names: NameFilter,
    pub(super) client: Client,
    pub(super) found: ServedResource,
    /// True for one of several collections.
    is_one_of_several: bool,
}

impl View {
    /// Resolves the resources, and checks the permission to read each.
    pub(super) async fn find_all(options: Options) -> anyhow::Result<Vec<Self>> {
        let client = options.connection.client()?;
        let found = target::find_all(&client, &options.resources).await?;
        let (options, is_one_of_several) = (Arc::new(options), found.len() > 1);
        let views = found.into_iter().map(|found| Self {
            options: Arc::clone(&options),
            names: NameFilter::new(options.names.iter().cloned()),
            client: client.clone(),
            found,
            is_one_of_several,
        });
        let views: Vec<_> = views.collect();
        try_join_all(views.iter().map(Self::check)).await?;
        Ok(views)
    }

    async fn check(&self) -> Result<(), dogwatch::Error> {
        let params = ListParams::default().labels(self.labels()).fields(self.fields());
        let (client, resource) = (self.client.clone(), self.found.resource.clone());
        let metadata = Api::<IgnoredAny>::dynamic_metadata(client, resource);
        target::check(&self.within(metadata), params).await
    }

    /// Returns an informer of rows, and their columns.
    pub(super) fn row_informer(&self) -> (SharedInformer<Row>, Columns) {
        let (client, resource) = (self.client.clone(), self.found.resource.clone());
        let namespace = self.namespace().map(str::to_owned);
        match &self.options.sort_by {
            None => {
                let rows = Rows::<PlainObject>::new(client, resource, namespace);
                let columns = rows.columns();
                (self.informer(rows), columns)
            }
            Some(field) => {
                let rows = Rows::<WholeObject>::new(client, resource, namespace).sort_by(field.clone());
                let columns = rows.columns();
                (self.informer(rows), columns)
            }
        }
    }

    pub(super) fn objects(&self) -> Objects {
        Objects::new(&self.found.resource, self.options.sort_by.clone())
    }

    /// Returns the columns of a table on the screen, which has a title of its own.
    pub(super) fn shape(&self) -> Shape {
        let wide = self.options.output == Output::Wide;
        Shape { namespaces: self.spans_namespaces(), wide, kind: None }
    }

    /// Returns the columns of a table between those of others: as in kubectl, names have the kind.
    pub(super) fn shape_among_others(&self) -> Shape {
        let kind = self.is_one_of_several.then(|| Names::new(&self.found.resource).kind().into());
        Shape { kind, ..self.shape() }
    }

    fn labels(&self) -> LabelSelector {
        self.options.labels.clone().unwrap_or_else(LabelSelector::everything)
    }

    fn fields(&self) -> FieldSelector {
        let given = self.options.fields.clone().or_else(|| self.names.selector());
        given.unwrap_or_else(FieldSelector::everything)
    }

    /// Returns the namespace that is watched; `None` for all of them, and for a cluster-scoped
    /// resource.
    pub(super) fn namespace(&self) -> Option<&str> {
        let one = self.found.is_namespaced() && !self.options.all_namespaces;
        // An empty one, as from a variable that is not set, counts as none, as in kubectl.
        let given = self.options.namespace.as_deref().filter(|it| !it.is_empty());
        one.then(|| given.unwrap_or_else(|| self.client.default_namespace()))
    }

    fn spans_namespaces(&self) -> bool {
        self.found.is_namespaced() && self.namespace().is_none()
    }

    pub(super) fn within<T>(&self, api: Api<T>) -> Api<T> {
        match self.namespace() {
            Some(namespace) => api.in_namespace(namespace),
            None => api,
        }
    }

    pub(super) fn informer<T: Object>(&self, source: impl ListWatch<T>) -> SharedInformer<T> {
        SharedInformer::builder(source)
            .name(self.found.group_resource())
            .labels(self.labels())
            .fields(self.fields())
            // This is only a view of the server: no clean-up depends on an object that only seems
            // to be gone.
            .on_gone(OnGone::Clear)
            .reflector(|it| it.not_found(NotFound::GoneAfter(RETRY_INTERVAL)))
            .retry_not_served_after(Some(RETRY_INTERVAL))
            .build()
    }

    /// Returns a title such as `pods in default`.
    pub(super) fn title(&self) -> String {
        title(&self.found, self.namespace())
    }

    /// Returns what is said if there is no object, with the words of kubectl.
    pub(super) fn nothing_found(&self) -> String {
        match self.namespace() {
            Some(namespace) => format!("No resources found in {namespace} namespace."),
            None => "No resources found".to_owned(),
        }
    }

    pub(super) fn status_printer(&self) -> StatusPrinter {
        let messages = StatusMessages::new(&self.found.group_resource(), RETRY_INTERVAL);
        StatusPrinter::new(messages, self.is_one_of_several)
    }
}

/// Returns a title such as `pods in default`.
pub(crate) fn title(found: &ServedResource, namespace: Option<&str>) -> String {
    let name = found.group_resource();
    match namespace {
        Some(namespace) => format!("{name} in {namespace}"),
        None if found.is_namespaced() => format!("{name} in all namespaces"),
        None => name,
    }
}
