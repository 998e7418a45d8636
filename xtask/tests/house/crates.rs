//! The dependencies between crates: they point in one direction, towards `core`, and some crates do
//! no I/O.
//!
//! The input is `cargo metadata`. A crate without a row in [`ROWS`] is itself a violation, so a new
//! crate has to be added there first.

use serde_json::Value;

/// The allowed dependencies of one crate.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Our crates it may use. Each has a row above this one.
    uses: &'static [&'static str],
    /// External crates it must not use. A name also covers its family (`hyper` covers
    /// `hyper-util`).
    never: &'static [&'static str],
    /// Our other crates that only its tests may use.
    tests_use: &'static [&'static str],
}

const IO: &[&str] = &["tokio", "hyper", "http", "rustls", "tower"];

/// The crate of our own API server, for the tests of its clients.
const APISERVER: &[&str] = &["dogwatch-apiserver"];

/// The pipeline, from the bottom up.
const ROWS: &[Row] = &[
    row("dogwatch-core", &[], IO, &[]),
    row("dogwatch-wire", &["dogwatch-core"], IO, &[]),
    row("dogwatch-apimachinery", &["dogwatch-core", "dogwatch-wire"], IO, &[]),
    row("dogwatch-workqueue", &[], &["k8s-openapi", "kube"], &[]),
    row("dogwatch-apiserver", UNDER_APISERVER, &[], &[]),
    row("dogwatch-client", &["dogwatch-core", "dogwatch-wire"], &[], APISERVER),
    row(
        "dogwatch-informer",
        &["dogwatch-core", "dogwatch-wire", "dogwatch-client"],
        &["hyper", "http"],
        APISERVER,
    ),
    // A server over the client and the reflector: the only crate that uses both sides.
    row("dogwatch-proxy", UNDER_PROXY, &[], &[]),
    // It uses HTTP only as a server: for the health, readiness and metrics endpoints of its
    // manager.
    row("dogwatch-controller", UNDER_CONTROLLER, &[], APISERVER),
    // It uses HTTP only as a server: for the API of the kubelet.
    row("dogwatch-simulator", UNDER_SIMULATOR, &[], APISERVER),
    // Servers for tests and tools. Without product crates, those can use it in their tests.
    row("grpc-testkit", &[], &["k8s-openapi", "kube"], &[]),
    row(
        "dogwatch-grpc",
        &["dogwatch-core", "dogwatch-wire", "dogwatch-client", "dogwatch-informer"],
        &[],
        &["dogwatch-apiserver", "grpc-testkit"],
    ),
    row("dogwatch-diagnostics", UNDER_DIAGNOSTICS, &[], &["dogwatch-apiserver", "dogwatch-client"]),
    // Macros: what they generate runs in other crates, they themselves only read and write tokens.
    row("dogwatch-derive", &[], &["tokio", "hyper", "http", "rustls", "tower", "k8s-openapi", "kube"], &[]),
    row("dogwatch", UNDER_FACADE, &[], APISERVER),
    row(
        "ingress-manager",
        &["dogwatch"],
        &[],
        &["dogwatch-apiserver", "dogwatch-proxy", "dogwatch-simulator"],
    ),
    row("website", &["dogwatch"], &[], &[]),
    row("informer-cost", &["dogwatch"], &[], &[]),
    row("dogwatch-cli", UNDER_CLI, &[], APISERVER),
];

/// Programs of the repository that are not published. They may use everything.
const TOOLS: &[&str] = &["xtask", "bench", "interop", "testbed", "processes", "decoder-checks", "book-tests"];

/// The server's own controllers use the work queue, which has no client.
const UNDER_APISERVER: &[&str] =
    &["dogwatch-core", "dogwatch-wire", "dogwatch-workqueue", "dogwatch-apimachinery"];

const UNDER_PROXY: &[&str] = &[
    "dogwatch-core",
    "dogwatch-wire",
    "dogwatch-apimachinery",
    "dogwatch-apiserver",
    "dogwatch-client",
    "dogwatch-informer",
];

const UNDER_CONTROLLER: &[&str] =
    &["dogwatch-core", "dogwatch-wire", "dogwatch-client", "dogwatch-informer", "dogwatch-workqueue"];

const UNDER_SIMULATOR: &[&str] = &[
    "dogwatch-core",
    "dogwatch-wire",
    "dogwatch-client",
    "dogwatch-informer",
    "dogwatch-workqueue",
    "dogwatch-controller",
];

const UNDER_DIAGNOSTICS: &[&str] =
    &["dogwatch-core", "dogwatch-informer", "dogwatch-workqueue", "dogwatch-controller", "dogwatch-grpc"];

const UNDER_FACADE: &[&str] = &[
    "dogwatch-core",
    "dogwatch-wire",
    "dogwatch-apiserver",
    "dogwatch-client",
    "dogwatch-informer",
    "dogwatch-workqueue",
    "dogwatch-controller",
    "dogwatch-simulator",
    "dogwatch-grpc",
    "dogwatch-diagnostics",
    "dogwatch-derive",
];

/// The command uses the facade, the server and the simulator that the facade does not re-export,
/// with the rules below them, and the example that its demo shows.
const UNDER_CLI: &[&str] = &[
    "dogwatch",
    "dogwatch-apimachinery",
    "dogwatch-apiserver",
    "dogwatch-proxy",
    "dogwatch-simulator",
    "informer-cost",
    "ingress-manager",
];

const fn row(
    name: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Row {
    Row { name, uses, never, tests_use }
}

/// Returns every dependency in the wrong direction, given the output of `cargo metadata --no-deps`.
pub(crate) fn violations(metadata: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    for package in list(metadata, "packages") {
        let name = text(package, "name");
        if TOOLS.contains(&name) {
            continue;
        }
        let Some(row) = ROWS.iter().find(|it| it.name == name) else {
            violations
                .push(format!("{name} is not in the layer order: add a row to xtask/tests/house/crates.rs"));
            continue;
        };
        for dependency in list(package, "dependencies") {
            let (used, test_only) = (text(dependency, "name"), text(dependency, "kind") == "dev");
            if is_ours(used) {
                let for_tests = test_only && row.tests_use.contains(&used);
                // A crate may turn on its own features for its tests.
                let itself = test_only && used == name;
                if !row.uses.contains(&used) && !for_tests && !itself {
                    violations.push(format!("{name} depends on {used}, which is not below it"));
                }
            } else if row.never.iter().any(|it| is_of_family(used, it)) {
                violations.push(format!("{name} depends on {used}, which is not allowed there"));
            }
        }
    }
    violations
}

fn is_ours(name: &str) -> bool {
    TOOLS.contains(&name) || ROWS.iter().any(|it| it.name == name)
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the array under `key`, or an empty one.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the string under `key`, or an empty one.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, used: &str, kind: Option<&str>) -> Vec<String> {
        let dependencies = json!([{ "name": used, "kind": kind }]);
        violations(&json!({ "packages": [{ "name": name, "dependencies": dependencies }] }))
    }

    #[test]
    fn each_row_uses_only_rows_above_it() {
        for (place, row) in ROWS.iter().enumerate() {
            for used in row.uses.iter().chain(row.tests_use) {
                assert!(ROWS[..place].iter().any(|it| it.name == *used), "{} uses {used}", row.name);
            }
        }
    }

    #[test]
    fn a_dependency_on_a_lower_crate_is_accepted() {
        assert_eq!(found("dogwatch-client", "dogwatch-wire", None), [] as [&str; 0]);
        assert_eq!(found("xtask", "dogwatch", None), [] as [&str; 0]);
    }

    #[test]
    fn a_dependency_on_a_higher_crate_is_reported_even_for_tests() {
        for kind in [None, Some("dev"), Some("build")] {
            let expected = ["dogwatch-wire depends on dogwatch-client, which is not below it"];
            assert_eq!(found("dogwatch-wire", "dogwatch-client", kind), expected);
        }
    }

    #[test]
    fn the_server_and_the_client_do_not_depend_on_each_other_outside_tests() {
        assert_eq!(found("dogwatch-apiserver", "dogwatch-client", Some("dev")).len(), 1);
        assert_eq!(found("dogwatch-client", "dogwatch-apiserver", None).len(), 1);
        assert_eq!(found("dogwatch-client", "dogwatch-apiserver", Some("dev")), [] as [&str; 0]);
    }

    #[test]
    fn the_servers_for_tests_are_used_only_by_tests_and_tools() {
        assert_eq!(found("dogwatch-grpc", "grpc-testkit", None).len(), 1);
        assert_eq!(found("dogwatch-grpc", "grpc-testkit", Some("dev")), [] as [&str; 0]);
        assert_eq!(found("bench", "grpc-testkit", None), [] as [&str; 0]);
        assert_eq!(found("grpc-testkit", "dogwatch-core", None).len(), 1);
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
    fn a_crate_without_a_row_is_reported() {
        assert_eq!(found("dogwatch-new", "serde", None).len(), 1);
    }
}
