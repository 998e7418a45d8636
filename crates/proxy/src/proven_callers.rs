//! The callers whose credentials the API server has accepted: their requests may share connections.
//!
//! kube-apiserver ends an HTTP/2 connection after a request on it that it could not authenticate
//! (k8s.io/apiserver v0.36.4 pkg/endpoints/filters/authentication.go,
//! `UnauthenticatedHTTP2DOSMitigation`). Requests of other callers that were on their way on that
//! connection would be lost.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

/// The most callers that are known, of 8 bytes each. Then all are forgotten, and proven again.
const MOST: usize = 100_000;

/// Hashes of credentials that the API server has accepted. Their key is a secret of the process.
#[derive(Debug, Default)]
pub(crate) struct ProvenCallers {
    state: RandomState,
    accepted: Mutex<HashSet<u64>>,
}

/// The credentials of one request; `None` if it is anonymous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerHash(Option<u64>);

impl ProvenCallers {
    /// Returns the caller of a request.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> CallerHash {
        CallerHash(headers.get(AUTHORIZATION).map(|it| self.state.hash_one(it.as_bytes())))
    }

    /// Returns true if the API server has accepted the credentials of this caller.
    pub(crate) fn contain(&self, caller: CallerHash) -> bool {
        caller.0.is_some_and(|it| self.accepted.lock().contains(&it))
    }

    /// Remembers or forgets a caller, by the status of an answer of the API server.
    pub(crate) fn answered(&self, caller: CallerHash, status: StatusCode) {
        let Some(hash) = caller.0 else { return };
        let mut accepted = self.accepted.lock();
        if status == StatusCode::UNAUTHORIZED {
            accepted.remove(&hash);
        } else {
            if accepted.len() >= MOST {
                accepted.clear();
            }
            accepted.insert(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(authorization: Option<&'static str>) -> HeaderMap {
        let value = authorization.map(HeaderValue::from_static);
        value.into_iter().map(|it| (AUTHORIZATION, it)).collect()
    }

    #[test]
    fn a_token_is_proven_from_its_first_accepted_request_until_it_is_rejected() {
        let callers = ProvenCallers::default();
        let of = |token: &'static str| callers.caller(&headers(Some(token)));
        assert!(!callers.contain(of("Bearer a")));
        callers.answered(of("Bearer a"), StatusCode::FORBIDDEN);
        assert!(callers.contain(of("Bearer a")) && !callers.contain(of("Bearer b")));
        callers.answered(of("Bearer b"), StatusCode::UNAUTHORIZED);
        assert!(!callers.contain(of("Bearer b")));
        callers.answered(of("Bearer a"), StatusCode::UNAUTHORIZED);
        assert!(!callers.contain(of("Bearer a")));
    }

    #[test]
    fn a_caller_without_credentials_is_never_proven() {
        let callers = ProvenCallers::default();
        let anonymous = callers.caller(&headers(None));
        callers.answered(anonymous, StatusCode::OK);
        assert!(!callers.contain(anonymous));
    }

    #[test]
    fn the_number_of_known_callers_is_bounded() {
        let callers = ProvenCallers::default();
        for hash in 0..=MOST as u64 {
            callers.answered(CallerHash(Some(hash)), StatusCode::OK);
        }
        assert_eq!(callers.accepted.lock().len(), 1);
        assert!(callers.contain(CallerHash(Some(MOST as u64))));
    }
}
