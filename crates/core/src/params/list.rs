//! The parameters of a list.

use std::time::Duration;

use super::query::{InvalidParams, Query, VersionMatch, put, seconds, selectors, shard, versions};
use crate::field_selector::FieldSelector;
use crate::label_selector::LabelSelector;
use crate::selectors::Selectors;
use crate::version::ResourceVersion;

/// The parameters of a list: which objects, and at which point in history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListParams {
    /// Selects objects by labels, by fields and by shard.
    pub selectors: Selectors,
    /// The maximal number of objects per page; `None` requests everything in one page.
    pub limit: Option<u32>,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// The required version; see `version_match`.
    pub version: ResourceVersion,
    /// The interpretation of `version`.
    pub version_match: Option<VersionMatch>,
    /// The server-side timeout.
    pub timeout: Option<Duration>,
}

impl ListParams {
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

    /// Sets the maximal number of objects per page; 0 means no limit.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = (limit > 0).then_some(limit);
        self
    }

    /// Continues after the previous page.
    #[must_use]
    pub fn continue_token(mut self, token: impl Into<String>) -> Self {
        self.continue_token = Some(token.into());
        self
    }

    /// Sets the version, with the server's default interpretation.
    #[must_use]
    pub fn at(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the interpretation of the version.
    #[must_use]
    pub fn matching(mut self, version_match: VersionMatch) -> Self {
        self.version_match = Some(version_match);
        self
    }

    /// Sets the server-side timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Selects the objects of one shard, for example `shardRange(object.metadata.uid,'0x0','0x8')`.
    #[must_use]
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.selectors.shard = Some(selector.into());
        self
    }

    /// Returns the query of the request.
    ///
    /// # Errors
    /// Returns an error if parameters contradict each other.
    pub fn query(&self) -> Result<Query, InvalidParams> {
        match self.version_match {
            Some(_) if self.version.is_unset() => return Err(InvalidParams::MatchWithoutVersion),
            Some(VersionMatch::Exact) if !self.version.is_exact() => {
                return Err(InvalidParams::ExactWithoutVersion);
            }
            _ => {}
        }
        let continues = self.continue_token.as_deref().is_some_and(|it| !it.is_empty());
        if continues && self.version.is_exact() {
            return Err(InvalidParams::ContinueWithVersion);
        }
        let mut query = Query::new();
        selectors(&mut query, &self.selectors);
        versions(&mut query, &self.version, self.version_match);
        seconds(&mut query, self.timeout);
        put(&mut query, "limit", self.limit.filter(|it| *it > 0));
        put(&mut query, "continue", self.continue_token.as_deref().filter(|it| !it.is_empty()));
        shard(&mut query, &self.selectors);
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::text;
    use super::*;

    #[test]
    fn rq_3_every_key_of_a_list() {
        let params = ListParams::default()
            .labels("a=b".parse().expect("valid"))
            .fields("metadata.name=x".parse().expect("valid"))
            .limit(5)
            .at("7")
            .matching(VersionMatch::Exact)
            .timeout(Duration::from_millis(1500))
            .shard("shardRange(object.metadata.uid,'0x0','0x8')");
        assert_eq!(
            text(params.query().expect("valid")),
            "labelSelector=a=b&fieldSelector=metadata.name=x&resourceVersion=7&resourceVersionMatch=Exact&timeoutSeconds=2&limit=5&shardSelector=shardRange(object.metadata.uid,'0x0','0x8')"
        );
        assert_eq!(
            text(ListParams::default().limit(5).at("0").query().expect("valid")),
            "resourceVersion=0&limit=5"
        );
        assert_eq!(
            text(ListParams::default().limit(5).continue_token("t").query().expect("valid")),
            "limit=5&continue=t"
        );
    }

    #[test]
    fn rq_3_empty_and_zero_values_are_omitted() {
        assert_eq!(text(ListParams::default().limit(0).query().expect("valid")), "");
    }

    #[test]
    fn contradictions_are_rejected_before_any_request() {
        use InvalidParams::*;
        let exact = |version| ListParams::default().at(version).matching(VersionMatch::Exact).query();
        assert_eq!(exact(""), Err(MatchWithoutVersion));
        assert_eq!(exact("0"), Err(ExactWithoutVersion));
        assert_eq!(ListParams::default().at("7").continue_token("t").query(), Err(ContinueWithVersion));
    }
}
