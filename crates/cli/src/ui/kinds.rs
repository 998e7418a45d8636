//! The kinds of the server: those that can be listed and watched, and the tables of the ones that
//! are watched now.

use dogwatch::ObjectKey;
use dogwatch::discovery::{Discovery, ServedResource};

use super::pane::Pane;
use crate::watch::layout::Shape;
use crate::watch::rows::{Columns, Row};

/// The number of kinds that are watched at the same time.
pub(super) const MAX_WATCHED: usize = 24;

/// A kind of the server.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) served: ServedResource,
    /// False after its definition was removed.
    pub(super) is_served: bool,
    /// The table, while the kind is watched.
    pub(super) pane: Option<Pane>,
}

impl Kind {
    fn new(served: &ServedResource) -> Self {
        Self { served: served.clone(), is_served: true, pane: None }
    }
}

/// An object of one of the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The position of the kind.
    pub(super) kind: usize,
    pub(super) key: ObjectKey,
}

/// All kinds, in the order of discovery. Those that are found later follow.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// A kind keeps its position: pages, informers and requests name it by that.
    all: Vec<Kind>,
    /// The namespace; `None` for all of them.
    namespace: Option<String>,
}

impl Kinds {
    /// Takes the kinds that can be listed and watched, each in one version.
    pub(super) fn new(discovery: &Discovery, namespace: Option<String>) -> Self {
        Self { all: watchable(discovery).map(Kind::new).collect(), namespace }
    }

    /// Takes the kinds that the server serves now: adds new ones, and marks those that are gone.
    /// Kinds of a version that could not be discovered stay as they are.
    pub(super) fn update(&mut self, discovery: &Discovery) {
        for kind in &mut self.all {
            let gvk = &kind.served.resource.gvk;
            let is_unknown = discovery.failures.iter().any(|it| gvk.group == it.group.as_str());
            let same = |it: &&ServedResource| is_same(it, &kind.served);
            if !is_unknown {
                kind.is_served = watchable(discovery).any(|it| same(&it));
            }
            // An informer continues in its version; without one, the preferred version is next.
            if kind.pane.is_none()
                && !is_unknown
                && discovery.by_kind(gvk).is_none()
                && let Some(other) = watchable(discovery).find(same)
            {
                kind.served = other.clone();
            }
        }
        for served in watchable(discovery) {
            if !self.all.iter().any(|it| is_same(&it.served, served)) {
                self.all.push(Kind::new(served));
            }
        }
    }

    /// Returns the position of a resource. If it was requested in another version, that one is
    /// used.
    pub(super) fn position_of(&mut self, requested: &ServedResource) -> usize {
        match self.all.iter().position(|it| is_same(&it.served, requested)) {
            Some(at) => {
                self.all[at].served = requested.clone();
                at
            }
            None => {
                self.all.push(Kind::new(requested));
                self.all.len() - 1
            }
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Kind> {
        self.all.iter()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Kind> {
        self.all.get(at)
    }

    pub(super) fn pane(&self, at: usize) -> Option<&Pane> {
        self.all.get(at)?.pane.as_ref()
    }

    pub(super) fn pane_mut(&mut self, at: usize) -> Option<&mut Pane> {
        self.all.get_mut(at)?.pane.as_mut()
    }

    /// Returns the positions and tables of the kinds that are watched.
    pub(super) fn watched(&self) -> impl Iterator<Item = (usize, &Kind, &Pane)> {
        self.all.iter().enumerate().filter_map(|(at, it)| Some((at, it, it.pane.as_ref()?)))
    }

    pub(super) fn panes_mut(&mut self) -> impl Iterator<Item = &mut Pane> {
        self.all.iter_mut().filter_map(|it| it.pane.as_mut())
    }

    /// Begins to watch a kind: creates its table. Returns the columns for its source, or `None` if
    /// it is watched already.
    ///
    /// # Errors
    /// Returns a message if too many kinds are watched.
    pub(super) fn open(&mut self, at: usize) -> Result<Option<Columns>, String> {
        let count = self.watched().count();
        let namespaces = self.namespace.is_none();
        let Some(kind) = self.all.get_mut(at).filter(|it| it.pane.is_none()) else { return Ok(None) };
        if count >= MAX_WATCHED {
            return Err(format!("{MAX_WATCHED} kinds are watched; stop one of them with x"));
        }
        let columns = Columns::default();
        let namespaces = namespaces && kind.served.is_namespaced();
        kind.pane = Some(Pane::new(columns.clone(), Shape { namespaces, ..Shape::default() }));
        Ok(Some(columns))
    }

    /// Stops watching a kind. Returns true if it was watched.
    pub(super) fn close(&mut self, at: usize) -> bool {
        self.all.get_mut(at).is_some_and(|it| it.pane.take().is_some())
    }

    /// Returns the position of the kind with this group and name of the kind, if it is served.
    pub(super) fn by_kind(&self, group: &str, kind: &str) -> Option<usize> {
        let is_it = |it: &Kind| it.served.resource.gvk.group == group && it.served.resource.gvk.kind == kind;
        self.all.iter().position(|it| it.is_served && is_it(it))
    }

    /// Returns the namespace of a kind; `None` for all, and for a cluster-scoped kind.
    pub(super) fn namespace_of(&self, at: usize) -> Option<&str> {
        self.namespace.as_deref().filter(|_| self.all.get(at).is_some_and(|it| it.served.is_namespaced()))
    }

    pub(super) fn row(&self, target: &Target) -> Option<&Row> {
        self.pane(target.kind)?.table.get(&target.key).map(AsRef::as_ref)
    }

    /// Returns a name such as `Pod default/web-1`.
    pub(super) fn name_of(&self, target: &Target) -> String {
        let kind = self.get(target.kind).map_or("", |it| it.served.resource.gvk.kind.as_str());
        format!("{kind} {}", target.key)
    }
}

/// Returns the resources that can be listed and watched, each in one version.
fn watchable(discovery: &Discovery) -> impl Iterator<Item = &ServedResource> {
    discovery.preferred_resources().filter(|it| it.supports_all(&["list", "watch"]))
}

/// Returns true for the same resource, in any version.
fn is_same(one: &ServedResource, other: &ServedResource) -> bool {
    let of = |it: &ServedResource| (it.resource.gvk.group.clone(), it.resource.plural.clone());
    of(one) == of(other)
}

#[cfg(test)]
pub(super) mod tests {
    use dogwatch::api::{Gvk, ResourceType, Scope};
    use dogwatch::discovery::{ApiGroup, ApiVersion, FailureReason, GroupFailure};

    use super::*;

    pub(crate) fn served(group: &str, kind: &str, plural: &str, scope: Scope) -> ServedResource {
        ServedResource {
            resource: ResourceType { gvk: Gvk::new(group, "v1", kind), plural: plural.into(), scope },
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
            subresources: Vec::new(),
        }
    }

    pub(crate) fn kinds(namespace: Option<&str>) -> Kinds {
        let mut kinds = Kinds { all: Vec::new(), namespace: namespace.map(str::to_owned) };
        for (group, kind, plural, scope) in [
            ("", "Node", "nodes", Scope::Cluster),
            ("", "Pod", "pods", Scope::Namespaced),
            ("apps", "Deployment", "deployments", Scope::Namespaced),
            ("apps", "ReplicaSet", "replicasets", Scope::Namespaced),
        ] {
            kinds.position_of(&served(group, kind, plural, scope));
        }
        kinds
    }

    #[test]
    fn a_kind_is_opened_once_and_only_so_many_are() {
        let mut kinds = kinds(None);
        assert!(kinds.open(1).expect("there is room").is_some());
        assert!(kinds.open(1).expect("it is open").is_none());
        assert!(kinds.pane(1).is_some_and(|it| it.shape.namespaces));
        assert!(kinds.open(0).is_ok() && kinds.pane(0).is_some_and(|it| !it.shape.namespaces));
        for at in 0..MAX_WATCHED {
            kinds.position_of(&served("example.com", "Kind", &format!("kinds{at}"), Scope::Cluster));
        }
        let count = kinds.iter().len();
        let refused = (0..count).filter(|at| kinds.open(*at).is_err()).count();
        assert_eq!((kinds.watched().count(), refused), (MAX_WATCHED, 4));
        assert!(kinds.close(0) && !kinds.close(0));
    }

    #[test]
    fn another_version_of_a_resource_replaces_the_preferred_one() {
        let mut kinds = kinds(Some("web"));
        let mut older = served("apps", "Deployment", "deployments", Scope::Namespaced);
        older.resource.gvk = Gvk::new("apps", "v1beta1", "Deployment");
        assert_eq!(kinds.position_of(&older), 2);
        assert_eq!(
            kinds.get(2).map(|it| it.served.resource.gvk.version.to_string()).as_deref(),
            Some("v1beta1")
        );
        assert_eq!((kinds.namespace_of(2), kinds.namespace_of(0)), (Some("web"), None));
        assert_eq!(kinds.by_kind("apps", "ReplicaSet"), Some(3));
    }

    /// A server with these resources, all in one version of one group.
    pub(crate) fn discovered(group: &str, resources: Vec<ServedResource>) -> Discovery {
        let version = ApiVersion { version: "v1".to_owned(), resources, orphans: Vec::new() };
        let groups = vec![ApiGroup { name: group.to_owned(), versions: vec![version] }];
        Discovery { groups, failures: Vec::new() }
    }

    #[test]
    fn kinds_come_and_go_with_their_definitions_and_keep_their_positions() {
        let group = "example.com";
        let resource = |plural: &str| served(group, "Kind", plural, Scope::Namespaced);
        let mut kinds = Kinds::new(&discovered(group, vec![resource("as"), resource("bs")]), None);
        kinds.update(&discovered(group, vec![resource("bs"), resource("cs")]));
        let shown = |kinds: &Kinds| -> Vec<_> {
            kinds.iter().map(|it| (it.served.resource.plural.to_string(), it.is_served)).collect()
        };
        let expected = [("as", false), ("bs", true), ("cs", true)].map(|(it, is)| (it.to_owned(), is));
        assert_eq!(shown(&kinds), expected);
        // The server does not answer for the group: nothing is known to be gone.
        let failure = |group: &str| GroupFailure {
            group: group.to_owned(),
            version: "v1".to_owned(),
            reason: FailureReason::Stale,
        };
        kinds.update(&Discovery { groups: Vec::new(), failures: vec![failure(group)] });
        assert_eq!(shown(&kinds), expected);
        kinds.update(&discovered(group, vec![resource("as"), resource("bs"), resource("cs")]));
        assert!(kinds.iter().all(|it| it.is_served));
        assert_eq!(kinds.iter().len(), 3);
    }

    #[test]
    fn a_kind_whose_version_is_removed_continues_in_another_one() {
        let group = "example.com";
        let mut kinds = Kinds::new(&Discovery::default(), None);
        let mut older = served(group, "Kind", "kinds", Scope::Namespaced);
        older.resource.gvk = Gvk::new(group, "v1beta1", "Kind");
        let at = kinds.position_of(&older);
        let version = |kinds: &Kinds| kinds.get(at).map(|it| it.served.resource.gvk.version.to_string());
        let newer = discovered(group, vec![served(group, "Kind", "kinds", Scope::Namespaced)]);
        assert!(kinds.open(at).is_ok());
        kinds.update(&newer);
        assert_eq!(version(&kinds).as_deref(), Some("v1beta1"), "an informer follows it");
        kinds.close(at);
        kinds.update(&newer);
        assert_eq!(version(&kinds).as_deref(), Some("v1"));
    }
}
