//! A rule: which requests, how often, and what happens to them. A value, nothing more; [`super::Lab`] carries it out.

use dogwatch_core::{Details, Reason, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::delay::Delay;
use super::scope::{Scope, VERBS};
use crate::refusal::Refusal;

/// Which requests, how often, and what happens to them.
///
/// A rule acts either on requests ([`delay`](Self::delay), [`refuse`](Self::refuse), [`reset_before`](Self::reset_before),
/// [`reset_after`](Self::reset_after)) or on what watches deliver ([`lag`](Self::lag), [`pause`](Self::pause),
/// [`drop_after`](Self::drop_after), [`split`](Self::split), [`coalesce`](Self::coalesce)). One that does neither only counts
/// requests.
///
/// A rule on requests is asked about each request it covers. A rule on deliveries is asked about each watch it covers once:
/// when the watch begins, or when the rule is made if the watch is there already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Which requests or watches.
    pub(super) on: Scope,
    /// The first so many are let through.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) after: u64,
    /// It fires this often, and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) times: Option<u64>,
    /// How likely it is to fire, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probability: Option<f64>,
    /// Decides everything that is left to chance.
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

/// How a request is refused.
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

/// When the connection is cut: before the request is carried out, or right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reset {
    Before,
    After,
}

/// When a watch ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DropAfter {
    /// After so many events.
    pub(super) after: u64,
    /// The connection is cut; otherwise the watch ends as if its time were over.
    pub(super) cut: bool,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RuleError {
    /// The field, such as `on.verbs[0]`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Rule {
    /// A rule on requests with this verb, such as `list` or `watch`.
    pub fn on(verb: &str) -> Self {
        Self { on: Scope { verbs: vec![verb.to_owned()], ..Scope::default() }, ..Self::default() }
    }

    /// A rule on all requests.
    pub fn on_everything() -> Self {
        Self::default()
    }

    /// A rule on these requests.
    pub fn within(scope: Scope) -> Self {
        Self { on: scope, ..Self::default() }
    }

    /// Reads a rule from JSON.
    ///
    /// # Errors
    /// When it is no rule; the error names the field.
    pub fn from_json(json: &[u8]) -> Result<Self, RuleError> {
        let rule: Self = read(json)?;
        rule.check()?;
        Ok(rule)
    }

    /// Also on requests with this verb.
    #[must_use]
    pub fn or(mut self, verb: &str) -> Self {
        self.on.verbs.push(verb.to_owned());
        self
    }

    /// Only about this resource: by its plural in whatever group, or as `plural.group`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.on.resource = Some(resource.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.on.namespace = Some(namespace.to_owned());
        self
    }

    /// Only about the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.on.name = Some(name.to_owned());
        self
    }

    /// Only about this part, such as `status`; the empty part is the object itself.
    #[must_use]
    pub fn part(mut self, part: &str) -> Self {
        self.on.part = Some(part.to_owned());
        self
    }

    /// Only from this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.on.user = Some(user.to_owned());
        self
    }

    /// Lets the first `count` through. None unless called.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    /// Fires `count` times, and never again. For ever unless called.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Fires with this probability, from 0 to 1; the seed decides when. Always unless called.
    #[must_use]
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        self.probability = Some(probability);
        self.seed(seed)
    }

    /// Decides what is left to chance: when the rule fires and how long delays are. 0 unless called.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Requests wait this long before they are carried out or refused.
    #[must_use]
    pub fn delay(mut self, delay: impl Into<Delay>) -> Self {
        self.delay = Some(delay.into());
        self
    }

    /// Requests are refused with this code and the reason that goes with it.
    #[must_use]
    pub fn refuse(mut self, code: u16) -> Self {
        self.refuse.get_or_insert_default().code = code;
        self
    }

    /// The reason of the refusal, instead of the one that goes with its code.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.refuse.get_or_insert_default().reason = Some(reason.to_owned());
        self
    }

    /// The message of the refusal.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.refuse.get_or_insert_default().message = Some(message.to_owned());
        self
    }

    /// The refusal asks to be left alone for so many seconds; 0 is not at all. Unless called, one with 429 asks for a second,
    /// as the original does when it has too much to do, and others do not ask.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.refuse.get_or_insert_default().retry_after = Some(seconds);
        self
    }

    /// The connection is cut before anything is done.
    #[must_use]
    pub fn reset_before(mut self) -> Self {
        self.reset = Some(Reset::Before);
        self
    }

    /// The request is carried out, and then the connection is cut instead of an answer.
    #[must_use]
    pub fn reset_after(mut self) -> Self {
        self.reset = Some(Reset::After);
        self
    }

    /// Every delivery of a watch waits this long.
    #[must_use]
    pub fn lag(mut self, lag: impl Into<Delay>) -> Self {
        self.lag = Some(lag.into());
        self
    }

    /// Watches deliver nothing while the rule is there.
    #[must_use]
    pub fn pause(mut self) -> Self {
        self.pause = true;
        self
    }

    /// Watches end after so many events, as if their time were over.
    #[must_use]
    pub fn drop_after(mut self, events: u64) -> Self {
        self.drop.get_or_insert_default().after = events;
        self
    }

    /// Watches end after so many events by a cut of their connection.
    #[must_use]
    pub fn cut_after(mut self, events: u64) -> Self {
        self.drop = Some(DropAfter { after: events, cut: true });
        self
    }

    /// What watches deliver is written in pieces of so many bytes.
    #[must_use]
    pub fn split(mut self, bytes: usize) -> Self {
        self.split = Some(bytes);
        self
    }

    /// Watches gather for this long what they then deliver in one write.
    #[must_use]
    pub fn coalesce(mut self, window: impl Into<Delay>) -> Self {
        self.coalesce = Some(window.into());
        self
    }

    /// The first effect on deliveries, by name.
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

    /// Whether everything in it makes sense.
    ///
    /// # Errors
    /// When something does not.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let refuse = |field: &str, problem: String| Err(RuleError { field: field.to_owned(), problem });
        for (at, verb) in self.on.verbs.iter().enumerate() {
            if !VERBS.contains(&verb.as_str()) {
                let problem = format!("{verb:?} is none of {}", VERBS.join(", "));
                return refuse(&format!("on.verbs[{at}]"), problem);
            }
        }
        if self.times == Some(0) {
            return refuse("times", "a rule that never fires is no rule".to_owned());
        }
        if let Some(wrong) = self.probability.filter(|it| !(0.0..=1.0).contains(it)) {
            return refuse("probability", format!("{wrong} is not between 0 and 1"));
        }
        if let Some(refusal) = self.refuse.as_ref().filter(|it| !(400..600).contains(&it.code)) {
            return refuse("refuse.code", format!("{} is no code between 400 and 599", refusal.code));
        }
        if self.refuse.is_some() && self.reset.is_some() {
            return refuse("reset", "a request cannot be refused and cut off".to_owned());
        }
        if self.split == Some(0) {
            return refuse("split", "pieces need at least one byte".to_owned());
        }
        if let Some(effect) = self.delivery_effect() {
            if self.delay.is_some() || self.refuse.is_some() || self.reset.is_some() {
                let problem = "acts on deliveries, and needs a rule apart from what acts on requests";
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
    /// For how many seconds the client is asked to leave the server alone.
    pub(super) fn pause(&self) -> Option<u32> {
        let usual = if self.code == 429 { 1 } else { 0 };
        Some(self.retry_after.unwrap_or(usual)).filter(|it| *it > 0)
    }

    pub(super) fn refusal(&self) -> Refusal {
        let reason = self.reason.as_deref().map_or_else(|| reason_of(self.code), Reason::from);
        let message = match (&self.message, self.code) {
            (Some(message), _) => message.clone(),
            (None, 429) => "Too many requests, please try again later.".to_owned(),
            (None, code) => format!("a rule of the fault lab refused the request with code {code}"),
        };
        let mut status = Status::failure(reason, message);
        status.code = self.code;
        let retry_after_seconds = self.pause().unwrap_or(0);
        status.details = Some(Details { retry_after_seconds, ..Details::default() });
        Refusal(Box::new(status))
    }
}

/// The reason that goes with a code.
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

/// Reads JSON and names the field that is wrong.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, RuleError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // Where it broke off inside an object, the reader knows no field.
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
    fn what_is_wrong_with_a_rule_is_said_by_field() {
        for (json, field, words) in [
            ("", "body", "EOF"),
            ("[]x", "body", "trailing"),
            (r#"{"tmes": 1}"#, "tmes", "unknown field `tmes`, expected one of `on`, `after`"),
            (r#"{"times": "2"}"#, "times", "invalid type: string \"2\", expected u64"),
            (r#"{"times": -1}"#, "times", "invalid value: integer `-1`"),
            (r#"{"times": 0}"#, "times", "never fires"),
            (r#"{"on": {"verbs": ["lst"]}}"#, "on.verbs[0]", "\"lst\" is none of get, list,"),
            (r#"{"on": {"verb": "list"}}"#, "on.verb", "unknown field `verb`"),
            (r#"{"probability": 1.5}"#, "probability", "1.5 is not between 0 and 1"),
            (r#"{"delay": "soon"}"#, "delay", "is no delay such as `250ms`"),
            (r#"{"refuse": {}}"#, "refuse", "missing field `code`"),
            (r#"{"refuse": {"code": 200}}"#, "refuse.code", "200 is no code"),
            (r#"{"refuse": {"code": 500}, "reset": "before"}"#, "reset", "refused and cut off"),
            (r#"{"reset": "between"}"#, "reset", "unknown variant `between`, expected `before` or `after`"),
            (r#"{"split": 0}"#, "split", "at least one byte"),
            (r#"{"split": 1, "delay": "1s"}"#, "split", "a rule apart"),
            (r#"{"on": {"verbs": ["get"]}, "pause": true}"#, "on.verbs", "pause acts on watches only"),
        ] {
            let error = Rule::from_json(json.as_bytes()).expect_err(json);
            assert_eq!(error.field, field, "{error}");
            assert!(error.problem.contains(words), "{error}");
        }
    }

    #[test]
    fn a_refusal_speaks_in_the_words_of_the_api() {
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
