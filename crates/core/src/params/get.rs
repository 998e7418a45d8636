//! How fresh a single object must be.

use super::query::{Query, versions};
use crate::version::ResourceVersion;

/// How fresh a single object must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetParams {
    /// Unset reads the newest; `0` takes the server's cache.
    pub version: ResourceVersion,
}

impl GetParams {
    /// Reads an object that is at least this fresh.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into() }
    }

    /// The query of the request.
    pub fn query(&self) -> Query {
        let mut query = Query::new();
        versions(&mut query, &self.version, None);
        query
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::text;
    use super::*;

    #[test]
    fn rq_3_only_a_version_is_asked_for() {
        assert_eq!(text(GetParams::default().query()), "");
        assert_eq!(text(GetParams::at("0").query()), "resourceVersion=0");
    }
}
