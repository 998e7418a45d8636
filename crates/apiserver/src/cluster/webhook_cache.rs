//! A cache of the parsed webhook configurations, and of the webhooks whose rules match a kind of
//! request.
//!
//! Each lookup compares the position of the collection's log with that of the cache, so a
//! configuration is in effect as soon as it is stored. Only configurations that exist are kept, and
//! only changed ones are parsed again. A collection of a thousand objects is deleted one by one
//! next to configurations of several megabytes: neither their size nor the number of webhooks may
//! count for each object.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use dogwatch_core::ObjectKey;
use parking_lot::Mutex;
use serde_json::Value;

use crate::admission_policy::MatchConditions;
use crate::registry::{Catalog, Kind};
use crate::store::{CollectionName, Encoded, Store};
use crate::webhook::rules::Subject;

/// The maximum number of webhooks in the kept matches of one cache. Beyond it they are matched
/// again.
const MAX_MATCHES: usize = 65_536;

/// The maximum number of bytes of the configurations of one cache that are kept parsed, as JSON.
/// Others are parsed for each request. A parsed configuration takes up to 20 bytes for each.
const MAX_PARSED: usize = 4 * 1024 * 1024;

/// The cached webhooks of a cluster.
#[derive(Debug, Default)]
pub(super) struct WebhookCaches {
    pub(super) mutating: WebhookCache,
    pub(super) validating: WebhookCache,
}

/// The cached webhooks of one kind of configuration.
#[derive(Debug, Default)]
pub(super) struct WebhookCache {
    current: ArcSwap<ParsedConfigurations>,
}

/// The parsed configurations at one position of their log.
#[derive(Debug, Default)]
pub(super) struct ParsedConfigurations {
    /// The position after the last change that is included.
    position: Option<u64>,
    configurations: BTreeMap<ObjectKey, ParsedConfiguration>,
    matches: Mutex<Matches>,
}

#[derive(Clone, Debug)]
struct ParsedConfiguration {
    stored: Arc<Encoded>,
    /// `None` if the configurations are too large to be kept.
    webhooks: Option<Arc<[Arc<ConfiguredWebhook>]>>,
}

/// The webhooks that match requests, for the kinds of one catalog.
#[derive(Debug, Default)]
struct Matches {
    /// The catalog in which the other versions of a kind were looked up.
    catalog: Weak<Catalog>,
    by_subject: HashMap<OwnedSubject, Arc<[MatchedWebhook]>>,
    /// The number of webhooks in `by_subject`, where each list counts for one more.
    size: usize,
}

/// The attributes of a request that rules match, as [`Subject`] borrows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OwnedSubject {
    operation: String,
    group: String,
    version: String,
    resource: String,
    part: String,
    namespaced: bool,
}

/// A webhook as its configuration describes it, with its compiled match conditions.
#[derive(Debug)]
pub(super) struct ConfiguredWebhook {
    value: Value,
    conditions: OnceLock<MatchConditions>,
}

impl ConfiguredWebhook {
    /// Returns the match conditions, which are compiled at the first call.
    pub(super) fn conditions(&self) -> &MatchConditions {
        self.conditions.get_or_init(|| MatchConditions::of_webhook(&self.value))
    }
}

impl Deref for ConfiguredWebhook {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// A webhook whose rules match a write.
#[derive(Clone, Debug)]
pub(super) struct MatchedWebhook {
    /// The webhook as its configuration describes it.
    pub(super) webhook: Arc<ConfiguredWebhook>,
    /// The version in which the webhook sees the object, if it is another than that of the request.
    pub(super) kind: Option<Arc<Kind>>,
}

impl WebhookCache {
    /// Returns the configurations of a collection as they are stored now.
    pub(super) fn get(&self, store: &Store, collection: &CollectionName) -> Arc<ParsedConfigurations> {
        let known = self.current.load_full();
        // The position and the list are of one snapshot.
        let changed = store.read(collection, |history, revision| {
            let position = history.position_after(revision).ok();
            (position.is_none() || position != known.position).then(|| {
                let stored = history.list_at(revision, None).into_iter().flatten();
                (position, stored.cloned().collect::<Vec<_>>())
            })
        });
        let Some((position, stored)) = changed else { return known };
        let next = Arc::new(known.updated(position, &stored));
        // A concurrent caller may store an older state afterwards. The next lookup then finds
        // another position and parses what has changed.
        self.current.store(Arc::clone(&next));
        next
    }
}

impl ParsedConfigurations {
    /// Returns these stored configurations, of which only those that have changed are parsed.
    fn updated(&self, position: Option<u64>, stored: &[Arc<Encoded>]) -> Self {
        let mut bytes = 0_usize;
        let parse = |it: &Arc<Encoded>| {
            let size = it.length();
            let is_kept = bytes.saturating_add(size) <= MAX_PARSED;
            if is_kept {
                bytes = bytes.saturating_add(size);
            }
            let known =
                self.configurations.get(it.key()).filter(|known| known.stored.version() == it.version());
            let known = known.and_then(|it| it.webhooks.clone());
            let webhooks = is_kept.then(|| known.unwrap_or_else(|| webhooks_of(it)));
            (it.key().clone(), ParsedConfiguration { stored: Arc::clone(it), webhooks })
        };
        Self { position, configurations: stored.iter().map(parse).collect(), matches: Mutex::default() }
    }

    /// Returns the webhooks that `matches` returns a match for, in order. A request with the same
    /// attributes gets the same webhooks without another call, as long as neither the
    /// configurations nor the served kinds change.
    pub(super) fn matching(
        &self,
        catalog: &Arc<Catalog>,
        subject: &Subject<'_>,
        matches: impl Fn(&Arc<ConfiguredWebhook>) -> Option<MatchedWebhook>,
    ) -> Arc<[MatchedWebhook]> {
        if self.configurations.is_empty() {
            return Arc::default();
        }
        let subject = OwnedSubject::of(subject);
        if let Some(known) = self.matches.lock().get(catalog, &subject) {
            return known;
        }
        let (mut found, mut are_kept) = (Vec::new(), true);
        for it in self.configurations.values() {
            let webhooks = it.webhooks.clone().unwrap_or_else(|| webhooks_of(&it.stored));
            let before = found.len();
            found.extend(webhooks.iter().filter_map(&matches));
            are_kept &= it.webhooks.is_some() || found.len() == before;
        }
        let found = Arc::from(found);
        // A match keeps its webhook in memory.
        if are_kept {
            self.matches.lock().insert(catalog, subject, &found);
        }
        found
    }
}

fn webhooks_of(configuration: &Encoded) -> Arc<[Arc<ConfiguredWebhook>]> {
    let mut configuration = configuration.to_value();
    match configuration.get_mut("webhooks").map(Value::take) {
        Some(Value::Array(webhooks)) => {
            let parsed = |value| Arc::new(ConfiguredWebhook { value, conditions: OnceLock::new() });
            webhooks.into_iter().map(parsed).collect()
        }
        _ => Arc::default(),
    }
}

impl Matches {
    fn get(&self, catalog: &Arc<Catalog>, subject: &OwnedSubject) -> Option<Arc<[MatchedWebhook]>> {
        let is_current = std::ptr::eq(self.catalog.as_ptr(), Arc::as_ptr(catalog));
        self.by_subject.get(subject).filter(|_| is_current).cloned()
    }

    fn insert(&mut self, catalog: &Arc<Catalog>, subject: OwnedSubject, found: &Arc<[MatchedWebhook]>) {
        let size = found.len().saturating_add(1);
        // The weak reference keeps the address of a former catalog from being used again.
        let is_current = std::ptr::eq(self.catalog.as_ptr(), Arc::as_ptr(catalog));
        if !is_current || self.size.saturating_add(size) > MAX_MATCHES {
            *self = Self { catalog: Arc::downgrade(catalog), ..Self::default() };
        }
        self.size = self.size.saturating_add(size);
        self.by_subject.insert(subject, Arc::clone(found));
    }
}

impl OwnedSubject {
    fn of(subject: &Subject<'_>) -> Self {
        Self {
            operation: subject.operation.to_owned(),
            group: subject.group.to_owned(),
            version: subject.version.to_owned(),
            resource: subject.resource.to_owned(),
            part: subject.part.to_owned(),
            namespaced: subject.namespaced,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect};

    const SUBJECT: Subject<'_> = Subject {
        operation: "CREATE",
        group: "",
        version: "v1",
        resource: "pods",
        part: "",
        namespaced: true,
    };

    fn write(store: &Store, name: &str, expect: Expect, webhooks: Option<Value>) -> Arc<Encoded> {
        let key = ObjectKey::from_parts(None, name).expect("a name");
        let draft = |it| Draft::new(&json!({ "metadata": { "name": name }, "webhooks": it }), Vec::new());
        let draft = webhooks.map(|it| draft(it).expect("it has a name"));
        store.commit(&"configurations".into(), &key, expect, draft).expect("it is expected")
    }

    #[test]
    fn configurations_that_are_too_large_are_parsed_for_each_request() {
        let (store, cache) = (Store::default(), WebhookCache::default());
        let catalog = Arc::new(Catalog::default());
        let seen = || {
            let all = cache.get(&store, &"configurations".into());
            let matches =
                |it: &Arc<ConfiguredWebhook>| Some(MatchedWebhook { webhook: Arc::clone(it), kind: None });
            let found = all.matching(&catalog, &SUBJECT, matches);
            found.iter().map(|it| Arc::clone(&it.webhook)).collect::<Vec<_>>()
        };
        write(&store, "a", Expect::Absent, Some(json!(["a1"])));
        write(&store, "b", Expect::Absent, Some(json!(["b".repeat(MAX_PARSED)])));
        let (first, second) = (seen(), seen());
        let values = |it: &[Arc<ConfiguredWebhook>]| it.iter().map(|it| (***it).clone()).collect::<Vec<_>>();
        assert_eq!(values(&first), values(&second));
        assert_eq!(values(&first)[0], json!("a1"));
        assert!(Arc::ptr_eq(&first[0], &second[0]) && !Arc::ptr_eq(&first[1], &second[1]));
        // Requests that none of them matches are remembered all the same.
        let all = cache.get(&store, &"configurations".into());
        let calls = Cell::new(0);
        let small = |it: &Arc<ConfiguredWebhook>| {
            calls.set(calls.get() + 1);
            (***it == json!("a1")).then(|| MatchedWebhook { webhook: Arc::clone(it), kind: None })
        };
        let other = Subject { resource: "services", ..SUBJECT };
        for _ in 0..3 {
            assert_eq!(all.matching(&catalog, &other, small).len(), 1);
        }
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn a_change_is_seen_at_once_and_only_changed_configurations_are_parsed() {
        let (store, cache) = (Store::default(), WebhookCache::default());
        let catalog = Arc::new(Catalog::default());
        let seen = || {
            let all = cache.get(&store, &"configurations".into());
            let matches =
                |it: &Arc<ConfiguredWebhook>| Some(MatchedWebhook { webhook: Arc::clone(it), kind: None });
            all.matching(&catalog, &SUBJECT, matches)
                .iter()
                .map(|it| Arc::clone(&it.webhook))
                .collect::<Vec<_>>()
        };
        assert!(seen().is_empty());
        let b = write(&store, "b", Expect::Absent, Some(json!(["b1"])));
        let first = seen();
        assert_eq!(first.iter().map(|it| &***it).collect::<Vec<_>>(), [&json!("b1")]);
        let a = write(&store, "a", Expect::Absent, Some(json!(["a1", "a2"])));
        let second = seen();
        assert_eq!(
            second.iter().map(|it| &***it).collect::<Vec<_>>(),
            [&json!("a1"), &json!("a2"), &json!("b1")]
        );
        assert!(Arc::ptr_eq(&first[0], &second[2]), "it has not changed");
        write(&store, "b", Expect::At(b.version()), Some(json!(["b2"])));
        write(&store, "a", Expect::At(a.version()), None);
        assert_eq!(seen().iter().map(|it| &***it).collect::<Vec<_>>(), [&json!("b2")]);
        assert_eq!(cache.current.load().configurations.len(), 1, "a removed configuration is not kept");
    }

    #[test]
    fn rules_are_matched_once_for_each_kind_of_request_and_catalog() {
        let (store, cache) = (Store::default(), WebhookCache::default());
        write(&store, "a", Expect::Absent, Some(json!(["a1"])));
        let calls = std::cell::Cell::new(0);
        let ask = |catalog: &Arc<Catalog>, operation: &str| {
            let all = cache.get(&store, &"configurations".into());
            all.matching(catalog, &Subject { operation, ..SUBJECT }, |it| {
                calls.set(calls.get() + 1);
                Some(MatchedWebhook { webhook: Arc::clone(it), kind: None }).filter(|_| operation == "CREATE")
            })
            .len()
        };
        let catalogs = [Arc::new(Catalog::default()), Arc::new(Catalog::default())];
        for (catalog, operation, matched, expected_calls) in [
            (&catalogs[0], "CREATE", 1, 1),
            (&catalogs[0], "CREATE", 1, 1),
            (&catalogs[0], "DELETE", 0, 2),
            (&catalogs[0], "DELETE", 0, 2),
            (&catalogs[1], "CREATE", 1, 3),
            (&catalogs[1], "CREATE", 1, 3),
        ] {
            assert_eq!((ask(catalog, operation), calls.get()), (matched, expected_calls), "{operation}");
        }
    }
}
