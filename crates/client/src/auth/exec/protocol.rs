//! The ExecCredential document: the input and the output of a plugin.
//!
//! Only serialisation. Errors never quote the output, which may contain a secret.

use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, InconsistentKeys};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::auth::issued::{Issued, Lifetime};
use crate::auth::token::bearer;
use crate::config::{ExecCluster, Identity, Pem};

const GROUP: &str = "client.authentication.k8s.io";
const KIND: &str = "ExecCredential";

/// The versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

/// The value of `KUBERNETES_EXEC_INFO`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecInfo<'a> {
    api_version: &'a str,
    kind: &'a str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a ExecCluster>,
    interactive: bool,
}

/// The output of a plugin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Version {
    pub(super) fn parse(api_version: &str) -> Option<Self> {
        match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}

/// Returns the value of `KUBERNETES_EXEC_INFO`. `cluster` is set only if the kubeconfig has
/// `provideClusterInfo`.
pub(super) fn exec_info(version: Version, cluster: Option<&ExecCluster>, interactive: bool) -> String {
    let info = ExecInfo { api_version: version.as_str(), kind: KIND, spec: Spec { cluster, interactive } };
    serde_json::to_string(&info).expect("plain fields and JSON values serialize")
}

/// Parses the output of a plugin. The error describes the problem.
pub(super) fn parse_output(version: Version, stdout: &[u8], now: Timestamp) -> Result<Issued, String> {
    let credential = parse(stdout)?;
    if credential.kind != KIND {
        return Err(format!("it is not of kind {KIND}"));
    }
    match Version::parse(&credential.api_version) {
        Some(returned) if returned == version => {}
        Some(returned) => {
            return Err(format!(
                "the kubeconfig specifies API version {}, but the plugin returned {}",
                version.as_str(),
                returned.as_str()
            ));
        }
        None => {
            return Err(format!(
                "the kubeconfig specifies API version {}, but the plugin returned another one",
                version.as_str()
            ));
        }
    }
    let status = credential.status.ok_or("it has no status")?;
    status.issued(now)
}

impl Status {
    fn issued(self, now: Timestamp) -> Result<Issued, String> {
        let given = |field: Option<String>| field.filter(|text| !text.is_empty()).map(SecretString::from);
        let header = match given(self.token) {
            Some(token) => {
                Some(bearer(&token).ok_or("its token has characters that are not valid in a header")?)
            }
            None => None,
        };
        let identity = match (given(self.client_certificate_data), given(self.client_key_data)) {
            (Some(certificate), Some(key)) => Some(identity(certificate, key)?),
            (None, None) => None,
            (Some(_), None) => return Err("it has a certificate without its key".to_owned()),
            (None, Some(_)) => return Err("it has a key without its certificate".to_owned()),
        };
        if header.is_none() && identity.is_none() {
            return Err("it has neither a token nor a certificate with its key".to_owned());
        }
        let lifetime = match self.expiration_timestamp {
            None => Lifetime::UntilRejected,
            Some(text) => {
                let expires = text.parse().map_err(|_| "its expirationTimestamp is not an RFC 3339 time")?;
                Lifetime::until(expires, now)
            }
        };
        Ok(Issued { header, identity, lifetime })
    }
}

/// Parses the document as JSON or, like client-go's decoder, as YAML.
fn parse(stdout: &[u8]) -> Result<ExecCredential, String> {
    let error = match serde_json::from_slice(stdout) {
        Ok(credential) => return Ok(credential),
        // Empty output is an empty YAML document, and a field of the wrong type stays wrong in
        // YAML.
        Err(error) if error.is_data() || stdout.trim_ascii().is_empty() => {
            return Err(not_a_document(stdout, &error));
        }
        Err(error) => error,
    };
    let yaml = std::str::from_utf8(stdout).ok().and_then(|text| serde_saphyr::from_str(text).ok());
    yaml.ok_or_else(|| not_a_document(stdout, &error))
}

/// Checks that both texts are valid and belong together. A pair that no handshake can use would
/// otherwise be dropped later, and the request sent without a client certificate.
fn identity(certificate: SecretString, key: SecretString) -> Result<Identity, String> {
    use secrecy::ExposeSecret;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.expose_secret().as_bytes())
        .collect::<Result<_, _>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or("its clientCertificateData is not PEM of a certificate")?;
    let private = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        .map_err(|_| "its clientKeyData is not PEM of a private key")?;
    // The same choice as the transport's: the provider that the program has installed, or else
    // ring.
    let installed = CryptoProvider::get_default().map(|it| it.key_provider);
    let signing = installed
        .unwrap_or_else(|| ring::default_provider().key_provider)
        .load_private_key(private)
        .map_err(|_| "its clientKeyData is a private key of a kind that cannot be used")?;
    match CertifiedKey::new(chain, signing).keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            return Err("its clientKeyData does not belong to its clientCertificateData".to_owned());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => {
            return Err("its clientCertificateData contains something other than a certificate".to_owned());
        }
        // The server judges what rustls cannot parse, such as an X.509 version 1 certificate.
        _ => {}
    }
    Ok(Identity { certificate: Pem::Data(certificate), key: Pem::Data(key) })
}

/// Reports only the position, because the parser's message may quote the output.
fn not_a_document(stdout: &[u8], error: &serde_json::Error) -> String {
    if stdout.iter().all(u8::is_ascii_whitespace) {
        return "it printed nothing".to_owned();
    }
    let place = format!("line {}, column {}", error.line(), error.column());
    if error.is_data() {
        format!("a field has the wrong type ({place})")
    } else {
        format!("it is neither JSON ({place}) nor YAML of an ExecCredential")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(stdout: &str) -> String {
        parse_output(Version::V1, stdout.as_bytes(), Timestamp::UNIX_EPOCH).expect_err("a problem")
    }

    fn status(status: &str) -> String {
        format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#
        )
    }

    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::new(vec![]).expect("parameters").self_signed(&key);
        (certificate.expect("a certificate").pem(), key.serialize_pem())
    }

    fn with_identity(certificate: &str, key: &str) -> String {
        let fields = serde_json::json!({ "clientCertificateData": certificate, "clientKeyData": key });
        status(&fields.to_string())
    }

    #[test]
    fn au_3_a_certificate_must_belong_to_its_key() {
        let ((certificate, key), (_, other)) = (pair(), pair());
        let good =
            parse_output(Version::V1, with_identity(&certificate, &key).as_bytes(), Timestamp::UNIX_EPOCH);
        assert!(good.expect("a pair").identity.is_some());
        let expected = "its clientKeyData does not belong to its clientCertificateData";
        assert_eq!(problem(&with_identity(&certificate, &other)), expected);
    }

    #[test]
    fn au_3_yaml_is_understood_as_by_client_go() {
        let yaml = "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus:\n  token: t\n";
        let issued = parse_output(Version::V1, yaml.as_bytes(), Timestamp::UNIX_EPOCH).expect("a credential");
        assert!(issued.header.is_some());
    }

    #[test]
    fn au_3_every_invalid_output_has_its_own_message() {
        let cases = [
            (String::new(), "it printed nothing"),
            ("s3cret".to_owned(), "it is neither JSON (line 1, column 1) nor YAML of an ExecCredential"),
            (r#"{"kind": 7}"#.to_owned(), "a field has the wrong type (line 1, column 10)"),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#.to_owned(), "it is not of kind ExecCredential"),
            (status("null"), "it has no status"),
            (status("{}"), "it has neither a token nor a certificate with its key"),
            (status(r#"{"token":""}"#), "it has neither a token nor a certificate with its key"),
            (status(r#"{"clientCertificateData":"x"}"#), "it has a certificate without its key"),
            (status(r#"{"clientKeyData":"x","token":"t"}"#), "it has a key without its certificate"),
            (
                status(r#"{"clientKeyData":"x","clientCertificateData":"x"}"#),
                "its clientCertificateData is not PEM of a certificate",
            ),
            (status(r#"{"token":"a\nb"}"#), "its token has characters that are not valid in a header"),
            (
                status(r#"{"token":"t","expirationTimestamp":"s3cret"}"#),
                "its expirationTimestamp is not an RFC 3339 time",
            ),
        ];
        for (stdout, expected) in cases {
            assert_eq!(problem(&stdout), expected, "{stdout}");
        }
    }

    #[test]
    fn au_3_the_output_must_have_the_configured_version() {
        let beta = status(r#"{"token":"t"}"#).replace("/v1\"", "/v1beta1\"");
        assert!(problem(&beta).ends_with("returned client.authentication.k8s.io/v1beta1"));
        assert!(parse_output(Version::V1Beta1, beta.as_bytes(), Timestamp::UNIX_EPOCH).is_ok());
        let alpha = status(r#"{"token":"t"}"#).replace("/v1\"", "/v1alpha1\"");
        assert!(problem(&alpha).ends_with("the plugin returned another one"));
        assert_eq!(Version::parse("client.authentication.k8s.io/v1alpha1"), None);
        assert_eq!(Version::parse("v1"), None);
    }

    #[test]
    fn a_token_with_an_expiry_is_issued_until_then() {
        let stdout = status(r#"{"token":"t","expirationTimestamp":"1970-01-01T01:00:00Z"}"#);
        let issued = parse_output(Version::V1, stdout.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(issued.header.unwrap(), "Bearer t");
        let hour = Timestamp::from_second(3600).unwrap();
        assert_eq!(issued.lifetime, Lifetime::until(hour, Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn au_3_a_plugin_receives_its_version_and_interactivity() {
        assert_eq!(
            exec_info(Version::V1Beta1, None, true),
            r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{"interactive":true}}"#
        );
    }
}
