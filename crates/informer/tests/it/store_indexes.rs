//! Indexes, listers and snapshots: finding objects other than by key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_core::{Header, LabelSelector, Meta, Object};
use dogwatch_informer::{Delta, Index, IndexError, Lister, NAMESPACE_INDEX, StoreWriter};

use crate::store::{TestStore, Thing, key, list, thing};

/// Creates a thing with labels, written `a=1,b=2`.
fn labelled(key: &str, version: &str, labels: &str) -> Thing {
    let mut thing = thing(key, version);
    let labels = labels.split(',').filter_map(|it| it.split_once('='));
    thing.metadata =
        thing.metadata.with_labels(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
    thing
}

/// Returns an index by the words of the label `words`, which are joined by dots.
fn by_word() -> Index<Thing> {
    Index::new("word", |it: &Thing| {
        let words = it.metadata.labels().get("words").unwrap_or_default();
        words.split('.').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    })
}

fn keys(it: &TestStore, index: &str, value: &str) -> Vec<String> {
    let keys: Vec<_> = it.store.index_keys(index, value).unwrap().iter().map(ToString::to_string).collect();
    let objects = it.store.by_index(index, value).unwrap();
    let of_objects: Vec<_> =
        objects.iter().map(|it| dogwatch_core::Object::key(&**it).unwrap().to_string()).collect();
    assert_eq!(keys, of_objects);
    keys
}

fn names(objects: &[std::sync::Arc<Thing>]) -> Vec<&str> {
    objects.iter().map(|it| it.metadata.name.as_str()).collect()
}

#[test]
fn st_2_an_index_with_several_values_follows_every_step() {
    let mut it = TestStore::new();
    it.store.add_index(by_word()).unwrap();
    it.apply(list("1", []));
    for (version, delta, expected) in [
        ("2", Some("x.y"), [vec!["a/1"], vec!["a/1"], vec![]]),
        ("3", Some("y"), [vec![], vec!["a/1"], vec![]]),
        ("4", Some("y.y.z"), [vec![], vec!["a/1"], vec!["a/1"]]),
        ("5", Some("z"), [vec![], vec![], vec!["a/1"]]),
        ("6", None, [vec![], vec![], vec![]]),
    ] {
        match delta {
            Some(words) => it.apply([Delta::Applied(labelled("a/1", version, &format!("words={words}")))]),
            None => it.apply([Delta::Deleted(thing("a/1", version))]),
        };
        assert_eq!(["x", "y", "z"].map(|word| keys(&it, "word", word)), expected, "{delta:?}");
    }
    assert_eq!(it.store.index_values("word").unwrap(), [] as [&str; 0]);
}

#[test]
fn st_2_deleting_removes_empty_values_and_keeps_the_others() {
    let mut it = TestStore::new();
    it.store.add_index(by_word()).unwrap();
    it.apply(list("1", [labelled("a/1", "1", "words=x.y"), labelled("a/2", "1", "words=y")]));
    assert_eq!(it.store.index_values("word").unwrap(), ["x", "y"]);
    it.apply([Delta::Deleted(thing("a/1", "2"))]);
    assert_eq!(it.store.index_values("word").unwrap(), ["y"]);
    assert_eq!(keys(&it, "word", "y"), ["a/2"]);
}

#[test]
fn st_2_an_index_that_is_added_later_contains_existing_objects() {
    let mut it = TestStore::new();
    it.apply(list("1", [labelled("b/1", "1", "words=x"), labelled("a/2", "1", "words=x.y")]));
    it.store.add_index(by_word()).unwrap();
    assert_eq!(keys(&it, "word", "x"), ["a/2", "b/1"]);
    it.apply(list("2", [labelled("b/1", "2", "words=y")]));
    assert_eq!((keys(&it, "word", "x"), keys(&it, "word", "y")), (vec![], vec!["b/1".to_owned()]));
}

#[test]
fn an_index_may_be_added_in_the_middle_of_a_list() {
    let mut it = TestStore::new();
    it.apply(list("1", [labelled("a/1", "1", "words=x")]));
    it.apply([
        Delta::Begin,
        Delta::Item(labelled("a/1", "1", "words=x")),
        Delta::Item(labelled("a/2", "2", "words=x")),
    ]);
    it.store.add_index(by_word()).unwrap();
    assert_eq!(keys(&it, "word", "x"), ["a/1"]);
    it.apply([Delta::End { version: "3".into(), undecodable: vec![] }]);
    assert_eq!(keys(&it, "word", "x"), ["a/1", "a/2"]);
}

#[test]
fn st_3_duplicate_and_unknown_index_names_are_errors() {
    let it = TestStore::new();
    it.store.add_index(by_word()).unwrap();
    for taken in ["word", NAMESPACE_INDEX] {
        let again = it.store.add_index(Index::new(taken, |_: &Thing| None::<String>));
        assert_eq!(again, Err(IndexError::Taken(taken.into())));
    }
    let unknown = IndexError::Unknown("other".into());
    assert_eq!(it.store.by_index("other", "x"), Err(unknown.clone()));
    assert_eq!(it.store.index_keys("other", "x"), Err(unknown.clone()));
    assert_eq!(it.store.index_values("other"), Err(unknown.clone()));
    assert_eq!(it.store.remove_index("other"), Err(unknown.clone()));
    assert_eq!(unknown.to_string(), r#"an index with the name "other" does not exist"#);
    let before = it.store.snapshot();
    it.store.remove_index("word").unwrap();
    assert_eq!(it.store.by_index("word", "x"), Err(IndexError::Unknown("word".into())));
    assert_eq!(before.by_index("word", "x"), Ok(vec![]), "a snapshot keeps its indexes");
}

#[test]
fn st_3_objects_that_share_a_value_are_found_once_each() {
    let mut it = TestStore::new();
    it.store.add_index(by_word()).unwrap();
    let things = [("a/1", "x.y"), ("a/2", "y"), ("b/3", "z"), ("b/4", "y.x")];
    it.apply(list("1", things.map(|(key, words)| labelled(key, "1", &format!("words={words}")))));
    let (snapshot, one) = (it.store.snapshot(), it.store.get(&key("a/1")).unwrap());
    assert_eq!(names(&snapshot.sharing("word", &one).unwrap()), ["1", "2", "4"]);
    assert_eq!(names(&snapshot.sharing(NAMESPACE_INDEX, &one).unwrap()), ["1", "2"]);
}

#[test]
fn the_index_by_namespace_is_built_in_and_separates_similar_names() {
    let mut it = TestStore::new();
    it.apply(list("1", ["a/1", "a-b/2", "a0/3", "a/4", "b/5", "c1", "a"].map(|key| thing(key, "1"))));
    for (namespace, expected) in [
        ("a", vec!["a/1", "a/4"]),
        ("a-b", vec!["a-b/2"]),
        ("a0", vec!["a0/3"]),
        ("", vec!["a", "c1"]),
        ("c1", vec![]),
    ] {
        assert_eq!(keys(&it, NAMESPACE_INDEX, namespace), expected, "{namespace:?}");
    }
    assert_eq!(it.store.index_values(NAMESPACE_INDEX).unwrap(), ["", "a", "a-b", "a0", "b"]);
    let snapshot = it.store.snapshot();
    assert_eq!(
        snapshot.in_namespace("a").map(|it| it.metadata.name.as_str()).collect::<Vec<_>>(),
        ["1", "4"]
    );
}

#[test]
fn an_index_function_that_panics_loses_only_its_entry() {
    let mut it = TestStore::new();
    let picky = Index::visiting("picky", |it: &Thing, found: &mut dyn FnMut(&str)| {
        found("seen");
        assert!(
            it.metadata.name != "bad" || it.metadata.resource_version.as_str() == "3",
            "an intended panic"
        );
    });
    it.store.add_index(picky).unwrap();
    it.store.add_index(by_word()).unwrap();
    it.apply(list("1", [labelled("a/bad", "1", "words=x"), labelled("a/good", "1", "words=x")]));
    assert_eq!((keys(&it, "picky", "seen"), keys(&it, "word", "x").len()), (vec!["a/good".to_owned()], 2));
    assert_eq!((it.store.index_panics(), it.store.len()), (1, 2));
    it.apply([Delta::Applied(labelled("a/bad", "3", ""))]);
    assert_eq!((keys(&it, "picky", "seen").len(), it.store.index_panics()), (2, 1));
    it.apply([Delta::Applied(labelled("a/bad", "4", ""))]);
    assert_eq!((keys(&it, "picky", "seen").len(), it.store.index_panics()), (1, 2));
}

#[test]
fn li_1_a_lister_reads_by_key_namespace_selector_and_index() {
    let mut it = TestStore::new();
    it.apply(list(
        "1",
        [labelled("a/1", "1", "t=x"), labelled("a/2", "1", "t=y"), labelled("b/3", "1", "t=x")],
    ));
    let lister = Lister::new(it.store.clone());
    let a = lister.namespaced("a");
    assert_eq!(lister.get(&key("b/3")).map(|it| it.metadata.name.clone()).as_deref(), Some("3"));
    assert_eq!(a.get("1").map(|it| it.metadata.name.clone()).as_deref(), Some("1"));
    assert!(lister.get(&key("b/1")).is_none());
    assert!(a.get("3").is_none());
    assert_eq!(names(&lister.by_index(NAMESPACE_INDEX, "a").unwrap()), ["1", "2"]);
    for (selector, all, in_a) in [
        (LabelSelector::everything(), vec!["1", "2", "3"], vec!["1", "2"]),
        (LabelSelector::nothing(), vec![], vec![]),
        ("t=x".parse().unwrap(), vec!["1", "3"], vec!["1"]),
        ("t!=x".parse().unwrap(), vec!["2"], vec!["2"]),
    ] {
        assert_eq!((names(&lister.list(&selector)), names(&a.list(&selector))), (all, in_a), "{selector}");
    }
}

#[test]
fn selectors_find_the_same_with_and_without_label_indexes() {
    let things = (0..400).map(|it| {
        let labels = format!("m={},n={},o={}", it % 10, it % 40, it % 2);
        labelled(&format!("ns-{}/{it:03}", it % 3), "1", if it % 7 == 0 { "" } else { &labels })
    });
    let mut plain = TestStore::new();
    plain.apply(list("1", things));
    let mut indexed = TestStore::new();
    for label in ["m", "n", "o"] {
        indexed.store.add_index(Index::label(label)).unwrap();
    }
    indexed.apply(list("1", plain.store.snapshot().iter().map(|it| Thing::clone(it))));
    let [plain, indexed] = [plain, indexed].map(|it| Lister::new(it.store));
    for selector in [
        "m=3",
        "n=13",
        "m=3,n=13",
        "m in (1,2,77)",
        "n in (5,4,3),o=1",
        "m=3,o!=1",
        "o=1",
        "m",
        "!m",
        "m=none",
        "n=13,x=y",
        "m>5",
    ] {
        let selector: LabelSelector = selector.parse().unwrap();
        let found = plain.list(&selector);
        assert_eq!(found, indexed.list(&selector), "{selector}");
        let in_one = plain.namespaced("ns-1").list(&selector);
        assert_eq!(in_one, indexed.namespaced("ns-1").list(&selector), "{selector}");
        assert_eq!(
            in_one.len(),
            found.iter().filter(|it| it.metadata.namespace == "ns-1").count(),
            "{selector}"
        );
    }
    assert_eq!(indexed.by_index("n", "13").unwrap(), indexed.list(&"n=13".parse().unwrap()));
}

#[test]
fn the_pages_of_a_snapshot_cover_all_of_it_despite_concurrent_changes() {
    let mut it = TestStore::new();
    it.apply(list("1", (0..95).map(|it| thing(&format!("a/{it:02}"), "1"))));
    let snapshot = it.store.snapshot();
    for limit in [0, 1, 10, 19, 95, 200] {
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let page = snapshot.page(after.as_ref(), limit);
            read.extend(page.objects);
            it.apply([Delta::Deleted(thing(&format!("a/{:02}", read.len() % 95), "2"))]);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(read, snapshot.iter().cloned().collect::<Vec<_>>(), "{limit}");
    }
    let page = snapshot.page(Some(&key("a/50-is-not-there")), 2);
    assert_eq!((names(&page.objects), page.next), (vec!["51", "52"], Some(key("a/52"))));
    assert_eq!(snapshot.page(Some(&key("z")), 2).next, None);
}

/// An object that counts how often it was examined.
struct Counted {
    metadata: Meta,
    looks: Arc<AtomicUsize>,
}

impl Object for Counted {
    fn header(&self) -> Header<'_> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.metadata.header()
    }
}

#[test]
fn li_1_reads_by_key_namespace_and_label_index_examine_no_object() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = |number: usize| {
        let Thing { metadata, .. } =
            labelled(&format!("ns-{}/{number}", number % 4), "1", &format!("n={number}"));
        Counted { metadata, looks: Arc::clone(&looks) }
    };
    let mut writer = StoreWriter::new();
    let items = (0..100).map(|it| Delta::Item(counted(it)));
    let end = Delta::End { version: "1".into(), undecodable: vec![] };
    writer.apply([Delta::Begin].into_iter().chain(items).chain([end]), &mut Vec::new());
    let (store, lister) = (writer.store(), Lister::new(writer.store()));
    let label = || "n=7".parse::<LabelSelector>().unwrap();
    let looked = |read: &dyn Fn() -> usize| {
        looks.store(0, Ordering::Relaxed);
        (read(), looks.load(Ordering::Relaxed))
    };
    assert_eq!(
        looked(&|| lister.list(&label()).len()),
        (1, 100),
        "without an index all objects are examined"
    );
    store.add_index(Index::label("n")).unwrap();
    let reads: [(&dyn Fn() -> usize, usize); 8] = [
        (&|| lister.list(&LabelSelector::everything()).len(), 100),
        (&|| lister.list(&LabelSelector::nothing()).len(), 0),
        (&|| lister.list(&label()).len(), 1),
        (&|| lister.namespaced("ns-1").list(&LabelSelector::everything()).len(), 25),
        (&|| lister.namespaced("ns-3").list(&label()).len(), 1),
        (&|| lister.namespaced("ns-1").list(&LabelSelector::nothing()).len(), 0),
        (&|| usize::from(lister.get(&key("ns-3/7")).is_some()), 1),
        (&|| usize::from(lister.namespaced("ns-3").get("7").is_some()), 1),
    ];
    for (number, (read, found)) in reads.into_iter().enumerate() {
        assert_eq!(looked(read), (found, 0), "read {number}");
    }
}
