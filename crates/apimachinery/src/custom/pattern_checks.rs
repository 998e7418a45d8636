//! Validation of the patterns of a definition, which must not become too large when they are
//! compiled.
//!
//! A pattern of 13 bytes can become 15 MiB. Each is limited by [`super::go_syntax`]; this file
//! limits their sum, before anything is compiled: the check of a default compiles the pattern of
//! its schema.

use std::collections::HashSet;

use serde_json::Value;

use super::internal::SharedByVersions;
use super::keywords::{listed, named, text};
use super::pattern::Pattern;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// The number of bytes that the patterns of a definition may take when they are compiled; equal
/// ones count once. kube-apiserver has no limit.
const MOST_BYTES: u64 = 32 << 20;

/// Checks the patterns in the schemas of all versions. Returns false if they take too much memory,
/// so that nothing that would compile them may be checked.
pub(crate) fn check_patterns(
    versions: &[Value],
    shared: &SharedByVersions,
    problems: &mut FieldErrors,
) -> bool {
    // A schema that all versions share is visited once.
    let count = if shared.schema { versions.len().min(1) } else { versions.len() };
    let (mut seen, mut bytes) = (HashSet::new(), 0_u64);
    for (index, version) in versions[..count].iter().enumerate() {
        bytes = bytes.saturating_add(new_bytes(&version["schema"]["openAPIV3Schema"], &mut seen));
        if bytes > MOST_BYTES {
            let above = if shared.schema {
                "spec.validation".to_owned()
            } else {
                format!("spec.versions[{index}].schema")
            };
            let detail = format!(
                "the patterns take more than {} MiB when they are compiled (a limit of this server)",
                MOST_BYTES >> 20
            );
            let field = format!("{above}.openAPIV3Schema");
            problems.push(FieldError::new(field, FieldErrorKind::TooMany, &detail));
            return false;
        }
    }
    true
}

/// Returns the number of bytes of the valid patterns in a schema that were not seen before.
fn new_bytes<'a>(schema: &'a Value, seen: &mut HashSet<&'a str>) -> u64 {
    let pattern = text(schema, "pattern");
    let mut bytes = if !pattern.is_empty() && seen.insert(pattern) {
        Pattern::compiled_size(pattern).unwrap_or(0)
    } else {
        0
    };
    let mut add = |inner: &'a Value| bytes = bytes.saturating_add(new_bytes(inner, seen));
    for key in ["items", "not", "additionalProperties"] {
        schema.get(key).into_iter().for_each(&mut add);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        listed(schema, key).iter().for_each(&mut add);
    }
    named(schema, "properties").for_each(|(_, inner)| add(inner));
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(versions: &[Value]) -> Vec<String> {
        let mut problems = FieldErrors::new();
        let fits = check_patterns(versions, &SharedByVersions::of(versions), &mut problems);
        assert_eq!(fits, problems.is_empty());
        problems.into_iter().map(|it| format!("{}: {}", it.field, it.message)).collect()
    }

    fn version(schema: Value) -> Value {
        json!({ "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": schema } } } })
    }

    #[test]
    fn the_patterns_of_a_definition_are_limited_together() {
        let one = |most: usize| json!({ "type": "string", "pattern": format!(r"^\p{{L}}{{0,{most}}}$") });
        let more = json!({ "type": "object", "pattern": r"^\p{L}{0,601}$", "properties": {
            "pattern": one(600), "b": { "items": one(600) }, "c": { "additionalProperties": one(600) },
            "d": { "allOf": [one(600)], "anyOf": [one(600)], "oneOf": [one(600)], "not": one(600) } } });
        assert_eq!(found(&[version(more.clone())]), [""; 0], "equal patterns count once");
        let limit =
            "Too many: the patterns take more than 32 MiB when they are compiled (a limit of this server)";
        for path in [
            "/properties/pattern",
            "/properties/b/items",
            "/properties/c/additionalProperties",
            "/properties/d/allOf/0",
            "/properties/d/anyOf/0",
            "/properties/d/oneOf/0",
            "/properties/d/not",
        ] {
            let mut large = more.clone();
            *large.pointer_mut(path).expect("it exists") = one(602);
            let found_at = found(&[version(large)]);
            assert_eq!(found_at, [format!("spec.validation.openAPIV3Schema: {limit}")], "{path}");
        }
        let versions = [version(more), version(one(602))];
        assert_eq!(found(&versions), [format!("spec.versions[1].schema.openAPIV3Schema: {limit}")]);
    }
}
