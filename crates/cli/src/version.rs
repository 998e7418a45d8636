//! The version of the command: of the crate, its git commit if it was built from a checkout, and
//! the Kubernetes version of its API server.

use std::sync::LazyLock;

use dogwatch_apiserver::KUBERNETES_VERSION;

const CRATE: &str = env!("CARGO_PKG_VERSION");
/// Set by the build script in a checkout.
const COMMIT: Option<&str> = option_env!("DOGWATCH_COMMIT");
/// The number of digits by which people name a commit.
const ABBREVIATED: usize = 12;

/// Returns the version on one line, for `-V`.
pub(crate) fn short() -> &'static str {
    static SHORT: LazyLock<String> = LazyLock::new(|| one_line(COMMIT));
    &SHORT
}

/// Returns the version with a line for each part, for `--version`.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| lines(COMMIT));
    &LONG
}

fn one_line(commit: Option<&str>) -> String {
    match commit.map(|it| it.get(..ABBREVIATED).unwrap_or(it)) {
        Some(commit) => format!("{CRATE} (commit {commit}, Kubernetes {KUBERNETES_VERSION})"),
        None => format!("{CRATE} (Kubernetes {KUBERNETES_VERSION})"),
    }
}

fn lines(commit: Option<&str>) -> String {
    let commit = commit.unwrap_or("unknown (not built from a git checkout)");
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{CRATE}\ncommit:     {commit}\nbuild:      {build}, {system}/{machine}\n\
         kubernetes: {KUBERNETES_VERSION} (the API that `dogwatch serve` implements)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_version_is_one_line_with_or_without_a_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(
            one_line(Some(commit)),
            format!("{CRATE} (commit 0123456789ab, Kubernetes {KUBERNETES_VERSION})")
        );
        assert_eq!(one_line(None), format!("{CRATE} (Kubernetes {KUBERNETES_VERSION})"));
    }

    #[test]
    fn the_long_version_has_the_whole_commit_or_says_that_there_is_none() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert!(lines(Some(commit)).contains(&format!("\ncommit:     {commit}\n")));
        assert!(lines(None).contains("not built from a git checkout"));
    }
}
