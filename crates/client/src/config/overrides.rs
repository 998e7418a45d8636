//! Values of the caller that take precedence over the files, or fill their gaps (rule KC-3).
//!
//! Holds the values and applies them to entries. `select.rs` decides which entries those are.

use std::path::PathBuf;
use std::time::Duration;

use super::absent::{given, overlay};
use super::kubeconfig::Cluster;
use super::opaque::{NamedExtension, OtherFields};
use super::settings::PluginPolicy;
use super::user::User;

/// Values that take precedence over the files. Empty values count as unset.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::Overrides;
///
/// let text = "{clusters: [{name: a, cluster: {server: 'https://10.0.0.1'}}], \
///             contexts: [{name: a, context: {cluster: a, namespace: shop}}]}";
/// let mut overrides = Overrides::default(); // such as the flags of a command
/// overrides.context = Some("a".to_owned());
/// overrides.namespace = Some("test".to_owned());
/// let config = Config::from_kubeconfig_str(text, &overrides)?;
/// assert_eq!(config.default_namespace, "test");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Overrides {
    /// The only file to read. It must exist.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use. It must exist.
    pub context: Option<String>,
    /// The cluster to use instead of the context's. It must exist.
    pub cluster: Option<String>,
    /// The user to use instead of the context's. It must exist.
    pub user: Option<String>,
    /// The namespace of requests that name none.
    pub namespace: Option<String>,
    /// Fields that replace the cluster's: server, roots, proxy and so on.
    pub cluster_info: Cluster,
    /// Fields that replace the user's: token, certificate, impersonation and so on.
    pub user_info: User,
    /// Fields for a cluster that does not set them. In a pod without a kubeconfig the pod's own
    /// cluster takes precedence.
    pub cluster_defaults: Cluster,
    /// The time limit of a request; zero and `None` mean no limit.
    pub timeout: Option<Duration>,
    /// True to send credentials in clear text to a server that is not on loopback.
    pub allow_plaintext_credentials: bool,
    /// The credential plugins that may be started.
    pub plugin_policy: PluginPolicy,
}

impl Overrides {
    /// Merges a cluster: the defaults, then the entry, then the caller's fields.
    pub(super) fn cluster(&self, entry: Option<&Cluster>) -> Cluster {
        let mut cluster = self.cluster_defaults.clone();
        if let Some(entry) = entry {
            cluster.apply(entry);
            cluster.origin.clone_from(&entry.origin);
        }
        self.apply_to_cluster(&mut cluster);
        cluster
    }

    /// Applies the caller's fields to a cluster. If they name another server, the old
    /// `tls-server-name` does not apply to it.
    pub(super) fn apply_to_cluster(&self, cluster: &mut Cluster) {
        let info = &self.cluster_info;
        cluster.apply(info);
        if given(&info.server).is_some() || given(&info.tls_server_name).is_some() {
            cluster.tls_server_name.clone_from(&info.tls_server_name);
        }
    }

    /// Applies the caller's fields to a user. A credential replaces those that exclude it, so that
    /// a token given on a command line is the token that is used.
    pub(super) fn apply_to_user(&self, user: &mut User) {
        let info = &self.user_info;
        if info.has_token() {
            (user.token, user.token_file, user.username, user.password) = (None, None, None, None);
        }
        if info.has_basic() {
            (user.token, user.token_file) = (None, None);
        }
        if given(&info.client_certificate).is_some() || given(&info.client_certificate_data).is_some() {
            (user.client_certificate, user.client_certificate_data) = (None, None);
        }
        if given(&info.client_key).is_some() || given(&info.client_key_data).is_some() {
            (user.client_key, user.client_key_data) = (None, None);
        }
        if info.exec.is_some() || info.auth_provider.is_some() {
            (user.exec, user.auth_provider) = (None, None);
        }
        user.apply(info);
    }
}

impl Cluster {
    /// Takes every field that `over` sets. The three trust settings are one unit: setting any
    /// replaces all.
    fn apply(&mut self, over: &Self) {
        overlay(&mut self.server, &over.server);
        overlay(&mut self.tls_server_name, &over.tls_server_name);
        overlay(&mut self.proxy_url, &over.proxy_url);
        self.disable_compression |= over.disable_compression;
        if over.has_trust_settings() {
            self.insecure_skip_tls_verify = over.insecure_skip_tls_verify;
            self.certificate_authority.clone_from(&over.certificate_authority);
            self.certificate_authority_data.clone_from(&over.certificate_authority_data);
        }
        apply_extensions(&mut self.extensions, &over.extensions);
        apply_fields(&mut self.other, &over.other);
    }

    /// Returns true if roots are set, or verification is off.
    pub(super) fn has_trust_settings(&self) -> bool {
        self.insecure_skip_tls_verify
            || given(&self.certificate_authority).is_some()
            || given(&self.certificate_authority_data).is_some()
    }
}

impl User {
    fn apply(&mut self, over: &Self) {
        overlay(&mut self.client_certificate, &over.client_certificate);
        overlay(&mut self.client_certificate_data, &over.client_certificate_data);
        overlay(&mut self.client_key, &over.client_key);
        overlay(&mut self.client_key_data, &over.client_key_data);
        overlay(&mut self.token, &over.token);
        overlay(&mut self.token_file, &over.token_file);
        overlay(&mut self.impersonate, &over.impersonate);
        overlay(&mut self.impersonate_uid, &over.impersonate_uid);
        if !over.impersonate_groups.is_empty() {
            self.impersonate_groups.clone_from(&over.impersonate_groups);
        }
        self.impersonate_extra.extend(over.impersonate_extra.clone());
        overlay(&mut self.username, &over.username);
        overlay(&mut self.password, &over.password);
        if over.auth_provider.is_some() {
            self.auth_provider.clone_from(&over.auth_provider);
        }
        if over.exec.is_some() {
            self.exec.clone_from(&over.exec);
        }
        apply_extensions(&mut self.extensions, &over.extensions);
        apply_fields(&mut self.other, &over.other);
    }

    /// Returns true if a bearer token is set, directly or as a file.
    pub(super) fn has_token(&self) -> bool {
        given(&self.token).is_some() || given(&self.token_file).is_some()
    }

    /// Returns true if a user name or a password is set.
    pub(super) fn has_basic(&self) -> bool {
        given(&self.username).is_some() || given(&self.password).is_some()
    }

    /// Returns true if a client certificate is set, directly or as a file.
    pub(super) fn has_certificate(&self) -> bool {
        given(&self.client_certificate).is_some() || given(&self.client_certificate_data).is_some()
    }

    /// Returns the name of this user's credential, for messages.
    pub(super) fn credential(&self) -> Option<&'static str> {
        let ways = [
            (self.has_token(), "the token"),
            (self.has_basic(), "the password"),
            (self.auth_provider.is_some() || self.exec.is_some(), "the credentials"),
            (self.has_certificate(), "the client certificate"),
        ];
        ways.into_iter().find_map(|(given, words)| given.then_some(words))
    }
}

fn apply_extensions(extensions: &mut Vec<NamedExtension>, over: &[NamedExtension]) {
    extensions.retain(|extension| over.iter().all(|new| new.name != extension.name));
    extensions.extend_from_slice(over);
}

fn apply_fields(fields: &mut OtherFields, over: &OtherFields) {
    fields.0.extend(over.0.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(yaml: &str) -> Cluster {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn user(yaml: &str) -> User {
        serde_saphyr::from_str(yaml).unwrap()
    }

    /// Applies an override to a user, and returns the user as JSON.
    fn overridden_user(entry: &str, info: &str) -> serde_json::Value {
        let overrides = Overrides { user_info: user(info), ..Overrides::default() };
        let mut entry = user(entry);
        overrides.apply_to_user(&mut entry);
        serde_json::to_value(entry).unwrap()
    }

    /// One line per rule: defaults, entry, override, result.
    #[test]
    fn kc_3_a_cluster_is_defaults_then_entry_then_override() {
        let cases = [
            ("{server: d}", "{}", "{}", "{server: d}"),
            ("{server: d}", "{server: e}", "{}", "{server: e}"),
            ("{server: d}", "{server: e}", "{server: o}", "{server: o}"),
            ("{server: d}", "{server: ''}", "{server: ''}", "{server: d}"),
            ("{}", "{proxy-url: 'http://e'}", "{proxy-url: 'http://o'}", "{proxy-url: 'http://o'}"),
            ("{}", "{}", "{disable-compression: true}", "{disable-compression: true}"),
            // The three trust settings are one unit.
            (
                "{}",
                "{certificate-authority: e}",
                "{insecure-skip-tls-verify: true}",
                "{insecure-skip-tls-verify: true}",
            ),
            (
                "{}",
                "{certificate-authority-data: e}",
                "{certificate-authority: o}",
                "{certificate-authority: o}",
            ),
            (
                "{}",
                "{insecure-skip-tls-verify: true}",
                "{certificate-authority: o}",
                "{certificate-authority: o}",
            ),
            (
                "{}",
                "{certificate-authority: e}",
                "{certificate-authority-data: o}",
                "{certificate-authority-data: o}",
            ),
            (
                "{certificate-authority: d}",
                "{insecure-skip-tls-verify: true}",
                "{}",
                "{insecure-skip-tls-verify: true}",
            ),
            // Another server has another certificate name.
            ("{}", "{server: e, tls-server-name: e}", "{server: o}", "{server: o}"),
            (
                "{}",
                "{server: e, tls-server-name: e}",
                "{tls-server-name: o}",
                "{server: e, tls-server-name: o}",
            ),
            (
                "{}",
                "{tls-server-name: e}",
                "{server: o, tls-server-name: o}",
                "{server: o, tls-server-name: o}",
            ),
            ("{}", "{server: e, tls-server-name: e}", "{}", "{server: e, tls-server-name: e}"),
            // Maps are merged key by key.
            ("{x: 1, y: 1}", "{y: 2, z: 2}", "{z: 3}", "{x: 1, y: 2, z: 3}"),
            (
                "{}",
                "{extensions: [{name: a, extension: 1}, {name: b, extension: 1}]}",
                "{extensions: [{name: a, extension: 2}]}",
                "{extensions: [{name: b, extension: 1}, {name: a, extension: 2}]}",
            ),
        ];
        for (defaults, entry, info, expected) in cases {
            let overrides = Overrides {
                cluster_defaults: cluster(defaults),
                cluster_info: cluster(info),
                ..Overrides::default()
            };
            let mut result = overrides.cluster(Some(&cluster(entry)));
            result.tls_server_name = result.tls_server_name.filter(|name| !name.is_empty());
            assert_eq!(result, cluster(expected), "{defaults} {entry} {info}");
        }
    }

    /// One line per rule: entry, override, result.
    #[test]
    fn kc_3_a_user_is_the_entry_with_the_override_laid_over_it() {
        let cases = [
            ("{token: e}", "{}", "{token: e}"),
            ("{token: e}", "{token: ''}", "{token: e}"),
            ("{token: e}", "{token: o}", "{token: o}"),
            ("{token: e, tokenFile: e}", "{token: o}", "{token: o}"),
            ("{token: e, tokenFile: e}", "{tokenFile: o}", "{tokenFile: o}"),
            ("{username: e, password: e}", "{token: o}", "{token: o}"),
            ("{username: e, password: e}", "{password: o}", "{username: e, password: o}"),
            ("{token: e}", "{username: o, password: o}", "{username: o, password: o}"),
            // A certificate from the caller replaces both forms of it.
            (
                "{client-certificate-data: e, client-key-data: e}",
                "{client-certificate: o, client-key: o}",
                "{client-certificate: o, client-key: o}",
            ),
            (
                "{client-certificate: e, client-key: e}",
                "{client-certificate-data: o, client-key-data: o}",
                "{client-certificate-data: o, client-key-data: o}",
            ),
            (
                "{client-certificate-data: e, client-key-data: e}",
                "{client-certificate: o}",
                "{client-certificate: o, client-key-data: e}",
            ),
            ("{auth-provider: {name: e, config: {}}}", "{exec: {command: o}}", "{exec: {command: o}}"),
            ("{exec: {command: e, args: [e]}}", "{exec: {command: o}}", "{exec: {command: o}}"),
            ("{as: e, as-groups: [e]}", "{as: o}", "{as: o, as-groups: [e]}"),
            ("{as: e, as-groups: [e]}", "{as-groups: [o, p]}", "{as: e, as-groups: [o, p]}"),
            (
                "{as-user-extra: {a: [e], b: [e]}}",
                "{as-user-extra: {a: [o]}}",
                "{as-user-extra: {a: [o], b: [e]}}",
            ),
        ];
        for (entry, info, expected) in cases {
            let expected = serde_json::to_value(user(expected)).unwrap();
            assert_eq!(overridden_user(entry, info), expected, "{entry} {info}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let overrides = Overrides {
            user_info: user("{token: hush, password: hush, client-key-data: hush, exec: {args: [hush]}}"),
            cluster_info: cluster("{proxy-url: 'http://me:hush@proxy', server: 'https://me:hush@host'}"),
            ..Overrides::default()
        };
        assert!(!format!("{overrides:?}").contains("hush"));
    }
}
