//! What a client dials: `kubernetes:///service.namespace:port` and its other spellings, read and written.
//!
//! The grammar is kuberesolver's, form by form, read by a parser of our own: a general URL parser refuses half of it. Where
//! kuberesolver drops what it does not understand, this says what is wrong. Nothing here knows what the names stand for.
//!
//! | form | service | namespace | port |
//! |---|---|---|---|
//! | `kubernetes:///svc`, `kubernetes:///svc:8080`, `kubernetes:///svc:grpc` | `svc` | the caller's | first, by number, by name |
//! | `kubernetes:///svc.ns:8080`, `kubernetes:///svc.ns.svc.cluster.local:grpc` | `svc` | `ns` | as given |
//! | `kubernetes://ns/svc:8080` | `svc` | `ns` | as given |
//! | `kubernetes://svc:8080/`, `kubernetes://svc.ns:8080`, `kubernetes://svc.ns/` | `svc` | `ns`, or the caller's | a number, or first |
//! | `kubernetes:svc.ns:80`, `svc.ns:80`, `/svc.ns:80`, `//ns/svc:80` | `svc` | `ns` | as given |

mod destination;
#[cfg(test)]
mod tables;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use destination::Destination;

/// The scheme that is always understood.
const KUBERNETES: &str = "kubernetes";

/// The longest name of a service, a namespace or a port: a label of DNS.
const LONGEST_NAME: usize = 63;

/// A service to call, and the port of it.
///
/// [`Display`](fmt::Display) writes one spelling for all that mean the same, `kubernetes://namespace/service:port`, which reads back
/// as the same target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    scheme: Arc<str>,
    service: Arc<str>,
    /// `None`: the caller's own.
    namespace: Option<Arc<str>>,
    port: Port,
}

/// Which port of a service's endpoints to call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Port {
    /// The first TCP port of the Service. Where the Service cannot be read, the port of its endpoints that has `appProtocol: grpc` or
    /// is called `grpc`, or the only one they have; where none of that says which, there is nothing to call.
    #[default]
    First,
    /// The service's port of this number, and the port of the pods that stands behind it. Where the Service cannot be read, the
    /// pods' port of this number.
    Number(u16),
    /// The pods' port of this number, whatever the Service says: `?port=pod`.
    PodNumber(u16),
    /// The port of this name.
    Name(Arc<str>),
}

/// Which schemes are understood: `kubernetes`, and what else a program calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schemes(Vec<Arc<str>>);

/// A target that cannot be understood. Correct the text; nothing else helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{target:?} is not a target: {problem}")]
pub struct TargetError {
    target: String,
    problem: TargetProblem,
}

/// What is wrong with a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetProblem {
    /// There is no service in it.
    #[error("it names no service; write kubernetes:///service.namespace:port")]
    NoService,
    /// The scheme is not one of those that are understood.
    #[error("the scheme {scheme:?} is not one of {known}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// Those that are understood.
        known: String,
    },
    /// A name is not one that an object can have.
    #[error("{name:?} cannot be the name of a {what}: those have small letters, digits and '-', at most 63")]
    BadName {
        /// What it would name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The namespace is said twice, and differently.
    #[error("it names two namespaces, {0:?} and {1:?}")]
    TwoNamespaces(String, String),
    /// What follows the namespace is no domain of a cluster.
    #[error("after service and namespace comes svc and the cluster's domain, not {0:?}")]
    BadDomain(String),
    /// A host with a port is the service, and then nothing follows.
    #[error(
        "a path after a port would be ignored: write kubernetes://namespace/service:port, or leave {0:?} out"
    )]
    PathAfterPort(String),
    /// The path has more than one part.
    #[error("the path {0:?} has more than one part")]
    LongPath(String),
    /// A port out of range.
    #[error("{0} is not a port: those are 1 to 65535")]
    PortOutOfRange(String),
    /// A port by name stands where a URL can have a number only.
    #[error("a port by name, {name:?}, goes behind three slashes: kubernetes:///{host}:{name}")]
    PortNameInHost {
        /// What stands before the port.
        host: String,
        /// The name.
        name: String,
    },
    /// An option that does not exist, or a value that it cannot have.
    #[error("the option {0:?} is unknown; there is port=pod and port=service")]
    UnknownOption(String),
    /// `port=pod` says what a number means, and there is none.
    #[error("port=pod says what the number of a port means, and there is no number")]
    OptionWithoutNumber,
    /// A character that no part of a target can have.
    #[error("{0:?} cannot be part of it")]
    BadCharacter(char),
    /// It is this machine or an address, where a service was asked for.
    #[error("{0:?} is a host and not a service; a channel takes it as dns:///host:port or address:port")]
    NotAService(String),
    /// An address without a port, or none at all.
    #[error("{0:?} is not an address with a port, such as 10.0.0.1:50051 or [fd00::1]:50051")]
    BadAddress(String),
    /// A host without a port, or with one that is no number.
    #[error("{0:?} is not a host with a port; write dns:///host:port")]
    BadHost(String),
}

impl Target {
    /// A service of the caller's own namespace, at the first port.
    ///
    /// # Errors
    /// When no service can have this name.
    pub fn new(service: &str) -> Result<Self, TargetError> {
        let made = name("service", service).map(|service| Self {
            scheme: KUBERNETES.into(),
            service,
            namespace: None,
            port: Port::First,
        });
        made.map_err(|problem| TargetError { target: service.to_owned(), problem })
    }

    /// The scheme it was written with.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The namespace, where it says.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The same service in this namespace, where it does not say another. White space around the name, such as the end of the line in
    /// a pod's namespace file, is left out.
    #[must_use]
    pub fn or_namespace(mut self, namespace: &str) -> Self {
        if self.namespace.is_none() && !namespace.trim().is_empty() {
            self.namespace = Some(namespace.trim().into());
        }
        self
    }

    /// The same service at another port.
    #[must_use]
    pub fn with_port(mut self, port: Port) -> Self {
        self.port = port;
        self
    }

    /// How the service is called where a server wants to know: `service.namespace`, as kuberesolver has it. The `:authority` of calls
    /// and the name in TLS unless said otherwise.
    pub fn authority(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}.{namespace}", self.service),
            None => self.service.to_string(),
        }
    }

    /// The value of the label `target` of kuberesolver's gauges.
    pub(crate) fn label(&self) -> String {
        let (scheme, service, namespace) =
            (&self.scheme, &self.service, self.namespace().unwrap_or_default());
        match &self.port {
            Port::First => format!("{scheme}://{namespace}/{service}:"),
            port => format!("{scheme}://{namespace}/{service}:{port}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.namespace().unwrap_or_default(), self.service)?;
        match &self.port {
            Port::First => Ok(()),
            Port::PodNumber(_) => write!(f, ":{}?port=pod", self.port),
            port => write!(f, ":{port}"),
        }
    }
}

impl fmt::Display for Port {
    /// The number or the name; nothing for the first one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => Ok(()),
            Self::Number(number) | Self::PodNumber(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    /// Reads a target of the scheme `kubernetes`. For other schemes see [`Schemes`].
    fn from_str(text: &str) -> Result<Self, TargetError> {
        Schemes::default().parse(text)
    }
}

impl TargetError {
    /// What is wrong.
    pub fn problem(&self) -> &TargetProblem {
        &self.problem
    }
}

impl Default for Schemes {
    /// `kubernetes` alone.
    fn default() -> Self {
        Self(vec![KUBERNETES.into()])
    }
}

impl Schemes {
    /// Understands this scheme too. Schemes are the same in small and capital letters.
    #[must_use]
    pub fn alias(mut self, scheme: &str) -> Self {
        self.0.push(scheme.to_ascii_lowercase().into());
        self
    }

    /// Reads a target of one of these schemes. Without a scheme it is `kubernetes`.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn parse(&self, text: &str) -> Result<Target, TargetError> {
        self.read(text).map_err(|problem| TargetError { target: text.to_owned(), problem })
    }

    fn read(&self, text: &str) -> Result<Target, TargetProblem> {
        if is_host(text) {
            return Err(TargetProblem::NotAService(text.to_owned()));
        }
        let strange = |it: &char| matches!(it, '%' | '#' | '@' | '[' | ']' | '\\') || it.is_whitespace();
        if let Some(character) = text.chars().find(strange) {
            return Err(TargetProblem::BadCharacter(character));
        }
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = self.split_scheme(text)?;
        let place = match rest.strip_prefix("//") {
            Some(rest) => Place::read_url(rest)?,
            None => Place::read(rest.strip_prefix('/').unwrap_or(rest), None)?,
        };
        let port = with_options(place.port, query)?;
        Ok(Target { scheme, service: place.service, namespace: place.namespace, port })
    }

    /// The scheme, and what follows its colon. A colon after anything else is that of a port.
    fn split_scheme<'t>(&self, text: &'t str) -> Result<(Arc<str>, &'t str), TargetProblem> {
        if let Some((scheme, rest)) = text.split_once(':') {
            let known = self.0.iter().find(|it| it.eq_ignore_ascii_case(scheme));
            if let Some(known) = known {
                return Ok((Arc::clone(known), rest));
            }
            if rest.starts_with("//") {
                let known = self.0.join(", ");
                return Err(TargetProblem::UnknownScheme { scheme: scheme.to_owned(), known });
            }
        }
        Ok((KUBERNETES.into(), text))
    }
}

/// Whether a text without a scheme is an address or this machine, with a port or without.
fn is_host(text: &str) -> bool {
    let name = text.rsplit_once(':').map_or(text, |it| it.0);
    name.eq_ignore_ascii_case("localhost")
        || text.parse::<SocketAddr>().is_ok()
        || text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// What a target says once the scheme and the options are off.
struct Place {
    service: Arc<str>,
    namespace: Option<Arc<str>>,
    port: Port,
}

impl Place {
    /// What follows two slashes: a host, which is a namespace or the service, and a path, which is the service or nothing.
    fn read_url(rest: &str) -> Result<Self, TargetProblem> {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        match (host, path) {
            ("", path) => Self::read(path, None),
            (host, "") => {
                if let Some((host, port)) = host.rsplit_once(':')
                    && !port.is_empty()
                    && !is_number(port)
                {
                    return Err(TargetProblem::PortNameInHost {
                        host: host.to_owned(),
                        name: port.to_owned(),
                    });
                }
                Self::read(host, None)
            }
            (host, path) if host.contains(':') => Err(TargetProblem::PathAfterPort(path.to_owned())),
            (host, path) => Self::read(path, Some(name("namespace", host)?)),
        }
    }

    /// `service`, `service.namespace` or `service.namespace.svc.domain`, and a port. The namespace may be said before.
    fn read(text: &str, said: Option<Arc<str>>) -> Result<Self, TargetProblem> {
        if text.contains('/') {
            return Err(TargetProblem::LongPath(text.to_owned()));
        }
        let (names, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let mut names = names.splitn(3, '.');
        let service = names.next().unwrap_or_default();
        if service.is_empty() {
            return Err(TargetProblem::NoService);
        }
        let service = name("service", service)?;
        let namespace = match names.next() {
            None | Some("") => None,
            Some(it) => Some(name("namespace", it)?),
        };
        match names.next() {
            None | Some("" | "svc") => {}
            Some(domain) if domain.starts_with("svc.") => {}
            Some(domain) => return Err(TargetProblem::BadDomain(domain.to_owned())),
        }
        let namespace = match (said, namespace) {
            (Some(one), Some(other)) if one != other => {
                return Err(TargetProblem::TwoNamespaces(one.to_string(), other.to_string()));
            }
            (one, other) => one.or(other),
        };
        Ok(Self { service, namespace, port: read_port(port)? })
    }
}

fn read_port(text: &str) -> Result<Port, TargetProblem> {
    if text.is_empty() {
        return Ok(Port::First);
    }
    if !is_number(text) {
        return Ok(Port::Name(name("port", text)?));
    }
    match text.parse() {
        Ok(number) if number > 0 && !text.starts_with('+') => Ok(Port::Number(number)),
        _ => Err(TargetProblem::PortOutOfRange(text.to_owned())),
    }
}

/// What kuberesolver takes for a number: digits, with or without a sign.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
}

fn with_options(port: Port, query: &str) -> Result<Port, TargetProblem> {
    let mut of_pods = false;
    for option in query.split('&').filter(|it| !it.is_empty()) {
        of_pods = match option {
            "port=pod" => true,
            "port=service" => false,
            unknown => return Err(TargetProblem::UnknownOption(unknown.to_owned())),
        };
    }
    match port {
        Port::Number(number) if of_pods => Ok(Port::PodNumber(number)),
        _ if of_pods => Err(TargetProblem::OptionWithoutNumber),
        port => Ok(port),
    }
}

/// A label of DNS, as services, namespaces and ports are called.
fn name(what: &'static str, name: &str) -> Result<Arc<str>, TargetProblem> {
    let allowed = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let framed = !name.starts_with('-') && !name.ends_with('-');
    if !name.is_empty() && name.len() <= LONGEST_NAME && framed && name.bytes().all(allowed) {
        Ok(name.into())
    } else {
        Err(TargetProblem::BadName { what, name: name.to_owned() })
    }
}
