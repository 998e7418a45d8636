//! Objects that the server restores: its own service.

use std::time::Duration;

use crate::controllers::Controllers;
use crate::tests::test_cluster::TestCluster;

const SERVICES: (&str, &str) = ("v1", "Service");
const SLICES: (&str, &str) = ("discovery.k8s.io/v1", "EndpointSlice");

/// The interval is `DefaultEndpointReconcilerInterval` in k8s.io/kubernetes v1.36.4
/// pkg/controlplane/instance.go.
#[tokio::test(start_paused = true)]
async fn the_service_of_the_api_server_is_restored_within_ten_seconds() {
    let it = TestCluster::with(Controllers::default()).await;
    let before = it.get(SERVICES, "default/kubernetes").unwrap();
    it.delete(SERVICES, "default/kubernetes", None).await;
    it.delete(SLICES, "default/kubernetes", None).await;
    assert!(it.get(SERVICES, "default/kubernetes").is_none());
    it.advance(Duration::from_secs(10)).await;
    let after = it.get(SERVICES, "default/kubernetes").expect("restored");
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(it.get(SLICES, "default/kubernetes").is_some());
    it.delete(SLICES, "default/kubernetes", None).await;
    it.advance(Duration::from_secs(10)).await;
    assert!(it.get(SLICES, "default/kubernetes").is_some(), "the slice alone is restored, too");
}
