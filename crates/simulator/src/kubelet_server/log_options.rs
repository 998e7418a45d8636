//! The options of a request for a log, from its query.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use super::log_lines::{LogLine, Output};
use super::rejection::Rejection;

/// The options of a request for a log: `PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogOptions {
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) timestamps: bool,
    /// Lines before this time are left out.
    since: Option<Timestamp>,
    /// The number of lines from the end of the log.
    tail: Option<usize>,
    /// The number of bytes after which the response ends.
    pub(super) limit: Option<u64>,
    /// The only output; both without it.
    output: Option<Output>,
}

impl LogOptions {
    /// Reads the options as `getContainerLogs` in k8s.io/kubernetes v1.36.4
    /// pkg/kubelet/server/server.go: the first value of each parameter counts.
    pub(super) fn parse(query: &str, now: Timestamp) -> Result<Self, Rejection> {
        let undecodable = || Rejection::bad_request(r#"{"message": "Unable to decode query."}"#);
        let invalid =
            || Rejection::new(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#);
        let first = |name: &str| {
            form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
        };
        // `Convert_Slice_string_To_bool` in k8s.io/apimachinery v0.36.4 pkg/runtime/conversion.go.
        let flag = |name: &str| first(name).is_some_and(|it| !it.eq_ignore_ascii_case("false") && it != "0");
        let number = |name: &str| match first(name) {
            None => Ok(None),
            Some(text) => text.parse::<i64>().map(Some).map_err(|_| undecodable()),
        };
        let mut tail = number("tailLines")?;
        match first("tail").as_deref() {
            None | Some("") => {}
            Some("all") => tail = None,
            Some(lines) => tail = Some(lines.parse().map_err(|_| undecodable())?),
        }
        let since_seconds = number("sinceSeconds")?;
        let since_time = match first("sinceTime") {
            None => None,
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| undecodable())?),
        };
        let limit = number("limitBytes")?;
        let output = match first("stream").as_deref() {
            None | Some("All") => None,
            Some("Stdout") => Some(Output::Stdout),
            Some("Stderr") => Some(Output::Stderr),
            Some(_) => return Err(invalid()),
        };
        // `ValidatePodLogOptions` in k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go.
        let is_invalid = tail.is_some_and(|it| it < 0)
            || limit.is_some_and(|it| it < 1)
            || since_seconds.is_some_and(|it| it < 1)
            || (since_seconds.is_some() && since_time.is_some())
            || (tail.is_some() && output.is_some());
        if is_invalid {
            return Err(invalid());
        }
        let ago = |it: i64| now.checked_sub(SignedDuration::from_secs(it)).unwrap_or(Timestamp::MIN);
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            since: since_time.or(since_seconds.map(ago)),
            tail: tail.map(|it| usize::try_from(it).unwrap_or(usize::MAX)),
            limit: limit.map(i64::unsigned_abs),
            output,
        })
    }

    /// Returns the lines that the first part of the response has. The number of lines counts before
    /// the time does, because the kubelet looks for the last lines of the file first.
    pub(super) fn first_lines<'a>(&self, all: &'a [LogLine]) -> impl Iterator<Item = &'a LogLine> + use<'a> {
        let skipped = self.tail.map_or(0, |it| all.len().saturating_sub(it));
        let options = self.clone();
        all.iter().skip(skipped).filter(move |it| options.includes(it))
    }

    /// Returns true if a line is new enough, and of a wanted output.
    pub(super) fn includes(&self, line: &LogLine) -> bool {
        self.since.is_none_or(|it| line.time >= it) && self.output.is_none_or(|it| line.output == it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:10Z".parse().unwrap()
    }

    fn status(query: &str) -> Option<u16> {
        LogOptions::parse(query, now()).err().map(|it| it.status.as_u16())
    }

    #[test]
    fn options_are_read_from_the_query() {
        let all = "follow=true&previous=1&timestamps&sinceSeconds=5&tailLines=2&limitBytes=9";
        let options = LogOptions::parse(all, now()).unwrap();
        let expected = LogOptions {
            follow: true,
            previous: true,
            timestamps: true,
            since: "2026-01-02T03:04:05Z".parse().ok(),
            tail: Some(2),
            limit: Some(9),
            output: None,
        };
        assert_eq!(options, expected);
        let none =
            LogOptions::parse("follow=false&previous=0&tail=all&tailLines=3&stream=All", now()).unwrap();
        assert_eq!(none, LogOptions::default());
        let far = LogOptions::parse("sinceSeconds=9223372036854775807", now()).unwrap();
        assert_eq!(far.since, Some(Timestamp::MIN));
    }

    #[test]
    fn invalid_options_are_rejected_with_the_codes_of_the_kubelet() {
        for (query, expected) in [
            ("tailLines=x", Some(400)),
            ("sinceTime=yesterday", Some(400)),
            ("tailLines=-1", Some(422)),
            ("limitBytes=0", Some(422)),
            ("sinceSeconds=0", Some(422)),
            ("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", Some(422)),
            ("stream=Stdin", Some(422)),
            ("stream=Stdout&tailLines=1", Some(422)),
            ("stream=Stdout&tailLines=1&tail=all", None),
        ] {
            assert_eq!(status(query), expected, "{query}");
        }
    }

    #[test]
    fn the_last_lines_are_counted_before_their_time_is_compared() {
        let line = |second: i8, output| LogLine {
            time: format!("2026-01-02T03:04:0{second}Z").parse().unwrap(),
            output,
            text: second.to_string(),
        };
        let all = [line(1, Output::Stdout), line(5, Output::Stderr), line(6, Output::Stdout)];
        for (query, expected) in [
            ("", "156"),
            ("tailLines=2", "56"),
            ("tailLines=0", ""),
            ("tailLines=9", "156"),
            ("tailLines=2&sinceTime=2026-01-02T03:04:06Z", "6"),
            ("sinceSeconds=5", "56"),
            ("stream=Stderr", "5"),
        ] {
            let options = LogOptions::parse(query, now()).unwrap();
            let found: String = options.first_lines(&all).map(|it| it.text.as_str()).collect();
            assert_eq!(found, expected, "{query}");
        }
    }
}
