//! The files with the users and keys that a server trusts.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use dogwatch_apiserver::{ApiServerBuilder, ServiceAccountKeys, User};

use crate::connection::secret;

/// The flags for certificates, users and keys.
#[derive(Debug, clap::Args)]
pub(super) struct CredentialFiles {
    /// Present the certificate in this PEM file to clients, with its intermediate ones, instead of
    /// one that is generated. Needs --tls.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "tls_private_key_file"], conflicts_with = "kubeconfig_out")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Accept client certificates of the authorities in this PEM file, besides those of this run.
    /// The common name is the user, organizations are groups. Needs --tls.
    #[arg(long, value_name = "FILE", requires = "tls")]
    client_ca_file: Option<PathBuf>,
    /// Verify the certificates of kubelets by the authorities in this PEM file. By default they are
    /// not verified.
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: Option<PathBuf>,
    /// Accept the bearer tokens in this CSV file: token,user,uid and optionally "group,group".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Sign the tokens of service accounts with the private key in this PEM file. By default a key
    /// is generated.
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Accept tokens that were signed with a key in this PEM file, public or private; repeatable.
    #[arg(long, value_name = "FILE", requires = "service_account_signing_key_file")]
    service_account_key_file: Vec<PathBuf>,
    /// The issuer of the tokens of service accounts; repeatable: tokens of all are accepted, the
    /// first one issues them. [default: https://kubernetes.default.svc]
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
}

impl CredentialFiles {
    /// Adds what the files name to a server.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read or is not valid.
    pub(super) fn add_to(&self, mut builder: ApiServerBuilder) -> anyhow::Result<ApiServerBuilder> {
        if let (Some(chain), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) {
            let chain = read(chain, "certificate file")?;
            builder = builder.serving_certificate(chain, read(key, "key file")?);
        }
        if let Some(file) = &self.client_ca_file {
            builder = builder.client_authority(read(file, "client CA file")?);
        }
        if let Some(file) = &self.kubelet_certificate_authority {
            builder = builder.kubelet_authority(read(file, "kubelet CA file")?);
        }
        if let Some(file) = &self.token_auth_file {
            let text = String::from_utf8(read(file, "token file")?);
            let users = text.context("it is not UTF-8").and_then(|it| users(&it));
            let users = users.with_context(|| format!("the token file {} is not valid", file.display()))?;
            for (token, user) in users {
                let Ok(token) = secret(&token);
                builder = builder.token_of(token, user);
            }
        }
        if let Some(file) = &self.service_account_signing_key_file {
            let keys = ServiceAccountKeys::signing(&read(file, "key file")?);
            let mut keys = keys.with_context(|| format!("the key file {} is not valid", file.display()))?;
            for file in &self.service_account_key_file {
                keys = keys
                    .also_accepting(&read(file, "key file")?)
                    .with_context(|| format!("the key file {} is not valid", file.display()))?;
            }
            builder = builder.service_account_keys(keys);
        }
        for issuer in &self.service_account_issuer {
            ensure!(!issuer.is_empty(), "--service-account-issuer must not be empty");
            builder = builder.service_account_issuer(issuer);
        }
        Ok(builder)
    }
}

fn read(file: &Path, what: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read the {what} {}", file.display()))
}

/// Reads users with their tokens, as k8s.io/apiserver v0.36.4 pkg/authentication/token/tokenfile
/// does: `token,user,uid` and optionally the groups in one column, separated by commas.
fn users(text: &str) -> anyhow::Result<Vec<(String, User)>> {
    let mut users = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number.saturating_add(1);
        let columns = columns(line).with_context(|| format!("line {number}"))?;
        let [token, name, uid, rest @ ..] = columns.as_slice() else {
            bail!(
                "line {number}: it must have at least 3 columns (token, user name, user uid), found {}",
                columns.len()
            );
        };
        ensure!(!token.is_empty(), "line {number}: the token is empty");
        let groups = rest.first().map_or("", String::as_str);
        let groups: Vec<&str> = groups.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
        let mut user = User::named(name, &groups);
        user.uid.clone_from(uid);
        users.push((token.clone(), user));
    }
    Ok(users)
}

/// Returns the columns of a line of CSV. In quotes, commas are text and two quotes are one.
fn columns(line: &str) -> anyhow::Result<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line.trim_end_matches('\r').chars().peekable();
    loop {
        let mut column = String::new();
        if rest.next_if_eq(&'"').is_some() {
            loop {
                match rest.next() {
                    Some('"') if rest.next_if_eq(&'"').is_some() => column.push('"'),
                    Some('"') => break,
                    Some(it) => column.push(it),
                    None => bail!("a quote is not closed"),
                }
            }
        } else {
            while let Some(it) = rest.next_if(|it| *it != ',') {
                column.push(it);
            }
        }
        columns.push(column.trim().to_owned());
        match rest.next() {
            None => return Ok(columns),
            Some(',') => {}
            Some(it) => bail!("there is {it:?} after a closing quote"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_token_a_user_a_uid_and_groups() {
        let text = "t1,alice,1,\"devs, admins\"\r\n\nt2,bob,2\nt3,\"a \"\"b\"\"\",3,devs,more\n";
        let found: Vec<_> =
            users(text).unwrap().into_iter().map(|(token, it)| (token, it.name, it.uid, it.groups)).collect();
        let expected = [
            ("t1", "alice", "1", &["devs", "admins"][..]),
            ("t2", "bob", "2", &[]),
            ("t3", "a \"b\"", "3", &["devs"]),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(token, name, uid, groups)| {
                let groups = groups.iter().chain(&["system:authenticated"]);
                let groups: Vec<String> = groups.map(|it| (*it).to_owned()).collect();
                (token.to_owned(), name.to_owned(), uid.to_owned(), groups)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_broken_line_is_named() {
        for (text, why) in [
            ("a,b,c\na,b", "line 2: it must have at least 3 columns (token, user name, user uid), found 2"),
            ("a,b,\"c", "line 1: a quote is not closed"),
            ("a,\"b\"x,c", "line 1: there is 'x' after a closing quote"),
            (",b,c", "line 1: the token is empty"),
        ] {
            assert_eq!(format!("{:#}", users(text).unwrap_err()), why);
        }
    }
}
