//! The tests that cannot pass on an existing server, each with the reason.
//!
//! No test is listed because of a defect of our server, unless the reason says so.

/// Packages that test the start of etcd and kube-apiserver, whatever USE_EXISTING_CLUSTER says.
const PACKAGES: [(&str, &str); 1] =
    [("pkg/internal/testing/controlplane", "it tests starting etcd and kube-apiserver")];

/// Tests, by package and a part of their names.
const TESTS: [(&str, &str, &str); 4] = [
    (
        "pkg/cache",
        "to be cancelled",
        "it assumes that no server responds before a busy Go program continues; ours sometimes does",
    ),
    (
        "pkg/cache",
        "should return an error when context is cancelled",
        "it assumes that no server responds before a busy Go program continues; ours sometimes does",
    ),
    (
        "pkg/client/apiutil",
        "TestLazyRestMapperProvider/aggregatedDiscovery=false",
        "it downloads and starts Kubernetes 1.28 with a feature disabled",
    ),
    (
        "pkg/metrics/filters",
        "manger.Manager Start should start serving metrics with https and authn/authz [It] should serve extra endpoints",
        "it needs an authorizer: our server allows everything to an authenticated user",
    ),
];

/// Returns the reason for which a package is skipped, if it is.
pub(super) fn package(path: &str) -> Option<&'static str> {
    PACKAGES.into_iter().find(|(it, _)| *it == path).map(|(_, why)| why)
}

/// Returns the reason for which a failure is ignored, if it is.
pub(super) fn test(package: &str, name: &str) -> Option<&'static str> {
    TESTS.into_iter().find(|(of, it, _)| *of == package && name.contains(it)).map(|(.., why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_applies_to_a_test_and_its_subtests_in_one_package() {
        let name = "TestLazyRestMapperProvider/aggregatedDiscovery=false/one";
        assert!(test("pkg/client/apiutil", name).is_some());
        assert!(
            test("pkg/client/apiutil", "TestLazyRestMapperProvider/aggregatedDiscovery=true/one").is_none()
        );
        assert!(test("pkg/client", name).is_none());
        assert!(package("pkg/client").is_none());
    }
}
