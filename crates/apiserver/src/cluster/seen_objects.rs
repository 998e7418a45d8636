//! The objects of a write as a webhook or a policy sees them: in its own version.

use std::borrow::Cow;

use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::conversion::Conversion;
use crate::ApiError;
use crate::registry::Kind;

impl Conversion<'_> {
    /// Converts an object of a request to the version in which a webhook or a policy sees it.
    ///
    /// # Errors
    /// Those of [`Self::between`].
    pub(super) async fn seen_by<'a>(
        &self,
        kind: &Kind,
        asked: &AdmissionAttributes<'_>,
        object: Option<&'a Value>,
    ) -> Result<Option<Cow<'a, Value>>, ApiError> {
        match object {
            Some(object) if asked.differs_in(kind) => {
                Ok(Some(Cow::Owned(self.between(asked.place.kind, kind, object).await?)))
            }
            same => Ok(same.map(Cow::Borrowed)),
        }
    }
}
