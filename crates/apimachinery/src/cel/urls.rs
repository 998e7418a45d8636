//! URLs as Go's `url.ParseRequestURI` reads them (k8s.io/apiserver v0.36.4
//! pkg/cel/library/urls.go).

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    /// The host with its port.
    pub(crate) host: String,
    pub(crate) path: String,
    query: String,
}

impl Url {
    /// Parses an absolute URL or an absolute path.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.bytes().any(|it| it.is_ascii_control()) {
            return None;
        }
        let scheme_end = text.find(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '+' | '-' | '.'));
        let (scheme, rest) = match scheme_end {
            Some(end) if end > 0 && text.get(end..=end) == Some(":") => {
                let (scheme, rest) = text.split_at(end);
                scheme.starts_with(|it: char| it.is_ascii_alphabetic()).then_some(())?;
                (scheme.to_ascii_lowercase(), rest.get(1..)?)
            }
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            // `mailto:a@b` is opaque: it has no host and no path.
            let host = String::new();
            let path = String::new();
            return (!scheme.is_empty()).then(|| Self {
                text: text.to_owned(),
                scheme,
                host,
                path,
                query: query.to_owned(),
            });
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                rest.split_at(rest.find('/').unwrap_or(rest.len()))
            }
            _ => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        (is_host(host) && has_sound_escapes(path)).then(|| Self {
            text: text.to_owned(),
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// Returns the host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or_default(),
            None => self.host.rsplit_once(':').map_or(&*self.host, |(host, _)| host),
        }
    }

    /// Returns the port, or an empty text.
    pub(crate) fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(&*self.host, |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Returns the parameters of the query, each with its values.
    pub(crate) fn parameters(&self) -> Vec<(String, Vec<String>)> {
        let decoded = |it: &str| {
            let it = it.replace('+', " ");
            has_sound_escapes(&it).then(|| percent_decode_str(&it).decode_utf8_lossy().into_owned())
        };
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for pair in self.query.split('&').filter(|it| !it.is_empty() && !it.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else { continue };
            match places.get(&name).and_then(|at| found.get_mut(*at)) {
                Some((_, values)) => values.push(value),
                None => {
                    places.insert(name.clone(), found.len());
                    found.push((name, vec![value]));
                }
            }
        }
        found
    }
}

fn is_host(host: &str) -> bool {
    let port = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((_, port)) => port,
            None => return false,
        },
        None if host.matches(':').count() > 1 => return false,
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or(""),
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|it| it.is_ascii_digit()),
        None => port.is_empty(),
    };
    let forbidden = |it: char| matches!(it, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}');
    is_port && !host.contains(forbidden) && has_sound_escapes(host)
}

fn has_sound_escapes(text: &str) -> bool {
    text.match_indices('%').all(|(at, _)| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_parts() {
        let url = Url::parse("https://user@example.com:8080/a%20b?k1=a&k2=b&k1=c+d").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "example.com:8080"));
        assert_eq!((url.hostname(), url.port(), url.path.as_str()), ("example.com", "8080", "/a%20b"));
        let texts = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            url.parameters(),
            [("k1".to_owned(), texts(&["a", "c d"])), ("k2".to_owned(), texts(&["b"]))]
        );
        let url = Url::parse("https://[::1]:80/").unwrap();
        assert_eq!((url.hostname(), url.port()), ("::1", "80"));
        assert_eq!(Url::parse("/path").unwrap().path, "/path");
        for text in ["", "path", "https://a:b/", "https://[::1/", "https://a b/", "http://a/%zz", "../a"] {
            assert!(Url::parse(text).is_none(), "{text}");
        }
    }
}
