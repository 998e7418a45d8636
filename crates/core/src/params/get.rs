//! The parameters of a get.

use super::query::{Query, versions};
use crate::version::ResourceVersion;

/// The required freshness of a single object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetParams {
    /// The minimal version. Unset reads the newest state; `0` accepts the server's cache.
    pub version: ResourceVersion,
}

impl GetParams {
    /// Reads an object that is at least this fresh.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into() }
    }

    /// Returns the query of the request.
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
    fn rq_3_the_query_of_a_get_has_only_a_version() {
        assert_eq!(text(GetParams::default().query()), "");
        assert_eq!(text(GetParams::at("0").query()), "resourceVersion=0");
    }
}
