//! Targets: parses and formats `kubernetes:///service.namespace:port` and its other spellings.
//!
//! The grammar is kuberesolver's, form by form, in a parser of our own, since a general URL parser
//! rejects half of the forms. Where kuberesolver ignores input that it does not understand, this
//! parser reports the mistake. Nothing here resolves the names.
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

/// The scheme that is always accepted.
const KUBERNETES: &str = "kubernetes";

/// The maximum length of the name of a service, a namespace or a port: a DNS label.
const LONGEST_NAME: usize = 63;

/// A service to call, and its port.
///
/// [`Display`](fmt::Display) writes one canonical spelling, `kubernetes://namespace/service:port`,
/// which parses back to the same target.
///
/// ```
/// use dogwatch_grpc::{Port, Target};
///
/// let target: Target = "kubernetes:///greeter.shop:grpc".parse()?;
/// assert_eq!((target.service(), target.namespace()), ("greeter", Some("shop")));
/// assert_eq!(target.port(), &Port::Name("grpc".into()));
/// assert_eq!(target.to_string(), "kubernetes://shop/greeter:grpc");
/// # Ok::<(), dogwatch_grpc::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    scheme: Arc<str>,
    service: Arc<str>,
    /// `None` stands for the caller's namespace.
    namespace: Option<Arc<str>>,
    port: Port,
}

/// The port of a service's endpoints to call.
///
/// ```
/// use dogwatch_grpc::{Port, Target};
///
/// let target = Target::new("greeter")?.with_port(Port::Number(80));
/// assert_eq!(target.port().to_string(), "80");
/// assert_eq!("greeter.shop:8080?port=pod".parse::<Target>()?.port(), &Port::PodNumber(8080));
/// # Ok::<(), dogwatch_grpc::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Port {
    /// The first TCP port of the Service. If the Service cannot be read: the port of its endpoints
    /// that has `appProtocol: grpc` or is named `grpc`, or their only port; otherwise the port is
    /// ambiguous and there is nothing to call.
    #[default]
    First,
    /// The Service port with this number, and the pod port behind it. If the Service cannot be
    /// read, the pod port with this number.
    Number(u16),
    /// The pod port with this number, whatever the Service says: `?port=pod`.
    PodNumber(u16),
    /// The port with this name.
    Name(Arc<str>),
}

/// The accepted schemes: `kubernetes`, and the program's aliases for it.
///
/// ```
/// use dogwatch_grpc::Schemes;
///
/// let schemes = Schemes::default().alias("k8s");
/// assert_eq!(schemes.parse("k8s:///greeter.shop")?.service(), "greeter");
/// assert!(schemes.parse("consul:///greeter").is_err());
/// # Ok::<(), dogwatch_grpc::TargetError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schemes(Vec<Arc<str>>);

/// A target that cannot be parsed. Only correcting the text helps.
///
/// ```
/// use dogwatch_grpc::Target;
///
/// let error = "kubernetes:///".parse::<Target>().expect_err("it names no service");
/// eprintln!("{error}"); // with the text and the remedy
/// # assert!(error.to_string().contains("kubernetes:///"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{target:?} is not a target: {problem}")]
pub struct TargetError {
    target: String,
    problem: TargetProblem,
}

/// The mistake in a target.
///
/// ```
/// use dogwatch_grpc::{Target, TargetProblem};
///
/// let error = "kubernetes:///greeter:99999".parse::<Target>().expect_err("a port has 16 bits");
/// assert!(matches!(error.problem(), TargetProblem::PortOutOfRange(port) if port == "99999"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetProblem {
    /// The target names no service.
    #[error("it names no service; write kubernetes:///service.namespace:port")]
    NoService,
    /// The scheme is not one of the accepted ones.
    #[error("the scheme {scheme:?} is not one of {known}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The accepted schemes.
        known: String,
    },
    /// A name is not valid for an object.
    #[error("{name:?} cannot be the name of a {what}: use at most 63 lowercase letters, digits and '-'")]
    BadName {
        /// The kind of thing it would name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The target names two different namespaces.
    #[error("it names two namespaces, {0:?} and {1:?}")]
    TwoNamespaces(String, String),
    /// The text after the namespace is not a cluster domain.
    #[error("service and namespace must be followed by svc and the cluster domain, not {0:?}")]
    BadDomain(String),
    /// A path follows a host with a port: that host already is the service.
    #[error(
        "a path after a port would be ignored: write kubernetes://namespace/service:port, or leave {0:?} out"
    )]
    PathAfterPort(String),
    /// The path has more than one segment.
    #[error("the path {0:?} has more than one segment")]
    LongPath(String),
    /// The port number is out of range.
    #[error("{0} is not a port: use 1 to 65535")]
    PortOutOfRange(String),
    /// A port name is used where a URL allows only a number.
    #[error("the port name {name:?} needs three slashes: write kubernetes:///{host}:{name}")]
    PortNameInHost {
        /// The text before the port.
        host: String,
        /// The name.
        name: String,
    },
    /// An unknown option, or an invalid value of one.
    #[error("the option {0:?} is unknown; use port=pod or port=service")]
    UnknownOption(String),
    /// `port=pod` applies to a port number, and the target has none.
    #[error("port=pod needs a port number")]
    OptionWithoutNumber,
    /// A character that no target can contain.
    #[error("the character {0:?} is not allowed")]
    BadCharacter(char),
    /// An address or this machine was given where a service is required.
    #[error("{0:?} is a host, not a service; for a channel, write dns:///host:port or address:port")]
    NotAService(String),
    /// Not an address, or an address without a port.
    #[error("{0:?} is not an address with a port, such as 10.0.0.1:50051 or [fd00::1]:50051")]
    BadAddress(String),
    /// A host without a port, or with a port that is not a number.
    #[error("{0:?} is not a host with a port; write dns:///host:port")]
    BadHost(String),
}

impl Target {
    /// Creates a target for a service in the caller's namespace, at the first port.
    ///
    /// # Errors
    /// Returns an error if no service can have this name.
    pub fn new(service: &str) -> Result<Self, TargetError> {
        let made = name("service", service).map(|service| Self {
            scheme: KUBERNETES.into(),
            service,
            namespace: None,
            port: Port::First,
        });
        made.map_err(|problem| TargetError { target: service.to_owned(), problem })
    }

    /// Returns the scheme that the target was written with.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the namespace, if the target names one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Returns the target in this namespace, unless it names one itself. White space around the
    /// name, such as the newline at the end of a pod's namespace file, is ignored.
    #[must_use]
    pub fn or_namespace(mut self, namespace: &str) -> Self {
        if self.namespace.is_none() && !namespace.trim().is_empty() {
            self.namespace = Some(namespace.trim().into());
        }
        self
    }

    /// Returns the same service at another port.
    #[must_use]
    pub fn with_port(mut self, port: Port) -> Self {
        self.port = port;
        self
    }

    /// Returns `service.namespace`, as kuberesolver does. It is the default `:authority` of calls
    /// and the default name in TLS.
    pub fn authority(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}.{namespace}", self.service),
            None => self.service.to_string(),
        }
    }

    /// Returns the value of the label `target` in kuberesolver's gauges.
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
    /// Writes the number or the name; nothing for the first port.
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

    /// Parses a target with the scheme `kubernetes`. For other schemes see [`Schemes`].
    fn from_str(text: &str) -> Result<Self, TargetError> {
        Schemes::default().parse(text)
    }
}

impl TargetError {
    /// Returns the mistake.
    pub fn problem(&self) -> &TargetProblem {
        &self.problem
    }
}

impl Default for Schemes {
    /// Accepts only `kubernetes`.
    fn default() -> Self {
        Self(vec![KUBERNETES.into()])
    }
}

impl Schemes {
    /// Accepts this scheme too. Schemes are case-insensitive.
    #[must_use]
    pub fn alias(mut self, scheme: &str) -> Self {
        self.0.push(scheme.to_ascii_lowercase().into());
        self
    }

    /// Parses a target with one of these schemes. The default scheme is `kubernetes`.
    ///
    /// # Errors
    /// Returns an error if the text is not a target.
    pub fn parse(&self, text: &str) -> Result<Target, TargetError> {
        self.parse_parts(text).map_err(|problem| TargetError { target: text.to_owned(), problem })
    }

    fn parse_parts(&self, text: &str) -> Result<Target, TargetProblem> {
        if is_host(text) {
            return Err(TargetProblem::NotAService(text.to_owned()));
        }
        let strange = |it: &char| matches!(it, '%' | '#' | '@' | '[' | ']' | '\\') || it.is_whitespace();
        if let Some(character) = text.chars().find(strange) {
            return Err(TargetProblem::BadCharacter(character));
        }
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = self.split_scheme(text)?;
        let parts = match rest.strip_prefix("//") {
            Some(rest) => TargetParts::parse_url(rest)?,
            None => TargetParts::parse(rest.strip_prefix('/').unwrap_or(rest), None)?,
        };
        let port = with_options(parts.port, query)?;
        Ok(Target { scheme, service: parts.service, namespace: parts.namespace, port })
    }

    /// Splits the text into the scheme and the text after its colon. A colon after anything else
    /// precedes a port.
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

/// Returns true if a text without a scheme is an IP address or `localhost`, with or without a port.
fn is_host(text: &str) -> bool {
    let name = text.rsplit_once(':').map_or(text, |it| it.0);
    name.eq_ignore_ascii_case("localhost")
        || text.parse::<SocketAddr>().is_ok()
        || text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// The parts of a target without the scheme and the options.
struct TargetParts {
    service: Arc<str>,
    namespace: Option<Arc<str>>,
    port: Port,
}

impl TargetParts {
    /// Parses the text after `//`: a host, which is a namespace or the service, and a path, which
    /// is the service or empty.
    fn parse_url(rest: &str) -> Result<Self, TargetProblem> {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        match (host, path) {
            ("", path) => Self::parse(path, None),
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
                Self::parse(host, None)
            }
            (host, path) if host.contains(':') => Err(TargetProblem::PathAfterPort(path.to_owned())),
            (host, path) => Self::parse(path, Some(name("namespace", host)?)),
        }
    }

    /// Parses `service`, `service.namespace` or `service.namespace.svc.domain`, and a port. The
    /// host part may already have named the namespace.
    fn parse(text: &str, namespace_of_host: Option<Arc<str>>) -> Result<Self, TargetProblem> {
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
        let namespace = match (namespace_of_host, namespace) {
            (Some(one), Some(other)) if one != other => {
                return Err(TargetProblem::TwoNamespaces(one.to_string(), other.to_string()));
            }
            (one, other) => one.or(other),
        };
        Ok(Self { service, namespace, port: parse_port(port)? })
    }
}

fn parse_port(text: &str) -> Result<Port, TargetProblem> {
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

/// Returns true if kuberesolver takes the text for a number: digits, with or without a sign.
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

/// Checks that a name is a DNS label, as the names of services, namespaces and ports must be.
fn name(what: &'static str, name: &str) -> Result<Arc<str>, TargetProblem> {
    let allowed = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let framed = !name.starts_with('-') && !name.ends_with('-');
    if !name.is_empty() && name.len() <= LONGEST_NAME && framed && name.bytes().all(allowed) {
        Ok(name.into())
    } else {
        Err(TargetProblem::BadName { what, name: name.to_owned() })
    }
}
