//! What of the suites cannot pass on any server that is there before them, with the reason.
//!
//! Nothing stands here because our server falls short, except where the reason says so.

/// Packages that test how etcd and kube-apiserver are started, whatever USE_EXISTING_CLUSTER says.
const PACKAGES: [(&str, &str); 1] = [(
    "pkg/internal/testing/controlplane",
    "it starts etcd and kube-apiserver itself, to test how it does so",
)];

/// Tests, by package and a part of their names.
const TESTS: [(&str, &str, &str); 3] = [
    (
        "pkg/cache",
        "to be cancelled",
        "it takes for granted that no server answers before a busy Go program has gone on; ours does now and then",
    ),
    (
        "pkg/client/apiutil",
        "TestLazyRestMapperProvider/aggregatedDiscovery=false",
        "it is about a Kubernetes 1.28 with a feature switched off, which it would download and start",
    ),
    (
        "pkg/metrics/filters",
        "manger.Manager Start should start serving metrics with https and authn/authz [It] should serve extra endpoints",
        "it is about an authorizer: on our server whoever is let in may do everything",
    ),
];

/// Why a package is left out, if it is.
pub(super) fn package(path: &str) -> Option<&'static str> {
    PACKAGES.into_iter().find(|(it, _)| *it == path).map(|(_, why)| why)
}

/// Why a failure does not count, if it does not.
pub(super) fn test(package: &str, name: &str) -> Option<&'static str> {
    TESTS.into_iter().find(|(of, it, _)| *of == package && name.contains(it)).map(|(.., why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_holds_for_a_test_and_all_within_it_and_for_no_other_package() {
        let name = "TestLazyRestMapperProvider/aggregatedDiscovery=false/one";
        assert!(test("pkg/client/apiutil", name).is_some());
        assert!(
            test("pkg/client/apiutil", "TestLazyRestMapperProvider/aggregatedDiscovery=true/one").is_none()
        );
        assert!(test("pkg/client", name).is_none());
        assert!(package("pkg/client").is_none());
    }
}
