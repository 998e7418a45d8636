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

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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
    /// The first that the endpoints have.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `service namespace port`, with `-` for what is not said, and a number of pods as `pod/80`.
    fn told(target: &Target) -> String {
        let port = match target.port() {
            Port::First => "-".to_owned(),
            Port::PodNumber(number) => format!("pod/{number}"),
            port => port.to_string(),
        };
        format!("{} {} {port}", target.service(), target.namespace().unwrap_or("-"))
    }

    fn read(text: &str) -> String {
        text.parse::<Target>().map_or_else(|error| format!("! {}", error.problem()), |it| told(&it))
    }

    /// The cases of kuberesolver's TestParseResolverTarget and TestParseTargets, in their order.
    #[test]
    fn every_case_of_kuberesolver_is_read_as_it_reads_it() {
        for (text, expected) in [
            ("a", "a - -"),
            ("/a", "a - -"),
            ("//a/b", "b a -"),
            ("a.b", "a b -"),
            ("/a.b", "a b -"),
            ("/a.b:80", "a b 80"),
            ("/a.b:port", "a b port"),
            ("//a/b:port", "b a port"),
            ("//a/b:port", "b a port"),
            ("//a/b:80", "b a 80"),
            ("a.b.svc.cluster.local", "a b -"),
            ("/a.b.svc.cluster.local:80", "a b 80"),
            ("/a.b.svc.cluster.local:port", "a b port"),
            ("//a.b.svc.cluster.local", "a b -"),
            ("//a.b.svc.cluster.local:80", "a b 80"),
            ("kubernetes://a:30", "a - 30"),
            ("kubernetes://a/", "a - -"),
            ("kubernetes:///a", "a - -"),
            ("kubernetes://a/b", "b a -"),
            ("kubernetes://a.b/", "a b -"),
            ("kubernetes:///a.b:80", "a b 80"),
            ("kubernetes:///a.b:port", "a b port"),
            ("kubernetes:///a:port", "a - port"),
            ("kubernetes://x/a:port", "a x port"),
            ("kubernetes://a.x:30/", "a x 30"),
            ("kubernetes://a.b.svc.cluster.local", "a b -"),
            ("kubernetes://a.b.svc.cluster.local:80", "a b 80"),
            ("kubernetes:///a.b.svc.cluster.local", "a b -"),
            ("kubernetes:///a.b.svc.cluster.local:80", "a b 80"),
            ("kubernetes:///a.b.svc.cluster.local:port", "a b port"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for text in ["/", "", "kubernetes:///"] {
            assert!(read(text).starts_with("! it names no service"), "{text}: {}", read(text));
        }
    }

    /// The forms that people were promised, and the corners where kuberesolver is lenient by accident.
    #[test]
    fn every_other_form_is_read() {
        for (text, expected) in [
            ("kubernetes:///service:8080", "service - 8080"),
            ("kubernetes:///service:portname", "service - portname"),
            ("kubernetes:///service.namespace:8080", "service namespace 8080"),
            ("kubernetes://namespace/service:8080", "service namespace 8080"),
            ("kubernetes://service:8080/", "service - 8080"),
            ("kubernetes://service.namespace:8080/", "service namespace 8080"),
            ("kubernetes:svc.ns:80", "svc ns 80"),
            ("kubernetes:/svc.ns:80", "svc ns 80"),
            ("KUBERNETES:///svc", "svc - -"),
            ("svc:80", "svc - 80"),
            ("svc.ns:grpc", "svc ns grpc"),
            ("kubernetes:///svc:", "svc - -"),
            ("kubernetes://svc:/", "svc - -"),
            ("kubernetes:///svc.:80", "svc - 80"),
            ("kubernetes:///svc.ns.:80", "svc ns 80"),
            ("kubernetes:///svc.ns.svc:80", "svc ns 80"),
            ("kubernetes:///svc.ns.svc.cluster.local.:80", "svc ns 80"),
            ("kubernetes://ns/svc.ns:80", "svc ns 80"),
            ("kubernetes:///svc:080", "svc - 80"),
            ("kubernetes:///svc:65535", "svc - 65535"),
            ("kubernetes:///svc:80?port=pod", "svc - pod/80"),
            ("kubernetes://svc.ns:80/?port=pod", "svc ns pod/80"),
            ("kubernetes:///svc:80?port=service", "svc - 80"),
            ("kubernetes:///svc:80?port=pod&port=service", "svc - 80"),
            ("kubernetes:///svc?", "svc - -"),
            ("kubernetes:///svc?port=service", "svc - -"),
            ("kubernetes:///1-svc:80-tls", "1-svc - 80-tls"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_kuberesolver_passes_over_in_silence_is_said() {
        for (text, expected) in [
            ("kubernetes:///.ns:80", "it names no service"),
            ("kubernetes://", "it names no service"),
            ("kubernetes:", "it names no service"),
            ("kubernetes://ns/:80", "it names no service"),
            ("kubernetes:///:80", "it names no service"),
            ("dns:///svc", "the scheme \"dns\" is not one of kubernetes"),
            ("://svc", "the scheme \"\" is not one of kubernetes"),
            (
                "kubernetes://svc:grpc/",
                "a port by name, \"grpc\", goes behind three slashes: kubernetes:///svc:grpc",
            ),
            ("kubernetes://svc:grpc", "a port by name"),
            ("kubernetes://a.b/c:80", "\"a.b\" cannot be the name of a namespace"),
            ("kubernetes://ns/svc.other:80", "it names two namespaces, \"ns\" and \"other\""),
            ("kubernetes://ns:80/svc", "a path after a port would be ignored"),
            ("kubernetes://ns:/svc", "a path after a port would be ignored"),
            ("kubernetes:///ns/svc", "the path \"ns/svc\" has more than one part"),
            ("kubernetes://ns/svc:80/", "the path \"svc:80/\" has more than one part"),
            ("kubernetes:////svc", "the path \"/svc\" has more than one part"),
            ("kubernetes:///svc:0", "0 is not a port"),
            ("kubernetes:///svc:-1", "-1 is not a port"),
            ("kubernetes:///svc:+80", "+80 is not a port"),
            ("kubernetes:///svc:99999", "99999 is not a port"),
            ("kubernetes:///svc:65536", "65536 is not a port"),
            ("kubernetes://svc:99999/", "99999 is not a port"),
            ("kubernetes:///svc:80:90", "\"svc:80\" cannot be the name of a service"),
            ("kubernetes:///Svc", "\"Svc\" cannot be the name of a service"),
            ("kubernetes:///svc_a", "\"svc_a\" cannot be the name of a service"),
            ("kubernetes:///-svc", "\"-svc\" cannot be the name of a service"),
            ("kubernetes:///svc.Ns", "\"Ns\" cannot be the name of a namespace"),
            ("kubernetes:///svc:Grpc", "\"Grpc\" cannot be the name of a port"),
            ("kubernetes:///svc.ns.example.com", "after service and namespace comes svc"),
            ("kubernetes:///svc.ns.svcx.local", "after service and namespace comes svc"),
            ("kubernetes:///svc?port=node", "the option \"port=node\" is unknown"),
            ("kubernetes:///svc:80?timeout=1", "the option \"timeout=1\" is unknown"),
            ("kubernetes:///svc?port=pod", "port=pod says what the number of a port means"),
            ("kubernetes:///svc:grpc?port=pod", "port=pod says what the number of a port means"),
            ("kubernetes:///svc%20", "'%' cannot be part of it"),
            ("kubernetes://user@svc/", "'@' cannot be part of it"),
            ("kubernetes://[::1]:80/", "'[' cannot be part of it"),
            ("kubernetes:///svc#a", "'#' cannot be part of it"),
            (" svc", "' ' cannot be part of it"),
        ] {
            let problem = match text.parse::<Target>() {
                Err(error) => error.to_string(),
                Ok(target) => panic!("{text} was read as {target}"),
            };
            assert!(
                problem.starts_with(&format!("{text:?} is not a target: {expected}")),
                "{text}: {problem}"
            );
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        assert!(read(&long).starts_with("! ") && !read(&long[1..]).starts_with("! "));
    }

    #[test]
    fn an_alias_is_a_scheme_like_the_first() {
        let schemes = Schemes::default().alias("K8s");
        let target = schemes.parse("k8s://shop/greeter:grpc").expect("a target");
        assert_eq!((target.scheme(), told(&target).as_str()), ("k8s", "greeter shop grpc"));
        assert_eq!(target.to_string(), "k8s://shop/greeter:grpc");
        assert_eq!(schemes.parse(&target.to_string()), Ok(target));
        let error = schemes.parse("xds:///a").expect_err("unknown").to_string();
        assert_eq!(error, "\"xds:///a\" is not a target: the scheme \"xds\" is not one of kubernetes, k8s");
        assert!("k8s:///a".parse::<Target>().is_err());
    }

    #[test]
    fn the_callers_namespace_is_used_where_the_target_says_none() {
        let target = |text: &str| text.parse::<Target>().expect("a target");
        assert_eq!(told(&target("svc:80").or_namespace("shop\n")), "svc shop 80");
        assert_eq!(told(&target("svc.ns:80").or_namespace("shop")), "svc ns 80");
        assert_eq!(told(&target("svc:80").or_namespace("\n")), "svc - 80");
        assert_eq!(target("svc:80").or_namespace("shop").authority(), "svc.shop");
        assert_eq!(target("svc").authority(), "svc");
    }

    #[test]
    fn the_label_of_the_gauges_is_kuberesolvers() {
        for (text, expected) in [
            ("kubernetes:///svc.ns", "kubernetes://ns/svc:"),
            ("kubernetes:///svc.ns:80?port=pod", "kubernetes://ns/svc:80"),
            ("kubernetes:///svc.ns:grpc", "kubernetes://ns/svc:grpc"),
        ] {
            assert_eq!(text.parse::<Target>().expect("a target").label(), expected);
        }
    }

    fn a_name() -> impl Strategy<Value = String> {
        "[a-z]([a-z0-9-]{0,20}[a-z0-9])?"
    }

    fn a_target() -> impl Strategy<Value = Target> {
        let port = prop_oneof![
            Just(Port::First),
            (1u16..).prop_map(Port::Number),
            (1u16..).prop_map(Port::PodNumber),
            a_name().prop_map(|it| Port::Name(it.into())),
        ];
        (a_name(), proptest::option::of(a_name()), port).prop_map(|(service, namespace, port)| Target {
            scheme: KUBERNETES.into(),
            service: service.into(),
            namespace: namespace.map(Into::into),
            port,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(target in a_target()) {
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }

        #[test]
        fn no_text_is_too_strange_to_be_read_or_refused(text in "[a-zA-Z0-9:/.?=&%@ -]{0,30}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }
    }
}
