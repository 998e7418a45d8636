//! What a resuming watch does with each thing that happens to it (rule RW-1): pure decisions.

use std::time::Duration;

use dogwatch_core::{Reason, ResourceVersion, Status};
use dogwatch_wire::{BadItem, EventKind};

use crate::auth::{AuthError, OidcError, PluginError};
use crate::error::Error;

/// What a watch said, as far as resuming it depends on it.
#[derive(Debug)]
pub(super) enum Said<'a> {
    /// An object event at this version.
    Object(ResourceVersion),
    Bookmark(ResourceVersion),
    Error(&'a Status),
    /// An event about an object that could not be decoded.
    Bad(&'a BadItem),
}

/// What to do about it.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Tell the caller, and go on from this version.
    Deliver(ResourceVersion),
    /// Go on from this version, in silence.
    Advance(ResourceVersion),
    /// Tell the caller, and stay where we are.
    Report,
    /// Open the watch again, after at least this long.
    Restart(Duration),
    /// Tell the caller that it ends here, and why.
    End(Status),
}

pub(super) fn on_event(said: Said<'_>) -> Verdict {
    match said {
        Said::Object(version) | Said::Bookmark(version) if version.is_unset() => {
            let message =
                "the server sent an event without a resource version, so the watch cannot be resumed";
            Verdict::End(Status::failure(Reason::InternalError, message))
        }
        Said::Object(version) => Verdict::Deliver(version),
        Said::Bookmark(version) => Verdict::Advance(version),
        // The version is known even where the object is not, and resuming before it would only meet it again.
        Said::Bad(BadItem { version, event, .. })
            if version.is_exact() && *event != Some(EventKind::Error) =>
        {
            Verdict::Deliver(version.clone())
        }
        Said::Bad(_) => Verdict::Report,
        Said::Error(status) if status.code == 410 || status.is_expired() => Verdict::End(status.clone()),
        Said::Error(status) => Verdict::Restart(status.suggested_delay().unwrap_or_default()),
    }
}

/// What a 410 to an attempt to open the watch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnGone {
    /// It may pass: another server, a cache that fills.
    TryAgain,
    /// Whoever reads the watch knows how to begin anew.
    End,
}

/// Returns true when repeating the request cannot help: a person must change the request, the settings, the
/// certificates or the credentials first, or the answer is no watch.
///
/// A token that expired, a provider that is down or a plugin that fails may all recover, and are not permanent. Nor are
/// certificates that are read from files, which rotate, or a 404: a custom resource may be defined later.
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
        Error::Unreachable { .. } => error.needs_a_person(),
        Error::AfterRetries { current, .. } => is_permanent(current),
        _ => false,
    }
}

/// What to do when a watch could not be opened. Most refusals may pass; a missing right will not.
pub(super) fn on_refused_start(error: &Error, on_gone: OnGone) -> Verdict {
    match error.status() {
        Some(status) if on_gone == OnGone::End && error.is_expired() => Verdict::End(status.clone()),
        Some(status) if status.is_unauthorized() || status.is_forbidden() => Verdict::End(status.clone()),
        Some(status) => Verdict::Restart(status.suggested_delay().unwrap_or_default()),
        None => Verdict::Restart(Duration::ZERO),
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
    fn rw_1_events_move_the_version_and_bookmarks_do_so_in_silence() {
        assert_eq!(on_event(Said::Object("5".into())), Verdict::Deliver("5".into()));
        assert_eq!(on_event(Said::Bookmark("6".into())), Verdict::Advance("6".into()));
    }

    #[test]
    fn rw_1_an_event_without_a_version_ends_the_watch() {
        for said in [Said::Object(ResourceVersion::UNSET), Said::Bookmark(ResourceVersion::UNSET)] {
            assert!(matches!(on_event(said), Verdict::End(status) if status.is_internal_error()));
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
            let verdict = on_event(Said::Error(&status));
            match expected {
                None => assert_eq!(verdict, Verdict::End(status)),
                Some(seconds) => {
                    assert_eq!(verdict, Verdict::Restart(Duration::from_secs(seconds)), "{status}")
                }
            }
        }
    }

    #[test]
    fn rw_1_only_a_missing_right_ends_a_watch_that_cannot_start() {
        for (reason, ends) in [
            (Reason::Unauthorized, true),
            (Reason::Forbidden, true),
            (Reason::Gone, false),
            (Reason::Expired, false),
            (Reason::InternalError, false),
            (Reason::NotFound, false),
        ] {
            let error = failure(reason.clone(), 2).into();
            let verdict = on_refused_start(&error, OnGone::TryAgain);
            assert_eq!(matches!(verdict, Verdict::End(_)), ends, "{reason:?}");
            let gone = matches!(reason, Reason::Gone | Reason::Expired);
            let relisting = on_refused_start(&error, OnGone::End);
            assert_eq!(matches!(relisting, Verdict::End(_)), ends || gone, "{reason:?}");
            if !ends {
                assert_eq!(verdict, Verdict::Restart(Duration::from_secs(2)));
            }
        }
        assert!(!is_permanent(&Error::TimedOut(Duration::ZERO)));
        let timed_out = on_refused_start(&Error::TimedOut(Duration::ZERO), OnGone::End);
        assert_eq!(timed_out, Verdict::Restart(Duration::ZERO));
    }

    #[test]
    fn rw_1_an_undecodable_object_is_reported_and_passed() {
        let mut bad = BadItem {
            key: None,
            version: "8".into(),
            event: Some(EventKind::Modified),
            path: String::new(),
            reason: "poison".to_owned(),
        };
        assert_eq!(on_event(Said::Bad(&bad)), Verdict::Deliver("8".into()));
        bad.version = ResourceVersion::UNSET;
        assert_eq!(on_event(Said::Bad(&bad)), Verdict::Report);
    }
}
