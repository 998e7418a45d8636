//! Discovery with errors: rejected documents, and resources of groups that are not available.

use dogwatch_client::discovery::MapError;
use dogwatch_client::{CachedDiscovery, RestMapper};

use crate::discovery_server::DiscoveryServer;

/// The upstream table AggregatedServerGroupsAndResourcesWithErrors: an error of either document,
/// and the one that is tolerated.
#[tokio::test]
async fn di_1_an_error_of_either_document_is_an_error_unless_there_is_no_core_group() {
    for (path, code, refused) in
        [("/api", 404, false), ("/api", 403, true), ("/apis", 404, true), ("/apis", 403, true)]
    {
        let server = DiscoveryServer::aggregated().code(path, code);
        let found = server.client().discover().await;
        let reported = found.as_ref().err().and_then(|it| it.status()).map(|it| it.code);
        assert_eq!(reported, refused.then_some(code), "{path} {code}");
    }
}

/// The upstream table GetAPIGroupResources: a version that is not available does not affect the
/// others, and a server that returns no groups is an error.
#[tokio::test]
async fn di_5_a_mapper_resolves_the_available_resources() {
    let server = DiscoveryServer::legacy().code("/apis/apps/v1", 503);
    let mapper = RestMapper::new(CachedDiscovery::new(server.client()));
    assert_eq!(mapper.resolve("jobs").await.expect("served").resource.group_resource(), "jobs.batch");
    let unseen = mapper.resolve("deployments").await.expect_err("not known");
    assert!(unseen.to_string().contains("apps/v1"), "{unseen}");
    let server = DiscoveryServer::legacy().code("/apis", 503);
    let mapper = RestMapper::new(CachedDiscovery::new(server.client()));
    assert!(matches!(mapper.resolve("jobs").await, Err(MapError::Discovery(_))));
}
