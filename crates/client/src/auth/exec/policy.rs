//! The plugin policy. An error in the policy is reported, and never treated as a permission.

use std::ffi::OsStr;
use std::path::Path;

use super::lookup::{clean, look_path};
use crate::auth::error::AuthError;
use crate::config::PluginPolicy;

/// Rejects an allowlist that is empty or has entries that could never match.
pub(super) fn check(policy: &PluginPolicy) -> Result<(), AuthError> {
    let PluginPolicy::Allowlist(commands) = policy else { return Ok(()) };
    let misconfigured = |what: String| Err(AuthError::Misconfigured(format!("the plugin allowlist {what}")));
    if commands.is_empty() {
        return misconfigured("is empty: to allow no plugin, use DenyAll".to_owned());
    }
    for command in commands {
        if command.is_empty() {
            return misconfigured("has an empty entry".to_owned());
        }
        let cleaned = clean(command);
        if cleaned.as_os_str() != OsStr::new(command) {
            return misconfigured(format!("has the entry `{command}`: write it as `{}`", cleaned.display()));
        }
    }
    Ok(())
}

/// Returns the reason if the policy denies every plugin; needs no program lookup.
pub(super) fn forbids_all(policy: &PluginPolicy) -> Option<&'static str> {
    matches!(policy, PluginPolicy::DenyAll).then_some("the plugin policy denies all plugins")
}

/// Checks that the policy permits `command`, a cleaned path or name, whose program is `program`.
///
/// An entry matches the command, the path of its program, or by resolving to the same program: a
/// bare name in the list never admits a program of that name in another directory. The caller must
/// start exactly `program`: the path as written before cleaning may lead to another file, through a
/// symbolic link.
pub(super) fn permits(
    policy: &PluginPolicy,
    command: &Path,
    program: &Path,
    search: Option<&OsStr>,
) -> Result<(), &'static str> {
    match policy {
        PluginPolicy::AllowAll => Ok(()),
        PluginPolicy::DenyAll => Err("the plugin policy denies all plugins"),
        PluginPolicy::Allowlist(entries) => {
            let listed = entries.iter().any(|entry| {
                Path::new(entry) == command
                    || Path::new(entry) == program
                    || (Path::new(entry).file_name() == program.file_name()
                        && look_path(entry, search).is_some_and(|found| found == program))
            });
            if listed { Ok(()) } else { Err("it is not on the plugin allowlist") }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> PluginPolicy {
        PluginPolicy::Allowlist(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    #[test]
    fn au_3_an_empty_or_unnormalised_allowlist_is_an_error() {
        let cases = [
            (list(&["aws"]), true),
            (list(&["/usr/bin/aws"]), true),
            (list(&[]), false),
            (list(&["aws", ""]), false),
            (list(&["./aws"]), false),
            (list(&["/usr//bin/aws"]), false),
            (list(&["/usr/bin/../aws"]), false),
            (list(&["bin/"]), false),
            (PluginPolicy::AllowAll, true),
            (PluginPolicy::DenyAll, true),
        ];
        for (policy, expected) in cases {
            assert_eq!(check(&policy).is_ok(), expected, "{policy:?}");
        }
    }

    #[test]
    fn au_3_a_plugin_runs_only_if_the_policy_permits_it() {
        let search = Some(OsStr::new("/usr/bin:/bin"));
        let sh = look_path("sh", search).expect("every Unix has a shell");
        let path = sh.to_str().unwrap();
        let cases = [
            (PluginPolicy::AllowAll, "sh", true),
            (PluginPolicy::DenyAll, "sh", false),
            (list(&["sh"]), "sh", true),
            (list(&[path]), "sh", true),
            (list(&["sh"]), path, true),
            (list(&["bash", path]), path, true),
            (list(&["bash"]), "sh", false),
            (list(&["/opt/sh"]), "sh", false),
        ];
        for (policy, command, expected) in cases {
            let program = look_path(command, search).unwrap();
            let found = permits(&policy, Path::new(command), &program, search).is_ok();
            assert_eq!(found, expected, "{policy:?} {command}");
        }
        // The same name in another directory is another program.
        let evil = Path::new("/opt/evil/sh");
        assert!(permits(&list(&["sh"]), evil, evil, search).is_err());
    }
}
