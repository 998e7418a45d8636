//! Refreshed tokens, written back into the kubeconfig they came from.
//!
//! Many identity providers void a refresh-token when it is used. Tokens that only this process knows would log every
//! other user of the file out, kubectl included; client-go writes them back for the same reason
//! (`rest.AuthProviderConfigPersister`).
//!
//! Only the tokens change: they are replaced in the text, so that comments, order and anchors stay. The result is parsed
//! before it replaces the file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};

use super::fetch::{RefreshedTokens, TokenStore};
use crate::body::BoxError;
use crate::config::{AuthProvider, Kubeconfig};

/// How often the lock of another process is looked at, and the pause after each look: five seconds in all.
const LOCK_LOOKS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Writes tokens into a kubeconfig.
pub(super) struct KubeconfigTokens {
    file: PathBuf,
    /// The tokens that stand in the file: what is replaced next.
    written: Arc<Mutex<Written>>,
}

#[derive(Clone)]
struct Written {
    id_token: Option<SecretString>,
    refresh_token: SecretString,
}

impl KubeconfigTokens {
    /// `None` for a provider that was not read from a file, or that has no refresh-token.
    pub(super) fn of(provider: &AuthProvider) -> Option<Self> {
        let option = |name: &str| provider.config.get(name).filter(|it| !it.is_empty());
        let written = Written {
            id_token: option("id-token").map(|it| SecretString::from(it.as_str())),
            refresh_token: SecretString::from(option("refresh-token")?.as_str()),
        };
        Some(Self { file: provider.origin.clone()?, written: Arc::new(Mutex::new(written)) })
    }
}

impl TokenStore for KubeconfigTokens {
    fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>> {
        let (file, written) = (self.file.clone(), Arc::clone(&self.written));
        Box::pin(async move {
            let write = move || {
                let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
                let next = Written {
                    id_token: written.id_token.as_ref().map(|_| tokens.id_token.clone()),
                    refresh_token: tokens.refresh_token.clone(),
                };
                replace_tokens(&file, &written, &next)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
                *written = next;
                Ok(())
            };
            tokio::task::spawn_blocking(write).await?
        })
    }
}

fn replace_tokens(file: &Path, old: &Written, new: &Written) -> io::Result<()> {
    // A link stays a link: what it leads to is replaced.
    let file = fs::canonicalize(file)?;
    let _lock = LockFile::take(&file)?;
    let text = fs::read_to_string(&file)?;
    let mut replaced = replace(&text, &old.refresh_token, &new.refresh_token)?;
    if let (Some(old), Some(new)) = (&old.id_token, &new.id_token) {
        replaced = replace(&replaced, old, new)?;
    }
    if replaced == text {
        return Ok(());
    }
    if !holds(&replaced, &new.refresh_token) {
        return Err(io::Error::other("the new tokens cannot be written in place of the old ones"));
    }
    write_beside_and_rename(&file, &replaced)
}

/// Replaces a token wherever it stands, in every user that has it.
fn replace(text: &str, old: &SecretString, new: &SecretString) -> io::Result<String> {
    let (old, new) = (old.expose_secret(), new.expose_secret());
    let plain = |it: char| it.is_ascii_alphanumeric() || "._~+/=-".contains(it);
    if !text.contains(old) {
        return Err(io::Error::other("it no longer holds the tokens that were read from it; log in again"));
    }
    if !new.contains(|it| !plain(it)) || old == new {
        return Ok(text.replace(old, new));
    }
    Err(io::Error::other("the new token has characters that cannot be written in place of the old one"))
}

/// Returns true when the text is a kubeconfig with a user that has this refresh-token.
fn holds(text: &str, refresh_token: &SecretString) -> bool {
    let Ok(kubeconfig) = Kubeconfig::from_yaml(text) else { return false };
    let providers = kubeconfig.users.iter().filter_map(|it| it.user.auth_provider.as_ref());
    providers
        .filter_map(|it| it.config.get("refresh-token"))
        .any(|it| it.as_str() == refresh_token.expose_secret())
}

/// Replaces the file in one step: a reader sees the old one or the new one, with the permissions it had.
fn write_beside_and_rename(file: &Path, text: &str) -> io::Result<()> {
    let beside = beside(file, &format!(".{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut new = options.open(&beside)?;
        new.write_all(text.as_bytes())?;
        new.set_permissions(fs::metadata(file)?.permissions())?;
        new.sync_all()?;
        fs::rename(&beside, file)
    };
    let written = write();
    if written.is_err() {
        // What cannot be written can often not be removed either; the first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// The lock that client-go takes to write a kubeconfig: a file of its name with `.lock` behind it.
struct LockFile(PathBuf);

impl LockFile {
    fn take(file: &Path) -> io::Result<Self> {
        let lock = beside(file, ".lock");
        let mut looks = 0;
        loop {
            looks += 1;
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && looks < LOCK_LOOKS => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(error) => {
                    let message = format!("cannot take the lock {}: {error}", lock.display());
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const FILE: &str = "# mine\napiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    auth-provider:\n      name: oidc\n      config:\n        id-token: old.id.token # short\n        refresh-token: \"old-refresh\"\n        idp-issuer-url: https://issuer.test\n";

    fn tokens(id: &str, refresh: &str) -> RefreshedTokens {
        RefreshedTokens { id_token: id.into(), refresh_token: refresh.into() }
    }

    fn store(file: &Path) -> KubeconfigTokens {
        let config = [("id-token", "old.id.token"), ("refresh-token", "old-refresh")];
        let config = BTreeMap::from(config.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let provider = AuthProvider { name: "oidc".to_owned(), config, origin: Some(file.to_owned()) };
        KubeconfigTokens::of(&provider).expect("a file and a refresh-token")
    }

    #[tokio::test]
    async fn au_4_only_the_tokens_change_and_comments_stay() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        fs::write(&file, FILE).unwrap();
        let store = store(&file);
        for (id, refresh) in [("a.b.c", "next-1"), ("d.e.f", "next-2")] {
            store.store(tokens(id, refresh)).await.unwrap();
            let expected = FILE.replace("old.id.token", id).replace("old-refresh", refresh);
            assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn au_4_permissions_and_links_stay() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("config"), directory.path().join("link"));
        fs::write(&file, FILE).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        store(&link).store(tokens("a.b.c", "next")).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[tokio::test]
    async fn au_4_a_file_that_changed_meanwhile_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        for (text, next) in [(FILE.replace("old-refresh", "newer"), "next"), (FILE.to_owned(), "a: [b")] {
            fs::write(&file, &text).unwrap();
            let error = store(&file).store(tokens("a.b.c", next)).await.unwrap_err().to_string();
            assert!(error.contains("config"), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
