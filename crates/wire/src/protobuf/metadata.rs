//! The metadata of a message, apart from its other fields: what a cache reads is kept elsewhere.
//!
//! ```text
//! message ──split──► length of the rest of the metadata │ the rest │ the other fields
//!                      └─ with a header, joined to the message again
//! ```

use dogwatch_core::Header;

use super::fields::{Fields, Raw, varint};
use super::output::{push, push_nested, push_varint};
use super::schema::{Schema, Shape};
use crate::read_error::ReadError;

/// The field numbers of the metadata of an object, and of the parts of the metadata that are in a
/// [`Header`].
const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const LABELS: u32 = 11;
const MANAGED_FIELDS: u32 = 17;

/// Returns a message without the parts of its metadata that are in its header, and without managed
/// fields unless they are to be kept.
///
/// # Errors
/// Returns an error if the message or its metadata is malformed.
pub(crate) fn split(message: u16, bytes: &[u8], keep_managed_fields: bool) -> Result<Vec<u8>, ReadError> {
    let mut metadata = Vec::new();
    let mut others = Vec::with_capacity(bytes.len());
    let has_metadata = has_metadata(message);
    let mut fields = Fields::new(bytes);
    loop {
        let before = fields.rest();
        let Some((number, raw)) = fields.next()? else { break };
        if has_metadata && number == METADATA {
            split_metadata(raw.bytes()?, keep_managed_fields, &mut metadata)?;
        } else {
            others.extend_from_slice(&before[..before.len() - fields.rest().len()]);
        }
    }
    let mut split = Vec::with_capacity(metadata.len() + others.len() + 5);
    push_varint(metadata.len() as u64, &mut split);
    split.extend_from_slice(&metadata);
    split.extend_from_slice(&others);
    Ok(split)
}

fn split_metadata(bytes: &[u8], keep_managed_fields: bool, rest: &mut Vec<u8>) -> Result<(), ReadError> {
    let mut fields = Fields::new(bytes);
    loop {
        let before = fields.rest();
        let Some((number, _)) = fields.next()? else { return Ok(()) };
        let is_kept = match number {
            NAME | NAMESPACE | UID | RESOURCE_VERSION | LABELS => false,
            MANAGED_FIELDS => keep_managed_fields,
            _ => true,
        };
        if is_kept {
            rest.extend_from_slice(&before[..before.len() - fields.rest().len()]);
        }
    }
}

/// Returns the message that was split, with the metadata that is in its header.
///
/// # Errors
/// Returns an error if the bytes are not a message that was split.
pub(crate) fn join(message: u16, header: &Header<'_>, split: &[u8]) -> Result<Vec<u8>, ReadError> {
    let (length, size) = varint(split)?.unwrap_or_default();
    let rest = &split[size..];
    let (metadata, others) = rest.split_at(rest.len().min(usize::try_from(length).unwrap_or(usize::MAX)));
    // Room for the header and lengths of fields, of most objects.
    let mut out = Vec::with_capacity(split.len() + 512);
    if has_metadata(message) {
        push_nested(METADATA, &mut out, |out| {
            let namespace = header.namespace.unwrap_or_default();
            let texts = [
                (NAME, header.name),
                (NAMESPACE, namespace),
                (UID, header.uid),
                (RESOURCE_VERSION, header.version),
            ];
            for (number, text) in texts.into_iter().filter(|it| !it.1.is_empty()) {
                push(number, Raw::Bytes(text.as_bytes()), out);
            }
            for (key, value) in header.labels.iter() {
                push_nested(LABELS, out, |out| {
                    push(1, Raw::Bytes(key.as_bytes()), out);
                    push(2, Raw::Bytes(value.as_bytes()), out);
                    Ok(())
                })?;
            }
            out.extend_from_slice(metadata);
            Ok::<_, ReadError>(())
        })?;
    }
    out.extend_from_slice(others);
    Ok(out)
}

/// Returns the message of an object with another resource version in its metadata. Fields that are
/// not in the table are kept.
///
/// # Errors
/// Returns an error if the message or its metadata is malformed.
pub(crate) fn with_version(bytes: &[u8], version: &str) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(bytes.len() + version.len() + 8);
    let mut fields = Fields::new(bytes);
    loop {
        let before = fields.rest();
        let Some((number, raw)) = fields.next()? else { return Ok(out) };
        if number == METADATA {
            push_nested(METADATA, &mut out, |out| metadata_with_version(raw.bytes()?, version, out))?;
        } else {
            out.extend_from_slice(&before[..before.len() - fields.rest().len()]);
        }
    }
}

/// Appends metadata with another resource version, which is written where the fields of the table
/// have it: before the first field with a larger number.
fn metadata_with_version(bytes: &[u8], version: &str, out: &mut Vec<u8>) -> Result<(), ReadError> {
    let mut is_written = false;
    let mut fields = Fields::new(bytes);
    loop {
        let before = fields.rest();
        let next = fields.next()?;
        if !is_written && next.is_none_or(|(number, _)| number >= RESOURCE_VERSION) {
            push(RESOURCE_VERSION, Raw::Bytes(version.as_bytes()), out);
            is_written = true;
        }
        match next {
            None => return Ok(()),
            Some((RESOURCE_VERSION, _)) => {}
            Some(_) => out.extend_from_slice(&before[..before.len() - fields.rest().len()]),
        }
    }
}

/// Returns whether a message has the metadata of objects; lists have others.
fn has_metadata(message: u16) -> bool {
    let schema = Schema::get();
    let metadata = schema.field(schema.message(message), METADATA).map(|it| it.shape);
    let expected = schema.of_kind("meta.k8s.io/v1", "ObjectMeta").map(Shape::Message);
    expected.is_some() && metadata == expected
}
