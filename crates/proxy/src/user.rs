//! The user that a request is made by: from a client certificate, or as the API server names it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

/// The group of every user that is not anonymous: `AllAuthenticated` in k8s.io/apiserver v0.36.4
/// pkg/authentication/user/user.go, as the names below.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// A user, in the form of a `TokenReview`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct User {
    #[serde(rename = "username")]
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user with the group that kube-apiserver adds to a user of this name: see
    /// pkg/endpoints/filters/impersonation of k8s.io/apiserver v0.36.4.
    pub(crate) fn authenticated(mut self) -> Self {
        let has = |group: &str| self.groups.iter().any(|it| it == group);
        let added = match self.name == ANONYMOUS {
            true => (!has(UNAUTHENTICATED)).then_some(UNAUTHENTICATED),
            false => (!has(AUTHENTICATED) && !has(UNAUTHENTICATED)).then_some(AUTHENTICATED),
        };
        self.groups.extend(added.map(str::to_owned));
        self
    }

    /// Returns the resources that kube-apiserver lets a user impersonate who may act as this one:
    /// each a plural name, a namespace and a name.
    pub(crate) fn impersonated(&self) -> Vec<(&'static str, &str, &str)> {
        let account = self.name.strip_prefix("system:serviceaccount:").and_then(|it| it.split_once(':'));
        let user = match account {
            Some((namespace, name)) => ("serviceaccounts", namespace, name),
            None => ("users", "", self.name.as_str()),
        };
        [user].into_iter().chain(self.groups.iter().map(|it| ("groups", "", it.as_str()))).collect()
    }

    /// Reads the user from a certificate, which must already be verified: the common name and, as
    /// groups, the organizations. Returns `None` if it names no user.
    pub(crate) fn from_certificate(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let text = |it: &AttributeTypeAndValue<'_>| it.as_str().ok().map(str::to_owned);
        // The last name counts, as in Go's `crypto/x509`.
        let name = parsed.subject().iter_common_name().last().and_then(text)?;
        // A group that cannot be read could be the reason for a deny: no user then.
        let groups: Option<Vec<String>> = parsed.subject().iter_organization().map(text).collect();
        let user = Self { name, groups: groups?, ..Self::default() };
        // Control characters cannot be in a header, and no identity is made of them.
        let is_plain = |it: &String| !it.is_empty() && !it.chars().any(char::is_control);
        if !user.groups.iter().chain([&user.name]).all(is_plain) {
            return None;
        }
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organization_a_group() {
        let der = certificate(&[(DnType::OrganizationName, "devs"), (DnType::CommonName, "jane")]);
        let user = User::from_certificate(&der).unwrap();
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("jane", &["devs".to_owned()][..]));
    }

    #[test]
    fn a_user_gets_the_group_that_follows_from_the_name() {
        let groups = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|&it| it.to_owned()).collect();
            User { name: name.to_owned(), groups, ..User::default() }.authenticated().groups
        };
        assert_eq!(groups("jane", &["devs"]), ["devs", "system:authenticated"]);
        assert_eq!(groups("jane", &["system:unauthenticated"]), ["system:unauthenticated"]);
        assert_eq!(groups("system:anonymous", &[]), ["system:unauthenticated"]);
        let account = User { name: "system:serviceaccount:shop:web".to_owned(), ..User::default() };
        assert_eq!(account.impersonated(), [("serviceaccounts", "shop", "web")]);
    }

    #[test]
    fn a_certificate_without_a_plain_name_is_no_user() {
        assert_eq!(User::from_certificate(&certificate(&[(DnType::OrganizationName, "devs")])), None);
        let split = [(DnType::CommonName, "jane\r\nX-Remote-Group: system:masters")];
        assert_eq!(User::from_certificate(&certificate(&split)), None);
        assert_eq!(User::from_certificate(b"no certificate"), None);
    }
}
