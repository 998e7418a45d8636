//! The HTTP cache of discovery: the server's responses in a directory, each with its ETag for
//! revalidation (rule DI-4).
//!
//! ```text
//! <directory>/<SHA-256 of the URL, in hex>    SHA-256 of the rest, then an HTTP response: status line, headers, body
//! ```
//!
//! Layout and format are client-go's (v0.36.4 `discovery/cached/disk/round_tripper.go`). An entry
//! is used only for the `Accept` header it was written for; a response to another one replaces it.
//! The checksum distinguishes a complete file from a damaged one, which is removed; that is why
//! nothing needs to be synced to disk. Nothing here returns an error, and nothing here decides what
//! is still valid: the server does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, TRANSFER_ENCODING, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::files::replace;

/// The length of the checksum at the start of an entry.
const SUM: usize = 32;
/// The maximum number of headers; more than any server sends.
const MAX_HEADERS: usize = 64;
/// The headers that are stored. Others identify the request or the server instance and are not
/// needed.
const KEPT: [HeaderName; 5] = [CACHE_CONTROL, CONTENT_TYPE, DATE, ETAG, VARY];
/// The header with the `Accept` value of the request.
const VARIED_ACCEPT: HeaderName = HeaderName::from_static("x-varied-accept");

/// The directory. Shared through its `Arc`; other processes may use it at the same time.
#[derive(Debug)]
pub(crate) struct HttpCache {
    directory: PathBuf,
    /// True once a failed write was logged.
    warned: AtomicBool,
}

/// A stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedResponse {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpCache {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, warned: AtomicBool::new(false) }
    }

    /// Returns the stored response to a GET of this URL with this `Accept` header, if it can be
    /// revalidated.
    pub(crate) async fn get(self: &Arc<Self>, url: &str, accept: &str) -> Option<CachedResponse> {
        let path = self.path(url);
        let entry = tokio::task::spawn_blocking(move || read(&path)).await.ok()??;
        let same = entry.headers.get(VARIED_ACCEPT).is_some_and(|it| it.as_bytes() == accept.as_bytes());
        (same && entry.tag().is_some()).then_some(entry)
    }

    /// Stores a response, or removes the previous one if this one cannot be revalidated. A failed
    /// write is logged once.
    pub(crate) async fn put(self: &Arc<Self>, url: &str, accept: &str, answer: &CachedResponse) {
        let Some(text) = encode(accept, answer) else { return self.remove(url).await };
        let path = self.path(url);
        let outcome = tokio::task::spawn_blocking(move || replace(&path, &text)).await;
        if let Ok(Err(error)) = outcome
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            let path = self.directory.display();
            tracing::warn!(%path, %error, "cannot write the HTTP cache of discovery, continuing without it");
        }
    }

    /// Removes the entry of this URL, if there is one.
    pub(crate) async fn remove(&self, url: &str) {
        // An error is harmless: a missing entry needs no removal, and one that cannot be removed is
        // revalidated.
        let _ = tokio::fs::remove_file(self.path(url)).await;
    }

    fn path(&self, url: &str) -> PathBuf {
        self.directory.join(hex(&Sha256::digest(url)))
    }
}

impl CachedResponse {
    /// Returns the ETag.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.headers.get(ETAG)?.to_str().ok()
    }

    /// Returns true if the response may be stored and can be revalidated later.
    fn is_cacheable(&self) -> bool {
        let lists = |name: HeaderName, word: &str| {
            let values = self.headers.get_all(name);
            let mut words = values.iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
            words.any(|it| it.trim().eq_ignore_ascii_case(word))
        };
        let varies_by = |it: &HeaderValue| {
            let known =
                |it: &str| matches!(&*it.trim().to_ascii_lowercase(), "accept" | "accept-encoding" | "");
            it.to_str().is_ok_and(|it| it.split(',').all(known))
        };
        let same_for_all = self.headers.get_all(VARY).iter().all(varies_by);
        self.tag().is_some() && same_for_all && !lists(CACHE_CONTROL, "no-store")
    }
}

/// Reads an entry; a damaged one is removed.
fn read(path: &Path) -> Option<CachedResponse> {
    let text = fs::read(path).ok()?;
    let whole = text.split_at_checked(SUM).filter(|(sum, rest)| *sum == &*Sha256::digest(rest));
    let Some((_, response)) = whole else {
        tracing::debug!(path = %path.display(), "removing a damaged entry of the HTTP cache");
        if let Err(error) = fs::remove_file(path).or_else(not_found) {
            tracing::debug!(path = %path.display(), %error, "cannot remove a damaged entry of the HTTP cache");
        }
        return None;
    };
    parse(response)
}

fn not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Encodes an entry as a file; `None` if it must not be stored.
fn encode(accept: &str, answer: &CachedResponse) -> Option<Vec<u8>> {
    if !answer.is_cacheable() {
        return None;
    }
    let mut response = b"HTTP/1.1 200 OK\r\n".to_vec();
    let mut write = |name: &HeaderName, value: &[u8]| {
        response.extend_from_slice(name.as_str().as_bytes());
        response.extend_from_slice(b": ");
        response.extend_from_slice(value);
        response.extend_from_slice(b"\r\n");
    };
    for name in &KEPT {
        answer.headers.get_all(name).iter().for_each(|it| write(name, it.as_bytes()));
    }
    write(&VARIED_ACCEPT, accept.as_bytes());
    write(&CONTENT_LENGTH, answer.body.len().to_string().as_bytes());
    response.extend_from_slice(b"\r\n");
    response.extend_from_slice(&answer.body);
    let mut text = Sha256::digest(&response).to_vec();
    text.append(&mut response);
    Some(text)
}

/// Parses a response with any HTTP version in its status line: kubectl writes `HTTP/2.0` in the
/// same format.
fn parse(response: &[u8]) -> Option<CachedResponse> {
    let line = response.windows(2).position(|it| it == b"\r\n")?;
    let (status, rest) = (std::str::from_utf8(&response[..line]).ok()?, &response[line + 2..]);
    if !status.starts_with("HTTP/") || status.split(' ').nth(1) != Some("200") {
        return None;
    }
    let mut room = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let Ok(httparse::Status::Complete((end, found))) = httparse::parse_headers(rest, &mut room) else {
        return None;
    };
    let mut headers = HeaderMap::new();
    for header in found {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    let body = &rest[end..];
    let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    // A chunked body is not supported: such entries are not ours.
    let whole = !headers.contains_key(TRANSFER_ENCODING) && length.is_none_or(|it| it == body.len());
    whole.then(|| CachedResponse { headers, body: Bytes::copy_from_slice(body) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(headers: &[(&'static str, &'static str)], body: &'static str) -> CachedResponse {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        CachedResponse { headers: HeaderMap::from_iter(pairs), body: Bytes::from_static(body.as_bytes()) }
    }

    fn cache() -> (tempfile::TempDir, Arc<HttpCache>) {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Arc::new(HttpCache::new(directory.path().join("http")));
        (directory, cache)
    }

    #[test]
    fn the_name_of_an_entry_is_the_digest_of_its_url() {
        let path = HttpCache::new("d".into()).path("testing");
        let sum = "d/cf80cd8aed482d5d1527d7dc72fceff84e6326592848447d2dc0b0e87dfc9a90";
        assert_eq!(path, Path::new(sum));
    }

    #[test]
    fn di_4_only_responses_that_can_be_revalidated_and_stored_are_stored() {
        for (headers, kept) in [
            (&[("etag", "\"1\"")][..], true),
            (&[("etag", "W/\"1\""), ("cache-control", "public"), ("vary", "Accept, accept-encoding")], true),
            (&[("etag", "\"1\""), ("cache-control", "no-cache, private")], true),
            (&[], false),
            (&[("etag", "\"1\""), ("cache-control", "private, No-Store")], false),
            (&[("etag", "\"1\""), ("vary", "*")], false),
            (&[("etag", "\"1\""), ("vary", "Accept, Authorization")], false),
        ] {
            assert_eq!(encode("a", &entry(headers, "{}")).is_some(), kept, "{headers:?}");
        }
    }

    #[tokio::test]
    async fn di_4_sum_disk_cache_no_such_key() {
        let (_directory, cache) = cache();
        assert_eq!(cache.get("testing", "a").await, None);
        cache.remove("testing").await;
    }

    #[tokio::test]
    async fn di_4_sum_disk_cache_overwrite_existing_key() {
        let (_directory, cache) = cache();
        for body in ["cool value!", "I'm different!", ""] {
            cache.put("testing", "a", &entry(&[("etag", "\"1\""), ("content-type", "x/y")], body)).await;
            let found = cache.get("testing", "a").await.expect("kept");
            assert_eq!((&found.body[..], found.tag()), (body.as_bytes(), Some("\"1\"")));
            assert_eq!(found.headers[CONTENT_TYPE], "x/y");
        }
        assert_eq!(cache.get("testing", "b").await, None, "requested in another format");
        assert_eq!(cache.get("other", "a").await, None);
    }

    #[tokio::test]
    async fn di_4_sum_disk_cache_delete_key() {
        let (_directory, cache) = cache();
        cache.put("testing", "a", &entry(&[("etag", "\"1\"")], "x")).await;
        cache.remove("testing").await;
        assert_eq!(cache.get("testing", "a").await, None);
        cache.put("testing", "a", &entry(&[("etag", "\"1\"")], "x")).await;
        cache.put("testing", "a", &entry(&[], "without a tag")).await;
        assert!(!cache.path("testing").exists(), "a response without an ETag replaces one with an ETag");
    }

    #[tokio::test]
    async fn di_4_sum_disk_cache_empty_file_and_invalid_checksum_are_removed() {
        let (_directory, cache) = cache();
        let path = cache.path("testing");
        cache.put("testing", "a", &entry(&[("etag", "\"1\"")], "testing")).await;
        let whole = fs::read(&path).expect("kept");
        let mut flipped = whole.clone();
        *flipped.last_mut().expect("not empty") ^= 1;
        let truncated = &whole[..whole.len() - 1];
        let longer = [&whole[..], b"x"].concat();
        let wrong_sum = [&[0; SUM][..], &whole[SUM..]].concat();
        for damaged in [&[][..], b"short", &whole[..SUM], truncated, &flipped, &longer, &wrong_sum] {
            fs::write(&path, damaged).expect("written");
            assert_eq!(cache.get("testing", "a").await, None, "{} bytes", damaged.len());
            assert!(!path.exists(), "{} bytes", damaged.len());
        }
        fs::write(&path, &whole).expect("written");
        assert!(cache.get("testing", "a").await.is_some());
    }

    #[test]
    fn an_entry_of_kubectl_is_read() {
        let text = "HTTP/2.0 200 OK\r\nConnection: close\r\nCache-Control: public\r\nEtag: \"A1\"\r\nVary: Accept\r\n\
                    X-Varied-Accept: a,b\r\n\r\n{\"kind\":\"x\"}";
        let entry = parse(text.as_bytes()).expect("an entry");
        assert_eq!((entry.tag(), &entry.body[..]), (Some("\"A1\""), &b"{\"kind\":\"x\"}"[..]));
        assert_eq!(entry.headers[VARIED_ACCEPT], "a,b");
    }

    #[test]
    fn an_incomplete_response_is_ignored() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nEtag: x\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "SPDY/1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_body_reads_back_and_any_bytes_are_tolerated(body: Vec<u8>, noise: Vec<u8>) {
            let kept = CachedResponse { body: body.clone().into(), ..entry(&[("etag", "\"1\"")], "") };
            let text = encode("a, b;q=1", &kept).expect("has a tag");
            proptest::prop_assert_eq!(&text[..SUM], &*Sha256::digest(&text[SUM..]));
            let read = parse(&text[SUM..]).expect("whole");
            proptest::prop_assert_eq!(&read.body[..], &body[..]);
            parse(&noise);
        }
    }
}
