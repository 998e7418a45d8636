//! The stage of a write that decides who may approve and sign CertificateSigningRequests.
//!
//! It takes the verb `approve` or `sign` on the signer, a resource that exists only for this: as
//! k8s.io/kubernetes v1.36.4 plugin/pkg/admission/certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::policies::forbidden;
use super::write::Write;
use crate::ApiError;
use crate::admission_plugin::AdmissionPlugin;
use crate::authorization::{AccessRequest, MASTERS};
use crate::distinguished_name;
use crate::kinds::SIGNING_REQUEST;
use crate::kinds::json_access::{at, text};
use crate::strconv::quote;

const GROUP: &str = "certificates.k8s.io";

/// The signer of certificates that authenticate users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";

impl Write<'_> {
    /// Rejects the approval and the signing of a request by a user who may not do it for its
    /// signer, and requests for membership of `system:masters`.
    ///
    /// # Errors
    /// 403 with the reason.
    pub(super) fn check_signer(&self) -> Result<(), ApiError> {
        if !self.place.kind.is(&SIGNING_REQUEST) {
            return Ok(());
        }
        let refused = |why: &str| Err(forbidden(self.place, &self.new, why));
        let is_on = |plugin| self.cluster.plugins.has(plugin);
        let Some(old) = self.base.map(|it| it.object) else {
            if !is_on(AdmissionPlugin::CertificateSubjectRestriction) {
                return Ok(());
            }
            return match requested_groups(&self.new) {
                None => refused("failed to parse CSR"),
                Some(groups) if groups.iter().any(|it| it == MASTERS) => {
                    refused(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
                }
                Some(_) => Ok(()),
            };
        };
        let changed = |pointer| at(old, pointer) != at(&self.new, pointer);
        let verb = match self.place.part {
            "approval" if is_on(AdmissionPlugin::CertificateApproval) => "approve",
            "status" if !is_on(AdmissionPlugin::CertificateSigning) => return Ok(()),
            "status" if changed("/status/certificate") || changed("/status/conditions") => "sign",
            _ => return Ok(()),
        };
        let signer = text(old, "/spec/signerName");
        let of_domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
        let may = |name: &str| {
            let request = AccessRequest::cluster(verb, GROUP, "signers", name);
            self.cluster.authorize(&self.writer.user, &request).allowed
        };
        if may(signer) || may(&of_domain) {
            return Ok(());
        }
        refused(&format!("user not permitted to {verb} requests with signerName {}", quote(signer)))
    }
}

/// Returns what is wrong with the issued certificate of a request, if it has changed.
pub(super) fn certificate_problem(new: &Value, old: &Value) -> Option<String> {
    let encoded = text(new, "/status/certificate");
    if encoded.is_empty() || encoded == text(old, "/status/certificate") {
        return None;
    }
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let blocks: Vec<Pem> = Pem::iter_from_buffer(&pem).filter_map(Result::ok).collect();
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(&block.label)));
        }
        block.parse_x509().is_err().then(|| "x509: malformed certificate".to_owned())
    })
}

/// Returns the groups of the user that a requested certificate would authenticate, if it is one
/// that authenticates users. Returns `None` if the request cannot be decoded.
fn requested_groups(request: &Value) -> Option<Vec<String>> {
    if text(request, "/spec/signerName") != CLIENT_SIGNER {
        return Some(Vec::new());
    }
    let pem = STANDARD.decode(text(request, "/spec/request")).ok()?;
    // One block without headers, so that no signer reads another than this one.
    let pem_text = std::str::from_utf8(&pem).ok()?;
    let (_, body) = pem_text.split_once(BEGIN)?;
    let (body, after) = body.split_once(END)?;
    if body.contains([':', '-'])
        || after.contains("-----BEGIN ")
        || pem_text.matches("-----BEGIN ").count() != 1
    {
        return None;
    }
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let organizations = parsed.certification_request_info.subject.iter_organization();
    organizations.map(distinguished_name::text).collect()
}
