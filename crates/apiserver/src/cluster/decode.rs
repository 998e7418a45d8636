//! From a body to an object of a kind.

use bytes::Bytes;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::request::BodyForm;

/// What a request carries.
#[derive(Clone, Debug)]
pub struct Body {
    /// Its bytes.
    pub bytes: Bytes,
    /// How they are to be read.
    pub form: BodyForm,
}

/// What becomes of fields that are unknown or there twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValidation {
    /// They go, and nobody is told.
    Ignore,
    /// They go, and the writer is told.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Reads an object of a kind, with its defaults. Gives what the writer should know beside it.
///
/// # Errors
/// 400 for what cannot be read, or has fields it should not have.
pub fn decode(
    kind: &Kind,
    body: &Body,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let _ = (kind, body, validation);
    todo!()
}

/// Reads an object of another kind, such as the Scale of a deployment.
///
/// # Errors
/// As for [`decode`].
pub fn decode_as(
    api_version: &str,
    kind: &str,
    body: &Body,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let _ = (api_version, kind, body, validation);
    todo!()
}
