//! Parses the requests in the log of `dogwatch serve -v`.

/// One request of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) status: u16,
}

/// Returns the requests in a log, oldest first.
pub(super) fn requests(log: &str) -> Vec<LoggedRequest> {
    log.lines().filter(|it| it.contains("dogwatch_apiserver::requests")).filter_map(request).collect()
}

fn request(line: &str) -> Option<LoggedRequest> {
    let field = |name: &str| {
        let (_, value) = line.split_once(&format!(" {name}="))?;
        Some(value.split(' ').next()?.trim_matches('"'))
    };
    let status = field("status")?.parse().ok()?;
    Some(LoggedRequest { method: field("method")?.to_owned(), path: field("path")?.to_owned(), status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_among_other_lines() {
        let log = "ready http://127.0.0.1:1\n\
            2026-01-01T00:00:00Z DEBUG dogwatch_apiserver::requests: answered method=\"POST\" path=\"/api\" status=403 user=\"\"\n\
            2026-01-01T00:00:00Z  INFO dogwatch_apiserver::serving: other status=200\n";
        let expected = LoggedRequest { method: "POST".to_owned(), path: "/api".to_owned(), status: 403 };
        assert_eq!(requests(log), [expected]);
    }
}
