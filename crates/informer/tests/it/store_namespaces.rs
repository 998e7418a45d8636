//! A store that is written namespace by namespace, and the deltas that occur only in a stream of
//! events.

use dogwatch_core::ObjectKey;
use dogwatch_informer::{Delta, StoreWriter};

use crate::store::{Thing, list, thing};

/// Applies deltas and returns the changes as texts.
fn applied(
    writer: &mut StoreWriter<Thing>,
    part: usize,
    deltas: impl IntoIterator<Item = Delta<Thing>>,
) -> Vec<String> {
    use dogwatch_informer::{Change, Deleted};
    let mut changes = Vec::new();
    writer.apply_to(part, deltas, &mut changes);
    let text = |change: &Change<Thing>| {
        let object = change.object();
        let what = match change {
            Change::Added { initial: true, .. } => "initial",
            Change::Added { .. } => "added",
            Change::Updated { .. } => "updated",
            Change::Deleted(Deleted::Missed(_)) => "missed",
            _ => "deleted",
        };
        format!(
            "{what} {}/{}@{}",
            object.metadata.namespace, object.metadata.name, object.metadata.resource_version
        )
    };
    changes.iter().map(text).collect()
}

fn dropped(key: &str) -> Delta<Thing> {
    Delta::Dropped(key.parse::<ObjectKey>().unwrap())
}

#[test]
fn a_list_of_one_namespace_does_not_affect_the_others() {
    let mut writer = StoreWriter::of_namespaces(["a", "b"]);
    let store = writer.store();
    assert_eq!(
        applied(&mut writer, 1, list("5", [thing("b/x", "4"), thing("b/y", "5")])),
        ["initial b/x@4", "initial b/y@5"]
    );
    assert!(!store.is_synced() && store.version().is_unset(), "the other namespace was never listed");
    assert_eq!(applied(&mut writer, 0, list("3", [thing("a/x", "2")])), ["initial a/x@2"]);
    assert_eq!((store.is_synced(), store.version().as_str()), (true, "3"));

    // A list begins, and the other namespace changes before it ends, so that ranks in the whole
    // store shift.
    applied(&mut writer, 1, [Delta::Begin, Delta::Item(thing("b/y", "5"))]);
    assert_eq!(
        applied(&mut writer, 0, [Delta::Applied(thing("a/a", "6")), Delta::Applied(thing("a/b", "7"))]),
        ["added a/a@6", "added a/b@7"]
    );
    let rest = [Delta::Item(thing("b/z", "8")), Delta::End { version: "9".into(), undecodable: vec![] }];
    assert_eq!(applied(&mut writer, 1, rest), ["missed b/x@4", "added b/z@8"]);
    assert_eq!((store.len(), store.version().as_str()), (5, "7"));
}

#[test]
fn objects_of_another_namespace_are_skipped() {
    let mut writer = StoreWriter::of_namespaces(["a", "b"]);
    assert_eq!(applied(&mut writer, 0, list("3", [thing("a/x", "2"), thing("b/x", "3")])), ["initial a/x@2"]);
    applied(&mut writer, 1, list("3", []));
    let stray = [Delta::Applied(thing("b/y", "4")), Delta::Deleted(thing("b/x", "5")), dropped("b/x")];
    assert_eq!(applied(&mut writer, 0, stray), Vec::<String>::new());
    assert_eq!(applied(&mut writer, 1, list("6", [thing("a/x", "6"), thing("b/z", "6")])), ["added b/z@6"]);
}

#[test]
fn a_deletion_without_a_state_is_reported_as_missed() {
    let mut writer = StoreWriter::new();
    applied(&mut writer, 0, list("3", [thing("a/x", "2"), thing("a/y", "3")]));
    assert_eq!(applied(&mut writer, 0, [dropped("a/x"), dropped("a/unknown")]), ["missed a/x@2"]);
    assert_eq!(writer.store().version().as_str(), "3", "without a state there is no version to advance to");
    // Within a list, the earlier items of the list are discarded, and the held objects are missing.
    let items = [
        Delta::Begin,
        Delta::Item(thing("a/y", "4")),
        Delta::Item(thing("a/z", "5")),
        dropped("a/y"),
        dropped("a/z"),
    ];
    let end = Delta::End { version: "6".into(), undecodable: vec![] };
    assert_eq!(applied(&mut writer, 0, items.into_iter().chain([end])), ["missed a/y@3"]);
}

#[test]
fn after_a_rewind_equal_versions_prove_nothing_until_a_list_has_ended() {
    let mut writer = StoreWriter::new();
    applied(&mut writer, 0, list("3", [thing("a/x", "2")]));
    applied(&mut writer, 0, [Delta::Rewound]);
    assert_eq!(applied(&mut writer, 0, list("3", [thing("a/x", "2")])), ["updated a/x@2"]);
    assert_eq!(applied(&mut writer, 0, list("3", [thing("a/x", "2")])), Vec::<String>::new());
}

#[test]
fn a_list_marks_undecodable_objects_of_its_own_namespace_only() {
    let mut writer = StoreWriter::of_namespaces(["a", "b"]);
    let store = writer.store();
    let end = |keys: &[&str]| {
        let undecodable = keys.iter().map(|it| (it.parse().unwrap(), "2".into())).collect();
        [Delta::Begin, Delta::End { version: "3".into(), undecodable }]
    };
    let undecodable = || store.undecodable().iter().map(ToString::to_string).collect::<Vec<_>>();
    applied(&mut writer, 0, end(&["a/x", "b/stray"]));
    assert_eq!(undecodable(), ["a/x"], "nothing would ever unmark an object of another namespace");
    applied(&mut writer, 1, end(&["b/y", "b/z"]));
    assert_eq!(undecodable(), ["a/x", "b/y", "b/z"]);
    applied(&mut writer, 0, end(&["a/w"]));
    assert_eq!(undecodable(), ["a/w", "b/y", "b/z"]);
    applied(&mut writer, 1, end(&[]));
    assert_eq!(undecodable(), ["a/w"]);
}

#[test]
fn the_progress_of_a_namespace_that_was_rewound_is_unusable_until_its_list_has_ended() {
    let mut writer = StoreWriter::of_namespaces(["a", "b"]);
    let store = writer.store();
    for part in 0..2 {
        applied(&mut writer, part, list("9", []));
    }
    let key = |text: &str| text.parse::<ObjectKey>().unwrap();
    let progress = |of: Option<&str>| {
        let progress = store.progress(of.map(key).as_ref()).expect("the namespace is covered");
        (progress.version.as_str().to_owned(), progress.rewinds, progress.is_rewound)
    };
    let shown = |version: &str, rewinds, is_rewound| (version.to_owned(), rewinds, is_rewound);
    assert_eq!(store.progress(Some(&key("c/x"))), None);

    applied(&mut writer, 0, [Delta::Rewound]);
    assert_eq!(progress(Some("a/x")), shown("9", 1, true));
    assert_eq!(progress(Some("b/x")), shown("9", 0, false), "the other namespace has not noticed it yet");
    assert_eq!(progress(None), shown("9", 1, true));
    // A list that is not finished changes nothing.
    applied(&mut writer, 0, [Delta::Begin, Delta::Item(thing("a/x", "3")), Delta::Abort]);
    assert_eq!(progress(Some("a/x")), shown("9", 1, true));
    applied(&mut writer, 0, list("4", [thing("a/x", "3")]));
    assert_eq!(progress(Some("a/x")), shown("4", 1, false));
    assert_eq!(progress(None), shown("4", 1, false));
}
