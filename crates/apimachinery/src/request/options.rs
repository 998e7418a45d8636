//! The query options of a list or a watch, validated with kube-apiserver's messages
//! (k8s.io/apimachinery v0.36.4 pkg/apis/meta/internalversion/validation/validation.go).

use std::num::ParseIntError;
use std::time::Duration;

use dogwatch_core::{FieldSelector, LabelSelector};

use super::continue_token::ContinueToken;
use super::selector;
use crate::api_error::{ApiError, FieldError, FieldErrorKind};
use crate::strconv;

/// The options of a list.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Selects objects by labels.
    pub labels: LabelSelector,
    /// Selects objects by fields; the kind decides which fields are selectable.
    pub fields: FieldSelector,
    /// The maximum number of objects.
    pub limit: Option<usize>,
    /// The state to list.
    pub version: ListVersion,
}

/// The state of a collection that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListVersion {
    /// The newest state.
    Newest,
    /// Any state; a limit is ignored.
    Any,
    /// A state at or after this version.
    NotOlderThan(u64),
    /// The state at exactly this version.
    Exact(u64),
    /// The continuation of a previous page.
    Continue(ContinueToken),
}

/// The options of a watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Selects objects by labels.
    pub labels: LabelSelector,
    /// Selects objects by fields.
    pub fields: FieldSelector,
    /// The version after which changes are sent; 0 if the watch starts with the existing objects.
    pub version: u64,
    /// The start of the watch: with or without the existing objects.
    pub initial: InitialEvents,
    /// True if the client allows bookmarks.
    pub bookmarks: bool,
    /// The duration of the watch.
    pub timeout: Option<Duration>,
}

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialEvents {
    /// Starts with the changes after its version.
    None,
    /// Starts with the existing objects, and a bookmark that ends them.
    Send,
    /// Starts with the first change after now.
    FromNow,
}

/// The pairs of a query. The first value of a repeated key counts, as in kube-apiserver.
struct Query<'q>(&'q [(String, String)]);

impl ListOptions {
    /// Parses the decoded pairs of a query.
    ///
    /// # Errors
    ///
    /// Returns 400 for values that cannot be parsed, 422 for contradictory ones.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, ApiError> {
        let query = Query(pairs);
        let limit = query.integer("limit")?.and_then(|it| usize::try_from(it).ok()).filter(|it| *it > 0);
        query.integer("timeoutSeconds")?;
        let (labels, fields) = (query.labels()?, query.fields()?);
        let (version, token) = (query.get("resourceVersion"), query.get("continue"));
        let matching = query.get("resourceVersionMatch");
        check_list(&query)?;
        let version = match token {
            Some(token) => {
                let token = ContinueToken::decode(token)?;
                if version.is_some_and(|it| it != "0") {
                    let message = "specifying resource version is not allowed when using continue";
                    return Err(ApiError::bad_request(message));
                }
                ListVersion::Continue(token)
            }
            None => list_version(version, matching, limit)?,
        };
        // A list of any state is served from the watch cache in kube-apiserver, which ignores the
        // limit.
        let any = query.get("resourceVersion") == Some("0");
        Ok(Self { labels, fields, limit: limit.filter(|_| !any), version })
    }
}

impl WatchOptions {
    /// Parses the decoded pairs of a query. A query without `watch`, for a path with the `/watch/`
    /// prefix, is validated like that of a list.
    ///
    /// # Errors
    ///
    /// Returns 400 for values that cannot be parsed, 422 for contradictory ones, and 500 for a
    /// version that is not a number, as kube-apiserver does.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, ApiError> {
        let query = Query(pairs);
        let (labels, fields) = (query.labels()?, query.fields()?);
        let seconds = query.integer("timeoutSeconds")?;
        let timeout =
            seconds.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0).map(Duration::from_secs);
        let bookmarks = query.boolean("allowWatchBookmarks").unwrap_or(false);
        let initial = query.boolean("sendInitialEvents");
        if query.boolean("watch") == Some(true) {
            check_watch_match(query.get("resourceVersionMatch"), initial.is_some())?;
        } else {
            check_list(&query)?;
        }
        let version = match query.get("resourceVersion") {
            None => 0,
            Some(text) => text.parse().map_err(|it| ApiError::unexplained(bad_version(text, &it)))?,
        };
        let initial = match initial {
            Some(true) => InitialEvents::Send,
            Some(false) if version == 0 => InitialEvents::FromNow,
            // A watch without a version starts with the existing objects, the legacy behaviour of
            // kube-apiserver.
            None if version == 0 => InitialEvents::Send,
            _ => InitialEvents::None,
        };
        Ok(Self { labels, fields, version, initial, bookmarks, timeout })
    }
}

impl<'q> Query<'q> {
    fn get(&self, key: &str) -> Option<&'q str> {
        self.first(key).filter(|it| !it.is_empty())
    }

    fn first(&self, key: &str) -> Option<&'q str> {
        self.0.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.first(key) else { return Ok(None) };
        let refuse = |it| ApiError::bad_request(strconv::error("ParseInt", text, &it));
        text.parse().map(Some).map_err(refuse)
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.first(key).map(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    fn labels(&self) -> Result<LabelSelector, ApiError> {
        let text = self.get("labelSelector").unwrap_or_default();
        text.parse().map_err(|error: dogwatch_core::LabelSelectorError| match selector::label_error(text) {
            // kube-apiserver accepts this one.
            none if none.is_empty() => ApiError::bad_request(error.to_string()),
            why => ApiError::bad_request(why),
        })
    }

    fn fields(&self) -> Result<FieldSelector, ApiError> {
        let text = self.get("fieldSelector").unwrap_or_default();
        text.parse().map_err(|error: dogwatch_core::FieldSelectorError| match selector::field_error(text) {
            // kube-apiserver accepts this one.
            none if none.is_empty() => ApiError::bad_request(error.to_string()),
            why => ApiError::bad_request(why),
        })
    }
}

fn list_version(
    version: Option<&str>,
    matching: Option<&str>,
    limit: Option<usize>,
) -> Result<ListVersion, ApiError> {
    let Some(text) = version else { return Ok(ListVersion::Newest) };
    let refuse = |it| ApiError::bad_request(format!("invalid resource version: {}", bad_version(text, &it)));
    let version: u64 = text.parse().map_err(refuse)?;
    Ok(match (version, matching) {
        (0, _) => ListVersion::Any,
        (version, Some("Exact")) => ListVersion::Exact(version),
        (version, Some(_)) => ListVersion::NotOlderThan(version),
        // Legacy behaviour of kube-apiserver: a limit makes a version exact.
        (version, None) if limit.is_some() => ListVersion::Exact(version),
        (version, None) => ListVersion::NotOlderThan(version),
    })
}

/// Validates the version options of a list.
fn check_list(query: &Query<'_>) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    if query.first("sendInitialEvents").is_some() {
        problems.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if let Some(matching) = query.get("resourceVersionMatch") {
        check_match(matching, query.get("resourceVersion"), query.get("continue"), &mut problems);
    }
    refuse(&problems)
}

fn check_match(matching: &str, version: Option<&str>, token: Option<&str>, problems: &mut Vec<FieldError>) {
    let field = "resourceVersionMatch";
    if version.is_none() {
        problems
            .push(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if token.is_some() {
        problems.push(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if !matches!(matching, "Exact" | "NotOlderThan") {
        let detail = r#"supported values: "Exact", "NotOlderThan", """#;
        problems.push(FieldError::with_value(
            field,
            FieldErrorKind::NotSupported,
            format_args!("{matching:?}"),
            detail,
        ));
    }
    if matching == "Exact" && version == Some("0") {
        problems
            .push(forbidden(field, r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#));
    }
}

fn check_watch_match(matching: Option<&str>, initial: bool) -> Result<(), ApiError> {
    let field = "resourceVersionMatch";
    let mut problems = Vec::new();
    if initial && matching != Some("NotOlderThan") {
        problems.push(forbidden(
            field,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if matching.is_some() && !initial {
        let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        problems.push(forbidden(field, detail));
    }
    if let Some(other) = matching.filter(|it| *it != "NotOlderThan") {
        let (kind, value) = (FieldErrorKind::NotSupported, format_args!("{other:?}"));
        problems.push(FieldError::with_value(field, kind, value, r#"supported values: "NotOlderThan""#));
    }
    refuse(&problems)
}

fn forbidden(field: &str, detail: &str) -> FieldError {
    FieldError::new(field, FieldErrorKind::Forbidden, detail)
}

fn refuse(problems: &[FieldError]) -> Result<(), ApiError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", problems))
    }
}

fn bad_version(text: &str, error: &ParseIntError) -> String {
    format!("resourceVersion: Invalid value: {text:?}: {}", strconv::error("ParseUint", text, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        let pair = |it: &str| it.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        query.split('&').filter_map(pair).collect()
    }

    fn list(query: &str) -> Result<(ListVersion, Option<usize>), (u16, String)> {
        let parsed = ListOptions::parse(&pairs(query)).map_err(|it| (it.0.code, it.0.message.clone()))?;
        Ok((parsed.version, parsed.limit))
    }

    fn watch(query: &str) -> Result<(u64, InitialEvents), (u16, String)> {
        let parsed = WatchOptions::parse(&pairs(&format!("watch=1&{query}")))
            .map_err(|it| (it.0.code, it.0.message.clone()))?;
        Ok((parsed.version, parsed.initial))
    }

    #[test]
    fn the_version_of_a_list_follows_from_its_options() {
        use ListVersion::{Any, Exact, Newest, NotOlderThan};
        for (query, expected) in [
            ("", (Newest, None)),
            ("limit=2", (Newest, Some(2))),
            ("limit=-1", (Newest, None)),
            ("resourceVersion=0", (Any, None)),
            ("resourceVersion=0&limit=2", (Any, None)),
            ("resourceVersion=7", (NotOlderThan(7), None)),
            ("resourceVersion=7&limit=2", (Exact(7), Some(2))),
            ("resourceVersion=7&resourceVersionMatch=Exact", (Exact(7), None)),
            ("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=2", (NotOlderThan(7), Some(2))),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", (Any, None)),
        ] {
            assert_eq!(list(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn invalid_list_options_have_the_messages_of_kube_apiserver() {
        let invalid = |problem: &str| (422, format!("ListOptions.meta.k8s.io \"\" is invalid: {problem}"));
        let bad = |text: &str| {
            let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            (400, format!("invalid resource version: resourceVersion: Invalid value: {text:?}: {why}"))
        };
        for (query, expected) in [
            ("limit=abc", (400, "strconv.ParseInt: parsing \"abc\": invalid syntax".to_owned())),
            ("resourceVersion=abc", bad("abc")),
            ("resourceVersion=-5", bad("-5")),
            (
                "resourceVersionMatch=Exact",
                invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                ),
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                invalid(
                    "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=Whatever",
                invalid(
                    "resourceVersionMatch: Unsupported value: \"Whatever\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
                ),
            ),
            (
                "sendInitialEvents=true",
                invalid("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            ),
            (
                "continue=x&resourceVersion=7",
                (
                    400,
                    "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
                        .to_owned(),
                ),
            ),
        ] {
            assert_eq!(list(query), Err(expected), "{query}");
        }
    }

    #[test]
    fn the_start_of_a_watch_follows_from_its_options() {
        for (query, expected) in [
            ("", (0, InitialEvents::Send)),
            ("resourceVersion=0", (0, InitialEvents::Send)),
            ("resourceVersion=7", (7, InitialEvents::None)),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", (0, InitialEvents::Send)),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7",
                (7, InitialEvents::Send),
            ),
            ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", (0, InitialEvents::FromNow)),
        ] {
            assert_eq!(watch(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn invalid_watch_options_have_the_messages_of_kube_apiserver() {
        for (query, code, words) in [
            (
                "sendInitialEvents=true",
                422,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "resourceVersionMatch=NotOlderThan",
                422,
                "forbidden for watch unless sendInitialEvents is provided",
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=Exact",
                422,
                "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            ),
            ("resourceVersion=abc", 500, "resourceVersion: Invalid value: \"abc\": strconv.ParseUint"),
            (
                "labelSelector=a b",
                400,
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("timeoutSeconds=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        ] {
            let (refused, message) = watch(query).expect_err(query);
            assert!(refused == code && message.contains(words), "{query}: {refused} {message}");
        }
    }
}
