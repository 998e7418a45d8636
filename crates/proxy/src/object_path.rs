//! The resource that a path names, in every spelling that a server might accept.
//!
//! Used only to find the rules of a request: a path in an unusual spelling must not lead past them.

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub(crate) group: String,
    pub(crate) resource: String,
    /// The first segment after the name of the object.
    pub(crate) subresource: Option<String>,
}

/// Subresources whose paths continue with a path of the object's own server.
const CONNECTING: &str = "proxy";

impl ObjectPath {
    /// Returns the resources of a path, as one server or another may read it: none for a path that
    /// names no objects. `..` is a segment like others after the name of a connecting subresource,
    /// but a server may also resolve it everywhere.
    pub(crate) fn all(path: &str) -> Vec<Self> {
        let mut found: Vec<Self> = [true, false].into_iter().filter_map(|it| Self::parse(path, it)).collect();
        found.dedup();
        found
    }

    fn parse(path: &str, stops: bool) -> Option<Self> {
        let decoded = percent_decoded(path);
        let mut segments: Vec<&str> = Vec::new();
        for segment in decoded.split(['/', '\\']) {
            match segment {
                "" | "." => {}
                ".." if stops && Self::of(&segments).is_some_and(|it| it.connects()) => break,
                ".." => drop(segments.pop()),
                segment => segments.push(segment),
            }
        }
        Self::of(&segments)
    }

    fn connects(&self) -> bool {
        self.subresource.as_deref() == Some(CONNECTING)
    }

    fn of(segments: &[&str]) -> Option<Self> {
        let (group, rest) = match segments {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        // The old form of a watch.
        let rest = rest.strip_prefix(&["watch"]).unwrap_or(rest);
        let (resource, rest) = match rest {
            ["namespaces", name, subresource @ ("status" | "finalize")] => {
                ("namespaces", &[*name, *subresource][..])
            }
            ["namespaces"] | ["namespaces", _] => ("namespaces", &[][..]),
            ["namespaces", _, resource, rest @ ..] => (*resource, rest),
            [resource, rest @ ..] => (*resource, rest),
            [] => return None,
        };
        let subresource = rest.get(1).map(|&it| it.to_owned());
        Some(Self { group: group.to_owned(), resource: resource.to_owned(), subresource })
    }
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|it| u8::from_str_radix(it, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Option<String> {
        let all: Vec<String> = ObjectPath::all(path)
            .iter()
            .map(|ObjectPath { group, resource, subresource }| {
                format!("{group}/{resource} {}", subresource.as_deref().unwrap_or("-"))
            })
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    #[test]
    fn a_resource_is_found_in_every_spelling_of_its_path() {
        for path in [
            "/api/v1/secrets",
            "/api/v1/namespaces/a/secrets/b",
            "/api/v1/watch/secrets",
            "/api/v1/watch/namespaces/a/secrets/b",
            "//api//v1/namespaces/a/%73ecrets/",
            "/api/v1/./secrets",
            "/api/v1/pods/../secrets",
            "/x/../api/v1/secrets",
            "/api/v1/namespaces/a/secrets/b%2f",
        ] {
            assert_eq!(parse(path).as_deref(), Some("/secrets -"), "{path}");
        }
        for (path, expected) in [
            ("/api/v1/namespaces/a/secrets/b/status", "/secrets status"),
            ("/apis/apps/v1/namespaces/a/deployments/b", "apps/deployments -"),
            ("/api/v1/namespaces/a/pods/b/log", "/pods log"),
            ("/api/v1/namespaces/a/services/b/proxy/api/v1/secrets", "/services proxy"),
            ("/api/v1/namespaces/a/services/web/proxy/../../../pods/x", "/services proxy, /pods -"),
            ("/api/v1/namespaces/a/services/web/proxy/a/../b", "/services proxy"),
            ("/api/v1/namespaces", "/namespaces -"),
            ("/api/v1/namespaces/a", "/namespaces -"),
            ("/api/v1/namespaces/a/finalize", "/namespaces finalize"),
            ("/api/v1/nodes/a/status", "/nodes status"),
        ] {
            assert_eq!(parse(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn other_paths_name_no_objects() {
        for path in ["/version", "/apis/apps/v1", "/api", "/openapi/v3", "/"] {
            assert_eq!(parse(path), None, "{path}");
        }
    }
}
