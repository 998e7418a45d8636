//! Operations that only pods have: logs and eviction.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::{DeleteParams, WriteParams};
use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::Api;
use crate::error::Error;
use crate::request::Request;

/// The maximum length of a log line in memory. Container runtimes cut lines at 16 KiB; a program
/// may not.
const LONGEST_LINE: u64 = 1 << 20;

/// The parameters of a log request.
///
/// ```
/// use dogwatch_client::api::LogParams;
///
/// let params = LogParams::default().container("server").tail(100).follow();
/// assert_eq!(params.tail_lines, Some(100));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogParams {
    /// The container; optional for a pod with only one.
    pub container: Option<String>,
    /// True to continue with new lines until the container ends.
    pub follow: bool,
    /// True for the log of the previous container.
    pub previous: bool,
    /// Only lines younger than this.
    pub since: Option<Duration>,
    /// Only lines written at or after this time.
    pub since_time: Option<jiff::Timestamp>,
    /// Only this number of lines from the end.
    pub tail_lines: Option<u64>,
    /// Stop after about this many bytes.
    pub limit_bytes: Option<u64>,
    /// True to prefix every line with its time.
    pub timestamps: bool,
}

impl LogParams {
    /// Continues with new lines until the container ends.
    #[must_use]
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// Sets the container.
    #[must_use]
    pub fn container(mut self, container: impl Into<String>) -> Self {
        self.container = Some(container.into());
        self
    }

    /// Limits the log to this number of lines from the end.
    #[must_use]
    pub fn tail(mut self, lines: u64) -> Self {
        self.tail_lines = Some(lines);
        self
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let yes = |on: bool| on.then(|| "true".to_owned());
        let seconds = self.since.map(|it| it.as_secs().max(1).to_string());
        let pairs = [
            ("container", self.container.clone()),
            ("follow", yes(self.follow)),
            ("previous", yes(self.previous)),
            ("sinceSeconds", seconds),
            ("sinceTime", self.since_time.map(|it| it.to_string())),
            ("tailLines", self.tail_lines.map(|it| it.to_string())),
            ("limitBytes", self.limit_bytes.map(|it| it.to_string())),
            ("timestamps", yes(self.timestamps)),
        ];
        pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

impl Api<Pod> {
    /// Reads the whole log as text.
    ///
    /// # Errors
    /// `BadRequest` if the container does not exist, has not started, or must be named.
    pub async fn logs(&self, name: &str, params: &LogParams) -> Result<String, Error> {
        let bytes = self.log_request(name, params).bytes().await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Streams the log in chunks of any size. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// See [`Self::logs`]; a lost connection is an error of the stream, which then ends.
    pub async fn log_stream(
        &self,
        name: &str,
        params: &LogParams,
    ) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
        let body = self.log_request(name, params).stream().await?;
        let client = self.client.clone();
        Ok(body.into_data_stream().map(move |chunk| chunk.map_err(|error| client.connection_error(error))))
    }

    /// Streams the log line by line, without line ends. Dropping the stream cancels the request.
    ///
    /// A line is held in memory until it is complete; one of more than 1 MiB comes in pieces of
    /// that size.
    ///
    /// # Errors
    /// See [`Self::logs`]; a lost connection is an error of the stream, which then ends.
    pub async fn log_lines(
        &self,
        name: &str,
        params: &LogParams,
    ) -> Result<impl Stream<Item = Result<String, Error>> + use<>, Error> {
        let chunks = self.log_stream(name, params).await?;
        let client = self.client.clone();
        let reader = StreamReader::new(chunks.map_err(std::io::Error::other));
        let lines = futures_util::stream::try_unfold(Box::pin(reader), async |mut reader| {
            let mut line = Vec::new();
            (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
            if line.is_empty() {
                return Ok(None);
            }
            while line.last().is_some_and(|it| matches!(it, b'\n' | b'\r')) {
                line.pop();
            }
            Ok(Some((String::from_utf8_lossy(&line).into_owned(), reader)))
        });
        Ok(lines.map_err(move |error: std::io::Error| client.connection_error(error.into())))
    }

    /// Requests the eviction of a pod, which its disruption budget may deny.
    ///
    /// # Errors
    /// `TooManyRequests` if a disruption budget currently denies it.
    pub async fn evict(&self, name: &str, params: &DeleteParams) -> Result<(), Error> {
        let metadata = json!({ "name": name, "namespace": self.namespace() });
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata,
            "deleteOptions": serde_json::to_value(params.body()).unwrap_or_default(),
        });
        let _: serde_json::Value =
            self.create_subresource(name, "eviction", &WriteParams::default(), &eviction).await?;
        Ok(())
    }

    fn log_request(&self, name: &str, params: &LogParams) -> Request {
        self.on_object(self.client.get(), name)
            .subresource("log")
            .params(params.query())
            .accept("text/plain, */*")
    }
}
