//! Numbers that may be given as percentages of another.

use serde_json::Value;

/// Returns a number, or a percentage of another, rounded up or down. Absent is zero.
pub(crate) fn scaled(value: Option<&Value>, of: i64, up: bool) -> i64 {
    let Some(text) = value.and_then(Value::as_str) else { return value.and_then(Value::as_i64).unwrap_or(0) };
    let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
    let product = percent.saturating_mul(of);
    let share = if up { product.saturating_add(99) / 100 } else { product / 100 };
    share.min(i64::from(i32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked() {
        for (value, of, up, expected) in [
            (json!(3), 10, true, 3),
            (json!("25%"), 10, true, 3),
            (json!("25%"), 10, false, 2),
            (json!("99999999999999999%"), 200, true, i64::from(i32::MAX)),
            (json!(null), 10, true, 0),
        ] {
            assert_eq!(scaled(Some(&value), of, up), expected, "{value}");
        }
        assert_eq!(scaled(None, 10, true), 0);
    }
}
