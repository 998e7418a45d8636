//! Bearer tokens: how they are presented, and how they are compared.
//!
//! Only digests are kept. Comparing digests takes the same time wherever two tokens begin to differ, and whatever their
//! lengths.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::cluster::User;

/// A token that stands for one user.
#[derive(Clone)]
pub(super) struct StaticToken {
    digest: [u8; 32],
    user: User,
}

impl StaticToken {
    /// Nothing for an empty token: a client that forgot its own must not come in.
    pub(super) fn new(token: &str, user: User) -> Option<Self> {
        (!token.is_empty()).then(|| Self { digest: digest(token), user })
    }

    pub(super) fn matches(&self, presented: &[u8; 32]) -> bool {
        self.digest.ct_eq(presented).into()
    }

    pub(super) fn user(&self) -> &User {
        &self.user
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("user", &self.user.name).finish_non_exhaustive()
    }
}

pub(super) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The bearer token of a request. A second blank before it makes it empty, as for the original.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
