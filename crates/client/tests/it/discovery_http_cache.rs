//! The HTTP cache of discovery: responses with their ETags, kept between runs (rule DI-4).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dogwatch_client::CachedDiscovery;
use dogwatch_client::discovery::{DiscoveryFormat, DiscoveryOptions, DiskCache};
use tempfile::TempDir;

use crate::config::Log;
use crate::discovery_server::{AGGREGATED, DiscoveryServer, items, resources};

/// A server, and a directory for its responses.
struct CacheSetup {
    server: DiscoveryServer,
    directory: TempDir,
}

impl CacheSetup {
    fn new(server: DiscoveryServer) -> Self {
        Self { server, directory: tempfile::tempdir().expect("a directory") }
    }

    fn http(&self) -> PathBuf {
        self.directory.path().join("http")
    }

    /// Returns discovery as another process would use it later: the discovery directory has
    /// expired, and only `http` is valid.
    fn later(&self) -> CachedDiscovery {
        let disk = DiskCache::new(self.directory.path().join("discovery"), Duration::ZERO).http(self.http());
        CachedDiscovery::on_disk(self.server.client(), disk)
    }

    /// Returns the plurals of all discovered resources.
    async fn discovered(&self) -> Vec<String> {
        names(&self.later()).await
    }

    /// Returns the requests since the last call, each path with its ETag, sorted by path.
    fn asked(&self) -> Vec<(String, Option<String>)> {
        let mut asked: Vec<_> =
            self.server.asked().into_iter().map(|it| (it.path, it.if_none_match)).collect();
        asked.sort();
        asked
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.http()).expect("a directory");
        let mut paths: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
        paths.sort();
        paths
    }
}

async fn names(cache: &CachedDiscovery) -> Vec<String> {
    let discovery = cache.get().await.expect("discovered");
    discovery.resources().map(|it| it.resource.plural.to_string()).collect()
}

fn ask(path: &str, tag: Option<&str>) -> (String, Option<String>) {
    (path.to_owned(), tag.map(str::to_owned))
}

#[tokio::test]
async fn di_4_cache_round_tripper() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    let all = ["pods", "deployments", "jobs"];
    assert_eq!(setup.discovered().await, all);
    assert_eq!(setup.asked(), [ask("/api", None), ask("/apis", None)]);
    for _ in 0..2 {
        assert_eq!(setup.discovered().await, all, "from disk: a 304 has no body");
        assert_eq!(setup.asked(), [ask("/api", Some("\"a1\"")), ask("/apis", Some("\"b1\""))]);
    }
}

#[tokio::test]
async fn di_4_a_changed_document_comes_from_the_server_and_is_cached() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    let changed = items(&[("apps", "v1", "Current", &["daemonsets DaemonSet ds"])]);
    setup.server.set("/apis", 200, AGGREGATED, Some("\"b2\""), &changed);
    assert_eq!(setup.discovered().await, ["pods", "daemonsets"]);
    setup.asked();
    assert_eq!(setup.discovered().await, ["pods", "daemonsets"]);
    assert_eq!(setup.asked(), [ask("/api", Some("\"a1\"")), ask("/apis", Some("\"b2\""))]);
    assert_eq!(setup.entries().len(), 2, "one file for each path");
}

#[tokio::test]
async fn di_4_integrity_a_damaged_response_is_requested_again_and_replaced() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    let all = setup.discovered().await;
    let whole: Vec<_> = setup.entries().into_iter().map(|it| fs::read(&it).expect("a file")).collect();
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 5] = [
        |it| it.clear(),
        |it| it.truncate(20),
        |it| it.truncate(it.len() - 1),
        |it| it[0] ^= 1,
        |it| *it.last_mut().expect("not empty") ^= 1,
    ];
    for damage in damages {
        for path in setup.entries() {
            let mut bytes = fs::read(&path).expect("a file");
            damage(&mut bytes);
            fs::write(&path, bytes).expect("written");
        }
        setup.asked();
        assert_eq!(setup.discovered().await, all);
        assert_eq!(setup.asked(), [ask("/api", None), ask("/apis", None)]);
        let replaced: Vec<_> = setup.entries().into_iter().map(|it| fs::read(&it).expect("a file")).collect();
        assert_eq!(replaced, whole);
    }
}

#[tokio::test]
async fn di_4_a_damaged_response_is_removed_even_if_it_is_not_replaced() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    // Only the response of /apis: its failure may cancel the request for /api before it is sent.
    let of_apis =
        |it: &PathBuf| String::from_utf8_lossy(&fs::read(it).expect("a file")).contains("deployments");
    let damaged = setup.entries().into_iter().find(of_apis).expect("an answer of /apis");
    fs::write(&damaged, "damaged").expect("written");
    setup.server.set("/apis", 500, "text/plain", None, "");
    setup.later().get().await.expect_err("the server fails");
    assert!(!damaged.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn di_4_cache_round_tripper_path_perm() {
    use std::os::unix::fs::PermissionsExt as _;

    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&setup.http()), 0o750);
    for path in setup.entries() {
        assert_eq!(mode(&path), 0o660, "{path:?}");
    }
}

#[tokio::test]
async fn di_4_discovery_works_with_a_directory_that_cannot_be_written_and_warns_once() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    fs::write(setup.http(), "blocking file").expect("written");
    let cache = setup.later();
    for _ in 0..3 {
        cache.invalidate();
        assert_eq!(names(&cache).await, ["pods", "deployments", "jobs"]);
    }
    let warnings = log.take();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("continuing without") && warning.contains("http"), "{warning}");
}

#[tokio::test]
async fn di_4_no_temporary_file_remains_when_a_response_cannot_be_cached() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    let entries = setup.entries();
    for path in &entries {
        fs::remove_file(path).expect("removed");
        fs::create_dir(path).expect("made");
    }
    assert_eq!(setup.discovered().await.len(), 3);
    assert_eq!(setup.entries(), entries);
}

#[tokio::test]
async fn di_4_a_response_in_another_format_is_not_revalidated() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    setup.asked();
    let options = DiscoveryOptions {
        format: DiscoveryFormat::AggregatedNoPeer,
        disk: Some(DiskCache::new(setup.directory.path().join("other"), Duration::ZERO).http(setup.http())),
        ..DiscoveryOptions::default()
    };
    names(&CachedDiscovery::with_options(setup.server.client(), options)).await;
    assert_eq!(setup.asked(), [ask("/api", None), ask("/apis", None)]);
}

#[tokio::test]
async fn di_4_responses_without_etags_are_not_cached() {
    let setup = CacheSetup::new(DiscoveryServer::legacy());
    assert_eq!(setup.discovered().await.len(), 4);
    assert!(!setup.http().exists());
}

#[tokio::test]
async fn di_4_responses_of_one_version_are_cached_if_they_have_etags() {
    let setup = CacheSetup::new(DiscoveryServer::legacy());
    let jobs = resources("batch/v1", &["jobs Job"]);
    setup.server.set("/apis/batch/v1", 200, "application/json", Some("\"j\""), &jobs);
    for tag in [None, Some("\"j\"")] {
        assert_eq!(setup.discovered().await.len(), 4);
        assert!(setup.asked().contains(&ask("/apis/batch/v1", tag)));
    }
}

#[tokio::test]
async fn di_4_an_invalid_document_is_not_cached() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.server.set("/apis", 200, AGGREGATED, Some("\"b9\""), "<html>log in first</html>");
    setup.later().get().await.expect_err("no document");
    setup.server.set("/apis", 200, AGGREGATED, Some("\"b9\""), &items(&[]));
    assert_eq!(setup.discovered().await, ["pods"], "the same ETag, but not taken from disk");
}

#[tokio::test]
async fn di_4_a_cached_invalid_document_is_requested_again() {
    use sha2::Digest as _;

    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    let all = setup.discovered().await;
    for path in setup.entries() {
        let text = fs::read(&path).expect("a file")[32..].to_vec();
        let end = text.windows(4).position(|it| it == b"\r\n\r\n").expect("headers end") + 4;
        let length = (text.len() - end).to_string();
        let head = String::from_utf8(text[..end].to_vec()).expect("text").replace(&length, "2");
        let response = [head.as_bytes(), b"<>"].concat();
        fs::write(&path, [&sha2::Sha256::digest(&response)[..], &response].concat()).expect("written");
    }
    setup.asked();
    assert_eq!(setup.discovered().await, all);
    let twice = |path, tag| [ask(path, None), ask(path, Some(tag))];
    assert_eq!(setup.asked(), [twice("/api", "\"a1\""), twice("/apis", "\"b1\"")].concat());
}

#[tokio::test]
async fn di_4_a_document_removed_from_the_server_is_removed_from_disk() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    setup.discovered().await;
    setup.server.set("/api", 404, "text/plain", None, "");
    assert_eq!(setup.discovered().await, ["deployments", "jobs"]);
    assert_eq!(setup.entries().len(), 1);
}

#[tokio::test]
async fn di_4_a_refresh_in_one_process_revalidates_from_memory() {
    let setup = CacheSetup::new(DiscoveryServer::aggregated());
    let cache = setup.later();
    let all = names(&cache).await;
    fs::remove_dir_all(setup.http()).expect("removed");
    cache.invalidate();
    setup.asked();
    assert_eq!(names(&cache).await, all);
    assert_eq!(setup.asked(), [ask("/api", Some("\"a1\"")), ask("/apis", Some("\"b1\""))]);
}
