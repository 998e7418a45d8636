//! Everything below [`Api`](crate::Api): requests to any path, client settings, HTTP stacks,
//! warnings.

pub use dogwatch_client::{
    BoxError, Client, ClientBuilder, DEFAULT_MAX_RETRIES, DistinctWarnings, Encoding, HttpService, HttpStack,
    IgnoreWarnings, InvalidRequest, LogWarnings, Request, RequestBody, Response, ResponseBody, RetriedError,
    ServerBackoff, Warning, WarningHandler, boxed,
};
