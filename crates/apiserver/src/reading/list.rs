//! Lists: the state, the objects, and the start of the next page.

use std::sync::Arc;

use dogwatch_core::{Details, ObjectKey, Reason, Status};

use super::selection::Selection;
use crate::ApiError;
use crate::request::{ContinueToken, ListOptions, ListVersion};
use crate::store::{Compacted, Encoded, History, KnownState};

/// A list, or a page of one.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The objects, sorted by key.
    pub items: Vec<Arc<Encoded>>,
    /// The version of the listed state.
    pub version: u64,
    /// The start of the next page; `None` on the last.
    pub next: Option<ContinueToken>,
    /// The number of objects on later pages; unknown if a selector narrows the list.
    pub remaining: Option<usize>,
}

/// Lists a collection at its newest revision, or at the one that the options demand.
///
/// A copy of another server may know its state at a later version than its revision, and lists are
/// at that version then.
///
/// # Errors
///
/// Returns 410 if the state is no longer kept, and 504 if it does not exist yet. The next page of a
/// list of a copy gets 410 in both cases.
pub(crate) fn list(
    history: &History,
    known: KnownState,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Page, ApiError> {
    if history.is_closed() {
        return Err(initializing());
    }
    // Not all versions between the revision and the known one were seen.
    let revision_of = |version: u64| history.revision_of(version, known.revision);
    let (shown, after) = match &options.version {
        ListVersion::Newest | ListVersion::Any => (known.version, None),
        ListVersion::NotOlderThan(version) if *version > known.version => {
            return Err(too_large(*version, known.version));
        }
        ListVersion::NotOlderThan(_) => (known.version, None),
        ListVersion::Exact(version) if revision_of(*version).is_none() => {
            return Err(too_large(*version, known.revision));
        }
        ListVersion::Exact(version) => (*version, None),
        ListVersion::Continue(token) => match token.version {
            // No page of this server has such a token: it is from before a restart, or forged. etcd
            // rejects it too, and kube-apiserver reports that as for `resourceVersionMatch=Exact`
            // (k8s.io/apiserver v0.36.4 pkg/storage/etcd3/store.go).
            Some(version) if revision_of(version).is_none() => {
                // Another copy has seen the version, or the other server was restored from a
                // backup. Clients list again after 410, and repeat the request after 504.
                let compacted = Compacted { asked: version, oldest: known.version };
                return Err(match token.is_of_copy {
                    true => expired(compacted, &options.version, Some(&token.after)),
                    false => too_large(version, known.revision),
                });
            }
            version => (version.unwrap_or(known.version), Some(&token.after)),
        },
    };
    let version = if shown == known.version { known.snapshot } else { revision_of(shown).unwrap_or(shown) };
    let refuse = |compacted| expired(compacted, &options.version, after);
    let namespace = selection.namespace.as_deref();
    if let Some(key) = selection.only_key() {
        let found = history.get_at(version, &key).map_err(refuse)?;
        let found = found.filter(|it| selection.holds(it) && after.is_none_or(|after| it.key() > after));
        let items = Vec::from_iter(found.cloned());
        return Ok(Page { items, version: shown, next: None, remaining: None });
    }
    let mut range = history.list_in(version, namespace, after).map_err(refuse)?;
    let limit = options.limit.unwrap_or(usize::MAX);
    let mut looked_at = 0;
    let selected = range.by_ref().inspect(|_| looked_at += 1).filter(|it| selection.holds(it));
    let items: Vec<_> = selected.take(limit).cloned().collect();
    // The rest of the range may match nothing; only the next page finds out, as with
    // `GetList` in k8s.io/apiserver v0.36.4 pkg/storage/etcd3/store.go.
    let is_full = items.len() >= limit && range.next().is_some();
    let last = items.last().filter(|it| is_full && !selection.is_exactly(it));
    let remaining = match last {
        // Objects of other shards count too, even if they were skipped.
        Some(last) if !selection.is_selective() => {
            let behind = history.count_in(version, namespace, Some(last.key())).map_err(refuse)?;
            Some(behind + looked_at - items.len())
        }
        _ => None,
    };
    let next =
        last.map(|it| ContinueToken { version: Some(shown), after: it.key().clone(), is_of_copy: false });
    Ok(Page { items, version: shown, next, remaining })
}

/// Returns 429: there is no state now, as in kube-apiserver while its cache is filled
/// (k8s.io/apiserver v0.36.4 pkg/storage/cacher/cacher.go).
pub(crate) fn initializing() -> ApiError {
    let mut status = Status::failure(Reason::TooManyRequests, "storage is (re)initializing");
    status.details = Some(Details { retry_after_seconds: 1, ..Details::default() });
    ApiError(Box::new(status))
}

/// Returns 504, as `NewTooLargeResourceVersionError` in k8s.io/apiserver v0.36.4
/// pkg/storage/errors.go.
fn too_large(asked: u64, revision: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {revision}");
    let mut status = Status::failure(Reason::Timeout, message);
    status.details = Some(Details { retry_after_seconds: 1, ..Details::default() });
    ApiError(Box::new(status)).cause("ResourceVersionTooLarge", "Too large resource version", "")
}

/// Returns 410. A page that is no longer kept can be read at another version; a list at an exact
/// version cannot. The messages begin as in k8s.io/apiserver v0.36.4 pkg/storage/etcd3/errors.go.
fn expired(compacted: Compacted, asked: &ListVersion, after: Option<&ObjectKey>) -> ApiError {
    let message = match (asked, after) {
        (ListVersion::Continue(_), Some(_)) => {
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
             the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
             Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the list."
                .to_owned()
        }
        _ => format!("The resourceVersion for the provided list is too old: {} ({})", compacted.asked, compacted.oldest),
    };
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Draft;

    fn written(names: &[&str]) -> (History, u64) {
        let mut history = History::default();
        for (at, name) in names.iter().enumerate() {
            let version = at as u64 + 1;
            let object = json!({ "metadata": { "name": name } });
            let state = Draft::new(&object, vec![]).expect("it has a name").at(version);
            history.write(&ObjectKey::cluster(name), version, Some(Arc::new(state)));
        }
        (history, names.len() as u64)
    }

    fn options(query: &[(&str, &str)]) -> ListOptions {
        let pairs: Vec<_> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ListOptions::parse(&pairs).expect("valid")
    }

    fn names(page: &Page) -> Vec<&str> {
        page.items.iter().map(|it| it.key().name()).collect()
    }

    #[test]
    fn all_pages_of_a_list_are_at_one_version_despite_writes() {
        let (mut history, revision) = written(&["a", "b", "c", "d", "e"]);
        let everything = Selection::default();
        let first =
            list(&history, KnownState::at(revision), &options(&[("limit", "2")]), &everything).expect("kept");
        assert_eq!((names(&first), first.version, first.remaining), (vec!["a", "b"], 5, Some(3)));
        history.write(&ObjectKey::cluster("c"), 6, None);
        let token = first.next.expect("more to come").encode();
        let second =
            list(&history, KnownState::at(6), &options(&[("limit", "2"), ("continue", &token)]), &everything)
                .expect("kept");
        assert_eq!((names(&second), second.version, second.remaining), (vec!["c", "d"], 5, Some(1)));
        let token = second.next.expect("more to come").encode();
        let third =
            list(&history, KnownState::at(6), &options(&[("limit", "2"), ("continue", &token)]), &everything)
                .expect("kept");
        assert_eq!((names(&third), third.next.is_none(), third.remaining), (vec!["e"], true, None));
    }

    #[test]
    fn a_page_of_a_compacted_state_gets_410_and_can_continue_inconsistently() {
        let (mut history, _) = written(&["a", "b", "c"]);
        history.write(&ObjectKey::cluster("b"), 4, None);
        history.compact(4);
        let token = ContinueToken { version: Some(3), after: ObjectKey::cluster("a"), is_of_copy: false };
        let old = options(&[("limit", "2"), ("continue", &token.encode())]);
        let refusal = list(&history, KnownState::at(4), &old, &Selection::default()).expect_err("compacted");
        assert!(
            refusal.0.is_expired()
                && refusal.0.message.starts_with("The provided continue parameter is too old")
        );
        let token = ContinueToken { version: None, ..token };
        let now = options(&[("limit", "2"), ("continue", &token.encode())]);
        assert_eq!(
            names(&list(&history, KnownState::at(4), &now, &Selection::default()).expect("now")),
            ["c"]
        );
    }

    #[test]
    fn exact_versions_in_the_past_and_in_the_future() {
        let (history, revision) = written(&["a", "b", "c"]);
        let at = |version: &str| options(&[("resourceVersion", version), ("resourceVersionMatch", "Exact")]);
        let seen = list(&history, KnownState::at(revision), &at("2"), &Selection::default()).expect("kept");
        assert_eq!((names(&seen), seen.version), (vec!["a", "b"], 2));
        let refusal =
            list(&history, KnownState::at(revision), &at("9"), &Selection::default()).expect_err("not yet");
        assert!(refusal.0.is_too_large_resource_version() && refusal.0.code == 504, "{refusal}");
        assert_eq!(refusal.0.message, "Timeout: Too large resource version: 9, current: 3");
    }

    /// Regression test: a client paged through a list, and the server was restarted and counted
    /// from 1 again. The next page was served as of a version that did not exist yet, and the
    /// client watched from there and saw nothing.
    #[test]
    fn a_page_of_a_future_version_gets_504() {
        let (history, revision) = written(&["a", "b", "c"]);
        let token = ContinueToken { version: Some(4), after: ObjectKey::cluster("a"), is_of_copy: false };
        let ahead = options(&[("limit", "1"), ("continue", &token.encode())]);
        let refusal =
            list(&history, KnownState::at(revision), &ahead, &Selection::default()).expect_err("not yet");
        assert!(refusal.0.is_too_large_resource_version() && refusal.0.code == 504, "{refusal}");
    }

    #[test]
    fn the_remaining_count_is_unknown_with_a_selector() {
        let (history, revision) = written(&["a", "b", "c"]);
        let selective =
            Selection { fields: "metadata.name!=x".parse().expect("valid"), ..Selection::default() };
        let page =
            list(&history, KnownState::at(revision), &options(&[("limit", "1")]), &selective).expect("kept");
        assert!(page.next.is_some() && page.remaining.is_none());
    }

    #[test]
    fn a_full_page_of_a_selection_has_a_next_page_unless_one_object_is_selected() {
        let (history, revision) = written(&["a", "b", "c"]);
        let none_left =
            Selection { fields: "metadata.name!=c".parse().expect("valid"), ..Selection::default() };
        let page =
            list(&history, KnownState::at(revision), &options(&[("limit", "2")]), &none_left).expect("kept");
        assert_eq!((names(&page), page.next.is_some()), (vec!["a", "b"], true));
        let one = Selection { fields: "metadata.name=a".parse().expect("valid"), ..Selection::default() };
        let page = list(&history, KnownState::at(revision), &options(&[("limit", "1")]), &one).expect("kept");
        assert_eq!((names(&page), page.next.is_some()), (vec!["a"], false));
    }

    #[test]
    fn a_state_that_is_known_at_a_later_version_is_listed_at_that_version() {
        let (mut history, revision) = written(&["a", "b", "c"]);
        history.confirm(7, revision);
        let known = history.known(revision);
        let everything = Selection::default();
        for query in [
            &[][..],
            &[("resourceVersion", "0")],
            &[("resourceVersion", "5")],
            &[("resourceVersion", "7"), ("resourceVersionMatch", "Exact")],
        ] {
            let page = list(&history, known, &options(query), &everything).expect("known");
            assert_eq!((names(&page), page.version), (vec!["a", "b", "c"], 7), "{query:?}");
        }
        // What was there in between is not known.
        for query in
            [&[("resourceVersion", "8")][..], &[("resourceVersion", "5"), ("resourceVersionMatch", "Exact")]]
        {
            let refusal = list(&history, known, &options(query), &everything).expect_err("not known");
            assert!(refusal.0.is_too_large_resource_version(), "{query:?} {refusal}");
        }
        // All pages are at this version, also when the next change has arrived.
        let first = list(&history, known, &options(&[("limit", "2")]), &everything).expect("known");
        assert_eq!((first.version, first.remaining), (7, Some(1)));
        let token = first.next.expect("more to come").encode();
        let next = options(&[("limit", "2"), ("continue", &token)]);
        let second = list(&history, known, &next, &everything).expect("known");
        assert_eq!((names(&second), second.version), (vec!["c"], 7));
        history.write(&ObjectKey::cluster("c"), 9, None);
        let second = list(&history, KnownState::at(9), &next, &everything).expect("kept");
        assert_eq!((names(&second), second.version), (vec!["c"], 7));
    }

    /// Regression test: a client paged through a quiet collection while others listed it. Each of
    /// their lists confirmed a later version, and only that one could be continued.
    #[test]
    fn pages_of_every_confirmed_version_can_be_read() {
        let (mut history, revision) = written(&["a", "b", "c"]);
        let everything = Selection::default();
        let mut tokens = Vec::new();
        for version in [7, 9, 12] {
            history.confirm(version, revision);
            let known = history.known(revision);
            let first = list(&history, known, &options(&[("limit", "2")]), &everything).expect("known");
            assert_eq!(first.version, version);
            tokens.push((version, first.next.expect("more to come").encode()));
        }
        // An object has come and gone before two of the versions, and another comes after all.
        for (version, name, exists) in [(8, "d", true), (9, "d", false), (13, "e", true)] {
            let object = json!({ "metadata": { "name": name } });
            let state = Draft::new(&object, vec![]).expect("it has a name").at(version);
            history.write(&ObjectKey::cluster(name), version, exists.then(|| Arc::new(state)));
            for (listed, token) in &tokens {
                let next = options(&[("limit", "2"), ("continue", token)]);
                let page = list(&history, history.known(version), &next, &everything).expect("confirmed");
                assert_eq!((names(&page), page.version), (vec!["c"], *listed), "after {version}");
            }
        }
    }

    #[test]
    fn the_known_version_does_not_decrease_when_earlier_changes_arrive() {
        let (mut history, revision) = written(&["a", "b"]);
        history.confirm(7, revision);
        let object = json!({ "metadata": { "name": "short" } });
        let state = Draft::new(&object, vec![]).expect("it has a name").at(4);
        history.write(&ObjectKey::cluster("short"), 4, Some(Arc::new(state)));
        for query in [&[][..], &[("resourceVersion", "0")], &[("resourceVersion", "7")]] {
            let page = list(&history, history.known(4), &options(query), &Selection::default());
            let page = page.expect("known");
            assert_eq!((names(&page), page.version), (vec!["a", "b"], 7), "{query:?}");
        }
        history.write(&ObjectKey::cluster("short"), 6, None);
        assert_eq!(history.known(6).version, 7);
        // The state at 2 is no longer kept, and so nothing is known about 7.
        history.compact(6);
        assert_eq!(history.known(6), KnownState::at(6));
    }

    #[test]
    fn a_page_of_a_version_that_a_copy_has_not_seen_gets_410_and_a_token_to_continue() {
        let (history, revision) = written(&["a", "b", "c"]);
        let token = ContinueToken { version: Some(9), after: ObjectKey::cluster("a"), is_of_copy: true };
        let ahead = options(&[("limit", "1"), ("continue", &token.encode())]);
        let refusal =
            list(&history, KnownState::at(revision), &ahead, &Selection::default()).expect_err("not seen");
        assert!(refusal.0.is_expired(), "{refusal}");
    }
}
