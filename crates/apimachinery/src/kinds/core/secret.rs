//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::data::{DATA_LIMIT, decoded_size, unchanged};
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{Object, entries, fill, object, text};
use crate::kinds::names;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::validate::check::{FieldErrors, immutable, invalid, invalid_string, required};
use crate::plain_json;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind Secret.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "Secret",
    plural: "secrets",
    default: defaults,
    validate_create: secret,
    validate_update: Some(|out, new, old| {
        immutable(out, new, old, "/type", "type");
        unchanged(out, new, old);
        secret(out, new);
    }),
    fields: SelectableFields::of(&[Field::text("type", "/type")]),
    cells,
    accounting: Accounting::CountedByName,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    if let Some(Value::Object(plain)) = map.remove("stringData") {
        let data = object(map, "data");
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
    fill(map, "type", "Opaque");
}

fn secret(out: &mut FieldErrors, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(object, "/data") {
        invalid_string(out, &format!("data[{key}]"), key, names::config_key(key));
        size += decoded_size(value);
    }
    too_large(out, size);
    let has = |key: &str| entries(object, "/data").any(|(known, _)| known == key);
    let keys: &[&str] = match text(object, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/basic-auth" if has("username") || has("password") => &[],
        "kubernetes.io/basic-auth" => &["username", "password"],
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if !entries(object, "/metadata/annotations").any(|(key, _)| key == name) {
                required(out, &format!("metadata.annotations[{name}]"), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in keys {
        let value = entries(object, "/data").find(|(known, _)| known == key);
        match value {
            None => required(out, &format!("data[{key}]"), ""),
            Some((_, value)) if key.starts_with(".docker") => docker(out, key, value),
            Some(_) => {}
        }
    }
}

fn too_large(out: &mut FieldErrors, size: usize) {
    if size > DATA_LIMIT {
        let detail = format!("may not be more than {DATA_LIMIT} bytes");
        out.push(FieldError::new("data", FieldErrorKind::TooLong, &detail));
    }
}

/// Checks that the contents of a registry secret are JSON. The message never contains them.
fn docker(out: &mut FieldErrors, key: &str, value: &Value) {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    if plain_json::from_slice(&bytes).is_ok() {
        return;
    }
    let why = match bytes.first() {
        None => "unexpected end of JSON input".to_owned(),
        Some(first) if !b"{[\"-0123456789tfn".contains(first) => {
            format!("invalid character '{}' looking for beginning of value", char::from(*first))
        }
        Some(_) => "unexpected end of JSON input".to_owned(),
    };
    invalid(out, &format!("data[{key}]"), &"<secret contents redacted>".into(), &why);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |pointer: &str| entries(object, pointer).count();
    let age = age::since_creation(object, now);
    vec![cells::name(object), text(object, "/type").into(), count("/data").into(), age]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_message_for_an_invalid_secret_does_not_contain_it() {
        let mut out = FieldErrors::new();
        let data = STANDARD.encode("{\"auths\": hunter2");
        secret(&mut out, &json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": data}}));
        assert_eq!(out.len(), 1);
        assert!(!out[0].to_string().contains("hunter2") && out[0].to_string().contains("redacted"));
    }
}
