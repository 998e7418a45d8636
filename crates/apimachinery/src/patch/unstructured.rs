//! The errors of the result of a strategic merge patch, which kube-apiserver converts from maps and
//! lists, and not from JSON.
//!
//! Mirrors `fromUnstructured` in k8s.io/apimachinery v0.36.4 pkg/runtime/converter.go.

/// Returns the error of the converter for one of the JSON decoder, such as `json: cannot unmarshal
/// string into Go struct field PodSpec.spec.containers of type []v1.Container`. Other errors stay
/// as they are: types that decode themselves have the same in both.
pub(super) fn conversion_error(why: &str) -> String {
    let parts = || {
        let (found, rest) = why.strip_prefix("json: cannot unmarshal ")?.split_once(" into Go ")?;
        Some((found, rest.rsplit_once(" of type ")?.1))
    };
    let Some((found, expected)) = parts() else { return why.to_owned() };
    let is_fraction = found.starts_with("number ") && found.contains('.');
    let kind = match found.split(' ').next().unwrap_or_default() {
        "object" => "map",
        "array" => "slice",
        "number" if is_fraction => "float64",
        "number" => "int64",
        other => other,
    };
    if expected.starts_with("map[") {
        format!("cannot restore map from {kind}")
    } else if expected.starts_with("[]") {
        format!("cannot restore slice from {kind}")
    } else if expected.contains('.') && kind != "map" {
        format!("cannot restore struct from: {kind}")
    } else if matches!((kind, expected), ("int64", "string") | ("float64", "int32" | "int64")) {
        format!("cannot convert {kind} to {expected}")
    } else {
        let expected = if expected.contains('.') { "string" } else { expected };
        format!("unrecognized type: {expected}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_kind_that_cannot_be_converted() {
        for (found, expected, converted) in [
            ("string", "map[string]string", "cannot restore map from string"),
            ("string", "[]v1.Container", "cannot restore slice from string"),
            ("array", "map[string]string", "cannot restore map from slice"),
            ("string", "int64", "unrecognized type: int64"),
            ("string", "bool", "unrecognized type: bool"),
            ("number", "string", "cannot convert int64 to string"),
            ("object", "string", "unrecognized type: string"),
            ("string", "v1.PodSpec", "cannot restore struct from: string"),
            ("number 1.5", "int64", "cannot convert float64 to int64"),
        ] {
            let why = format!(
                "json: cannot unmarshal {found} into Go struct field PodSpec.spec.x of type {expected}"
            );
            assert_eq!(conversion_error(&why), converted);
        }
        let quantity = "quantities must match the regular expression";
        assert_eq!(conversion_error(quantity), quantity);
    }
}
