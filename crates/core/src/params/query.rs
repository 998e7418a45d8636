//! Key and value pairs of a query: what every kind of parameters is written with.

use std::time::Duration;

use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::version::ResourceVersion;

/// Keys and values of a query, not yet encoded.
pub(super) type Query = Vec<(&'static str, String)>;

/// How a resource version in a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMatch {
    /// This version or a newer one.
    NotOlderThan,
    /// This very version.
    Exact,
}

/// Parameters that contradict each other; the server would refuse them too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidParams {
    /// A version match needs a version to match.
    #[error("resourceVersionMatch needs a resourceVersion")]
    MatchWithoutVersion,
    /// `Exact` needs a point in history.
    #[error("resourceVersionMatch=Exact needs a resourceVersion other than \"0\"")]
    ExactWithoutVersion,
    /// A continue token carries its own version.
    #[error("a continue token and a resourceVersion exclude each other")]
    ContinueWithVersion,
    /// Initial events need `NotOlderThan`, and the other way round.
    #[error("sendInitialEvents and resourceVersionMatch=NotOlderThan go together on a watch")]
    InitialEventsWithoutMatch,
    /// Only server-side apply can be forced.
    #[error("force is for server-side apply only")]
    ForceWithoutApply,
    /// Server-side apply must say who applies.
    #[error("server-side apply needs a field manager")]
    ApplyWithoutManager,
}

pub(super) fn put(query: &mut Query, key: &'static str, value: Option<impl ToString>) {
    query.extend(value.map(|it| (key, it.to_string())));
}

pub(super) fn selectors(query: &mut Query, labels: &LabelSelector, fields: &FieldSelector) {
    put(query, "labelSelector", (!labels.is_everything()).then_some(labels));
    put(query, "fieldSelector", (!fields.is_everything()).then_some(fields));
}

pub(super) fn versions(query: &mut Query, version: &ResourceVersion, version_match: Option<VersionMatch>) {
    put(query, "resourceVersion", (!version.is_unset()).then_some(version));
    let version_match = version_match.map(|it| match it {
        VersionMatch::NotOlderThan => "NotOlderThan",
        VersionMatch::Exact => "Exact",
    });
    put(query, "resourceVersionMatch", version_match);
}

/// The server counts whole seconds; a part of one is rounded up, so that a short wait does not become none.
pub(super) fn seconds(query: &mut Query, timeout: Option<Duration>) {
    let seconds = timeout.map(|it| it.as_secs() + u64::from(it.subsec_nanos() > 0)).filter(|it| *it > 0);
    put(query, "timeoutSeconds", seconds);
}

/// A query as one line, for tests.
#[cfg(test)]
pub(super) fn text(query: Query) -> String {
    query.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}
