//! Requests that no other method covers: any HTTP request through the client's stack, and protocol
//! upgrades.
//!
//! Credentials, impersonation and the user agent are added as for every request. The other features
//! of the client (rate limit, retries, warnings, metrics, decoding) do not apply.

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use hyper::upgrade::Upgraded;
use tower::ServiceExt;

use crate::body::{RequestBody, ResponseBody};
use crate::client::Client;
use crate::error::{Error, InvalidRequest};
use crate::request::Request;

impl Client {
    /// Sends one HTTP request unchanged and returns the response unchanged, whatever its status
    /// code.
    ///
    /// The URI is a path and query below the server's address; an absolute one must point to the
    /// server. There is no rate limit, no retry and no time limit. The body of the response is
    /// decompressed and streamed. Dropping the future or the body cancels the request.
    ///
    /// # Errors
    /// Returns an error if the URI points elsewhere, the server cannot be reached, or there are no
    /// credentials.
    ///
    /// # Examples
    /// ```
    /// use dogwatch_client::RequestBody;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// let request = http::Request::get("/healthz?verbose").body(RequestBody::default())?;
    /// let response = client.send(request).await?;
    /// println!("{}", response.status());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(
        &self,
        mut request: http::Request<RequestBody>,
    ) -> Result<http::Response<ResponseBody>, Error> {
        *request.uri_mut() = self.below_server(request.uri())?;
        if let Some(who) = self.impersonation()
            && request.extensions().get::<crate::config::Impersonation>().is_none()
        {
            request.extensions_mut().insert(who);
        }
        self.service().oneshot(request).await.map_err(|error| self.connection_error(error))
    }

    /// Returns the absolute URI of a request: the server's address followed by path and query.
    fn below_server(&self, uri: &Uri) -> Result<Uri, Error> {
        let elsewhere = || InvalidRequest::Address(uri.path().to_owned());
        let server: Uri = self.server().as_str().parse().map_err(|_| elsewhere())?;
        match uri.authority() {
            // The scheme is compared too: with `http` instead of `https` the credentials would be
            // sent in clear text.
            Some(_) if (uri.authority(), uri.scheme()) == (server.authority(), server.scheme()) => {
                Ok(uri.clone())
            }
            Some(_) => Err(elsewhere().into()),
            None => {
                let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
                let text = format!("{}{target}", self.server().as_str().trim_end_matches('/'));
                Ok(text.parse().map_err(|_| elsewhere())?)
            }
        }
    }
}

impl Request {
    /// Sends the request as a protocol upgrade, and returns the connection once the server has
    /// switched: for exec, attach and port-forward, and for any WebSocket.
    ///
    /// The caller sets the headers of the protocol, such as `Sec-WebSocket-Key` and
    /// `Sec-WebSocket-Protocol`. The request uses a new HTTP/1.1 connection, without retries; a
    /// limit set with [`Request::timeout`] holds until the server has switched. Dropping the stream
    /// closes the connection.
    ///
    /// # Errors
    /// See [`Request::send`]; [`Error::Malformed`] if the server responds without switching.
    pub async fn upgrade(self, protocol: &str) -> Result<(http::HeaderMap, Upgraded), Error> {
        let request = self.header(CONNECTION, "Upgrade").header(UPGRADE, protocol).max_retries(0);
        let (name, mut response) = request.send_streamed().await?;
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let agreed = response.headers().get(UPGRADE).map(HeaderValue::as_bytes);
        if !switched || !agreed.is_some_and(|it| it.eq_ignore_ascii_case(protocol.as_bytes())) {
            let problem = format!("the server did not switch to {protocol:?}");
            return Err(Error::Malformed { request: name, problem });
        }
        let headers = std::mem::take(response.headers_mut());
        let malformed = |error: hyper::Error| Error::Malformed { request: name, problem: error.to_string() };
        let stream = hyper::upgrade::on(response).await.map_err(malformed)?;
        Ok((headers, stream))
    }
}
