//! Path templates: paths without namespaces and names, so that logs and spans have few distinct
//! values.
//!
//! Works on the text of a path; it knows the shape of resource paths and nothing else.
//! `finalURLTemplate` in client-go v0.36.4 `rest/request.go`.

/// The segments after a collection or an object that are subresources, not names.
const PARTS: [&str; 2] = ["status", "finalize"];

/// Replaces the namespace and the name by `{namespace}` and `{name}`. A path of another shape is
/// returned unchanged.
pub(crate) fn template(path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').collect();
    // The path begins with a slash, so the first segment is empty.
    let version = match segments.get(1) {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return path.to_owned(),
    };
    let rest = segments.get_mut(version + 1..).unwrap_or_default();
    match rest {
        ["namespaces", namespace, resource] if !PARTS.contains(resource) => *namespace = "{namespace}",
        ["namespaces", namespace, _, name, ..] => {
            *namespace = "{namespace}";
            if !PARTS.contains(name) {
                *name = "{name}";
            }
        }
        [_, name, ..] => *name = "{name}",
        _ => {}
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rq_1_url_template() {
        for (path, expected) in [
            ("/api/v1/pods", "/api/v1/pods"),
            ("/api/v1/namespaces/ns/r1", "/api/v1/namespaces/{namespace}/r1"),
            ("/api/v1/namespaces/ns/r1/nm", "/api/v1/namespaces/{namespace}/r1/{name}"),
            ("/api/v1/namespaces/ns/r1/nm/log", "/api/v1/namespaces/{namespace}/r1/{name}/log"),
            ("/api/v1/r1/nm", "/api/v1/r1/{name}"),
            ("/apis/g1/v1/namespaces/ns/r1/nm", "/apis/g1/v1/namespaces/{namespace}/r1/{name}"),
            ("/apis/g1/v1/namespaces/ns/r1", "/apis/g1/v1/namespaces/{namespace}/r1"),
            ("/apis/g1/v1/r1/nm", "/apis/g1/v1/r1/{name}"),
            ("/apis/g1/v1/r1/nm/status", "/apis/g1/v1/r1/{name}/status"),
            ("/", "/"),
            ("/version", "/version"),
            ("/api", "/api"),
            ("/apis/g1/v1", "/apis/g1/v1"),
        ] {
            assert_eq!(template(path), expected);
        }
    }

    /// Every segment may be `namespaces`: the position decides.
    #[test]
    fn rq_1_url_template_where_everything_is_called_namespaces() {
        let long = "/apis/namespaces/namespaces/namespaces";
        for (end, expected) in [
            ("", ""),
            ("/namespaces", "/{name}"),
            ("/namespaces/status", "/{name}/status"),
            ("/namespaces/finalize", "/{name}/finalize"),
            ("/namespaces/namespaces", "/{namespace}/namespaces"),
            ("/namespaces/namespaces/status", "/{namespace}/namespaces/status"),
            ("/namespaces/namespaces/finalize", "/{namespace}/namespaces/finalize"),
            ("/namespaces/namespaces/namespaces", "/{namespace}/namespaces/{name}"),
            ("/namespaces/namespaces/namespaces/finalize", "/{namespace}/namespaces/{name}/finalize"),
        ] {
            assert_eq!(template(&format!("{long}{end}")), format!("{long}{expected}"));
        }
    }

    #[test]
    fn a_path_of_another_shape_stays_as_it_is() {
        for path in ["/pre1/v1/namespaces/ns/r1/nm", "/healthz/ready", ""] {
            assert_eq!(template(path), path);
        }
    }
}
