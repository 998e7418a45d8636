//! The store's processing of deltas: contents, versions and changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_core::{Header, Meta, Object, ObjectKey, ResourceVersion};
use dogwatch_informer::{Change, Deleted, Delta, Store, StoreWriter, WaitError};
use futures_util::FutureExt;
use proptest::prelude::*;

/// An object with nothing but metadata and one number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    pub(crate) metadata: Meta,
    pub(crate) number: i64,
}

impl Object for Thing {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

/// Creates a thing at `namespace/name`; its uid is its key.
pub(crate) fn thing(key: &str, version: &str) -> Thing {
    let parsed: ObjectKey = key.parse().unwrap();
    let mut metadata = Meta::default();
    metadata.name = parsed.name().into();
    metadata.namespace = parsed.namespace().unwrap_or_default().into();
    metadata.uid = key.into();
    metadata.resource_version = version.into();
    Thing { metadata, number: 0 }
}

pub(crate) fn with_uid(mut thing: Thing, uid: &str) -> Thing {
    thing.metadata.uid = uid.into();
    thing
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

/// Returns the deltas of a complete list.
pub(crate) fn list(version: &str, items: impl IntoIterator<Item = Thing>) -> Vec<Delta<Thing>> {
    let end = Delta::End { version: version.into(), undecodable: vec![] };
    let items = items.into_iter().map(Delta::Item);
    [Delta::Begin].into_iter().chain(items).chain([end]).collect()
}

/// A writer and its store. Changes are shown as one line each.
pub(crate) struct TestStore {
    pub(crate) writer: StoreWriter<Thing>,
    pub(crate) store: Store<Thing>,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let writer = StoreWriter::new();
        Self { store: writer.store(), writer }
    }

    pub(crate) fn apply(&mut self, deltas: impl IntoIterator<Item = Delta<Thing>>) -> Vec<String> {
        let mut changes = Vec::new();
        self.writer.apply(deltas, &mut changes);
        changes.iter().map(applied).collect()
    }

    pub(crate) fn contents(&self) -> Vec<String> {
        self.store.snapshot().iter().map(|it| shown(it)).collect()
    }

    fn version(&self) -> String {
        self.store.version().to_string()
    }
}

/// Formats a thing as `key@version`.
fn shown(thing: &Thing) -> String {
    format!("{}@{}", thing.key().unwrap(), thing.version())
}

fn applied(change: &Change<Thing>) -> String {
    match change {
        Change::Added { object, initial: true } => format!("initial {}", shown(object)),
        Change::Added { object, .. } => format!("added {}", shown(object)),
        Change::Updated { old, new } => format!("updated {} {}", shown(old), new.version()),
        Change::Deleted(Deleted::Missed(last)) => format!("missed {}", shown(last)),
        Change::Deleted(deleted) => format!("deleted {}", shown(deleted.last())),
        other => format!("{other:?}"),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn st_1_objects_are_added_updated_and_deleted_at_their_keys() {
    let mut it = TestStore::new();
    assert_eq!(it.apply(list("1", [])), NOTHING);
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "2"))]), ["added a/x@2"]);
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "3"))]), ["updated a/x@2 3"]);
    assert_eq!(it.store.get(&key("a/x")).map(|it| it.version()), Some("3".into()));
    assert_eq!(it.store.get_named(Some("a"), "x"), it.store.get(&key("a/x")));
    assert_eq!((it.store.len(), it.store.contains(&key("a/x")), it.store.is_empty()), (1, true, false));
    assert_eq!(it.apply([Delta::Deleted(thing("a/x", "4"))]), ["deleted a/x@4"]);
    assert_eq!((it.store.len(), it.store.get(&key("a/x")), it.store.is_empty()), (0, None, true));
}

#[test]
fn unknown_and_invalid_names_find_nothing() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("x", "1")]));
    assert_eq!(it.store.get_named(None, "x").map(|it| it.key()), Some(Some(key("x"))));
    assert_eq!(it.store.get_named(Some(""), "x"), it.store.get(&key("x")));
    for (namespace, name) in
        [(Some("a"), ""), (None, ""), (None, "a/x"), (Some("a/x"), ""), (Some("a/x"), "y"), (Some("b"), "x")]
    {
        assert_eq!(it.store.get_named(namespace, name), None, "{namespace:?} {name:?}");
    }
    it.apply([Delta::Applied(Thing { metadata: Meta::default(), number: 0 })]);
    assert_eq!(it.store.len(), 2, "an object without a name is skipped");
}

#[test]
fn st_4_the_version_is_unset_until_the_initial_list_is_complete_and_then_follows_everything() {
    let mut it = TestStore::new();
    assert_eq!((it.version().as_str(), it.store.is_synced()), ("", false));
    it.apply([Delta::Applied(thing("a/x", "3")), Delta::Bookmark("4".into())]);
    assert_eq!((it.version().as_str(), it.store.is_synced()), ("", false));
    it.apply(list("5", [thing("a/x", "3")]));
    assert_eq!((it.version().as_str(), it.store.is_synced()), ("5", true));
    for (delta, expected) in [
        (Delta::Applied(thing("a/x", "7")), "7"),
        (Delta::Deleted(thing("a/x", "9")), "9"),
        (Delta::Bookmark("12".into()), "12"),
        (Delta::Bookmark("10".into()), "12"),
        (Delta::Applied(thing("a/y", "11")), "12"),
        (Delta::Applied(thing("a/z", "")), "12"),
        (Delta::Deleted(thing("a/unknown", "13")), "13"),
        (Delta::Resync, "13"),
    ] {
        let shown = format!("{delta:?}");
        it.apply([delta]);
        assert_eq!(it.version(), expected, "{shown}");
    }
}

#[test]
fn a_list_from_a_reset_history_sets_the_version_back() {
    let mut it = TestStore::new();
    it.apply(list("100", [thing("a/x", "90")]));
    assert_eq!(it.apply(list("50", [thing("a/x", "40")])), ["updated a/x@90 40"]);
    assert_eq!((it.version().as_str(), it.contents()), ("50", vec!["a/x@40".to_owned()]));
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "51"))]), ["updated a/x@40 51"]);
}

#[test]
fn a_relist_gives_deletions_then_updates_and_additions_in_the_order_of_the_list() {
    let mut it = TestStore::new();
    let first = ["a/1", "a/2", "a/3", "a/4"].map(|it| thing(it, "1"));
    assert_eq!(
        it.apply(list("1", first)),
        ["initial a/1@1", "initial a/2@1", "initial a/3@1", "initial a/4@1"]
    );
    let second = [thing("a/9", "3"), thing("a/4", "1"), thing("a/1", "2"), thing("a/0", "3")];
    let received = it.apply(list("5", second));
    assert_eq!(received, ["missed a/2@1", "missed a/3@1", "added a/9@3", "updated a/1@1 2", "added a/0@3"]);
    assert_eq!(it.contents(), ["a/0@3", "a/1@2", "a/4@1", "a/9@3"]);
    assert_eq!(it.apply(list("6", [])).len(), 4);
    assert_eq!(it.version(), "6");
}

#[test]
fn readers_see_the_state_before_a_list_until_it_is_complete() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1")]));
    assert_eq!(it.apply([Delta::Begin, Delta::Item(thing("a/y", "2"))]), NOTHING);
    assert_eq!((it.contents(), it.version().as_str()), (vec!["a/x@1".to_owned()], "1"));
    let received = it.apply([Delta::End { version: "3".into(), undecodable: vec![] }]);
    assert_eq!(received, ["missed a/x@1", "added a/y@2"]);
    assert_eq!((it.contents(), it.version().as_str()), (vec!["a/y@2".to_owned()], "3"));
}

#[test]
fn an_aborted_or_restarted_list_leaves_nothing_behind() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1")]));
    let part = || [Delta::Begin, Delta::Item(thing("a/y", "2"))];
    assert_eq!(it.apply(part().into_iter().chain([Delta::Abort])), NOTHING);
    assert_eq!(it.apply(part().into_iter().chain(list("3", [thing("a/x", "1")]))), NOTHING);
    assert_eq!((it.contents(), it.version().as_str()), (vec!["a/x@1".to_owned()], "3"));
    assert_eq!(it.apply([Delta::End { version: "9".into(), undecodable: vec![] }]), NOTHING);
    assert_eq!(
        (it.contents(), it.version().as_str()),
        (vec!["a/x@1".to_owned()], "3"),
        "an end without a begin is ignored"
    );
}

#[test]
fn an_unchanged_object_keeps_its_arc_after_a_relist_and_is_not_reported() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("a/y", "1")]));
    let before = it.store.get(&key("a/x")).unwrap();
    assert_eq!(it.apply(list("2", [thing("a/y", "2"), thing("a/x", "1")])), ["updated a/y@1 2"]);
    assert!(Arc::ptr_eq(&before, &it.store.get(&key("a/x")).unwrap()));
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "1"))]), NOTHING);
    assert!(Arc::ptr_eq(&before, &it.store.get(&key("a/x")).unwrap()));
}

#[test]
fn objects_without_versions_are_always_reported() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "")]));
    assert_eq!(it.apply(list("2", [thing("a/x", "")])), ["updated a/x@ "]);
    assert_eq!(it.apply([Delta::Applied(thing("a/x", ""))]), ["updated a/x@ "]);
}

#[test]
fn an_undecodable_object_keeps_its_known_state() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("a/y", "1")]));
    let undecodable = vec![(key("a/x"), "2".into()), (key("a/unknown"), "1".into())];
    let end = Delta::End { version: "2".into(), undecodable };
    assert_eq!(it.apply([Delta::Begin, end]), ["missed a/y@1"]);
    assert_eq!(it.contents(), ["a/x@1"]);
    assert_eq!(it.store.undecodable(), [key("a/unknown"), key("a/x")]);
    it.apply(list("3", [thing("a/x", "1")]));
    assert_eq!(it.store.undecodable(), []);
}

/// Such an object may be any of those that the list lacks.
#[test]
fn a_list_with_an_undecodable_object_without_a_name_infers_no_deletion() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("a/y", "1")]));
    let end = Delta::End { version: "2".into(), undecodable: vec![] };
    let received = it.apply([Delta::Begin, Delta::Nameless, Delta::Item(thing("a/x", "2")), end]);
    assert_eq!(received, ["updated a/x@1 2"]);
    assert_eq!(it.contents(), ["a/x@2", "a/y@1"]);
    assert_eq!(
        it.apply(list("3", [thing("a/x", "2")])),
        ["missed a/y@1"],
        "the next list infers deletions again"
    );
}

#[tokio::test]
async fn waiting_for_an_undecodable_version_is_an_error() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1")]));
    let undecodable = |version: &str| Delta::Undecodable { key: key("a/x"), version: version.into() };
    assert_eq!(it.apply([undecodable("4"), Delta::Bookmark("4".into())]), NOTHING);
    it.apply([Delta::Applied(thing("a/y", "5"))]);
    assert!(it.store.is_undecodable(&key("a/x")) && !it.store.is_undecodable(&key("a/y")));
    assert_eq!(it.store.wait_until(&"4".into()).await, Err(WaitError::Undecodable));
    assert_eq!(it.store.wait_until(&"5".into()).await, Ok(()), "other versions are not affected");
    it.apply([Delta::Applied(thing("a/x", "6"))]);
    assert_eq!(it.store.undecodable(), []);
    assert_eq!(it.store.wait_until(&"4".into()).await, Ok(()), "a newer state was decoded");
    it.apply([undecodable("7"), Delta::Bookmark("7".into()), Delta::Deleted(thing("a/x", "8"))]);
    assert_eq!(it.store.undecodable(), [], "a deleted object is not undecodable");
    it.apply([undecodable("9"), Delta::Dropped(key("a/x")), Delta::Bookmark("9".into())]);
    assert_eq!(it.store.undecodable(), []);
}

#[test]
fn the_same_undecodable_version_is_published_once() {
    let mut it = TestStore::new();
    it.apply(list("1", []));
    let store = it.store.clone();
    let undecodable = |version: &str| [Delta::Undecodable { key: key("a/x"), version: version.into() }];
    for (version, publishes) in [("4", true), ("4", false), ("5", true), ("", true), ("", false)] {
        let published = store.published();
        it.apply(undecodable(version));
        assert_eq!(published.now_or_never().is_some(), publishes, "{version:?}");
    }
}

/// Each event used to copy the set of all undecodable objects, which took minutes for this number.
#[test]
fn an_event_about_one_of_many_undecodable_objects_is_applied_quickly() {
    let mut it = TestStore::new();
    it.apply(list("1", []));
    let count = 20_000;
    let keys: Vec<_> = (0..count).map(|at| key(&format!("a/{at:05}"))).collect();
    for version in ["2", "3"] {
        for key in &keys {
            it.apply([Delta::Undecodable { key: key.clone(), version: version.into() }]);
        }
        assert_eq!(it.store.undecodable(), keys);
    }
    for key in &keys[1..] {
        it.apply([Delta::Dropped(key.clone())]);
    }
    assert_eq!(it.store.undecodable(), keys[..1]);
}

/// If the wait succeeded, a writer would take the state that the store shows for its own write.
#[tokio::test]
async fn waiting_for_an_undecodable_version_of_a_list_is_an_error_too() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1")]));
    let end = |version: &str, of: &str| {
        let undecodable = vec![(key("a/x"), of.into())];
        [Delta::Begin, Delta::End { version: version.into(), undecodable }]
    };
    it.apply(end("5", "4"));
    assert_eq!(it.store.wait_until(&"4".into()).await, Err(WaitError::Undecodable));
    assert_eq!(it.store.wait_until(&"5".into()).await, Ok(()), "other versions are not affected");
    it.apply(end("8", "7"));
    assert_eq!(
        it.store.wait_until(&"7".into()).await,
        Err(WaitError::Undecodable),
        "a newer undecodable state"
    );
    it.apply(end("9", ""));
    assert_eq!(
        it.store.wait_until(&"7".into()).await,
        Err(WaitError::Undecodable),
        "the last known version counts"
    );
}

/// Each deletion used to scan all earlier items, which took minutes for a list of this length.
#[test]
fn a_streamed_list_can_drop_many_of_its_items_quickly() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/0", "1"), thing("a/1", "1")]));
    let count = 50_000;
    let items = (0..count).map(|at| Delta::Item(thing(&format!("a/{at}"), "2")));
    let dropped = (1..count).map(|at| Delta::Dropped(key(&format!("a/{at}"))));
    let again = [Delta::Item(thing("a/7", "3")), Delta::Item(thing("a/8", "3")), Delta::Dropped(key("a/8"))];
    let end = Delta::End { version: "4".into(), undecodable: vec![] };
    let received = it.apply([Delta::Begin].into_iter().chain(items).chain(dropped).chain(again).chain([end]));
    assert_eq!(received, ["missed a/1@1", "updated a/0@1 2", "added a/7@3"]);
}

#[test]
fn in_2_another_uid_at_the_same_key_is_a_deletion_and_an_addition() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("a/y", "1")]));
    let recreated = with_uid(thing("a/y", "3"), "second");
    let received = it.apply(list("4", [thing("a/x", "2"), recreated]));
    assert_eq!(received, ["missed a/y@1", "updated a/x@1 2", "added a/y@3"]);
    let received = it.apply([Delta::Applied(with_uid(thing("a/y", "5"), "third"))]);
    assert_eq!(received, ["missed a/y@3", "added a/y@5"]);
    assert_eq!(it.contents(), ["a/x@2", "a/y@5"]);
}

#[test]
fn replays_of_older_states_are_ignored() {
    let mut it = TestStore::new();
    it.apply(list("9", [thing("a/x", "9")]));
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "8")), Delta::Applied(thing("a/x", "9"))]), NOTHING);
    assert_eq!(it.apply([Delta::Applied(thing("a/x", "10"))]), ["updated a/x@9 10"]);
    it.apply([Delta::Applied(thing("a/opaque", "x"))]);
    assert_eq!(
        it.apply([Delta::Applied(thing("a/opaque", "b"))]),
        ["updated a/opaque@x b"],
        "versions that cannot be compared count in order of arrival"
    );
}

/// A server that was restored from a backup counts versions again from an older one. An object that
/// its list could not show keeps its known state, with a version that is in the future of the new
/// history.
#[test]
fn an_object_kept_from_a_reset_history_is_replaced_by_the_next_state() {
    for next in ["80", "100"] {
        let mut written = TestStore::new();
        written.apply(list("100", [thing("a/x", "100"), thing("a/y", "90")]));
        let undecodable = vec![(key("a/x"), "40".into()), (key("a/y"), "40".into())];
        let end = Delta::End { version: "50".into(), undecodable };
        assert_eq!(written.apply([Delta::Rewound, Delta::Begin, end]), [] as [&str; 0]);
        assert_eq!(written.contents(), ["a/x@100", "a/y@90"]);
        // A different object of that name, of which only the deletion was seen.
        let other = with_uid(thing("a/y", "70"), "other");
        assert_eq!(written.apply([Delta::Deleted(other)]), ["missed a/y@90"]);
        let newer = Thing { number: 1, ..thing("a/x", next) };
        assert_eq!(written.apply([Delta::Applied(newer)]), [format!("updated a/x@100 {next}")]);
        assert_eq!(written.store.get(&key("a/x")).map(|it| it.number), Some(1));
    }
}

#[test]
fn a_deletion_applies_to_the_object_with_its_uid() {
    let held = || with_uid(thing("a/x", "9"), "held");
    for (uid, version, expected) in [
        ("held", "10", vec!["deleted a/x@10"]),
        ("held", "9", vec!["deleted a/x@9"]),
        ("held", "5", vec!["deleted a/x@5"]),
        ("earlier", "5", vec![]),
        ("later", "12", vec!["missed a/x@9"]),
        ("", "10", vec!["deleted a/x@10"]),
        ("", "5", vec![]),
        ("", "", vec!["deleted a/x@"]),
    ] {
        let mut it = TestStore::new();
        it.apply(list("9", [held()]));
        assert_eq!(
            it.apply([Delta::Deleted(with_uid(thing("a/x", version), uid))]),
            expected,
            "{uid:?} {version:?}"
        );
        assert_eq!(it.store.is_empty(), !expected.is_empty(), "{uid:?} {version:?}");
    }
    assert_eq!(
        TestStore::new().apply([Delta::Deleted(held())]),
        NOTHING,
        "a deletion of an unknown object is not reported"
    );
}

#[test]
fn events_in_the_middle_of_a_list_become_part_of_it() {
    let mut it = TestStore::new();
    it.apply(list("1", [thing("a/x", "1"), thing("a/y", "1")]));
    let deltas = [
        Delta::Begin,
        Delta::Item(thing("a/x", "1")),
        Delta::Item(thing("a/y", "1")),
        Delta::Item(thing("a/z", "2")),
        Delta::Bookmark("3".into()),
        Delta::Applied(thing("a/x", "4")),
        Delta::Deleted(thing("a/y", "5")),
        Delta::Deleted(thing("a/z", "6")),
        Delta::End { version: "7".into(), undecodable: vec![] },
    ];
    let received = it.apply(deltas);
    assert_eq!(received, ["added a/z@2", "updated a/x@1 4", "deleted a/y@5", "deleted a/z@6"]);
    assert_eq!(it.contents(), ["a/x@4"]);
}

#[test]
fn the_deltas_of_one_call_are_published_at_once_and_reported_one_by_one() {
    let mut it = TestStore::new();
    it.apply(list("1", []));
    let received = it.apply([
        Delta::Applied(thing("a/x", "2")),
        Delta::Applied(thing("a/x", "3")),
        Delta::Deleted(thing("a/x", "4")),
        Delta::Applied(with_uid(thing("a/x", "5"), "second")),
    ]);
    assert_eq!(received, ["added a/x@2", "updated a/x@2 3", "deleted a/x@4", "added a/x@5"]);
}

/// One write to a model of a server.
#[derive(Clone, Debug)]
enum Write {
    Apply(u8),
    Delete(u8),
    /// The watch is lost: later changes are not delivered until the next list.
    Lose,
    Relist,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_history_gives_the_contents_of_the_server_and_changes_that_add_up_to_them(
        writes in prop::collection::vec(
            prop_oneof![
                6 => (0u8..60).prop_map(Write::Apply),
                3 => (0u8..60).prop_map(Write::Delete),
                1 => Just(Write::Lose),
                1 => Just(Write::Relist),
            ],
            0..400,
        ),
        batch in 1usize..9,
    ) {
        let (mut writer, mut server) = (StoreWriter::<Thing>::new(), BTreeMap::new());
        let (mut queue, mut folded, mut kept) = (list("1", []), BTreeMap::new(), Vec::new());
        let (mut version, mut lost) = (1u64, false);
        for write in writes.into_iter().chain([Write::Relist]) {
            version += 1;
            match write {
                Write::Apply(number) => {
                    let name = format!("ns-{}/{number}", number % 5);
                    let uid = server.get(&name).map_or(format!("{version}"), |it: &Thing| it.metadata.uid.to_string());
                    let thing = with_uid(thing(&name, &version.to_string()), &uid);
                    server.insert(name, thing.clone());
                    queue.extend((!lost).then_some(Delta::Applied(thing)));
                }
                Write::Delete(number) => {
                    let gone = server.remove(&format!("ns-{}/{number}", number % 5));
                    let gone = gone.map(|mut it| { it.metadata.resource_version = version.to_string().into(); it });
                    queue.extend(gone.filter(|_| !lost).map(Delta::Deleted));
                }
                Write::Lose => lost = true,
                Write::Relist => {
                    lost = false;
                    queue.extend(list(&version.to_string(), server.values().cloned()));
                }
            }
            if queue.len() >= batch {
                let mut changes = Vec::new();
                writer.apply(queue.drain(..), &mut changes);
                fold(&mut folded, changes)?;
                let snapshot = writer.store().snapshot();
                kept.push((snapshot.iter().cloned().collect::<Vec<_>>(), snapshot));
            }
        }
        let mut changes = Vec::new();
        writer.apply(queue, &mut changes);
        fold(&mut folded, changes)?;
        let contents: BTreeMap<_, _> =
            writer.store().snapshot().iter().map(|it| (it.key().unwrap().to_string(), Thing::clone(it))).collect();
        prop_assert_eq!(&contents, &server);
        prop_assert_eq!(&folded, &server);
        prop_assert_eq!(writer.store().version(), ResourceVersion::from(version.to_string()));
        for (then, snapshot) in kept {
            prop_assert_eq!(snapshot.iter().cloned().collect::<Vec<_>>(), then, "a snapshot changed");
        }
    }
}

/// Applies changes to the state that a handler would know.
fn fold(known: &mut BTreeMap<String, Thing>, changes: Vec<Change<Thing>>) -> Result<(), TestCaseError> {
    for change in changes {
        let object = Thing::clone(change.object());
        let key = object.key().unwrap().to_string();
        match change {
            Change::Added { .. } => prop_assert_eq!(known.insert(key, object), None),
            Change::Updated { old, .. } => {
                prop_assert_eq!(known.insert(key, object), Some(Thing::clone(&old)))
            }
            _ => prop_assert!(known.remove(&key).is_some()),
        }
    }
    Ok(())
}
