//! What a target stands for at one moment: the endpoints that may be called, or why there are none.
//!
//! A set is a value: the source makes a new one when something changed, and everything below (connections, policies, the
//! command line) compares it with the one before. It holds no connection and no counter.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Which endpoint, across sets: the same pod keeps its id when it moves from one slice to another.
///
/// It is the uid of the object behind the endpoint where the slice names one, and its first address otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(Arc<str>);

impl EndpointId {
    /// An id from its text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One backend of a service: a pod, with every address it can be reached by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Who it is, across sets.
    pub id: EndpointId,
    /// Where it can be reached, best first; never empty. A dual-stack pod has two, and is still one endpoint with one share.
    pub addresses: Vec<SocketAddr>,
    /// It may take new calls. One that may not is in the set so that its calls can end in peace.
    pub usable: bool,
    /// What the slice says of it.
    pub ready: bool,
    /// It still answers, ready or not.
    pub serving: bool,
    /// It is about to go.
    pub terminating: bool,
    /// The zone it is in, where that is known.
    pub zone: Option<Arc<str>>,
    /// The node it is on, where that is known.
    pub node: Option<Arc<str>>,
    /// The pod it is, where that is known.
    pub pod: Option<Arc<str>>,
    /// Its share beside the others', 1 unless said otherwise; never 0.
    pub weight: u32,
}

/// All endpoints of a target at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointSet {
    /// Goes up by one with every set that differs from the one before.
    pub generation: u64,
    /// The endpoints, ordered by id, each id once.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Why no endpoint is usable; `None` if and only if one is, or if nobody knows yet (generation 0).
    pub unavailable: Option<Unavailable>,
}

impl EndpointSet {
    /// Those that may take new calls.
    pub fn usable(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().filter(|it| it.usable)
    }

    /// Whether anything is known yet: there are endpoints, or a reason why there are none.
    pub fn is_known(&self) -> bool {
        self.generation > 0
    }
}

/// Why a target has nothing to call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no such Service, and no slice of it.
    ServiceNotFound,
    /// We may not read the slices; the text is the server's.
    Forbidden(String),
    /// The service has endpoints, and none is ready; how many there are.
    NothingReady(usize),
    /// The service has no endpoint at all.
    NoEndpoints,
    /// No endpoint has the port that the target names.
    NoSuchPort(String),
    /// All that the service has are names of hosts, which are not called; how many.
    NotAddresses(usize),
    /// The service is only another name for this host, and has no endpoints.
    ExternalName(String),
    /// The API server could not be reached, and never has been; why.
    ApiUnreachable(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceNotFound => f.write_str("there is no such service"),
            Self::Forbidden(why) => write!(f, "its endpoints may not be read: {why}"),
            Self::NothingReady(count) => write!(f, "none of its {count} endpoints is ready"),
            Self::NoEndpoints => f.write_str("it has no endpoints"),
            Self::NoSuchPort(port) if port.is_empty() => f.write_str("none of its endpoints has a port"),
            Self::NoSuchPort(port) => write!(f, "none of its endpoints has a port {port:?}"),
            Self::NotAddresses(count) => write!(f, "its {count} endpoints are names of hosts, not addresses"),
            Self::ExternalName(host) => write!(f, "it is only another name for {host:?}"),
            Self::ApiUnreachable(why) => write!(f, "its endpoints could not be read yet: {why}"),
        }
    }
}
