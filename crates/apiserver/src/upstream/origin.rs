//! The place of a backend: protocol, host and port, and the path of a request there.

use std::fmt;

/// The protocol of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
}

/// The protocol, host and port of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) protocol: Protocol,
    /// An address, without brackets, or a name.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The target of a request to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) origin: Origin,
    /// The path, percent-encoded and with a leading slash.
    pub(crate) path: String,
    /// The query without the question mark; empty for none.
    pub(crate) query: String,
}

impl Protocol {
    /// Returns the protocol of a name in a path, for example in `pods/https:NAME:PORT/proxy`, where
    /// no name is HTTP (`normalizeLocation` in k8s.io/apimachinery v0.36.4
    /// pkg/util/proxy/upgradeaware.go). Returns `None` for any other name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "" | "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }

    /// Returns the port of a URL that names none.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// Returns the host and the port, as in a URL.
    pub(crate) fn authority(&self) -> String {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl Location {
    /// Returns the path and the query of the request line.
    pub(crate) fn path_and_query(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        if self.query.is_empty() { path.to_owned() } else { format!("{path}?{}", self.query) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path_and_query())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_shown_as_its_url() {
        let at = |host: &str, path: &str, query: &str| {
            let origin = Origin { protocol: Protocol::Https, host: host.to_owned(), port: 10250 };
            Location { origin, path: path.to_owned(), query: query.to_owned() }.to_string()
        };
        assert_eq!(at("127.0.0.1", "/a", ""), "https://127.0.0.1:10250/a");
        assert_eq!(at("::1", "", "follow=true"), "https://[::1]:10250/?follow=true");
    }
}
