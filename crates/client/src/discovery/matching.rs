//! Matching of names and kinds against the resources of a server: pure, no I/O (rule DI-5).
//!
//! ```text
//! deployments.v1.apps ─► interpretations: (name, version, group), then (name, group)
//!                     ─► each against names, then short names; then each against kinds
//!                     ─► first by priority: core v1, then groups in order, preferred versions first
//! ```

use std::collections::HashSet;
use std::fmt;

use dogwatch_core::{Gvk, Gvr};

use super::model::{Discovery, GroupFailure, ServedResource};

/// The maximum number of similar names in an error.
const MAX_NEAR: usize = 3;

/// The resource that matches a name.
///
/// ```
/// use dogwatch_client::{CachedDiscovery, RestMapper};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mapper = RestMapper::new(CachedDiscovery::new(client));
/// let found = mapper.resolve("Deployment.v1.apps").await?;
/// assert!(found.resource.supports("list") && found.ambiguity.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The resource, in the version to use.
    pub resource: ServedResource,
    /// Set if the name matches other resources, too.
    pub ambiguity: Option<Ambiguity>,
}

/// A name that matches several resources; the one of the highest priority was chosen.
///
/// ```
/// use dogwatch_client::discovery::Ambiguity;
///
/// let others = vec!["poddlers.acme.com".to_owned()];
/// let ambiguity = Ambiguity { word: "po".to_owned(), short_name: true, others };
/// eprintln!("Warning: {ambiguity}");
/// # assert!(ambiguity.to_string().contains("poddlers.acme.com"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguity {
    /// The name.
    pub word: String,
    /// True for a short name. Authors of custom resources choose short names, so a collision
    /// deserves a warning; a plural such as `events` in two groups is common.
    pub short_name: bool,
    /// The other matches, in full: `poddlers.acme.com`.
    pub others: Vec<String>,
}

/// The error that no resource of the server matches a name.
///
/// ```
/// use dogwatch_client::discovery::NoMatch;
///
/// let near = vec!["deployments".to_owned()];
/// let error = NoMatch { word: "deploymnts".to_owned(), near, unknown: Vec::new() };
/// assert!(error.to_string().contains("deployments"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoMatch {
    /// The name.
    pub word: String,
    /// Similar names, most similar first.
    pub near: Vec<String>,
    /// The versions whose resources are not known: the resource may be in one of them.
    pub unknown: Vec<String>,
}

/// One interpretation of a name. Missing parts match anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interpretation<'a> {
    name: &'a str,
    group: Option<&'a str>,
    version: Option<&'a str>,
}

/// The names of a resource that an interpretation is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    PluralOrSingular,
    Short,
    Kind,
}

/// Finds the resource of a name: `pods`, `pod`, `po`, `Pod`, `deployments.apps`,
/// `deployments.v1.apps`, `Deployment.v1.apps`. Case is ignored, and a prefix of the group is
/// enough: `storageclass.storage`.
pub(crate) fn by_word(discovery: &Discovery, word: &str) -> Result<Match, NoMatch> {
    let order = by_priority(discovery);
    let (name, group, qualified) = interpretations(word);
    let named = |interpretation| {
        find(&order, word, interpretation, Names::PluralOrSingular)
            .or_else(|| find(&order, word, interpretation, Names::Short))
    };
    let of_kind = |interpretation| find(&order, word, interpretation, Names::Kind);
    let grouped = Interpretation { name, group: group.filter(|it| !it.is_empty()), version: None };
    // `pods.v1`, the form that `Gvr` prints: the apparent group is a version of the core group.
    let core = group.map(|version| Interpretation { name, group: Some(""), version: Some(version) });
    qualified
        .and_then(named)
        .or_else(|| named(grouped))
        .or_else(|| core.and_then(named))
        .or_else(|| qualified.and_then(of_kind))
        .or_else(|| of_kind(grouped))
        .or_else(|| core.and_then(of_kind))
        .ok_or_else(|| NoMatch::new(discovery, word))
}

/// Finds the resource of a kind; an empty version matches any.
pub(crate) fn by_kind(discovery: &Discovery, kind: &Gvk) -> Result<Match, NoMatch> {
    let order = by_priority(discovery);
    // A kind includes its group, and that of the core group is empty: only the version can be
    // missing.
    let interpretation = Interpretation {
        name: &kind.kind,
        group: Some(&kind.group),
        version: Some(kind.version.as_str()).filter(|it| !it.is_empty()),
    };
    let exact = |it: &&&ServedResource| interpretation.is_of(it) && it.resource.gvk.kind == kind.kind;
    let found = order.iter().find(exact);
    let resource = found.ok_or_else(|| NoMatch::new(discovery, &kind.to_string()))?;
    Ok(Match { resource: ServedResource::clone(resource), ambiguity: None })
}

/// Finds a resource by a partial name; an empty group or version matches any.
pub(crate) fn by_resource(discovery: &Discovery, resource: &Gvr) -> Result<Match, NoMatch> {
    let order = by_priority(discovery);
    let said = |it| Some(it).filter(|it: &&str| !it.is_empty());
    let interpretation = Interpretation {
        name: &resource.resource,
        group: said(&resource.group),
        version: said(&resource.version),
    };
    find(&order, &resource.resource, interpretation, Names::PluralOrSingular)
        .or_else(|| find(&order, &resource.resource, interpretation, Names::Short))
        .ok_or_else(|| NoMatch::new(discovery, &resource.to_string()))
}

/// Returns all resources by priority: core v1 first, then every group in the server's order, its
/// preferred version first.
fn by_priority(discovery: &Discovery) -> Vec<&ServedResource> {
    let is_core = |it: &&ServedResource| it.resource.gvk.group.is_empty() && it.resource.gvk.version == "v1";
    let (mut order, others): (Vec<_>, Vec<_>) = discovery.resources().partition(is_core);
    order.extend(others);
    order
}

/// Splits a name: the part before the first dot, the rest, and the interpretation as name, version
/// and group if there are two dots.
fn interpretations(word: &str) -> (&str, Option<&str>, Option<Interpretation<'_>>) {
    let Some((name, rest)) = word.split_once('.') else { return (word, None, None) };
    let qualified = rest.split_once('.').map(|(version, group)| Interpretation {
        name,
        group: Some(group).filter(|it| !it.is_empty()),
        version: Some(version),
    });
    (name, Some(rest), qualified)
}

/// Returns the first match, and the other matches. A group that does not exist is used as a prefix.
fn find(
    order: &[&ServedResource],
    word: &str,
    interpretation: Interpretation<'_>,
    names: Names,
) -> Option<Match> {
    let mut found: Vec<_> =
        order.iter().filter(|it| interpretation.is_of(it) && interpretation.names(it, names)).collect();
    if found.is_empty() && interpretation.version.is_none() && interpretation.group.is_some() {
        let starts = |it: &ServedResource| {
            interpretation.group.is_some_and(|start| it.resource.gvk.group.starts_with(start))
        };
        found = order.iter().filter(|it| starts(it) && interpretation.names(it, names)).collect();
    }
    let (first, rest) = found.split_first()?;
    // Other versions of the same resource are not ambiguous.
    let mut seen = HashSet::from([first.group_resource()]);
    let others: Vec<_> =
        rest.iter().map(|it| it.group_resource()).filter(|it| seen.insert(it.clone())).collect();
    let ambiguity = (!others.is_empty()).then(|| Ambiguity {
        word: word.to_owned(),
        short_name: names == Names::Short,
        others,
    });
    Some(Match { resource: ServedResource::clone(first), ambiguity })
}

impl Interpretation<'_> {
    /// Returns true if group and version match.
    fn is_of(&self, it: &ServedResource) -> bool {
        let same = |wanted: Option<&str>, has: &str| wanted.is_none_or(|it| it.eq_ignore_ascii_case(has));
        same(self.group, &it.resource.gvk.group) && same(self.version, &it.resource.gvk.version)
    }

    fn names(&self, it: &ServedResource, names: Names) -> bool {
        let is = |own: &str| own.eq_ignore_ascii_case(self.name);
        match names {
            Names::PluralOrSingular => is(&it.resource.plural) || is(&it.singular),
            Names::Short => it.short_names.iter().any(|it| is(it)),
            Names::Kind => is(&it.resource.gvk.kind),
        }
    }
}

impl NoMatch {
    pub(crate) fn new(discovery: &Discovery, word: &str) -> Self {
        Self {
            word: word.to_owned(),
            near: near(discovery, word),
            unknown: discovery.failures.iter().map(GroupFailure::group_version).collect(),
        }
    }
}

/// Returns the names within an edit distance of a third of the word's length, closest first.
fn near(discovery: &Discovery, word: &str) -> Vec<String> {
    let name = word.split('.').next().unwrap_or_default().to_lowercase();
    let limit = (name.chars().count() / 3).max(1);
    let distance = |it: &ServedResource| {
        let short = it.short_names.iter().filter(|it| it.len() > 2).map(String::as_str);
        let names = [it.resource.plural.as_str(), it.singular.as_str()].into_iter().chain(short);
        names.map(|it| strsim::osa_distance(&name, &it.to_lowercase())).min().unwrap_or(usize::MAX)
    };
    let mut near: Vec<_> = discovery
        .preferred_resources()
        .map(|it| (distance(it), it.group_resource()))
        .filter(|it| it.0 <= limit)
        .collect();
    near.sort_by_key(|it| it.0);
    near.into_iter().take(MAX_NEAR).map(|it| it.1).collect()
}

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server has no resource type {:?}", self.word)?;
        if !self.near.is_empty() {
            write!(f, "; similar: {}", self.near.join(", "))?;
        }
        if !self.unknown.is_empty() {
            write!(f, "; the resources of {} are not known", self.unknown.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.short_name { "short name" } else { "name" };
        write!(
            f,
            "{what} {:?} could also match lower priority resource {}",
            self.word,
            self.others.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::FailureReason;
    use super::super::model::tests::{discovery, served};
    use super::*;

    fn cluster() -> Discovery {
        let mut classes = served("storage.k8s.io", "v1", "storageclasses", "StorageClass", &["sc"]);
        classes.singular = "storageclass".to_owned();
        discovery([
            served("", "v1", "pods", "Pod", &["po"]),
            served("", "v1", "events", "Event", &["ev"]),
            served("apps", "v1", "deployments", "Deployment", &["deploy"]),
            served("apps", "v1beta1", "deployments", "Deployment", &["deploy"]),
            served("events.k8s.io", "v1", "events", "Event", &["ev"]),
            classes,
            served("acme.com", "v1", "poddlers", "Poddler", &["pods", "pod", "po"]),
        ])
    }

    fn found(discovery: &Discovery, word: &str) -> String {
        match by_word(discovery, word) {
            Ok(found) => found.resource.resource.gvr().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn di_5_every_way_to_type_a_resource() {
        let cluster = cluster();
        for (word, expected) in [
            ("pods", "pods.v1"),
            ("pod", "pods.v1"),
            ("po", "pods.v1"),
            ("Pod", "pods.v1"),
            ("PODS", "pods.v1"),
            ("PO", "pods.v1"),
            ("pods.v1", "pods.v1"),
            ("pods.v1.", "pods.v1"),
            ("Pod.v1", "pods.v1"),
            ("deployments", "deployments.v1.apps"),
            ("deployment", "deployments.v1.apps"),
            ("deploy", "deployments.v1.apps"),
            ("deployments.apps", "deployments.v1.apps"),
            ("deploy.apps", "deployments.v1.apps"),
            ("deployments.v1.apps", "deployments.v1.apps"),
            ("deployments.v1beta1.apps", "deployments.v1beta1.apps"),
            ("deploy.v1beta1.apps", "deployments.v1beta1.apps"),
            ("Deployment.v1.apps", "deployments.v1.apps"),
            ("Deployment.v1beta1.apps", "deployments.v1beta1.apps"),
            ("DEPLOYMENT.V1.APPS", "deployments.v1.apps"),
            ("events", "events.v1"),
            ("events.events.k8s.io", "events.v1.events.k8s.io"),
            ("events.v1.events.k8s.io", "events.v1.events.k8s.io"),
            ("sc", "storageclasses.v1.storage.k8s.io"),
            ("StorageClass", "storageclasses.v1.storage.k8s.io"),
            ("storageclass.storage", "storageclasses.v1.storage.k8s.io"),
            ("sc.storage.k8s.io", "storageclasses.v1.storage.k8s.io"),
            ("sc.storage", "storageclasses.v1.storage.k8s.io"),
            ("pods.acme.com", "poddlers.v1.acme.com"),
        ] {
            assert_eq!(found(&cluster, word), expected, "{word}");
        }
        for word in ["", ".", "..", "pods.v2", "pods.apps", "deployments.v3.apps", "pods/log", "nothing"] {
            assert!(by_word(&cluster, word).is_err(), "{word:?}");
        }
    }

    /// The table of client-go's `TestRESTMapper`: core v1 first although its group is not, then
    /// preferred versions.
    #[test]
    fn di_5_rest_mapper() {
        let cluster = discovery([
            served("extensions", "v1beta", "jobs", "Job", &[]),
            served("extensions", "v1beta", "pods", "Pod", &[]),
            served("", "v1", "pods", "Pod", &[]),
            served("", "v2", "pods", "Pod", &[]),
            served("unpreferred", "v1", "broccoli", "Broccoli", &[]),
            served("unpreferred", "v2beta1", "broccoli", "Broccoli", &[]),
            served("unpreferred", "v2beta1", "peas", "Pea", &[]),
            served("unpreferred", "v2alpha1", "peas", "Pea", &[]),
        ]);
        for (group, version, name, expected) in [
            ("", "", "pods", "Pod.v1"),
            ("", "v1", "pods", "Pod.v1"),
            ("", "v2", "pods", "Pod.v2"),
            ("extensions", "", "pods", "Pod.v1beta.extensions"),
            ("", "", "jobs", "Job.v1beta.extensions"),
            ("", "", "broccoli", "Broccoli.v1.unpreferred"),
            ("", "", "peas", "Pea.v2beta1.unpreferred"),
            ("", "v2alpha1", "peas", "Pea.v2alpha1.unpreferred"),
            ("unpref", "", "peas", "Pea.v2beta1.unpreferred"),
        ] {
            let found = by_resource(&cluster, &Gvr::new(group, version, name)).expect("served");
            assert_eq!(found.resource.resource.gvk.to_string(), expected, "{group} {version} {name}");
        }
    }

    #[test]
    fn di_5_kinds_map_exactly_and_without_a_version_to_the_preferred_one() {
        let cluster = cluster();
        for (kind, expected) in [
            (Gvk::new("apps", "v1beta1", "Deployment"), Some("deployments.v1beta1.apps")),
            (Gvk::new("apps", "", "Deployment"), Some("deployments.v1.apps")),
            (Gvk::new("", "v1", "Pod"), Some("pods.v1")),
            (Gvk::new("", "v1", "Deployment"), None),
            (Gvk::new("apps", "v9", "Deployment"), None),
            (Gvk::new("", "v1", "pod"), None),
        ] {
            let found = by_kind(&cluster, &kind).ok().map(|it| it.resource.resource.gvr().to_string());
            assert_eq!(found.as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn di_5_replace_aliases_a_full_name_beats_a_short_one() {
        let cluster = cluster();
        for word in ["pods", "pod"] {
            let found = by_word(&cluster, word).expect("served");
            assert_eq!((found.resource.group_resource().as_str(), found.ambiguity), ("pods", None), "{word}");
        }
        let renamed = discovery([
            served("foo", "v1", "deployments", "Deployment", &["dpl"]),
            served("extension", "v1beta1", "deployments", "Deployment", &["deploy"]),
        ]);
        assert_eq!(found(&renamed, "dpl"), "deployments.v1.foo");
        assert_eq!(found(&renamed, "deploy"), "deployments.v1beta1.extension");
    }

    #[test]
    fn di_5_warn_ambiguous() {
        let text = |discovery: &Discovery, word| {
            by_word(discovery, word).expect("served").ambiguity.map(|it| (it.short_name, it.to_string()))
        };
        let cluster = cluster();
        assert_eq!(
            text(&cluster, "po"),
            Some((
                true,
                r#"short name "po" could also match lower priority resource poddlers.acme.com"#.to_owned()
            ))
        );
        assert_eq!(
            text(&cluster, "events"),
            Some((
                false,
                r#"name "events" could also match lower priority resource events.events.k8s.io"#.to_owned()
            ))
        );
        assert_eq!(text(&cluster, "deploy"), None, "versions of one resource are not ambiguous");
        let many = discovery([
            served("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", &["hpa"]),
            served("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", &["hpa"]),
            served("foo", "v1", "foo", "Foo", &["hpa"]),
            served("foo", "v1beta1", "foo", "Foo", &["hpa"]),
            served("bar", "v1", "bar", "Bar", &["hpa"]),
        ]);
        let ambiguity = by_word(&many, "hpa").expect("served").ambiguity.expect("ambiguous");
        assert_eq!(ambiguity.others, ["foo.foo", "bar.bar"]);
    }

    #[test]
    fn di_5_an_unknown_name_error_lists_similar_names_and_unknown_versions() {
        let mut cluster = cluster();
        let error = by_word(&cluster, "deploymets").expect_err("a typo");
        assert_eq!(
            error.to_string(),
            r#"the server has no resource type "deploymets"; similar: deployments.apps"#
        );
        assert!(by_word(&cluster, "zebras").expect_err("unknown").near.is_empty());
        cluster.failures.push(GroupFailure::new("metrics.k8s.io", "v1beta1", FailureReason::Stale));
        assert_eq!(
            by_word(&cluster, "zebras").expect_err("unknown").to_string(),
            r#"the server has no resource type "zebras"; the resources of metrics.k8s.io/v1beta1 are not known"#
        );
    }

    proptest::proptest! {
        #[test]
        fn di_5_the_full_name_of_a_match_always_resolves_to_it(word in "[a-zA-Z.]{0,12}") {
            let cluster = cluster();
            if let Ok(first) = by_word(&cluster, &word) {
                let again = by_word(&cluster, &first.resource.resource.gvr().to_string()).expect("served");
                proptest::prop_assert_eq!(again.resource, first.resource);
            }
        }
    }
}
