//! Conversion by webhooks: objects of a custom kind are converted before they are shown in another
//! version, or stored.
//!
//! [`Kind::show`] and [`Kind::draft`] are synchronous, and return an object that only a webhook can
//! convert as an error. So their callers await the conversion here first. Converted objects are not
//! kept longer than the request that needs them: a webhook may be repaired at any time, and a
//! conversion that is not found must never be replaced by another `apiVersion` alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::webhook_calls::WebhookCalls;
use super::{Cluster, ResponseObject};
use crate::ApiError;
use crate::custom::convert::Conversions;
use crate::custom::{CustomKind, convert};
use crate::kinds::json_access::{at, text};
use crate::memory;
use crate::registry::{Kind, Unconverted};
use crate::store::{Draft, Encoded};
use crate::webhook::conversion;

/// The time a webhook has to convert the objects of one request: `defaultRequestTimeout` in
/// k8s.io/apiserver v0.36.4 pkg/util/webhook/webhook.go.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The approximate number of bytes of objects in one call of a webhook. Responses are larger, and
/// have a limit.
const BATCH: usize = 4 * 1024 * 1024;
/// The memory of a decoded object for each byte of its JSON, beyond which the memory counts.
const MEMORY_PER_BYTE: usize = 16;
/// The number of bytes of JSON that are encoded in one go: about a millisecond of work.
const ENCODE_STEP: usize = 64 * 1024;

/// The conversion of objects between the versions of their kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion<'a> {
    calls: WebhookCalls<'a>,
}

impl Cluster {
    /// Returns the conversion of objects between the versions of their kinds.
    pub(crate) fn conversion(&self) -> Conversion<'_> {
        Conversion { calls: WebhookCalls::of(self) }
    }
}

impl Conversion<'_> {
    /// Converts stored objects of a custom kind to its version, with a call of a webhook for every
    /// few megabytes of them if that takes one. Returns them in order. Afterwards they can be
    /// shown, and have the labels and fields of that version.
    ///
    /// # Errors
    /// 500 with the error of the webhook, or with the reason why it did not respond.
    pub(crate) async fn ready_to_show(
        &self,
        kind: &Kind,
        stored: &[Arc<Encoded>],
    ) -> Result<Vec<Arc<Encoded>>, ApiError> {
        let mut ready = stored.to_vec();
        if !kind.is_evolved() {
            return Ok(ready);
        }
        let (mut waiting, mut bytes, mut encoded) = (Vec::new(), 0_usize, 0_usize);
        for (place, stored) in stored.iter().enumerate().filter(|(_, it)| !kind.shows_bytes_of(it)) {
            match kind.try_show(stored) {
                Ok(shown) => {
                    ready[place] = Arc::new(kind.encode_shown(&shown, stored.version())?);
                    encoded = encoded.saturating_add(stored.length());
                }
                Err(Unconverted(object)) => {
                    bytes = bytes.saturating_add(share_of_batch(&object));
                    waiting.push((place, object));
                }
            }
            // A value takes many times the memory of its JSON, so only those of one call are held.
            if bytes >= BATCH {
                bytes = 0;
                self.convert_waiting(kind, std::mem::take(&mut waiting), &mut ready).await?;
            }
            if encoded >= ENCODE_STEP {
                encoded = 0;
                tokio::task::yield_now().await;
            }
        }
        self.convert_waiting(kind, waiting, &mut ready).await?;
        Ok(ready)
    }

    /// Converts objects by the webhook of their kind, and encodes them at their places.
    async fn convert_waiting(
        &self,
        kind: &Kind,
        waiting: Vec<(usize, Value)>,
        ready: &mut [Arc<Encoded>],
    ) -> Result<(), ApiError> {
        let Some(custom) = kind.converted_by_webhook() else { return Ok(()) };
        let (places, objects): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        let converted = self.convert(custom, &kind.def.version, objects).await?;
        for (place, mut object) in places.into_iter().zip(converted) {
            kind.complete_converted(&mut object);
            ready[place] = Arc::new(kind.encode_shown(&object, ready[place].version())?);
        }
        Ok(())
    }

    /// Converts a stored object to the version of a kind.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`].
    pub(super) async fn show(&self, kind: &Kind, stored: &Encoded) -> Result<Value, ApiError> {
        self.finish(kind, kind.try_show(stored)).await
    }

    /// Converts a value in its stored form to the version of a kind.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`].
    pub(super) async fn show_value(&self, kind: &Kind, stored: Value) -> Result<Value, ApiError> {
        self.finish(kind, kind.shown(stored)).await
    }

    /// Converts the object of a response to the version of the request. Afterwards it can be shown.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`].
    pub(crate) async fn ready_to_respond(
        &self,
        kind: &Kind,
        object: ResponseObject,
    ) -> Result<ResponseObject, ApiError> {
        let ResponseObject::Stored(stored) = &object else { return Ok(object) };
        if kind.converted_by_webhook().is_none() {
            return Ok(object);
        }
        let mut ready = self.ready_to_show(kind, std::slice::from_ref(stored)).await?;
        Ok(ready.pop().map_or(object, ResponseObject::Stored))
    }

    /// Prepares an object of a kind for storing, converted to the storage version.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`] and [`Kind::draft`].
    pub(super) async fn draft(&self, kind: &Kind, object: &Value) -> Result<Draft, ApiError> {
        let storage = kind.converted_by_webhook().and_then(|it| Some((it, it.storage()?)));
        match storage {
            Some((custom, storage)) if convert::takes_webhook(object, custom, &storage.name) => {
                let converted = self.convert_one(custom, &storage.name, object.clone()).await?;
                kind.draft_converted(converted)
            }
            _ => kind.draft(object),
        }
    }

    /// Converts an object from the version of one kind to that of another.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`].
    pub(super) async fn between(&self, from: &Kind, to: &Kind, object: &Value) -> Result<Value, ApiError> {
        if from.def.api_version() == to.def.api_version() {
            return Ok(object.clone());
        }
        match to.converted_by_webhook() {
            Some(custom) if convert::takes_webhook(object, custom, &to.def.version) => {
                self.finish(to, Err(Unconverted(object.clone()))).await
            }
            _ => Ok(to.shown(from.to_stored(object.clone())?)?),
        }
    }

    /// Adds the conversions that a computation has missed.
    ///
    /// # Errors
    /// Those of [`Self::ready_to_show`], and 500 if the conversions become too large.
    pub(super) async fn add_missing(
        &self,
        kind: &Kind,
        conversions: &mut Conversions,
    ) -> Result<(), ApiError> {
        let Some(custom) = kind.converted_by_webhook() else { return Ok(()) };
        for missing in conversions.take_missing() {
            let converted = self.convert_one(custom, &missing.version, missing.object()).await?;
            let added = conversions.add(missing, &converted);
            added.map_err(|why| ApiError::internal(why.to_string()))?;
        }
        Ok(())
    }

    async fn finish(&self, kind: &Kind, shown: Result<Value, Unconverted>) -> Result<Value, ApiError> {
        match (shown, kind.converted_by_webhook()) {
            (Ok(object), _) => Ok(object),
            (Err(Unconverted(object)), Some(custom)) => {
                let mut converted = self.convert_one(custom, &kind.def.version, object).await?;
                kind.complete_converted(&mut converted);
                Ok(converted)
            }
            (Err(unconverted), None) => Err(unconverted.into()),
        }
    }

    async fn convert_one(
        &self,
        custom: &CustomKind,
        version: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let converted = self.convert(custom, version, vec![object]).await?;
        converted.into_iter().next().ok_or_else(|| ApiError::internal("a webhook returned no object"))
    }

    /// Calls the webhook of a kind to convert objects, none of which is in that version.
    async fn convert(
        &self,
        custom: &CustomKind,
        version: &str,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, ApiError> {
        let wanted = format!("{}/{version}", custom.group);
        let mut converted = Vec::with_capacity(objects.len());
        for batch in batches(&objects) {
            for object in batch {
                check_version(custom, text(object, "/apiVersion"))?;
            }
            let Some(first) = batch.first() else { continue };
            let which = format!("{}, Kind={}", text(first, "/apiVersion"), custom.names.kind);
            converted.extend(self.call_webhook(custom, &wanted, batch).await.map_err(|why| {
                ApiError::unexplained(format!("conversion webhook for {which} failed: {why}"))
            })?);
        }
        Ok(converted)
    }

    async fn call_webhook(
        &self,
        custom: &CustomKind,
        wanted: &str,
        objects: &[Value],
    ) -> Result<Vec<Value>, String> {
        let webhook = custom.webhook.as_ref().unwrap_or(&Value::Null);
        let version = conversion::version_for(webhook)
            .ok_or_else(|| "no conversionReviewVersions that this server knows".to_owned())?;
        let target = self.calls.target(at(webhook, "/clientConfig").unwrap_or(&Value::Null))?;
        let uid = self.calls.uid();
        let question = conversion::question(version, &uid, wanted, objects);
        let answer = self.calls.post(&target, question, TIMEOUT).await?;
        conversion::read(&answer, &uid, wanted, objects)
    }
}

/// Rejects an object in a version that the definition does not have, as `ConvertToVersion` in
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/conversion/converter.go.
fn check_version(custom: &CustomKind, api_version: &str) -> Result<(), ApiError> {
    let version = api_version.rsplit_once('/').filter(|(group, _)| *group == custom.group);
    if version.is_some_and(|(_, name)| custom.versions.iter().any(|it| it.name == name)) {
        return Ok(());
    }
    let message = format!("request to convert CR from an invalid group/version: {api_version}");
    Err(ApiError::unexplained(message))
}

/// Splits objects into batches for one call each.
fn batches(objects: &[Value]) -> impl Iterator<Item = &[Value]> {
    let mut left = objects;
    std::iter::from_fn(move || {
        let mut total = 0_usize;
        let fits = |it: &&Value| {
            let before = total;
            total = total.saturating_add(share_of_batch(it));
            before == 0 || total <= BATCH
        };
        let count = left.iter().take_while(fits).count();
        let (batch, rest) = left.split_at(count);
        left = rest;
        (count > 0).then_some(batch)
    })
}

/// Returns the size of an object as JSON, or more if it takes an unusual amount of memory.
fn share_of_batch(object: &Value) -> usize {
    size(object).max(memory::of(object) / MEMORY_PER_BYTE)
}

/// Returns the approximate size of a value as JSON.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len().saturating_add(2),
        Value::Array(items) => items.iter().fold(2, |sum, it| sum.saturating_add(size(it)).saturating_add(1)),
        Value::Object(fields) => fields.iter().fold(2, |sum, (key, it)| {
            sum.saturating_add(key.len()).saturating_add(size(it)).saturating_add(4)
        }),
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn batches_are_limited_by_size_but_hold_at_least_one_object() {
        let (small, large) = (json!("x".repeat(BATCH / 3)), json!("x".repeat(2 * BATCH)));
        let objects = [small.clone(), small.clone(), small, large.clone(), large];
        let sizes: Vec<_> = batches(&objects).map(<[Value]>::len).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        assert_eq!(batches(&[]).count(), 0);
    }
}
