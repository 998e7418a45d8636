//! Writing refreshed tokens back into the kubeconfig that they came from.
//!
//! Many identity providers invalidate a refresh-token when it is used. Tokens that only this
//! process knows would log out every other user of the file, including kubectl; client-go writes
//! them back for the same reason (`rest.AuthProviderConfigPersister`).
//!
//! Only the tokens change: they are replaced in the text, so that comments, order and anchors stay.
//! The result is parsed before it replaces the file, and must differ only in the tokens. A
//! read-only file is not changed.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};

use super::fetch::{RefreshedTokens, TokenStore};
use super::jwt;
use crate::body::BoxError;
use crate::config::{AuthProvider, Kubeconfig};

/// The number of attempts to take the lock file, and the pause after each: five seconds in all.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A token store that writes into a kubeconfig.
pub(super) struct KubeconfigTokens {
    file: PathBuf,
    /// The login of the entry; `None` if the entry lacks the fields that identify it.
    login: Option<Login>,
    /// The tokens that are in the file, to be replaced next.
    written: Arc<Mutex<StoredTokens>>,
}

/// The fields of a user entry that stay the same when its tokens are refreshed.
#[derive(Clone, PartialEq)]
struct Login {
    issuer: String,
    client_id: String,
    /// The subject of the id-token. Another user who logs in with the same entry has another
    /// subject.
    subject: String,
}

impl Login {
    /// Returns `None` if the id-token has no subject.
    fn of(options: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            issuer: options.get("idp-issuer-url")?.clone(),
            client_id: options.get("client-id")?.clone(),
            subject: jwt::subject(options.get("id-token")?)?,
        })
    }
}

#[derive(Clone)]
struct StoredTokens {
    id_token: Option<SecretString>,
    refresh_token: SecretString,
}

impl KubeconfigTokens {
    /// Returns `None` for a provider that was not read from a file, or that has no refresh-token.
    pub(super) fn of(provider: &AuthProvider) -> Option<Self> {
        let option = |name: &str| provider.config.get(name).filter(|it| !it.is_empty());
        let written = StoredTokens {
            id_token: option("id-token").map(|it| SecretString::from(it.as_str())),
            refresh_token: SecretString::from(option("refresh-token")?.as_str()),
        };
        // A relative path must not depend on later changes of the working directory.
        let file = std::path::absolute(provider.origin.as_ref()?).ok()?;
        let login = Login::of(&provider.config);
        Some(Self { file, login, written: Arc::new(Mutex::new(written)) })
    }
}

impl TokenStore for KubeconfigTokens {
    fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>> {
        let (file, written) = (self.file.clone(), Arc::clone(&self.written));
        Box::pin(async move {
            let write = move || {
                let mut written = written.lock();
                let next = StoredTokens {
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

    fn load(&self) -> BoxFuture<'static, Option<RefreshedTokens>> {
        let (file, login, written) = (self.file.clone(), self.login.clone(), Arc::clone(&self.written));
        Box::pin(async move {
            let read = move || {
                let found = find_tokens(&fs::read_to_string(file).ok()?, &login?)?;
                *written.lock() = StoredTokens {
                    id_token: Some(found.id_token.clone()),
                    refresh_token: found.refresh_token.clone(),
                };
                Some(found)
            };
            tokio::task::spawn_blocking(read).await.ok().flatten()
        })
    }
}

/// Returns the tokens of a login in the text of a kubeconfig; `None` unless all entries of the
/// login have the same tokens.
fn find_tokens(text: &str, login: &Login) -> Option<RefreshedTokens> {
    let kubeconfig = Kubeconfig::from_yaml(text).ok()?;
    let providers = kubeconfig.users.iter().filter_map(|it| it.user.auth_provider.as_ref());
    let mut found = providers
        .filter(|it| it.name == "oidc" && Login::of(&it.config).as_ref() == Some(login))
        .filter_map(|it| Some((it.config.get("id-token")?, it.config.get("refresh-token")?)))
        .filter(|(_, refresh)| !refresh.is_empty());
    let (id, refresh) = found.next()?;
    found.all(|it| it == (id, refresh)).then(|| RefreshedTokens {
        id_token: SecretString::from(id.as_str()),
        refresh_token: SecretString::from(refresh.as_str()),
    })
}

fn replace_tokens(file: &Path, old: &StoredTokens, new: &StoredTokens) -> io::Result<()> {
    if fs::metadata(file)?.permissions().readonly() {
        let problem = "the file is read-only; log in again with a writable kubeconfig";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    // The lock's name comes from the path as given, even if that is a symbolic link, as in
    // client-go.
    let _lock = LockFile::take(file)?;
    // A symbolic link is kept: its target is replaced.
    let file = fs::canonicalize(file)?;
    let text = fs::read_to_string(&file)?;
    let mut replaced = replace(&text, &old.refresh_token, &new.refresh_token)?;
    if let (Some(old), Some(new)) = (&old.id_token, &new.id_token) {
        replaced = replace(&replaced, old, new)?;
    }
    if replaced == text {
        return Ok(());
    }
    if !differs_by_tokens(&text, &replaced, old, new) {
        return Err(io::Error::other("the new tokens cannot replace the old ones"));
    }
    replace_or_overwrite(&file, &replaced, |from, to| fs::rename(from, to))
}

/// Replaces a token wherever it is a whole word, in every user that has it.
fn replace(text: &str, old: &SecretString, new: &SecretString) -> io::Result<String> {
    let (old, new) = (old.expose_secret(), new.expose_secret());
    let plain = |it: char| it.is_ascii_alphanumeric() || "._~+/=-".contains(it);
    if new.contains(|it| !plain(it)) && old != new {
        let problem = "the new token has characters that cannot replace the old one";
        return Err(io::Error::other(problem));
    }
    let (mut replaced, mut done) = (String::with_capacity(text.len()), 0);
    for (at, found) in text.match_indices(old) {
        let end = at + found.len();
        if !text[..at].ends_with(plain) && !text[end..].starts_with(plain) {
            replaced.push_str(&text[done..at]);
            replaced.push_str(new);
            done = end;
        }
    }
    if done == 0 {
        return Err(io::Error::other(
            "the file no longer contains the tokens that were read from it; log in again",
        ));
    }
    replaced.push_str(&text[done..]);
    Ok(replaced)
}

/// Returns true if both texts are kubeconfigs that differ only in the tokens of their users.
///
/// A short token may also be the name of a user, or any other word.
fn differs_by_tokens(before: &str, after: &str, old: &StoredTokens, new: &StoredTokens) -> bool {
    let (Ok(mut before), Ok(after)) = (Kubeconfig::from_yaml(before), Kubeconfig::from_yaml(after)) else {
        return false;
    };
    let mut change = |name: &str, old: &SecretString, new: &SecretString| {
        let providers = before.users.iter_mut().filter_map(|it| it.user.auth_provider.as_mut());
        let mut changed = false;
        for value in providers.filter_map(|it| it.config.get_mut(name)) {
            if value == old.expose_secret() {
                new.expose_secret().clone_into(value);
                changed = true;
            }
        }
        changed
    };
    let changed = change("refresh-token", &old.refresh_token, &new.refresh_token);
    if let (Some(old), Some(new)) = (&old.id_token, &new.id_token) {
        change("id-token", old, new);
    }
    changed && matches!((before.to_yaml(), after.to_yaml()), (Ok(before), Ok(after)) if before == after)
}

/// Replaces the file atomically if possible, and overwrites it otherwise.
fn replace_or_overwrite(
    file: &Path,
    text: &str,
    rename: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ResourceBusy};
    match replace_file(file, text, rename) {
        // A file that is a mount point, or a file of another owner that is merely writable, cannot
        // be replaced. client-go always overwrites the file.
        Err(error) if matches!(error.kind(), CrossesDevices | PermissionDenied | ResourceBusy) => {
            let mut file = OpenOptions::new().write(true).open(file)?;
            // The file is truncated afterwards, so that it is never empty: the old text is nearly
            // as long as the new one.
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)?;
            file.sync_all()
        }
        result => result,
    }
}

/// Replaces the file atomically: a reader sees the old or the new content, and owner and
/// permissions are kept.
fn replace_file(file: &Path, text: &str, rename: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let temporary = sibling(file, &format!(".{}", std::process::id()));
    // An earlier process with this id may have left one behind; this process holds the lock.
    let _ = fs::remove_file(&temporary);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let was = fs::metadata(file)?;
        let mut new = options.open(&temporary)?;
        new.write_all(text.as_bytes())?;
        keep_owner(&new, &was)?;
        new.set_permissions(was.permissions())?;
        new.sync_all()?;
        rename(&temporary, file)
    };
    let written = write();
    if written.is_err() {
        // If writing fails, removing often fails too; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Gives the new file to the owner of the old one: root must not take over a user's file.
#[cfg(unix)]
fn keep_owner(new: &File, was: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is = new.metadata()?;
    if (is.uid(), is.gid()) == (was.uid(), was.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(new, Some(was.uid()), Some(was.gid()))
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The lock file that client-go takes to write a kubeconfig: the kubeconfig's name with `.lock`
/// appended (`lockFile` in client-go v0.36.4 `tools/clientcmd/config.go`).
struct LockFile(PathBuf);

impl LockFile {
    fn take(file: &Path) -> io::Result<Self> {
        let lock = sibling(file, ".lock");
        let mut attempts = 0;
        loop {
            attempts += 1;
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < LOCK_ATTEMPTS => {
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

fn sibling(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left behind");
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

    /// A short token may be part of other words of the file, or equal one of them.
    #[tokio::test]
    async fn au_4_nothing_but_the_tokens_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        for (refresh, fits) in [("issuer", true), ("e", true), ("oidc", false), ("users", false)] {
            let text = FILE.replace("old-refresh", refresh);
            fs::write(&file, &text).unwrap();
            let config = [("id-token", "old.id.token"), ("refresh-token", refresh)];
            let config = BTreeMap::from(config.map(|(key, value)| (key.to_owned(), value.to_owned())));
            let provider = AuthProvider { name: "oidc".to_owned(), config, origin: Some(file.clone()) };
            let store = KubeconfigTokens::of(&provider).expect("a file and a refresh-token");
            assert_eq!(store.store(tokens("a.b.c", "next")).await.is_ok(), fits, "{refresh}");
            let next = FILE.replace("old-refresh", "next").replace("old.id.token", "a.b.c");
            assert_eq!(fs::read_to_string(&file).unwrap(), if fits { next } else { text }, "{refresh}");
        }
    }

    #[tokio::test]
    async fn au_4_a_file_that_is_marked_read_only_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        fs::write(&file, FILE).unwrap();
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).unwrap();
        let error = store(&file).store(tokens("a.b.c", "next")).await.unwrap_err().to_string();
        assert!(error.contains("read-only"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), FILE);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left behind");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn au_4_the_file_keeps_its_owner() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        fs::write(&file, FILE).unwrap();
        // Only root may change the owner of a file.
        if std::os::unix::fs::chown(&file, Some(4321), Some(4322)).is_err() {
            return;
        }
        store(&file).store(tokens("a.b.c", "next")).await.unwrap();
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (4321, 4322));
        assert!(fs::read_to_string(&file).unwrap().contains("next"));
    }

    /// A file that is a mount point cannot be replaced.
    #[test]
    fn au_4_a_file_that_cannot_be_replaced_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        fs::write(&file, FILE).unwrap();
        replace_or_overwrite(&file, "shorter", |_, _| Err(io::ErrorKind::ResourceBusy.into())).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "shorter");
        replace_or_overwrite(&file, "other", |_, _| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "shorter");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left behind");
    }
}
