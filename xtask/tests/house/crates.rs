//! Crates depend on each other in one direction, towards `core`, and some stay free of I/O.
//!
//! Reads what `cargo metadata` says of the manifests. A crate without a row in [`ROWS`] is itself a breach, so a new crate
//! has to be given its place first.

use serde_json::Value;

/// What one crate may lean on.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Our crates it may use. Each stands in a row above this one.
    uses: &'static [&'static str],
    /// Crates of others that must not be here; a name also covers its family (`hyper` covers `hyper-util`).
    never: &'static [&'static str],
    /// Whether its tests may run against our own API server.
    tested_on_apiserver: bool,
}

const IO: &[&str] = &["tokio", "hyper", "http", "rustls", "tower"];

/// The pipeline, from the bottom up.
const ROWS: &[Row] = &[
    row("dogwatch-core", &[], IO, false),
    row("dogwatch-wire", &["dogwatch-core"], IO, false),
    row("dogwatch-apiserver", &["dogwatch-core", "dogwatch-wire"], &[], false),
    row("dogwatch-client", &["dogwatch-core", "dogwatch-wire"], &[], true),
    row(
        "dogwatch-informer",
        &["dogwatch-core", "dogwatch-wire", "dogwatch-client"],
        &["hyper", "http"],
        true,
    ),
    row("dogwatch-workqueue", &[], &["k8s-openapi", "kube"], false),
    // It speaks HTTP only as a server: for the health, readiness and metrics endpoints of its manager.
    row("dogwatch-controller", UNDER_CONTROLLER, &[], true),
    row(
        "dogwatch-grpc",
        &["dogwatch-core", "dogwatch-wire", "dogwatch-client", "dogwatch-informer"],
        &[],
        true,
    ),
    // Macros: what they generate runs in other crates, they themselves only read and write tokens.
    row("dogwatch-derive", &[], &["tokio", "hyper", "http", "rustls", "tower", "k8s-openapi", "kube"], false),
    row("dogwatch", UNDER_FACADE, &[], true),
    row("ingress-manager", &["dogwatch"], &[], true),
    row("dogwatch-cli", UNDER_CLI, &[], true),
];

/// Programs of the repository that are never shipped; they may use everything.
const TOOLS: &[&str] = &["xtask", "bench", "interop", "testbed", "processes"];

const UNDER_CONTROLLER: &[&str] =
    &["dogwatch-core", "dogwatch-wire", "dogwatch-client", "dogwatch-informer", "dogwatch-workqueue"];

const UNDER_FACADE: &[&str] = &[
    "dogwatch-core",
    "dogwatch-wire",
    "dogwatch-apiserver",
    "dogwatch-client",
    "dogwatch-informer",
    "dogwatch-workqueue",
    "dogwatch-controller",
    "dogwatch-grpc",
    "dogwatch-derive",
];

/// The command leans on the facade, on the server that the facade does not hand out, and on the example that its demo shows.
const UNDER_CLI: &[&str] = &["dogwatch", "dogwatch-apiserver", "ingress-manager"];

const fn row(
    name: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static str],
    tested_on_apiserver: bool,
) -> Row {
    Row { name, uses, never, tested_on_apiserver }
}

/// Every dependency that points the wrong way, given the output of `cargo metadata --no-deps`.
pub(crate) fn breaches(metadata: &Value) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in list(metadata, "packages") {
        let name = text(package, "name");
        if TOOLS.contains(&name) {
            continue;
        }
        let Some(row) = ROWS.iter().find(|it| it.name == name) else {
            breaches.push(format!(
                "{name} has no place in the pipeline: give it a row in xtask/tests/house/crates.rs"
            ));
            continue;
        };
        for dependency in list(package, "dependencies") {
            let (used, test_only) = (text(dependency, "name"), text(dependency, "kind") == "dev");
            if is_ours(used) {
                let for_tests = test_only && row.tested_on_apiserver && used == "dogwatch-apiserver";
                if !row.uses.contains(&used) && !for_tests {
                    breaches.push(format!("{name} depends on {used}, which is not below it"));
                }
            } else if row.never.iter().any(|it| is_of_family(used, it)) {
                breaches.push(format!("{name} depends on {used}, which has no business there"));
            }
        }
    }
    breaches
}

fn is_ours(name: &str) -> bool {
    TOOLS.contains(&name) || is_of_family(name, "dogwatch")
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The array under `key`, empty where there is none.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The string under `key`, empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, used: &str, kind: Option<&str>) -> Vec<String> {
        let dependencies = json!([{ "name": used, "kind": kind }]);
        breaches(&json!({ "packages": [{ "name": name, "dependencies": dependencies }] }))
    }

    #[test]
    fn each_row_uses_only_rows_above_it() {
        for (place, row) in ROWS.iter().enumerate() {
            for used in row.uses {
                assert!(ROWS[..place].iter().any(|it| it.name == *used), "{} uses {used}", row.name);
            }
        }
    }

    #[test]
    fn a_dependency_on_something_below_is_fine() {
        assert_eq!(found("dogwatch-client", "dogwatch-wire", None), [] as [&str; 0]);
        assert_eq!(found("xtask", "dogwatch", None), [] as [&str; 0]);
    }

    #[test]
    fn a_dependency_on_something_above_is_told_even_for_tests_only() {
        for kind in [None, Some("dev"), Some("build")] {
            let expected = ["dogwatch-wire depends on dogwatch-client, which is not below it"];
            assert_eq!(found("dogwatch-wire", "dogwatch-client", kind), expected);
        }
    }

    #[test]
    fn the_server_and_the_client_never_meet_outside_tests() {
        assert_eq!(found("dogwatch-apiserver", "dogwatch-client", Some("dev")).len(), 1);
        assert_eq!(found("dogwatch-client", "dogwatch-apiserver", None).len(), 1);
        assert_eq!(found("dogwatch-client", "dogwatch-apiserver", Some("dev")), [] as [&str; 0]);
    }

    #[test]
    fn the_lower_crates_do_no_io() {
        for used in ["tokio", "tokio-util", "hyper", "http"] {
            assert_eq!(found("dogwatch-core", used, None).len(), 1, "{used}");
            assert_eq!(found("dogwatch-wire", used, Some("dev")).len(), 1, "{used}");
        }
        assert_eq!(found("dogwatch-wire", "httparse", None), [] as [&str; 0]);
    }

    #[test]
    fn a_crate_without_a_place_is_told() {
        assert_eq!(found("dogwatch-new", "serde", None).len(), 1);
    }
}
