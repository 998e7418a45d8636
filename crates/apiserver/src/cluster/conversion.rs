//! Conversion by webhooks: objects of a custom kind are converted before they are shown in another
//! version, or stored.
//!
//! [`Kind::show`] and [`Kind::draft`] are synchronous, so their callers await the conversion here
//! first. The converted objects are cached with the kind, where both look them up.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Cluster;
use crate::api_error::ApiError;
use crate::custom::CustomKind;
use crate::kinds::json_access::{at, text};
use crate::registry::Kind;
use crate::store::Encoded;
use crate::webhook::{call, conversion};

/// The time a webhook has to convert the objects of one request: `defaultRequestTimeout` in
/// k8s.io/apiserver v0.36.4 pkg/util/webhook/webhook.go.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Cluster {
    /// Converts stored objects to the version of a kind, if that takes a webhook. Afterwards they
    /// can be shown.
    ///
    /// # Errors
    /// 500 with the error of the webhook, or with the reason why it did not respond.
    pub async fn ready_to_show(&self, kind: &Kind, stored: &[Arc<Encoded>]) -> Result<(), ApiError> {
        let Some(custom) = kind.converted_by_webhook() else { return Ok(()) };
        let objects = stored.iter().map(|it| it.to_value()).collect();
        self.convert(custom, &kind.def.version, objects).await
    }

    /// Converts an object from the version of the kind to the storage version, if that takes a
    /// webhook.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`].
    pub(super) async fn ready_to_store(&self, kind: &Kind, object: &Value) -> Result<(), ApiError> {
        let Some(custom) = kind.converted_by_webhook() else { return Ok(()) };
        let Some(storage) = custom.storage() else { return Ok(()) };
        self.convert(custom, &storage.name, vec![object.clone()]).await
    }

    /// Caches the form in which the writer sent an object that was just stored, so that showing it
    /// takes no conversion.
    pub(super) fn remember_shown(kind: &Kind, stored: &Encoded, shown: &Value) {
        let Some(custom) = kind.converted_by_webhook() else { return };
        let stored = stored.to_value();
        let mut shown = shown.clone();
        shown["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        custom.conversions.keep(&stored, &kind.def.version, shown);
    }

    async fn convert(&self, custom: &CustomKind, version: &str, objects: Vec<Value>) -> Result<(), ApiError> {
        let wanted = format!("{}/{version}", custom.group);
        let mut left = objects;
        left.retain(|it| it["apiVersion"] != *wanted && custom.conversions.find(it, version).is_none());
        let Some(first) = left.first() else { return Ok(()) };
        let which = format!("{}, Kind={}", text(first, "/apiVersion"), custom.names.kind);
        let converted = self
            .call_conversion_webhook(custom, &wanted, &left)
            .await
            .map_err(|why| ApiError::unexplained(format!("conversion webhook for {which} failed: {why}")))?;
        custom.conversions.make_room();
        for (from, to) in left.iter().zip(converted) {
            custom.conversions.keep(from, version, to);
        }
        Ok(())
    }

    async fn call_conversion_webhook(
        &self,
        custom: &CustomKind,
        wanted: &str,
        objects: &[Value],
    ) -> Result<Vec<Value>, String> {
        let webhook = custom.webhook.as_ref().unwrap_or(&Value::Null);
        let version = conversion::version_for(webhook)
            .ok_or_else(|| "no conversionReviewVersions that this server knows".to_owned())?;
        let target = self.target(at(webhook, "/clientConfig").unwrap_or(&Value::Null))?;
        let uid = self.source.uid();
        let question = conversion::question(version, &uid, wanted, objects);
        let answer = call::post(&self.webhooks, &target, &question, TIMEOUT).await?;
        conversion::read(&answer, &uid, wanted, objects)
    }
}
