//! Conversion of a [`Target`] to the settings of a client (rules KC-6, KC-7 and KC-8).
//!
//! This is the last module that knows about entries. Files that may change stay paths; only the
//! token file is read once, so that a missing one is reported here and not by the first request.

use secrecy::ExposeSecret as _;
use url::Url;

use super::absent::given;
use super::environment::{DISABLE_HTTP2, Environment};
use super::error::{ConfigEntry, ConfigError, ConfigProblem};
use super::kubeconfig::Cluster;
use super::overrides::Overrides;
use super::select::Target;
use super::settings::{
    AuthProvider, AuthSettings, BasicAuth, Config, HttpVersion, Identity, Impersonation, Pem, TlsSettings,
};
use super::user::User;
use super::{incluster, material, plugin, server};

/// Returns the settings for a target, or all its problems.
pub(super) fn resolve(
    target: &Target,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Config, ConfigError> {
    let problems = target.problems();
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    let server = address(target).map_err(|problem| ConfigError::Invalid(vec![problem]))?;
    reject_plaintext(target, &server, overrides)?;
    let mut config = Config::new(server);
    fill(&mut config, target).map_err(|problem| ConfigError::Invalid(vec![problem]))?;
    config.default_namespace = namespace(target, environment);
    config.timeout = overrides.timeout.filter(|timeout| !timeout.is_zero());
    config.allow_plaintext_credentials = overrides.allow_plaintext_credentials;
    config.plugin_policy = overrides.plugin_policy.clone();
    if environment.var(DISABLE_HTTP2).is_some() {
        config.http = HttpVersion::Http1;
    }
    Ok(config)
}

/// Returns the address. A bare `host:port` is https if any TLS setting is present, and http
/// otherwise.
fn address(target: &Target) -> Result<Url, ConfigProblem> {
    let tls = target.cluster.has_trust_settings() || target.user.has_certificate();
    let text = given(&target.cluster.server).map_or("", String::as_str);
    server::server(text, tls).map_err(|message| target.cluster_entry.problem("server", message))
}

/// Rejects credentials that would be sent in clear text to another machine. client-go drops them
/// silently, and the server then answers 401.
fn reject_plaintext(target: &Target, server: &Url, overrides: &Overrides) -> Result<(), ConfigError> {
    match target.user.credential() {
        Some(credential) if server::is_exposed(server) && !overrides.allow_plaintext_credentials => {
            Err(ConfigError::PlaintextCredentials {
                server: server.as_str().trim_end_matches('/').to_owned(),
                credential,
                user: Box::new(target.user_entry.clone()),
                cluster: Box::new(target.cluster_entry.clone()),
            })
        }
        _ => Ok(()),
    }
}

/// Fills in everything that comes from the two entries.
fn fill(config: &mut Config, target: &Target) -> Result<(), ConfigProblem> {
    let Target { cluster, cluster_entry, user, user_entry, .. } = target;
    config.tls = TlsSettings {
        ca: roots(cluster_entry, cluster)?,
        insecure_skip_verify: cluster.insecure_skip_tls_verify,
        server_name: given(&cluster.tls_server_name).cloned(),
        identity: identity(user_entry, user)?,
    };
    if let Some(text) = given(&cluster.proxy_url) {
        let proxy = server::proxy(text).map_err(|message| cluster_entry.problem("proxy-url", message))?;
        config.proxy_url = Some(proxy);
    }
    config.disable_compression = cluster.disable_compression;
    config.impersonate = impersonation(user);
    config.auth = login(user_entry, user)?;
    if let Some(section) = &user.exec {
        config.auth.exec = Some(plugin::settings(section, cluster_entry, cluster, &config.server)?);
    }
    Ok(())
}

fn roots(entry: &ConfigEntry, cluster: &Cluster) -> Result<Option<Pem>, ConfigProblem> {
    if let Some(data) = given(&cluster.certificate_authority_data) {
        return pem(entry, "certificate-authority-data", data).map(Some);
    }
    Ok(given(&cluster.certificate_authority).cloned().map(Pem::File))
}

fn identity(entry: &ConfigEntry, user: &User) -> Result<Option<Identity>, ConfigProblem> {
    let certificate = match (given(&user.client_certificate_data), given(&user.client_certificate)) {
        (Some(data), _) => pem(entry, "client-certificate-data", data)?,
        (None, Some(path)) => Pem::File(path.clone()),
        (None, None) => return Ok(None),
    };
    let key = match (given(&user.client_key_data), given(&user.client_key)) {
        (Some(data), _) => pem(entry, "client-key-data", data.expose_secret())?,
        (None, Some(path)) => Pem::File(path.clone()),
        (None, None) => return Ok(None),
    };
    Ok(Some(Identity { certificate, key }))
}

fn pem(entry: &ConfigEntry, field: &'static str, data: &str) -> Result<Pem, ConfigProblem> {
    material::pem(data).map(Pem::Data).map_err(|message| entry.problem(field, message))
}

/// Returns the credentials that are sent as headers, except the plugin's.
fn login(entry: &ConfigEntry, user: &User) -> Result<AuthSettings, ConfigProblem> {
    let token = match (given(&user.token), given(&user.token_file)) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(path)) => {
            Some(material::token(path).map_err(|message| entry.problem("tokenFile", message))?)
        }
        (None, None) => None,
    };
    Ok(AuthSettings {
        token,
        token_file: given(&user.token_file).cloned(),
        basic: user.has_basic().then(|| BasicAuth {
            username: user.username.clone().unwrap_or_default(),
            password: user.password.clone().unwrap_or_default(),
        }),
        provider: user.auth_provider.as_ref().map(|section| AuthProvider {
            name: section.name.clone(),
            config: section.config.clone(),
            origin: user.origin.clone(),
        }),
        exec: None,
    })
}

fn impersonation(user: &User) -> Impersonation {
    Impersonation {
        user: given(&user.impersonate).cloned(),
        uid: given(&user.impersonate_uid).cloned(),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_extra.clone(),
    }
}

/// Returns the configured namespace, or the namespace of this pod, or `default`.
fn namespace(target: &Target, environment: &Environment) -> String {
    let of_pod = || incluster::possible(environment).ok().and_then(|()| incluster::namespace(environment));
    target.namespace.clone().or_else(of_pod).unwrap_or_else(|| "default".to_owned())
}
