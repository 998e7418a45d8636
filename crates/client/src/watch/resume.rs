//! The decisions of a resuming watch about each event and error (rule RW-1): pure functions.

use std::time::Duration;

use dogwatch_core::{Reason, ResourceVersion, Status};
use dogwatch_wire::{EventKind, UndecodableItem};

use crate::auth::{AuthError, OidcError, PluginError};
use crate::error::Error;

/// The parts of an event that the decision depends on.
#[derive(Debug)]
pub(super) enum EventInfo<'a> {
    /// An object event at this version.
    Object(ResourceVersion),
    Bookmark(ResourceVersion),
    Error(&'a Status),
    /// An event with an object that could not be decoded.
    Bad(&'a UndecodableItem),
}

/// The reaction to an event or error.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Deliver the event to the caller, and continue from this version.
    Deliver(ResourceVersion),
    /// Continue from this version, without delivering anything.
    Advance(ResourceVersion),
    /// Deliver the error to the caller, and keep the version.
    Report,
    /// Reopen the watch, after at least this delay.
    Restart(Duration),
    /// Deliver this status to the caller and end the stream.
    End(Status),
}

pub(super) fn on_event(event: EventInfo<'_>) -> Action {
    match event {
        EventInfo::Object(version) | EventInfo::Bookmark(version) if version.is_unset() => {
            let message =
                "the server sent an event without a resource version, so the watch cannot be resumed";
            Action::End(Status::failure(Reason::InternalError, message))
        }
        EventInfo::Object(version) => Action::Deliver(version),
        EventInfo::Bookmark(version) => Action::Advance(version),
        // The version is known even if the object is not; resuming before it would only yield the
        // same event again.
        EventInfo::Bad(UndecodableItem { version, event, .. })
            if version.is_exact() && *event != Some(EventKind::Error) =>
        {
            Action::Deliver(version.clone())
        }
        EventInfo::Bad(_) => Action::Report,
        // client-go ends on 410 alone (v0.36.4 `tools/watch/retrywatcher.go`); here the reason
        // `Expired` counts too.
        EventInfo::Error(status) if status.code == 410 || status.is_expired() => Action::End(status.clone()),
        EventInfo::Error(status) => Action::Restart(status.suggested_delay().unwrap_or_default()),
    }
}

/// The reaction to a 410 when opening the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnGone {
    /// Retry: it may be temporary, with another server or a cache that is still filling.
    TryAgain,
    /// End: the reader lists again.
    End,
}

/// Returns true if a retry cannot help: the request, the settings, the certificates or the
/// credentials must be changed first, or the response is not a watch.
///
/// An expired token, an unavailable provider or a failing plugin may all recover, and are not
/// permanent. Neither are certificates that are read from files, which rotate, or a 404: a custom
/// resource may be defined later.
pub(super) fn is_permanent(error: &Error) -> bool {
    match error {
        Error::InvalidRequest(_) | Error::Config(_) | Error::Unconnectable(_) | Error::Malformed { .. } => {
            true
        }
        Error::Credentials(error) => matches!(
            error,
            AuthError::Misconfigured(_)
                | AuthError::Plaintext { .. }
                | AuthError::Plugin(
                    PluginError::NotFound { .. }
                        | PluginError::Denied { .. }
                        | PluginError::NeedsTerminal { .. }
                )
                | AuthError::Oidc(OidcError::NoRefreshToken | OidcError::NoHttp { .. })
        ),
        Error::Unreachable { .. } => error.is_permanent(),
        Error::AfterRetries(error) => is_permanent(&error.current),
        _ => false,
    }
}

/// Decides about an error of opening a watch. Most are temporary; missing permissions are not.
pub(super) fn on_open_error(error: &Error, on_gone: OnGone) -> Action {
    match error.status() {
        Some(status) if on_gone == OnGone::End && error.is_expired() => Action::End(status.clone()),
        Some(status) if status.is_unauthorized() || status.is_forbidden() => Action::End(status.clone()),
        Some(status) => Action::Restart(status.suggested_delay().unwrap_or_default()),
        None => Action::Restart(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_core::Details;

    use super::*;

    fn failure(reason: Reason, retry_after: u32) -> Status {
        let details = Some(Details { retry_after_seconds: retry_after, ..Details::default() });
        Status { details, ..Status::failure(reason, "no") }
    }

    #[test]
    fn rw_1_events_advance_the_version_and_bookmarks_are_not_delivered() {
        assert_eq!(on_event(EventInfo::Object("5".into())), Action::Deliver("5".into()));
        assert_eq!(on_event(EventInfo::Bookmark("6".into())), Action::Advance("6".into()));
    }

    #[test]
    fn rw_1_an_event_without_a_version_ends_the_watch() {
        for event in [EventInfo::Object(ResourceVersion::UNSET), EventInfo::Bookmark(ResourceVersion::UNSET)]
        {
            assert!(matches!(on_event(event), Action::End(status) if status.is_internal_error()));
        }
    }

    #[test]
    fn rw_1_gone_ends_the_watch_and_other_errors_restart_it() {
        for (status, expected) in [
            (failure(Reason::Gone, 0), None),
            (failure(Reason::Expired, 0), None),
            (failure(Reason::Timeout, 0), Some(0)),
            (failure(Reason::InternalError, 7), Some(7)),
            (failure(Reason::TooManyRequests, 3), Some(3)),
            (failure(Reason::Forbidden, 0), Some(0)),
        ] {
            let action = on_event(EventInfo::Error(&status));
            match expected {
                None => assert_eq!(action, Action::End(status)),
                Some(seconds) => {
                    assert_eq!(action, Action::Restart(Duration::from_secs(seconds)), "{status}")
                }
            }
        }
    }

    #[test]
    fn rw_1_only_missing_permissions_end_a_watch_that_cannot_start() {
        for (reason, ends) in [
            (Reason::Unauthorized, true),
            (Reason::Forbidden, true),
            (Reason::Gone, false),
            (Reason::Expired, false),
            (Reason::InternalError, false),
            (Reason::NotFound, false),
        ] {
            let error = failure(reason.clone(), 2).into();
            let action = on_open_error(&error, OnGone::TryAgain);
            assert_eq!(matches!(action, Action::End(_)), ends, "{reason:?}");
            let gone = matches!(reason, Reason::Gone | Reason::Expired);
            let relisting = on_open_error(&error, OnGone::End);
            assert_eq!(matches!(relisting, Action::End(_)), ends || gone, "{reason:?}");
            if !ends {
                assert_eq!(action, Action::Restart(Duration::from_secs(2)));
            }
        }
        assert!(!is_permanent(&Error::TimedOut(Duration::ZERO)));
        let timed_out = on_open_error(&Error::TimedOut(Duration::ZERO), OnGone::End);
        assert_eq!(timed_out, Action::Restart(Duration::ZERO));
    }

    #[test]
    fn rw_1_an_undecodable_object_is_reported_and_skipped() {
        let mut bad = UndecodableItem {
            key: None,
            version: "8".into(),
            event: Some(EventKind::Modified),
            path: String::new(),
            reason: "poison".to_owned(),
        };
        assert_eq!(on_event(EventInfo::Bad(&bad)), Action::Deliver("8".into()));
        bad.version = ResourceVersion::UNSET;
        assert_eq!(on_event(EventInfo::Bad(&bad)), Action::Report);
    }
}
