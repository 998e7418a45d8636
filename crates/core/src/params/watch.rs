//! The parameters of a watch.

use std::time::Duration;

use super::query::{InvalidParams, Query, VersionMatch, put, seconds, selectors, shard, versions};
use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::selectors::Selectors;
use crate::version::ResourceVersion;

/// The parameters of a watch: which objects, and from which point in history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// Selects objects by labels, by fields and by shard.
    pub selectors: Selectors,
    /// The version after which events are sent.
    pub version: ResourceVersion,
    /// The interpretation of `version`; required with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// The time after which the server ends the watch.
    pub timeout: Option<Duration>,
    /// Requests bookmarks. True by default.
    pub bookmarks: bool,
    /// Starts with the existing objects, followed by a bookmark (WatchList).
    pub send_initial_events: Option<bool>,
}

impl Default for WatchParams {
    /// Watches everything from now on, with bookmarks.
    fn default() -> Self {
        Self {
            selectors: Selectors::default(),
            version: ResourceVersion::UNSET,
            version_match: None,
            timeout: None,
            bookmarks: true,
            send_initial_events: None,
        }
    }
}

impl WatchParams {
    /// Watches the changes after this version, for example that of a list.
    pub fn after(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }

    /// Starts with the existing objects, followed by a bookmark that marks their end (WatchList).
    pub fn initial_events() -> Self {
        Self {
            send_initial_events: Some(true),
            version_match: Some(VersionMatch::NotOlderThan),
            ..Self::default()
        }
    }

    /// Sets all selectors at once; [`Self::labels`], [`Self::fields`] and [`Self::shard`] set one.
    #[must_use]
    pub fn selectors(mut self, selectors: Selectors) -> Self {
        self.selectors = selectors;
        self
    }

    /// Selects objects by their labels.
    #[must_use]
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.selectors.labels = labels;
        self
    }

    /// Selects objects by their fields.
    #[must_use]
    pub fn fields(mut self, fields: FieldSelector) -> Self {
        self.selectors.fields = fields;
        self
    }

    /// Sets the time after which the server ends the watch.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Requests no bookmarks.
    #[must_use]
    pub fn without_bookmarks(mut self) -> Self {
        self.bookmarks = false;
        self
    }

    /// Selects the objects of one shard.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.selectors.shard = Some(selector.into());
        self
    }

    /// Returns the query of the request, including `watch=true`.
    ///
    /// # Errors
    /// Returns an error if parameters contradict each other.
    pub fn query(&self) -> Result<Query, InvalidParams> {
        let matches = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() != self.version_match.is_some()
            || self.version_match.is_some() && !matches
        {
            return Err(InvalidParams::InitialEventsWithoutMatch);
        }
        let mut query = Query::new();
        selectors(&mut query, &self.selectors);
        put(&mut query, "watch", Some(true));
        put(&mut query, "allowWatchBookmarks", self.bookmarks.then_some(true));
        versions(&mut query, &self.version, self.version_match);
        seconds(&mut query, self.timeout);
        put(&mut query, "sendInitialEvents", self.send_initial_events);
        shard(&mut query, &self.selectors);
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
            text(WatchParams::after("7").timeout(Duration::from_secs(300)).query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300"
        );
        assert_eq!(
            text(WatchParams::initial_events().query().expect("valid")),
            "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
        );
    }

    #[test]
    fn rq_3_without_bookmarks_the_query_has_only_the_watch() {
        assert_eq!(text(WatchParams::default().without_bookmarks().query().expect("valid")), "watch=true");
    }

    #[test]
    fn initial_events_require_a_version_match_and_vice_versa() {
        let half = WatchParams { send_initial_events: Some(true), ..WatchParams::default() };
        assert_eq!(half.query(), Err(InvalidParams::InitialEventsWithoutMatch));
        let half = WatchParams { version_match: Some(VersionMatch::NotOlderThan), ..WatchParams::default() };
        assert_eq!(half.query(), Err(InvalidParams::InitialEventsWithoutMatch));
        let wrong = WatchParams { version_match: Some(VersionMatch::Exact), ..WatchParams::initial_events() };
        assert_eq!(wrong.query(), Err(InvalidParams::InitialEventsWithoutMatch));
    }
}
