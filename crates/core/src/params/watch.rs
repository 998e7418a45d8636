//! Which objects to watch, and from when on.

use std::time::Duration;

use super::query::{InvalidParams, Query, VersionMatch, put, seconds, selectors, versions};
use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::version::ResourceVersion;

/// Which objects to watch, and from which point in history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// Send what happened after this version.
    pub version: ResourceVersion,
    /// How `version` is meant; needed with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// When the server ends the watch.
    pub timeout: Option<Duration>,
    /// Ask for bookmarks: on unless turned off.
    pub bookmarks: bool,
    /// Begin with the objects that are there, closed by a bookmark (WatchList).
    pub send_initial_events: Option<bool>,
    /// Only the objects of one shard, in the server's own words (alpha in Kubernetes 1.36).
    pub shard_selector: Option<String>,
}

impl Default for WatchParams {
    /// Everything from now on, with bookmarks.
    fn default() -> Self {
        Self {
            labels: LabelSelector::everything(),
            fields: FieldSelector::everything(),
            version: ResourceVersion::UNSET,
            version_match: None,
            timeout: None,
            bookmarks: true,
            send_initial_events: None,
            shard_selector: None,
        }
    }
}

impl WatchParams {
    /// Watches from this version on.
    pub fn from(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }

    /// Begins with the objects that are there, closed by a bookmark that says so (WatchList).
    pub fn initial_events() -> Self {
        Self {
            send_initial_events: Some(true),
            version_match: Some(VersionMatch::NotOlderThan),
            ..Self::default()
        }
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = labels;
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.fields = fields;
        self
    }

    /// When the server ends the watch.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks for no bookmarks.
    #[must_use]
    pub fn without_bookmarks(mut self) -> Self {
        self.bookmarks = false;
        self
    }

    /// Only the objects of one shard.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.shard_selector = Some(selector.into());
        self
    }

    /// The query of the request, `watch=true` included.
    ///
    /// # Errors
    /// When parameters contradict each other.
    pub fn query(&self) -> Result<Query, InvalidParams> {
        let matches = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() != self.version_match.is_some()
            || self.version_match.is_some() && !matches
        {
            return Err(InvalidParams::InitialEventsWithoutMatch);
        }
        let mut query = Query::new();
        selectors(&mut query, &self.labels, &self.fields);
        put(&mut query, "watch", Some(true));
        put(&mut query, "allowWatchBookmarks", self.bookmarks.then_some(true));
        versions(&mut query, &self.version, self.version_match);
        seconds(&mut query, self.timeout);
        put(&mut query, "sendInitialEvents", self.send_initial_events);
        put(&mut query, "shardSelector", self.shard_selector.as_deref().filter(|it| !it.is_empty()));
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::text;
    use super::*;

    #[test]
    fn rq_3_every_key_of_a_watch() {
        assert_eq!(
            text(WatchParams::from("7").timeout(Duration::from_secs(300)).query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300"
        );
        assert_eq!(
            text(WatchParams::initial_events().query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
        );
    }

    #[test]
    fn rq_3_without_bookmarks_only_the_watch_itself_is_asked_for() {
        assert_eq!(text(WatchParams::default().without_bookmarks().query().expect("valid")), "watch=true");
    }

    #[test]
    fn initial_events_and_the_version_match_go_together() {
        let half = WatchParams { send_initial_events: Some(true), ..WatchParams::default() };
        assert_eq!(half.query(), Err(InvalidParams::InitialEventsWithoutMatch));
        let half = WatchParams { version_match: Some(VersionMatch::NotOlderThan), ..WatchParams::default() };
        assert_eq!(half.query(), Err(InvalidParams::InitialEventsWithoutMatch));
        let wrong = WatchParams { version_match: Some(VersionMatch::Exact), ..WatchParams::initial_events() };
        assert_eq!(wrong.query(), Err(InvalidParams::InitialEventsWithoutMatch));
    }
}
