//! The head of a request. The first attempt consumes the headers; a compact copy is kept for
//! others.
//!
//! Hardly any call needs a second attempt, and a header map costs more to copy than a list of
//! headers.

use std::time::Duration;

use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version, request};

use super::status::{PREVIOUS_ATTEMPTS, TIMEOUT, timeout_value};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("dogwatch-grpc/", env!("CARGO_PKG_VERSION")));

/// A request extension: the call waits until an endpoint can be called or its deadline passes,
/// whatever the reason.
///
/// This is gRPC's wait-for-ready for one call. Without it a call fails after `ready_timeout`, or
/// after one second if waiting does not help.
///
/// ```
/// use dogwatch_grpc::WaitForReady;
///
/// let mut request = tonic::Request::new("message");
/// request.extensions_mut().insert(WaitForReady);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForReady;

#[derive(Debug)]
pub(crate) struct Head {
    waits_for_ready: bool,
    method: Method,
    path: Option<PathAndQuery>,
    /// The caller's headers, until the first attempt takes them.
    fresh: Option<HeaderMap>,
    kept: Vec<(HeaderName, HeaderValue)>,
}

impl Head {
    /// Takes the head of a caller's request, and adds a `user-agent` if it has none.
    pub(crate) fn new(parts: request::Parts) -> Self {
        let mut headers = parts.headers;
        if let Entry::Vacant(entry) = headers.entry(USER_AGENT) {
            entry.insert(AGENT);
        }
        let kept = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let path = parts.uri.into_parts().path_and_query;
        let waits_for_ready = parts.extensions.get::<WaitForReady>().is_some();
        Self { waits_for_ready, method: parts.method, path, fresh: Some(headers), kept }
    }

    /// Returns true if the caller asked for [`WaitForReady`].
    pub(crate) fn waits_for_ready(&self) -> bool {
        self.waits_for_ready
    }

    /// Returns all values of a header.
    pub(crate) fn values<'h>(&'h self, name: &'h HeaderName) -> impl Iterator<Item = &'h [u8]> {
        self.kept.iter().filter(move |it| it.0 == *name).map(|it| it.1.as_bytes())
    }

    /// Builds the head of the next attempt. `left` replaces the caller's timeout if given;
    /// `previous` is the number of earlier attempts that a server may have processed.
    ///
    /// # Errors
    /// Returns an error if the request has no path.
    pub(crate) fn attempt(
        &mut self,
        scheme: Scheme,
        authority: Authority,
        left: Option<Duration>,
        previous: u32,
    ) -> Result<Request<()>, http::Error> {
        let mut headers = self.fresh.take().unwrap_or_else(|| self.again());
        if let Some(left) = left {
            headers.insert(TIMEOUT, timeout_value(left));
        }
        if previous > 0 {
            headers.insert(PREVIOUS_ATTEMPTS, HeaderValue::from(previous));
        }
        let mut uri = http::uri::Parts::default();
        (uri.scheme, uri.authority, uri.path_and_query) = (Some(scheme), Some(authority), self.path.clone());
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from_parts(uri)?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn again(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.kept.len());
        for (name, value) in &self.kept {
            headers.append(name.clone(), value.clone());
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(request: request::Builder) -> Head {
        Head::new(request.body(()).unwrap().into_parts().0)
    }

    fn attempt(head: &mut Head, left: Option<Duration>) -> Request<()> {
        head.attempt(Scheme::HTTP, Authority::from_static("greeter.shop"), left, 0).unwrap()
    }

    #[test]
    fn every_attempt_has_the_same_head() {
        let request = Request::post("http://nobody/greeter/hello?a=b");
        let mut head = head(request.header("user", "ann").header("user", "bob").header("te", "trailers"));
        let [first, second, third] = [(); 3].map(|()| attempt(&mut head, None));
        assert_eq!(
            (first.method(), first.uri().to_string()),
            (&Method::POST, "http://greeter.shop/greeter/hello?a=b".into())
        );
        assert_eq!(first.headers().get_all("user").iter().collect::<Vec<_>>(), ["ann", "bob"]);
        assert_eq!(first.headers()["te"], "trailers");
        for again in [second, third] {
            assert_eq!(
                (again.method(), again.uri(), again.headers()),
                (first.method(), first.uri(), first.headers())
            );
        }
        let user = HeaderName::from_static("user");
        assert_eq!(head.values(&user).collect::<Vec<_>>(), [b"ann", b"bob"]);
    }

    #[test]
    fn a_caller_without_a_user_agent_gets_ours() {
        let agent = |it: Request<()>| it.headers()[USER_AGENT].clone();
        assert_eq!(agent(attempt(&mut head(Request::post("/a")), None)), AGENT);
        assert_eq!(agent(attempt(&mut head(Request::post("/a").header(USER_AGENT, "me")), None)), "me");
    }

    #[test]
    fn a_later_attempt_has_the_remaining_time() {
        let mut head = head(Request::post("/a").header(TIMEOUT, "5S"));
        assert_eq!(attempt(&mut head, None).headers()[TIMEOUT], "5S");
        let later = attempt(&mut head, Some(Duration::from_secs(2)));
        assert_eq!(later.headers()[TIMEOUT], timeout_value(Duration::from_secs(2)));
    }

    #[test]
    fn a_request_without_a_path_is_an_error() {
        let mut head = head(Request::builder().uri("nobody:80"));
        assert!(head.attempt(Scheme::HTTP, Authority::from_static("a"), None, 0).is_err());
    }
}
