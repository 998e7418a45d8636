//! Merging several kubeconfigs into one (rule KC-2): the first file that defines a value wins.
//!
//! An entry is taken whole or not at all; its fields are never mixed with those of another entry of
//! the same name. Paths are resolved against the file that contains them, which is why every entry
//! records its origin.

use std::path::{Path, PathBuf};

use super::absent::{Absent as _, given};
use super::kubeconfig::{Cluster, Kubeconfig, Preferences};
use super::opaque::{Named, NamedExtension, OtherFields};
use super::user::User;

impl Kubeconfig {
    /// Adds the entries of `later` that this kubeconfig lacks. Existing entries are unchanged.
    pub fn merge(&mut self, later: Self) {
        first_wins(&mut self.api_version, later.api_version);
        first_wins(&mut self.kind, later.kind);
        first_wins(&mut self.current_context, later.current_context);
        if let Some(preferences) = later.preferences {
            self.preferences.get_or_insert_default().merge(preferences);
        }
        append(&mut self.clusters, later.clusters);
        append(&mut self.users, later.users);
        append(&mut self.contexts, later.contexts);
        append(&mut self.extensions, later.extensions);
        self.other.merge(later.other);
    }

    /// Records `file` as the origin of every entry.
    pub(super) fn set_origin(&mut self, file: &Path) {
        let origin = Some(file.to_owned());
        self.clusters.iter_mut().for_each(|entry| entry.cluster.origin.clone_from(&origin));
        self.users.iter_mut().for_each(|entry| entry.user.origin.clone_from(&origin));
        self.contexts.iter_mut().for_each(|entry| entry.context.origin.clone_from(&origin));
    }

    /// Makes relative paths absolute, each against the directory of the file that defines its
    /// entry. Entries without an origin keep their paths, which are then relative to the working
    /// directory.
    pub fn resolve_paths(&mut self) {
        self.clusters.iter_mut().for_each(|entry| entry.cluster.resolve_paths());
        self.users.iter_mut().for_each(|entry| entry.user.resolve_paths());
    }
}

impl Preferences {
    fn merge(&mut self, later: Self) {
        self.colors |= later.colors;
        append(&mut self.extensions, later.extensions);
        self.other.merge(later.other);
    }
}

impl OtherFields {
    fn merge(&mut self, later: Self) {
        for (name, value) in later.0 {
            self.0.entry(name).or_insert(value);
        }
    }
}

impl Cluster {
    fn resolve_paths(&mut self) {
        let Some(base) = directory(self.origin.as_deref()) else { return };
        resolve(&mut self.certificate_authority, &base);
    }

    /// Returns the extension of this name.
    pub(super) fn extension(&self, name: &str) -> Option<&NamedExtension> {
        self.extensions.iter().find(|extension| extension.name == name)
    }
}

impl User {
    fn resolve_paths(&mut self) {
        let Some(base) = directory(self.origin.as_deref()) else { return };
        for path in [&mut self.client_certificate, &mut self.client_key, &mut self.token_file] {
            resolve(path, &base);
        }
        let Some(command) = self.exec.as_mut().and_then(|exec| exec.command.as_mut()) else { return };
        // A bare name is looked up in PATH; only a command with a separator is a path.
        if command.contains(std::path::is_separator)
            && Path::new(command).is_relative()
            && let Some(absolute) = base.join(&*command).to_str()
        {
            *command = absolute.to_owned();
        }
    }
}

fn first_wins(slot: &mut Option<String>, later: Option<String>) {
    if slot.as_ref().is_none_or(|text| text.is_absent()) && given(&later).is_some() {
        *slot = later;
    }
}

fn append<T: Named>(entries: &mut Vec<T>, later: Vec<T>) {
    for entry in later {
        if !entries.iter().any(|known| known.name() == entry.name()) {
            entries.push(entry);
        }
    }
}

/// Returns the absolute directory of a file.
fn directory(file: Option<&Path>) -> Option<PathBuf> {
    let absolute = std::path::absolute(file?).ok()?;
    absolute.parent().map(Path::to_owned)
}

fn resolve(path: &mut Option<PathBuf>, base: &Path) {
    if let Some(path) = path.as_mut().filter(|path| !path.is_absent() && path.is_relative()) {
        *path = base.join(&*path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(yaml: &str) -> User {
        let mut config = Kubeconfig::from_yaml(&format!("users: [{{name: a, user: {yaml}}}]")).unwrap();
        config.set_origin(Path::new("/conf/kube/config"));
        config.resolve_paths();
        config.users.remove(0).user
    }

    #[test]
    fn kc_2_relative_paths_belong_to_the_directory_of_their_file() {
        let user = user("{client-certificate: c.pem, client-key: ../k.pem, tokenFile: /abs/token}");
        assert_eq!(user.client_certificate, Some("/conf/kube/c.pem".into()));
        assert_eq!(user.client_key, Some("/conf/kube/../k.pem".into()));
        assert_eq!(user.token_file, Some("/abs/token".into()));
    }

    #[test]
    fn kc_2_a_plugin_is_a_path_only_if_written_as_one() {
        let cases = [
            ("plugin", "plugin"),
            ("./plugin", "/conf/kube/./plugin"),
            ("bin/plugin", "/conf/kube/bin/plugin"),
            ("../plugin", "/conf/kube/../plugin"),
            ("/bin/plugin", "/bin/plugin"),
        ];
        for (written, resolved) in cases {
            let exec = user(&format!("{{exec: {{command: {written}}}}}")).exec.unwrap();
            assert_eq!(exec.command.as_deref(), Some(resolved), "{written}");
        }
    }

    #[test]
    fn entries_without_an_origin_keep_their_paths() {
        let mut config =
            Kubeconfig::from_yaml("clusters: [{name: a, cluster: {certificate-authority: ca.pem}}]").unwrap();
        config.resolve_paths();
        assert_eq!(config.cluster("a").unwrap().certificate_authority, Some("ca.pem".into()));
    }

    #[test]
    fn kc_2_an_empty_path_is_no_path() {
        assert_eq!(user("{tokenFile: \"\"}").token_file, Some(PathBuf::new()));
    }

    #[test]
    fn kc_2_the_first_value_that_is_not_empty_wins() {
        let mut first = Kubeconfig::from_yaml("current-context: \"\"\npreferences: {mine: 1}").unwrap();
        first.merge(
            Kubeconfig::from_yaml("current-context: b\npreferences: {colors: true, mine: 2}").unwrap(),
        );
        first.merge(Kubeconfig::from_yaml("current-context: c").unwrap());
        assert_eq!(first.current_context.as_deref(), Some("b"));
        let preferences = first.preferences.unwrap();
        assert!(preferences.colors);
        assert_eq!(preferences.other.0["mine"], 1);
    }
}
