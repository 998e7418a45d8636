//! The requests of a reflector, as a function of its position (rules REF-1, REF-2, REF-4, REF-10).
//! Pure.

use dogwatch_client::DEFAULT_PAGE_SIZE;
use dogwatch_core::{FieldSelector, ListParams, ResourceVersion, Selectors, WatchParams};

use super::options::{LEAST_WATCH_TIMEOUT, ReflectorOptions, Start};
use crate::backoff::MAX_WAIT;

/// The parameters that all requests of a reflector share.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    selectors: Selectors,
    page_size: Option<u32>,
    start: Start,
    timeout: std::time::Duration,
}

/// The position of a reflector in the history of its collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Position {
    /// The version up to which everything has been delivered; unset before the initial list.
    pub(super) last: ResourceVersion,
    /// Set if the server cannot serve `last`: the next list reads the newest state.
    pub(super) unavailable: bool,
    /// Set if a list at version 0 came in pages, which means that the server does not answer lists
    /// from its cache.
    pub(super) paged: bool,
}

impl Requests {
    pub(super) fn new<T>(options: &ReflectorOptions<T>) -> Self {
        Self {
            selectors: options.selectors.clone(),
            page_size: options.page_size,
            start: options.start,
            timeout: options.min_watch_timeout.clamp(LEAST_WATCH_TIMEOUT, MAX_WAIT),
        }
    }

    /// Returns the parameters of a list.
    pub(super) fn list(&self, position: &Position) -> ListParams {
        let version = match position {
            Position { unavailable: true, .. } => ResourceVersion::UNSET,
            Position { last, .. } if !last.is_unset() => last.clone(),
            _ if self.start == Start::Newest => ResourceVersion::UNSET,
            _ => ResourceVersion::ANY,
        };
        // With an exact version and no limit the server answers from its cache; with a limit it
        // would read from storage.
        let limit = match self.page_size {
            Some(size) => size,
            None if position.paged || !version.is_exact() => DEFAULT_PAGE_SIZE,
            None => 0,
        };
        ListParams::default().selectors(self.selectors.clone()).limit(limit).at(version)
    }

    /// Returns the field selector, for the request that only reads a version. Labels are not part
    /// of that request: a server without a cache would read objects until one matches.
    pub(super) fn fields(&self) -> FieldSelector {
        self.selectors.fields.clone()
    }

    /// Returns the parameters of a watch from the current position. `chance` in [0, 1) spreads the
    /// timeouts.
    pub(super) fn watch(&self, position: &Position, chance: f64) -> WatchParams {
        self.narrowed(WatchParams::after(position.last.clone()), chance)
    }

    /// Returns the parameters of a watch with initial events.
    pub(super) fn watch_list(&self, position: &Position, chance: f64) -> WatchParams {
        let version = match position {
            Position { unavailable: true, .. } => ResourceVersion::UNSET,
            Position { last, .. } if last.is_unset() && self.start == Start::Cached => ResourceVersion::ANY,
            Position { last, .. } => last.clone(),
        };
        let mut params = WatchParams::initial_events();
        params.version = version;
        self.narrowed(params, chance)
    }

    fn narrowed(&self, params: WatchParams, chance: f64) -> WatchParams {
        let timeout = self.timeout.mul_f64(1.0 + chance.clamp(0.0, 1.0));
        params.selectors(self.selectors.clone()).timeout(timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dogwatch_core::VersionMatch;

    use super::*;

    fn position(last: &str, unavailable: bool, paged: bool) -> Position {
        Position { last: last.into(), unavailable, paged }
    }

    fn options() -> ReflectorOptions<()> {
        ReflectorOptions::default()
    }

    #[test]
    fn ref_1_and_ref_2_the_version_and_the_pages_of_a_list() {
        let newest = options().start(Start::Newest);
        let cached = options().start(Start::Cached);
        let fours = options().page_size(4);
        for (options, position, version, limit) in [
            (options(), position("", false, false), "0", Some(500)),
            (options(), position("10", false, false), "10", None),
            (options(), position("10", true, false), "", Some(500)),
            (options(), position("10", false, true), "10", Some(500)),
            (options(), position("0", false, false), "0", Some(500)),
            (fours.clone(), position("", false, false), "0", Some(4)),
            (fours.clone(), position("10", false, false), "10", Some(4)),
            (fours, position("10", true, false), "", Some(4)),
            (cached, position("", false, false), "0", Some(500)),
            (newest.clone(), position("", false, false), "", Some(500)),
            (newest, position("10", false, false), "10", None),
        ] {
            let params = Requests::new(&options).list(&position);
            assert_eq!((params.version.as_str(), params.limit), (version, limit), "{options:?} {position:?}");
            assert!(params.query().is_ok());
        }
    }

    #[test]
    fn ref_1_the_version_of_a_watch_list() {
        for (start, position, version) in [
            (Start::Consistent, position("", false, false), ""),
            (Start::Consistent, position("10", false, false), "10"),
            (Start::Consistent, position("10", true, false), ""),
            (Start::Newest, position("", false, false), ""),
            (Start::Cached, position("", false, false), "0"),
            (Start::Cached, position("10", false, false), "10"),
            (Start::Cached, position("10", true, false), ""),
        ] {
            let params = Requests::new(&options().start(start)).watch_list(&position, 0.0);
            assert_eq!(params.version.as_str(), version, "{start:?} {position:?}");
            assert_eq!(params.send_initial_events, Some(true));
            assert_eq!(params.version_match, Some(VersionMatch::NotOlderThan));
            assert!(params.bookmarks && params.query().is_ok());
        }
    }

    /// Ported from client-go's TestWatchTimeout.
    #[test]
    fn ref_4_watches_last_between_one_and_two_times_the_least_timeout() {
        for (asked, least) in [(None, 300), (Some(1), 300), (Some(1800), 1800)] {
            let mut options = options();
            if let Some(seconds) = asked {
                options = options.min_watch_timeout(Duration::from_secs(seconds));
            }
            let requests = Requests::new(&options);
            for (chance, expected) in [(0.0, least), (0.5, least * 3 / 2), (1.0, least * 2)] {
                let params = requests.watch(&position("5", false, false), chance);
                assert_eq!(params.timeout, Some(Duration::from_secs(expected)));
                assert!(params.bookmarks && params.send_initial_events.is_none());
                assert_eq!(params.version.as_str(), "5");
            }
        }
    }

    #[test]
    fn selectors_go_with_every_request() {
        let options = options()
            .labels("app=web".parse().expect("a selector"))
            .fields("metadata.name=a".parse().expect("a selector"))
            .shard("shardRange(object.metadata.uid,'0x0','0x8')");
        let (requests, position) = (Requests::new(&options), Position::default());
        let list = requests.list(&position);
        let watches = [requests.watch(&position, 0.0), requests.watch_list(&position, 0.0)];
        assert_ne!(options.selectors, Selectors::default());
        assert_eq!(list.selectors, options.selectors);
        for watch in watches {
            assert_eq!(watch.selectors, options.selectors);
        }
    }
}
