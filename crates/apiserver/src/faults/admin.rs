//! The fault-injection API over HTTP. A pure function: the caller decides whether it is exposed,
//! and to which users.
//!
//! ```text
//! GET    /_dogwatch/faults                 rules, counters, and whether delivery is paused
//! POST   /_dogwatch/faults                 adds a rule: {"on": {"verbs": ["list"]}, "times": 2, "refuse": {"code": 429}}
//! DELETE /_dogwatch/faults                 removes all rules and resumes delivery
//! GET    /_dogwatch/faults/{id}            one rule
//! DELETE /_dogwatch/faults/{id}            removes it
//! POST   /_dogwatch/faults/drop-watches    ends watches: {"on": {"resource": "pods"}, "cut": true}, or an empty body for all
//! POST   /_dogwatch/faults/bookmark        forces bookmarks: {"on": {"resource": "pods"}}, or an empty body for all
//! POST   /_dogwatch/faults/pause           pauses the delivery of all watches
//! POST   /_dogwatch/faults/resume          resumes delivery
//! POST   /_dogwatch/faults/compact         drops history: {"version": 17}, or an empty body for all of it
//! POST   /_dogwatch/faults/expire          makes every known version too old, and ends all watches
//! ```

use dogwatch_core::Reason;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::rule::{self, Rule, RuleError};
use super::scope::Scope;
use super::{FaultInjector, RuleReport};
use crate::ApiError;
use crate::cluster::Cluster;

/// The prefix of all paths of this module.
pub(crate) const PREFIX: &str = "/_dogwatch/";

/// The watches that an order is for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DropOrder {
    on: Scope,
    cut: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct BookmarkOrder {
    on: Scope,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CompactOrder {
    version: Option<u64>,
}

/// The body of a switch without parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BareOrder {}

/// Serves a request to a path below [`PREFIX`]; returns the status code and the body. Errors are
/// `Status` objects.
pub(crate) fn admin(
    method: &str,
    path: &str,
    body: &[u8],
    lab: &FaultInjector,
    cluster: &Cluster,
) -> (u16, Value) {
    let known = path.strip_prefix(PREFIX).and_then(|rest| rest.trim_end_matches('/').strip_prefix("faults"));
    let answer = match known.map(|rest| (rest, rest.strip_prefix('/'))) {
        Some(("", _)) => all(method, body, lab),
        Some((_, Some(rest))) => match rest.parse() {
            Ok(id) => one(method, id, lab),
            Err(_) => switch(method, rest, body, lab, cluster),
        },
        _ => Err(not_there(path)),
    };
    answer.unwrap_or_else(|refusal| {
        let mut status = json!(refusal.0);
        status["apiVersion"] = "v1".into();
        status["kind"] = "Status".into();
        status["metadata"] = json!({});
        (refusal.0.code, status)
    })
}

fn all(method: &str, body: &[u8], lab: &FaultInjector) -> Result<(u16, Value), ApiError> {
    match method {
        "GET" => {}
        "DELETE" => lab.clear(),
        "POST" => {
            let active = Rule::from_json(body).and_then(|rule| lab.try_rule(rule)).map_err(malformed)?;
            return report(lab, active.id()).map(|it| (201, json!(it)));
        }
        _ => return Err(not_allowed(method)),
    }
    Ok((200, json!({ "paused": lab.is_paused(), "rules": lab.rules(), "tally": lab.tally() })))
}

fn one(method: &str, id: u64, lab: &FaultInjector) -> Result<(u16, Value), ApiError> {
    let report = report(lab, id)?;
    match method {
        "GET" => {}
        "DELETE" => {
            lab.remove(id);
        }
        _ => return Err(not_allowed(method)),
    }
    Ok((200, json!(report)))
}

fn switch(
    method: &str,
    name: &str,
    body: &[u8],
    lab: &FaultInjector,
    cluster: &Cluster,
) -> Result<(u16, Value), ApiError> {
    const SWITCHES: [&str; 6] = ["drop-watches", "bookmark", "pause", "resume", "compact", "expire"];
    match (SWITCHES.contains(&name), method) {
        (false, _) => return Err(not_there(&format!("{PREFIX}faults/{name}"))),
        (true, "POST") => {}
        (true, _) => return Err(not_allowed(method)),
    }
    let done = match name {
        "drop-watches" => {
            let order: DropOrder = read(body)?;
            lab.drop_watches_of(order.on, order.cut);
            json!({})
        }
        "bookmark" => {
            lab.bookmark_now_of(read::<BookmarkOrder>(body)?.on);
            json!({})
        }
        "compact" => {
            let order: CompactOrder = read(body)?;
            json!({ "oldest": lab.compact_to(cluster, order.version.unwrap_or(u64::MAX)) })
        }
        bare => {
            read::<BareOrder>(body)?;
            match bare {
                "pause" => lab.pause(),
                "resume" => lab.resume(),
                _ => return Ok((200, json!({ "oldest": lab.expire(cluster) }))),
            }
            json!({ "paused": lab.is_paused() })
        }
    };
    Ok((200, done))
}

fn report(lab: &FaultInjector, id: u64) -> Result<RuleReport, ApiError> {
    let found = lab.rules().into_iter().find(|it| it.id == id);
    found.ok_or_else(|| ApiError::new(Reason::NotFound, format!("there is no rule {id}")))
}

/// Parses the body of a switch; an empty body means the defaults.
fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.trim_ascii().is_empty() { Ok(T::default()) } else { rule::read(body).map_err(malformed) }
}

fn malformed(error: RuleError) -> ApiError {
    ApiError::bad_request(error.to_string())
}

fn not_there(path: &str) -> ApiError {
    ApiError::new(Reason::NotFound, format!("nothing is served at {path}"))
}

fn not_allowed(method: &str) -> ApiError {
    ApiError::new(Reason::MethodNotAllowed, format!("{method} is not served here"))
}
