//! The address of a webhook, from its `clientConfig`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use crate::kinds::json_access::{at, number, text};

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(super) host: Host,
    /// The path, normalised and with a leading slash.
    pub(super) path: String,
}

/// The host of a webhook, and the certificates to trust there. Webhooks of equal hosts can share
/// connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    /// The host and port as its URL names them.
    pub(super) authority: String,
    /// The address to connect to.
    pub(super) address: (String, u16),
    /// The name that its certificate must have.
    pub(super) name: String,
    pub(super) bundle: Vec<CertificateDer<'static>>,
}

impl Target {
    /// Reads a `clientConfig`. `locate` returns the address of a service port, by namespace and
    /// name.
    ///
    /// # Errors
    /// The problem of the configuration.
    pub(crate) fn read(
        config: &Value,
        locate: impl FnOnce(&str, &str, u16) -> Result<(String, u16), String>,
    ) -> Result<Self, String> {
        let bundle = bundle(text(config, "/caBundle"))?;
        if let Some(service) = at(config, "/service").filter(|it| !it.is_null()) {
            let (namespace, name) = (text(service, "/namespace"), text(service, "/name"));
            let port = number(service, "/port").and_then(|it| u16::try_from(it).ok()).unwrap_or(443);
            let (host, at_port) = locate(namespace, name, port)?;
            let name = format!("{name}.{namespace}.svc");
            let authority = format!("{name}:{port}");
            return Ok(Self {
                host: Host { authority, address: (host, at_port), name, bundle },
                path: clean(text(service, "/path")),
            });
        }
        let url = text(config, "/url");
        let uri: Uri = url.parse().map_err(|_| format!("Unparsable webhook URL: {url}"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("Unparsable webhook URL: {url}"));
        }
        let authority = uri.authority().ok_or_else(|| format!("Unparsable webhook URL: {url}"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = (host.clone(), authority.port_u16().unwrap_or(443));
        Ok(Self {
            host: Host { authority: authority.as_str().to_owned(), address, name: host, bundle },
            path: clean(uri.path()),
        })
    }
}

/// Normalises a path. Test environments write two slashes at its beginning.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn bundle(encoded: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let unfit = || "unable to load root certificates: unable to parse bytes as PEM block".to_owned();
    let pem = STANDARD.decode(encoded).map_err(|_| unfit())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() || pem.is_empty() => Ok(found),
        _ => Err(unfit()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nowhere(_: &str, _: &str, _: u16) -> Result<(String, u16), String> {
        Err("no services".to_owned())
    }

    #[test]
    fn a_url_is_parsed_and_its_path_is_normalised() {
        for (url, authority, address, path) in [
            ("https://127.0.0.1:9443//failing", "127.0.0.1:9443", ("127.0.0.1", 9443), "/failing"),
            ("https://hook.test", "hook.test", ("hook.test", 443), "/"),
            ("https://[::1]:1/a/./b/../c/", "[::1]:1", ("::1", 1), "/a/c"),
        ] {
            let target = Target::read(&json!({ "url": url }), nowhere).unwrap();
            assert_eq!((target.host.authority.as_str(), target.path.as_str()), (authority, path), "{url}");
            assert_eq!((target.host.address.0.as_str(), target.host.address.1), address, "{url}");
        }
        for url in ["", "http://127.0.0.1/", "/path", "https://"] {
            assert!(Target::read(&json!({ "url": url }), nowhere).is_err(), "{url:?}");
        }
    }

    #[test]
    fn a_service_is_located_by_the_caller_and_keeps_its_own_name() {
        let config =
            json!({ "service": { "namespace": "ns", "name": "web", "path": "check", "port": 8443 } });
        let target =
            Target::read(&config, |namespace, name, port| Ok((format!("{namespace}/{name}"), port + 1)));
        let target = target.unwrap();
        assert_eq!((target.host.name.as_str(), target.path.as_str()), ("web.ns.svc", "/check"));
        assert_eq!(
            (target.host.authority.as_str(), target.host.address),
            ("web.ns.svc:8443", ("ns/web".to_owned(), 8444))
        );
        assert_eq!(Target::read(&config, nowhere), Err("no services".to_owned()));
    }

    #[test]
    fn a_bundle_must_be_made_of_certificates() {
        let pem = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
        let with = |bundle: &str| {
            Target::read(&json!({ "url": "https://a.test", "caBundle": bundle }), nowhere)
                .map(|it| it.host.bundle.len())
        };
        assert_eq!(with(&STANDARD.encode(pem.repeat(2))), Ok(2));
        assert_eq!(with(""), Ok(0));
        assert!(with("%").is_err());
        assert!(with(&STANDARD.encode("nothing")).is_err());
    }
}
