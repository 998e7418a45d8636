//! HorizontalPodAutoscaler of version 1 and of version 2: what one says in the words of the other.
use serde_json::Value;
/// As version 1 shows it.
pub fn to_v1(stored: &Value) -> Value {
    stored.clone()
}
/// As it is stored.
pub fn to_v2(object: &Value) -> Value {
    object.clone()
}
