//! Messages for failed TLS handshakes that name the remedy.

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::roots::Trust;

/// Describes a failed handshake with `host`; the rustls error stays the source.
pub(crate) fn explain(error: &rustls::Error, host: &str, trust: &Trust) -> String {
    match error {
        rustls::Error::InvalidCertificate(problem) => explain_certificate(problem, host, trust),
        rustls::Error::AlertReceived(alert) => explain_alert(*alert, host),
        // The answer begins with no TLS record, like that of an HTTP server.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("{host} does not speak TLS")
        }
        _ => format!("the TLS handshake with {host} failed"),
    }
}

fn explain_certificate(problem: &CertificateError, host: &str, trust: &Trust) -> String {
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the certificate of {host} is not signed by {}", trust.describe())
        }
        CertificateError::Expired => format!("the certificate of {host} has expired"),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the certificate of {host} expired on {}", format_time(*not_after))
        }
        CertificateError::NotValidYet => {
            format!("the certificate of {host} is not valid yet; check the clock")
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!(
                "the certificate of {host} is not valid before {}; check the clock",
                format_time(*not_before)
            )
        }
        CertificateError::NotValidForName => {
            format!(
                "the certificate of {host} is for another name; set tls-server-name to a name in the certificate"
            )
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the certificate of {host} is valid for {}, not for {}; set tls-server-name to one of its names",
            presented.join(", "),
            expected.to_str(),
        ),
        _ => format!("the certificate of {host} is not acceptable"),
    }
}

fn explain_alert(alert: AlertDescription, host: &str) -> String {
    match alert {
        AlertDescription::CertificateRequired => format!("{host} requires a client certificate"),
        AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => format!("{host} rejected the client certificate"),
        _ => format!("{host} ended the TLS handshake"),
    }
}

fn format_time(time: UnixTime) -> String {
    match i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        Some(timestamp) => timestamp.to_string(),
        None => "a date out of range".to_owned(),
    }
}
