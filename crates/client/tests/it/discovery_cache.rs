//! Discovery cached in memory (rule DI-3) and on disk (rule DI-4).

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dogwatch_client::discovery::{DiscoveryOptions, DiskCache, FailureReason, kubectl_directory};
use dogwatch_client::{CachedDiscovery, Discovery};
use futures_util::future;

use crate::discovery_server::{DiscoveryServer, groups, items, resources};

const HOUR: Duration = Duration::from_secs(3600);

fn on_disk(server: &DiscoveryServer, directory: &Path) -> CachedDiscovery {
    CachedDiscovery::on_disk(server.client(), DiskCache::new(directory, HOUR))
}

async fn count(cache: &CachedDiscovery) -> usize {
    cache.get().await.expect("discovered").resources().count()
}

fn age(path: &Path, by: Duration) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::now() - by).expect("a time");
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path.strip_prefix(directory).expect("inside").display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn di_3_it_is_filled_on_first_use_and_holds_until_invalidated() {
    let server = DiscoveryServer::legacy();
    let cache = CachedDiscovery::new(server.client());
    assert!(!cache.is_fresh());
    assert!(server.paths().is_empty(), "nothing is requested before the first use");
    let first = cache.get().await.expect("discovered");
    assert!(cache.is_fresh());
    assert_eq!(server.paths().len(), 6);
    assert!(Arc::ptr_eq(&first, &cache.clone().get().await.expect("kept")));
    assert!(server.paths().is_empty());
    cache.invalidate();
    assert!(!cache.is_fresh());
    assert_eq!(count(&cache).await, 4);
    assert_eq!(server.paths().len(), 6);
}

#[tokio::test]
async fn di_3_server_groups_fails_and_nothing_is_cached() {
    let server = DiscoveryServer::legacy().code("/apis", 500);
    let cache = CachedDiscovery::new(server.client());
    for _ in 0..2 {
        let error = cache.get().await.expect_err("refused");
        assert_eq!(error.status().map(|it| it.code), Some(500));
        assert!(!cache.is_fresh());
    }
    server.set("/apis", 200, "application/json", None, &groups(&[]));
    assert_eq!(count(&cache).await, 1);
    assert!(cache.is_fresh());
}

#[tokio::test]
async fn di_3_a_server_without_groups_is_not_cached() {
    let server = DiscoveryServer::new().json("/apis", &groups(&[]));
    let cache = CachedDiscovery::new(server.client());
    assert_eq!(count(&cache).await, 0);
    assert!(!cache.is_fresh());
}

#[tokio::test]
async fn di_3_partial_permanent_failure_is_not_requested_again() {
    let server = DiscoveryServer::legacy().code("/apis/apps/v1", 403);
    let cache = CachedDiscovery::new(server.client());
    let found = cache.get().await.expect("discovered");
    assert_eq!((found.resources().count(), found.failures.len()), (3, 1));
    server.paths();
    server.set("/apis/apps/v1", 200, "application/json", None, &resources("apps/v1", &["x X"]));
    assert_eq!(count(&cache).await, 3);
    assert!(server.paths().is_empty());
    cache.invalidate();
    assert_eq!(count(&cache).await, 4);
}

#[tokio::test]
async fn di_3_only_a_partial_retryable_failure_is_requested_at_each_use() {
    let server = DiscoveryServer::legacy().code("/apis/apps/v1", 503);
    let cache = CachedDiscovery::new(server.client());
    assert_eq!(count(&cache).await, 3);
    assert!(cache.is_fresh());
    for code in [500, 429] {
        server.set("/apis/apps/v1", code, "text/plain", None, "");
        server.paths();
        assert_eq!(count(&cache).await, 3);
        assert_eq!(server.paths(), ["/apis/apps/v1"]);
    }
    server.set("/apis/apps/v1", 200, "application/json", None, &resources("apps/v1", &["x X"]));
    let found = cache.get().await.expect("discovered");
    assert!(found.is_complete());
    let names: Vec<_> = found.resources().map(|it| it.resource.plural.as_str()).collect();
    assert_eq!(names, ["pods", "x", "jobs", "cronjobs"], "in its position");
    server.paths();
    assert_eq!(count(&cache).await, 4);
    assert!(server.paths().is_empty());
}

#[tokio::test]
async fn di_3_an_empty_version_is_a_failure_that_stays() {
    let server = DiscoveryServer::legacy().json("/apis/apps/v1", &resources("apps/v1", &[]));
    let cache = CachedDiscovery::new(server.client());
    let found = cache.get().await.expect("discovered");
    let [failure] = found.failures.as_slice() else { panic!("{:?}", found.failures) };
    assert_eq!(failure.group_version(), "apps/v1");
    assert!(matches!(failure.reason, FailureReason::Empty));
    assert_eq!(
        std::error::Error::source(failure).map(ToString::to_string).as_deref(),
        Some("received empty response")
    );
    server.paths();
    cache.get().await.expect("kept");
    assert!(server.paths().is_empty());
}

#[tokio::test]
async fn di_3_aggregated_documents_are_cached_with_their_stale_versions() {
    let server = DiscoveryServer::aggregated();
    let apis = items(&[("m", "v1", "Stale", &[]), ("apps", "v1", "Current", &["deployments Deployment"])]);
    server.set("/apis", 200, crate::discovery_server::AGGREGATED, Some("\"s\""), &apis);
    let cache = CachedDiscovery::new(server.client());
    let found = cache.get().await.expect("discovered");
    assert_eq!((found.resources().count(), found.failures.len()), (2, 1));
    cache.get().await.expect("kept");
    assert_eq!(server.paths(), ["/api", "/apis"]);
}

#[tokio::test]
async fn di_3_a_refresh_revalidates_and_keeps_unchanged_documents() {
    let server = DiscoveryServer::aggregated();
    let cache = CachedDiscovery::new(server.client());
    let first = cache.get().await.expect("discovered");
    server.asked();
    cache.invalidate();
    let second = cache.get().await.expect("discovered");
    assert!(Arc::ptr_eq(&first, &second), "nothing changed: the same result");
    assert!(cache.is_fresh());
    let tags: Vec<_> = server.asked().into_iter().map(|it| it.if_none_match).collect();
    assert_eq!(tags, [Some("\"a1\"".to_owned()), Some("\"b1\"".to_owned())]);

    let apis = items(&[("new.io", "v1", "Current", &["things Thing"])]);
    server.set("/apis", 200, crate::discovery_server::AGGREGATED, Some("\"b2\""), &apis);
    cache.invalidate();
    let third = cache.get().await.expect("discovered");
    let names: Vec<_> = third.resources().map(|it| it.resource.plural.as_str()).collect();
    assert_eq!(names, ["pods", "things"], "one document of two changed");
    server.asked();
    cache.invalidate();
    assert!(Arc::ptr_eq(&third, &cache.get().await.expect("discovered")));
    let tags: Vec<_> = server.asked().into_iter().filter_map(|it| it.if_none_match).collect();
    assert_eq!(tags, ["\"a1\"", "\"b2\""]);
}

#[tokio::test]
async fn di_3_callers_share_one_fetch_and_its_error() {
    let server = DiscoveryServer::aggregated();
    let cache = CachedDiscovery::new(server.client());
    let together = async || {
        server.close();
        let all = future::join_all((0..10).map(|_| cache.get()));
        future::join(all, async { server.open() }).await.0
    };
    let all = together().await;
    let first = all[0].as_ref().expect("discovered");
    assert!(all.iter().all(|it| Arc::ptr_eq(it.as_ref().expect("discovered"), first)));
    assert_eq!(server.paths(), ["/api", "/apis"]);

    server.set("/apis", 500, "text/plain", None, "");
    cache.invalidate();
    let all = together().await;
    assert!(all.iter().all(Result::is_err));
    assert_eq!(server.paths(), ["/api", "/apis"]);
}

#[tokio::test]
async fn di_3_a_dropped_caller_does_not_cancel_the_fetch_of_others() {
    let server = DiscoveryServer::aggregated();
    server.close();
    let cache = CachedDiscovery::new(server.client());
    let mut leaves = Box::pin(cache.get());
    let mut stays = Box::pin(cache.get());
    assert!(future::poll_immediate(&mut leaves).await.is_none());
    assert!(future::poll_immediate(&mut stays).await.is_none());
    drop(leaves);
    server.open();
    assert_eq!(stays.await.expect("discovered").resources().count(), 3);
    assert_eq!(server.paths(), ["/api", "/apis"], "the same fetch");
}

#[tokio::test]
async fn di_3_when_all_callers_are_dropped_the_next_one_starts_a_new_fetch() {
    let server = DiscoveryServer::aggregated();
    server.close();
    let cache = CachedDiscovery::new(server.client());
    let mut only = Box::pin(cache.get());
    assert!(future::poll_immediate(&mut only).await.is_none());
    drop(only);
    server.open();
    assert_eq!(count(&cache).await, 3);
    assert_eq!(server.paths().len(), 4);
}

#[tokio::test]
async fn di_3_the_result_of_a_fetch_from_before_an_invalidation_is_not_cached() {
    let server = DiscoveryServer::aggregated();
    server.close();
    let cache = CachedDiscovery::new(server.client());
    let mut early = Box::pin(cache.get());
    assert!(future::poll_immediate(&mut early).await.is_none());
    cache.invalidate();
    server.open();
    early.await.expect("discovered");
    assert!(!cache.is_fresh(), "it may be older than the invalidation");
    assert_eq!(count(&cache).await, 3);
    assert!(cache.is_fresh());
}

#[tokio::test(start_paused = true)]
async fn di_3_a_freshness_limit_does_not_expire_the_cache() {
    let server = DiscoveryServer::aggregated();
    let options = DiscoveryOptions { fresh_for: Some(HOUR), ..DiscoveryOptions::default() };
    let cache = CachedDiscovery::with_options(server.client(), options);
    count(&cache).await;
    assert!(cache.is_fresh());
    tokio::time::advance(HOUR + Duration::from_secs(1)).await;
    assert!(!cache.is_fresh());
    count(&cache).await;
    assert_eq!(server.paths().len(), 2, "the cached result is still valid");
}

#[tokio::test]
async fn di_4_files_are_laid_out_and_written_as_kubectl_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("discovery").join("server");
    count(&on_disk(&DiscoveryServer::legacy(), &root)).await;
    assert_eq!(
        files(&root),
        [
            "apps/v1/serverresources.json",
            "batch/v1/serverresources.json",
            "batch/v1beta1/serverresources.json",
            "servergroups.json",
            "v1/serverresources.json",
        ]
    );
    let text = fs::read_to_string(root.join("v1/serverresources.json")).expect("a file");
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"APIResourceList".into(), &"v1".into()));
    assert_eq!(list["groupVersion"], "v1");
    assert_eq!(list["resources"][0]["name"], "pods");
    assert_eq!(list["resources"][1]["name"], "pods/status");
}

#[cfg(unix)]
#[tokio::test]
async fn di_4_path_perm() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("cache");
    count(&on_disk(&DiscoveryServer::legacy(), &root)).await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&root.join("servergroups.json")), 0o660);
    assert_eq!(mode(&root.join("apps/v1/serverresources.json")), 0o660);
    // The umask may remove permissions, and never adds any.
    assert_eq!(mode(&root) & !0o750, 0);
    assert_eq!(mode(&root.join("apps")) & !0o750, 0);
}

#[tokio::test]
async fn di_4_fresh() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::legacy();
    let writer = on_disk(&server, directory.path());
    count(&writer).await;
    assert!(writer.is_fresh(), "its own files");
    server.paths();

    let reader = on_disk(&server, directory.path());
    assert_eq!(count(&reader).await, 4);
    assert!(server.paths().is_empty(), "read from the files");
    assert!(!reader.is_fresh(), "files of another process");
    reader.invalidate();
    assert_eq!(count(&reader).await, 4);
    assert_eq!(server.paths().len(), 6, "files of other processes are no longer valid");
    assert!(reader.is_fresh());
}

#[tokio::test]
async fn di_4_written_discovery_reads_back_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    for server in [DiscoveryServer::legacy(), DiscoveryServer::aggregated()] {
        let written = on_disk(&server, directory.path());
        written.invalidate();
        let written = written.get().await.expect("discovered");
        let read = on_disk(&server, directory.path()).get().await.expect("read");
        assert_eq!(read.groups, written.groups);
    }
}

#[tokio::test(start_paused = true)]
async fn di_4_ttl_is_by_the_age_of_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::legacy();
    count(&on_disk(&server, directory.path())).await;
    server.paths();
    for file in files(directory.path()) {
        age(&directory.path().join(file), HOUR - Duration::from_secs(60));
    }
    let reader = on_disk(&server, directory.path());
    count(&reader).await;
    assert!(server.paths().is_empty());
    tokio::time::advance(Duration::from_secs(61)).await;
    age(&directory.path().join("servergroups.json"), HOUR + Duration::from_secs(1));
    count(&reader).await;
    assert_eq!(server.paths().len(), 6, "it is valid in memory no longer than on disk");

    age(&directory.path().join("servergroups.json"), HOUR + Duration::from_secs(1));
    count(&on_disk(&server, directory.path())).await;
    assert_eq!(server.paths().len(), 6);
}

#[tokio::test]
async fn di_4_unchanged_files_are_touched_and_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::legacy();
    let cache = on_disk(&server, directory.path());
    count(&cache).await;
    let path = directory.path().join("apps/v1/serverresources.json");
    let file = File::open(&path).expect("a file");
    for file in files(directory.path()) {
        age(&directory.path().join(file), 2 * HOUR);
    }
    cache.invalidate();
    count(&cache).await;
    let age = SystemTime::now().duration_since(file.metadata().and_then(|it| it.modified()).expect("a time"));
    assert!(age.expect("in the past") < HOUR, "the same inode was touched");
    server.paths();
    count(&on_disk(&server, directory.path())).await;
    assert!(server.paths().is_empty());
}

#[tokio::test]
async fn di_4_only_a_version_without_a_usable_file_is_requested() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::legacy();
    count(&on_disk(&server, directory.path())).await;
    let apps = directory.path().join("apps/v1/serverresources.json");
    let others = fs::metadata(directory.path().join("v1/serverresources.json")).and_then(|it| it.modified());
    for corrupt in ["", "{", "{}", "[]", r#"{"kind":"Status"}"#, "\0\0\0"] {
        fs::write(&apps, corrupt).expect("written");
        server.paths();
        assert_eq!(count(&on_disk(&server, directory.path())).await, 4, "{corrupt:?}");
        assert_eq!(server.paths(), ["/apis/apps/v1"], "{corrupt:?}");
        assert!(fs::read_to_string(&apps).expect("there").contains("deployments"), "repaired");
    }
    let now = fs::metadata(directory.path().join("v1/serverresources.json")).and_then(|it| it.modified());
    assert_eq!(now.expect("a time"), others.expect("a time"), "other files keep their age");
}

#[tokio::test]
async fn di_4_a_corrupt_group_list_counts_as_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::aggregated();
    for corrupt in ["", "{", "{}", r#"{"kind":"APIGroupList"}"#, r#"{"kind":"APIGroupList","groups":null}"#] {
        fs::write(directory.path().join("servergroups.json"), corrupt).expect("written");
        assert_eq!(count(&on_disk(&server, directory.path())).await, 3, "{corrupt:?}");
        assert_eq!(server.paths(), ["/api", "/apis"], "{corrupt:?}");
    }
}

#[tokio::test]
async fn di_4_empty_results_are_not_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::legacy().json("/apis/apps/v1", &resources("apps/v1", &[]));
    count(&on_disk(&server, directory.path())).await;
    assert!(!directory.path().join("apps").exists());
    let nothing = tempfile::tempdir().expect("a directory");
    count(&on_disk(&DiscoveryServer::new().json("/apis", &groups(&[])), nothing.path())).await;
    assert!(files(nothing.path()).is_empty());
}

#[tokio::test]
async fn di_4_discovery_works_with_a_disk_that_cannot_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let blocking_file = directory.path().join("file");
    fs::write(&blocking_file, "").expect("written");
    let cache = on_disk(&DiscoveryServer::legacy(), &blocking_file.join("below"));
    assert_eq!(count(&cache).await, 4);
    assert!(cache.is_fresh());
    assert_eq!(files(directory.path()), ["file"]);
}

#[tokio::test]
async fn di_4_no_temporary_file_remains_when_a_rename_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(directory.path().join("servergroups.json")).expect("made");
    count(&on_disk(&DiscoveryServer::aggregated(), directory.path())).await;
    assert!(files(directory.path()).iter().all(|it| it.ends_with("serverresources.json")));
}

#[tokio::test]
async fn di_4_names_of_a_server_never_lead_out_of_the_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("cache");
    let apis = items(&[
        ("../escape", "v1", "Current", &["things Thing"]),
        ("fine", "../../escape", "Current", &["things Thing"]),
        ("/absolute", "v1", "Current", &["things Thing"]),
        ("..", "v1", "Current", &["things Thing"]),
    ]);
    let server = DiscoveryServer::aggregated().document("/apis", &apis, "\"1\"");
    assert_eq!(count(&on_disk(&server, &root)).await, 5);
    assert_eq!(files(directory.path()), ["cache/servergroups.json", "cache/v1/serverresources.json"]);
}

#[test]
fn di_4_the_directory_has_kubectls_name() {
    for (server, expected) in [
        ("https://127.0.0.1:6443", "/c/127.0.0.1_6443"),
        ("https://127.0.0.1:6443/", "/c/127.0.0.1_6443"),
        ("http://example.com/k8s/clusters/c-1", "/c/example.com/k8s/clusters/c_1"),
        ("https://[::1]:6443", "/c/___1__6443"),
    ] {
        let server = server.parse().expect("a URL");
        assert_eq!(kubectl_directory(Path::new("/c"), &server), Path::new(expected), "{server}");
    }
}

#[tokio::test]
async fn di_4_discovery_is_the_same_with_and_without_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::aggregated();
    let plain = Discovery::fetch(&server.client()).await.expect("discovered");
    let kept = on_disk(&server, directory.path()).get().await.expect("discovered");
    assert_eq!(plain.groups, kept.groups);
}
