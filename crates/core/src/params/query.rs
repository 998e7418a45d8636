//! The key and value pairs of a query, which all parameters are converted into.

use std::time::Duration;

use crate::selectors::Selectors;
use crate::version::ResourceVersion;

/// The keys and values of a query, not yet encoded.
pub(super) type Query = Vec<(&'static str, String)>;

/// The interpretation of a resource version in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMatch {
    /// This version or a newer one.
    NotOlderThan,
    /// Exactly this version.
    Exact,
}

/// Parameters that contradict each other; the server would reject them too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidParams {
    /// A version match was set without a version.
    #[error("resourceVersionMatch needs a resourceVersion")]
    MatchWithoutVersion,
    /// `Exact` was set without an exact version.
    #[error("resourceVersionMatch=Exact needs a resourceVersion other than \"0\"")]
    ExactWithoutVersion,
    /// A continue token was combined with a version; the token contains its own.
    #[error("a continue token and a resourceVersion exclude each other")]
    ContinueWithVersion,
    /// Only one of initial events and `NotOlderThan` was set.
    #[error("sendInitialEvents and resourceVersionMatch=NotOlderThan must be set together on a watch")]
    InitialEventsWithoutMatch,
    /// `force` was set, but the request is not a server-side apply.
    #[error("force is for server-side apply only")]
    ForceWithoutApply,
    /// A server-side apply has no field manager.
    #[error("server-side apply needs a field manager")]
    ApplyWithoutManager,
}

pub(super) fn put(query: &mut Query, key: &'static str, value: Option<impl ToString>) {
    query.extend(value.map(|it| (key, it.to_string())));
}

pub(super) fn selectors(query: &mut Query, Selectors { labels, fields, .. }: &Selectors) {
    put(query, "labelSelector", (!labels.is_everything()).then_some(labels));
    put(query, "fieldSelector", (!fields.is_everything()).then_some(fields));
}

pub(super) fn shard(query: &mut Query, selectors: &Selectors) {
    put(query, "shardSelector", selectors.shard.as_deref().filter(|it| !it.is_empty()));
}

pub(super) fn versions(query: &mut Query, version: &ResourceVersion, version_match: Option<VersionMatch>) {
    put(query, "resourceVersion", (!version.is_unset()).then_some(version));
    let version_match = version_match.map(|it| match it {
        VersionMatch::NotOlderThan => "NotOlderThan",
        VersionMatch::Exact => "Exact",
    });
    put(query, "resourceVersionMatch", version_match);
}

/// The largest number of seconds that the server can represent. It converts them to nanoseconds in
/// an `int64` without a check, and a watch whose timeout becomes negative ends at once
/// (k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/get.go).
const MAX_SECONDS: u64 = i64::MAX as u64 / 1_000_000_000;

/// Adds the timeout in whole seconds, rounded up so that a short timeout does not become none.
pub(super) fn seconds(query: &mut Query, timeout: Option<Duration>) {
    let rounded = |it: Duration| it.as_secs().saturating_add(u64::from(it.subsec_nanos() > 0));
    let seconds = timeout.map(|it| rounded(it).min(MAX_SECONDS)).filter(|it| *it > 0);
    put(query, "timeoutSeconds", seconds);
}

/// Formats a query as one line.
#[cfg(test)]
pub(super) fn text(query: Query) -> String {
    query.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_rounded_up_to_seconds_that_the_server_can_represent() {
        for (timeout, expected) in [
            (Duration::ZERO, ""),
            (Duration::from_nanos(1), "timeoutSeconds=1"),
            (Duration::from_millis(1_001), "timeoutSeconds=2"),
            (Duration::MAX, "timeoutSeconds=9223372036"),
        ] {
            let mut query = Query::new();
            seconds(&mut query, Some(timeout));
            assert_eq!(text(query), expected, "{timeout:?}");
        }
    }
}
