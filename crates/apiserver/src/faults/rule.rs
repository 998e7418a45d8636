//! A fault rule: the requests that it matches, how often it fires, and the fault. A plain value;
//! [`super::FaultInjector`] carries it out.

use dogwatch_core::{Details, Reason, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::delay::Delay;
use super::scope::{Scope, VERBS};
use crate::ApiError;

/// A fault rule: the requests that it matches, how often it fires, and the fault.
///
/// A rule acts either on requests ([`delay`](Self::delay), [`refuse`](Self::refuse),
/// [`reset_before`](Self::reset_before), [`reset_after`](Self::reset_after)) or on the delivery of
/// watches ([`lag`](Self::lag), [`pause`](Self::pause), [`drop_after`](Self::drop_after),
/// [`split`](Self::split), [`coalesce`](Self::coalesce)). A rule without any of these only counts
/// requests.
///
/// A rule on requests is evaluated for each request that it matches. A rule on deliveries is
/// evaluated once for each watch that it matches: when the watch starts, or when the rule is added
/// if the watch is already open.
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Rule};
///
/// let faults = FaultInjector::default();
/// // The first update or patch of a pod is let through, and all later ones are conflicts.
/// let rule = faults.rule(Rule::on("update").or("patch").resource("pods").after(1).refuse(409));
/// assert_eq!((rule.matched(), rule.fired()), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// The requests or watches that it matches.
    pub(super) on: Scope,
    /// The number of first matches that are let through.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) after: u64,
    /// The maximum number of times that it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u64>,
    /// The probability that it fires, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probability: Option<f64>,
    /// The seed of everything random about the rule.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<Delay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refuse: Option<Refuse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reset: Option<Reset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lag: Option<Delay>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) pause: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drop: Option<DropAfter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) split: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) coalesce: Option<Delay>,
}

/// The error of a rejected request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Refuse {
    code: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<u32>,
}

/// The time of a connection reset: before the request is carried out, or right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reset {
    Before,
    After,
}

/// The end of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DropAfter {
    /// The number of events before the end.
    pub(super) after: u64,
    /// Cuts the connection if set; otherwise the watch ends as if it had timed out.
    pub(super) cut: bool,
}

/// An error of an invalid rule.
///
/// ```
/// use dogwatch_apiserver::faults::Rule;
///
/// let error = Rule::from_json(br#"{"probability": 2}"#).expect_err("more than 1");
/// assert_eq!(error.field, "probability");
/// println!("{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RuleError {
    /// The field, such as `on.verbs[0]`.
    pub field: String,
    /// The problem with the field.
    pub problem: String,
}

impl Rule {
    /// Creates a rule for requests with this verb, such as `list` or `watch`.
    pub fn on(verb: &str) -> Self {
        Self { on: Scope { verbs: vec![verb.to_owned()], ..Scope::default() }, ..Self::default() }
    }

    /// Creates a rule for all requests.
    pub fn on_everything() -> Self {
        Self::default()
    }

    /// Creates a rule for the requests in a scope.
    pub fn within(scope: Scope) -> Self {
        Self { on: scope, ..Self::default() }
    }

    /// Parses a rule from JSON.
    ///
    /// # Errors
    ///
    /// Returns an error that names the field if the rule is invalid.
    pub fn from_json(json: &[u8]) -> Result<Self, RuleError> {
        let rule: Self = read(json)?;
        rule.check()?;
        Ok(rule)
    }

    /// Also matches requests with this verb.
    #[must_use]
    pub fn or(mut self, verb: &str) -> Self {
        self.on.verbs.push(verb.to_owned());
        self
    }

    /// Matches only this resource: its plural name in any group, or `plural.group`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.on.resource = Some(resource.to_owned());
        self
    }

    /// Matches only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.on.namespace = Some(namespace.to_owned());
        self
    }

    /// Matches only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.on.name = Some(name.to_owned());
        self
    }

    /// Matches only this subresource, such as `status`; the empty string is the object itself.
    #[must_use]
    pub fn part(mut self, part: &str) -> Self {
        self.on.part = Some(part.to_owned());
        self
    }

    /// Matches only requests of this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.on.user = Some(user.to_owned());
        self
    }

    /// Lets the first `count` matches through. Defaults to 0.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// Fires at most `count` times. Unlimited by default.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Fires with this probability, from 0 to 1; the seed decides when. Defaults to always.
    #[must_use]
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        self.probability = Some(probability);
        self.seed(seed)
    }

    /// Sets the seed of everything random: when the rule fires and how long delays are. Defaults
    /// to 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Delays requests before they are carried out or rejected.
    #[must_use]
    pub fn delay(mut self, delay: impl Into<Delay>) -> Self {
        self.delay = Some(delay.into());
        self
    }

    /// Rejects requests with this status code and the reason that belongs to it.
    #[must_use]
    pub fn refuse(mut self, code: u16) -> Self {
        self.refuse.get_or_insert_default().code = code;
        self
    }

    /// Sets the reason of the error. Defaults to the one that belongs to the status code.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.refuse.get_or_insert_default().reason = Some(reason.to_owned());
        self
    }

    /// Sets the message of the error.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.refuse.get_or_insert_default().message = Some(message.to_owned());
        self
    }

    /// Sets `Retry-After` of the error, in seconds; 0 omits it. Defaults to 1 for status 429, as in
    /// kube-apiserver under load (`retryAfter` in k8s.io/apiserver v0.36.4
    /// pkg/server/filters/maxinflight.go), and to none for others.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.refuse.get_or_insert_default().retry_after = Some(seconds);
        self
    }

    /// Cuts the connection before anything is done.
    #[must_use]
    pub fn reset_before(mut self) -> Self {
        self.reset = Some(Reset::Before);
        self
    }

    /// Carries out the request and then cuts the connection instead of responding.
    #[must_use]
    pub fn reset_after(mut self) -> Self {
        self.reset = Some(Reset::After);
        self
    }

    /// Delays every delivery of a watch.
    #[must_use]
    pub fn lag(mut self, lag: impl Into<Delay>) -> Self {
        self.lag = Some(lag.into());
        self
    }

    /// Stops the delivery of watches while the rule is active.
    #[must_use]
    pub fn pause(mut self) -> Self {
        self.pause = true;
        self
    }

    /// Ends watches after this number of events, as if they had timed out.
    #[must_use]
    pub fn drop_after(mut self, events: u64) -> Self {
        self.drop.get_or_insert_default().after = events;
        self
    }

    /// Ends watches after this number of events by cutting their connection.
    #[must_use]
    pub fn cut_after(mut self, events: u64) -> Self {
        self.drop = Some(DropAfter { after: events, cut: true });
        self
    }

    /// Writes deliveries of watches in pieces of this many bytes.
    #[must_use]
    pub fn split(mut self, bytes: usize) -> Self {
        self.split = Some(bytes);
        self
    }

    /// Collects the events of watches for this long, and delivers them in one write.
    #[must_use]
    pub fn coalesce(mut self, window: impl Into<Delay>) -> Self {
        self.coalesce = Some(window.into());
        self
    }

    /// Returns the name of the first effect on deliveries.
    pub(super) fn delivery_effect(&self) -> Option<&'static str> {
        [
            ("lag", self.lag.is_some()),
            ("pause", self.pause),
            ("drop", self.drop.is_some()),
            ("split", self.split.is_some()),
            ("coalesce", self.coalesce.is_some()),
        ]
        .into_iter()
        .find_map(|(name, there)| there.then_some(name))
    }

    /// Validates the rule.
    ///
    /// # Errors
    ///
    /// Returns an error for the first invalid field.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let refuse = |field: &str, problem: String| Err(RuleError { field: field.to_owned(), problem });
        for (at, verb) in self.on.verbs.iter().enumerate() {
            if !VERBS.contains(&verb.as_str()) {
                let problem = format!("{verb:?} is not one of {}", VERBS.join(", "));
                return refuse(&format!("on.verbs[{at}]"), problem);
            }
        }
        if self.times == Some(0) {
            return refuse("times", "must be at least 1, a rule with 0 never fires".to_owned());
        }
        if let Some(wrong) = self.probability.filter(|it| !(0.0..=1.0).contains(it)) {
            return refuse("probability", format!("{wrong} is not between 0 and 1"));
        }
        if let Some(refusal) = self.refuse.as_ref().filter(|it| !(400..600).contains(&it.code)) {
            return refuse(
                "refuse.code",
                format!("{} is not a status code between 400 and 599", refusal.code),
            );
        }
        if self.refuse.is_some() && self.reset.is_some() {
            return refuse("reset", "a request cannot be both refused and cut off".to_owned());
        }
        if self.split == Some(0) {
            return refuse("split", "must be at least one byte".to_owned());
        }
        if let Some(effect) = self.delivery_effect() {
            if self.delay.is_some() || self.refuse.is_some() || self.reset.is_some() {
                let problem =
                    "acts on deliveries, and delay, refuse and reset on requests: use a separate rule";
                return refuse(effect, problem.to_owned());
            }
            if !self.on.verbs.is_empty() && !self.on.verbs.iter().any(|it| it == "watch") {
                return refuse("on.verbs", format!("{effect} acts on watches only"));
            }
        }
        Ok(())
    }
}

impl Refuse {
    /// Returns the value of `Retry-After`, if there is one.
    pub(super) fn pause(&self) -> Option<u32> {
        let usual = if self.code == 429 { 1 } else { 0 };
        Some(self.retry_after.unwrap_or(usual)).filter(|it| *it > 0)
    }

    pub(super) fn refusal(&self) -> ApiError {
        let reason = self.reason.as_deref().map_or_else(|| reason_of(self.code), Reason::from);
        let message = match (&self.message, self.code) {
            (Some(message), _) => message.clone(),
            (None, 429) => "Too many requests, please try again later.".to_owned(),
            (None, code) => format!("a fault rule rejected the request with code {code}"),
        };
        let mut status = Status::failure(reason, message);
        status.code = self.code;
        let retry_after_seconds = self.pause().unwrap_or(0);
        status.details = Some(Details { retry_after_seconds, ..Details::default() });
        ApiError(Box::new(status))
    }
}

/// Returns the reason that belongs to a status code.
fn reason_of(code: u16) -> Reason {
    match code {
        400 => Reason::BadRequest,
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        405 => Reason::MethodNotAllowed,
        406 => Reason::NotAcceptable,
        409 => Reason::Conflict,
        410 => Reason::Expired,
        413 => Reason::RequestEntityTooLarge,
        415 => Reason::UnsupportedMediaType,
        422 => Reason::Invalid,
        429 => Reason::TooManyRequests,
        500 => Reason::InternalError,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        _ => Reason::Unknown,
    }
}

/// Parses JSON; errors name the invalid field.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, RuleError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // If the JSON breaks off inside an object, no field is known.
        let field = match path.trim_end_matches(['.', '?']) {
            "" => "body",
            field => field,
        };
        RuleError { field: field.to_owned(), problem: error.into_inner().to_string() }
    })?;
    let rest = |error: serde_json::Error| RuleError { field: "body".to_owned(), problem: error.to_string() };
    reader.end().map_err(rest)?;
    Ok(read)
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rule_reads_the_same_in_json_and_in_rust() {
        let from_json = |json: &str| Rule::from_json(json.as_bytes()).expect(json);
        for (rule, json) in [
            (
                Rule::on("list").resource("pods").times(2).refuse(429).retry_after(1),
                r#"{"on":{"verbs":["list"],"resource":"pods"},"times":2,"refuse":{"code":429,"retryAfter":1}}"#,
            ),
            (
                Rule::on("create").or("update").user("bob").probability(0.5, 7).delay(Duration::from_secs(1)),
                r#"{"on":{"verbs":["create","update"],"user":"bob"},"probability":0.5,"seed":7,"delay":"1s"}"#,
            ),
            (Rule::on_everything().after(3).reset_after(), r#"{"on":{},"after":3,"reset":"after"}"#),
            (
                Rule::on("watch").namespace("a").name("b").cut_after(4),
                r#"{"on":{"verbs":["watch"],"namespace":"a","name":"b"},"drop":{"after":4,"cut":true}}"#,
            ),
            (Rule::on("watch").split(7).pause(), r#"{"on":{"verbs":["watch"]},"pause":true,"split":7}"#),
        ] {
            assert_eq!(serde_json::to_string(&rule).expect("plain data"), json);
            assert_eq!(from_json(json), rule);
        }
        assert_eq!(from_json(r#"{"drop": {}}"#), Rule::on_everything().drop_after(0));
    }

    #[test]
    fn errors_of_invalid_rules_name_the_field() {
        for (json, field, words) in [
            ("", "body", "EOF"),
            ("[]x", "body", "trailing"),
            (r#"{"tmes": 1}"#, "tmes", "unknown field `tmes`, expected one of `on`, `after`"),
            (r#"{"times": "2"}"#, "times", "invalid type: string \"2\", expected u64"),
            (r#"{"times": -1}"#, "times", "invalid value: integer `-1`"),
            (r#"{"times": 0}"#, "times", "never fires"),
            (r#"{"on": {"verbs": ["lst"]}}"#, "on.verbs[0]", "\"lst\" is not one of get, list,"),
            (r#"{"on": {"verb": "list"}}"#, "on.verb", "unknown field `verb`"),
            (r#"{"probability": 1.5}"#, "probability", "1.5 is not between 0 and 1"),
            (r#"{"delay": "soon"}"#, "delay", "is not a delay such as `250ms`"),
            (r#"{"refuse": {}}"#, "refuse", "missing field `code`"),
            (r#"{"refuse": {"code": 200}}"#, "refuse.code", "200 is not a status code"),
            (r#"{"refuse": {"code": 500}, "reset": "before"}"#, "reset", "refused and cut off"),
            (r#"{"reset": "between"}"#, "reset", "unknown variant `between`, expected `before` or `after`"),
            (r#"{"split": 0}"#, "split", "at least one byte"),
            (r#"{"split": 1, "delay": "1s"}"#, "split", "a separate rule"),
            (r#"{"on": {"verbs": ["get"]}, "pause": true}"#, "on.verbs", "pause acts on watches only"),
        ] {
            let error = Rule::from_json(json.as_bytes()).expect_err(json);
            assert_eq!(error.field, field, "{error}");
            assert!(error.problem.contains(words), "{error}");
        }
    }

    #[test]
    fn a_rejection_is_an_api_error_with_code_reason_and_retry_after() {
        let refusal = |rule: Rule| rule.refuse.expect("it refuses").refusal();
        let busy = refusal(Rule::on("list").refuse(429).retry_after(3));
        assert_eq!((busy.0.code, &busy.0.reason), (429, &Reason::TooManyRequests));
        assert_eq!(busy.0.details.as_ref().map(|it| it.retry_after_seconds), Some(3));
        let pause = |rule: Rule| rule.refuse.unwrap().pause();
        assert_eq!(pause(Rule::on("list").refuse(429)), Some(1));
        assert_eq!(pause(Rule::on("list").refuse(429).retry_after(0)), None);
        assert_eq!(pause(Rule::on("list").refuse(503)), None);
        let own = refusal(Rule::on("list").refuse(418).reason("Teapot").message("short and stout"));
        assert_eq!(
            (own.0.code, own.0.reason.as_str(), own.0.message.as_str()),
            (418, "Teapot", "short and stout")
        );
    }
}
