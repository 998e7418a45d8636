//! CertificateSigningRequests. Their conditions are handled by [`crate::kinds::signing`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::names;
use crate::kinds::prepare::copy;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{FieldErrors, invalid, required};

/// The rules of the kind CertificateSigningRequest.
pub static RULES: KindRules = KindRules {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    traits: KindTraits { has_status: true, ..KindTraits::COMMON },
    // A signer trusts the user and the request that were approved (k8s.io/kubernetes v1.36.4
    // pkg/registry/certificates/certificates/strategy.go).
    prepare_update: |new, old, _| {
        copy(new, old, "spec");
        Ok(())
    },
    validate_create: signing_request,
    fields: SelectableFields::of(&[Field::text("spec.signerName", "/spec/signerName")]),
    cells,
    ..COMMON
};

fn signing_request(out: &mut FieldErrors, request: &Value) {
    let encoded = text(request, "/spec/request");
    let pem = STANDARD.decode(encoded).ok().and_then(|it| String::from_utf8(it).ok()).unwrap_or_default();
    // Text before the first block is skipped.
    let block = pem.lines().find(|it| it.starts_with("-----BEGIN "));
    if block.is_none_or(|it| it.trim_end() != "-----BEGIN CERTIFICATE REQUEST-----") {
        invalid(out, "spec.request", &encoded.into(), "PEM block type must be CERTIFICATE REQUEST");
    }
    let signer = text(request, "/spec/signerName");
    let good = signer.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && domain.contains('.') && names::subdomain(domain).is_empty()
    });
    if !good {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        invalid(out, "spec.signerName", &signer.into(), detail);
    }
    if items(request, "/spec/usages").is_empty() {
        required(out, "spec.usages", "");
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cells::name(object),
        age::since_creation(object, now),
        at(object, "/spec/signerName").cloned().unwrap_or_else(|| "<none>".into()),
        text(object, "/spec/username").into(),
        number(object, "/spec/expirationSeconds").map_or("<none>".into(), |it| age::human(it).into()),
        signing_state(object).into(),
    ]
}

/// Returns the state of a certificate signing request: `Approved,Issued`.
fn signing_state(request: &Value) -> String {
    let decided =
        |kind: &str| items(request, "/status/conditions").iter().any(|it| text(it, "/type") == kind);
    let mut state = match (decided("Denied"), decided("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if decided("Failed") {
        state.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}
