//! Validation of the names of field managers, in the options of a write and in `managedFields`
//! (k8s.io/apimachinery v0.36.4 pkg/apis/meta/v1/validation/validation.go).

use serde_json::Value;

use super::check::FieldErrors;
use crate::kinds::json_access::{items, text};
use crate::{FieldError, FieldErrorKind, strconv};

/// The maximum length of a field manager, in bytes: `FieldManagerMaxLength`.
pub const MAX_LENGTH: usize = 128;

/// The maximum length of a subresource in `managedFields`, in bytes: `MaxSubresourceNameLength`.
const MAX_SUBRESOURCE_LENGTH: usize = 256;

/// Returns the problems of a field manager at this field.
pub fn problems(field: &str, manager: &str) -> Vec<FieldError> {
    let mut problems = Vec::new();
    problems.extend(too_long(field, manager, MAX_LENGTH));
    if let Some((at, bad)) = manager.char_indices().find(|(_, it)| !strconv::is_printable(*it)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
        let shown = strconv::quote(manager);
        problems.push(FieldError::with_value(field, FieldErrorKind::Invalid, shown, &detail));
    }
    problems
}

/// Validates the names in `managedFields`. Without a limit on their length, a conflict would repeat
/// a name of megabytes for each field that it is about.
pub(super) fn managed_fields(out: &mut FieldErrors, object: &Value) {
    for (index, entry) in items(object, "/metadata/managedFields").iter().enumerate() {
        let field = |name: &str| format!("metadata.managedFields[{index}].{name}");
        problems(&field("manager"), text(entry, "/manager")).into_iter().for_each(|it| out.push(it));
        let subresource =
            too_long(&field("subresource"), text(entry, "/subresource"), MAX_SUBRESOURCE_LENGTH);
        subresource.into_iter().for_each(|it| out.push(it));
    }
}

fn too_long(field: &str, name: &str, limit: usize) -> Option<FieldError> {
    let detail = || format!("may not be more than {limit} bytes");
    (name.len() > limit).then(|| FieldError::new(field, FieldErrorKind::TooLong, &detail()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_names_in_managed_fields_are_rejected_with_their_place() {
        let found = |manager: &str, subresource: &str| {
            let mut out = FieldErrors::new();
            let entry = json!({ "manager": manager, "subresource": subresource });
            managed_fields(&mut out, &json!({ "metadata": { "managedFields": [{}, entry] } }));
            out.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(&"m".repeat(128), &"s".repeat(256)).is_empty());
        assert_eq!(
            found(&"m".repeat(129), &"s".repeat(257)),
            [
                "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        assert_eq!(
            found("a\nb", ""),
            [
                "metadata.managedFields[1].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)"
            ]
        );
    }
}
