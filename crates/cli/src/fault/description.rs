//! Fault rules in words, from the JSON of the server. Pure.

use serde_json::Value;

use crate::sanitize::without_controls;

/// Describes a rule on one line.
pub(super) fn rule(rule: &Value) -> String {
    format!("{}: {}, {}", scope(&rule["on"]), effect(rule), frequency(rule))
}

/// Describes the requests that a rule matches.
pub(super) fn scope(on: &Value) -> String {
    let verbs: Vec<_> = on["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let conditions = conditions(on);
    match (verbs.is_empty(), conditions.is_empty()) {
        (true, true) => "all requests".to_owned(),
        (true, false) if on["resource"].is_null() && on["part"].as_str().unwrap_or_default().is_empty() => {
            format!("all requests {conditions}")
        }
        (true, false) => format!("all requests for {conditions}"),
        (false, true) => without_controls(&verbs.join(",")),
        (false, false) => format!("{} {conditions}", without_controls(&verbs.join(","))),
    }
}

/// Describes the open watches that an action is for.
pub(super) fn watches(on: &Value) -> String {
    match conditions(on) {
        conditions if conditions.is_empty() => "all open watches".to_owned(),
        conditions => format!("open watches: {conditions}"),
    }
}

/// Describes everything but the verbs.
fn conditions(on: &Value) -> String {
    let field = |name: &str| on[name].as_str().map(without_controls);
    let mut words = Vec::new();
    match (field("resource"), field("part").filter(|it| !it.is_empty())) {
        (Some(resource), Some(part)) => words.push(format!("{resource}/{part}")),
        (Some(resource), None) => words.push(resource),
        (None, Some(part)) => words.push(format!("*/{part}")),
        (None, None) => {}
    }
    words.extend(field("name").map(|it| format!("named {it}")));
    words.extend(field("namespace").map(|it| format!("in {it}")));
    words.extend(field("user").map(|it| format!("by {it}")));
    words.join(" ")
}

/// Describes the fault of a rule.
pub(super) fn effect(rule: &Value) -> String {
    let text = |name: &str| rule[name].as_str().map(without_controls);
    let mut effects = Vec::new();
    effects.extend(text("delay").map(|it| format!("delay {it}")));
    if let Some(code) = rule["refuse"]["code"].as_u64() {
        let pause = rule["refuse"]["retryAfter"].as_u64().filter(|it| *it > 0);
        let pause = pause.map(|it| format!(" (retry after {it}s)")).unwrap_or_default();
        effects.push(format!("refuse with {code}{pause}"));
    }
    effects.extend(text("reset").map(|it| format!("reset {it} it is carried out")));
    effects.extend(text("lag").map(|it| format!("lag {it}")));
    if rule["pause"] == true {
        effects.push("pause".to_owned());
    }
    if let Some(after) = rule["drop"]["after"].as_u64() {
        let how = if rule["drop"]["cut"] == true { "cut" } else { "end" };
        effects.push(format!("{how} after {after} events"));
    }
    effects.extend(rule["split"].as_u64().map(|it| format!("split into {it} bytes")));
    effects.extend(text("coalesce").map(|it| format!("coalesce {it}")));
    match effects.is_empty() {
        true => "count only".to_owned(),
        false => effects.join(", "),
    }
}

/// Describes how often a rule fires.
pub(super) fn frequency(rule: &Value) -> String {
    let mut words = Vec::new();
    words.extend(rule["after"].as_u64().map(|it| format!("after {it} matches")));
    words.extend(
        rule["times"].as_u64().map(|it| if it == 1 { "once".to_owned() } else { format!("{it} times") }),
    );
    words.extend(rule["probability"].as_f64().map(|it| format!("with probability {it}")));
    match words.is_empty() {
        true => "always".to_owned(),
        false => words.join(", "),
    }
}

/// Describes the counters of a server.
pub(super) fn counts(tally: &Value) -> String {
    let counts = tally.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() != Some(0));
    let counts: Vec<_> = counts.map(|(name, count)| without_controls(&format!("{count} {name}"))).collect();
    match counts.is_empty() {
        true => "nothing".to_owned(),
        false => counts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_read_as_a_sentence() {
        for (given, expected) in [
            (json!({ "on": {} }), "all requests: count only, always"),
            (
                json!({ "on": { "verbs": ["list"], "resource": "pods" }, "times": 2,
                        "refuse": { "code": 429, "retryAfter": 1 } }),
                "list pods: refuse with 429 (retry after 1s), 2 times",
            ),
            (
                json!({ "on": { "verbs": ["update", "patch"], "resource": "pods", "part": "status", "name": "a",
                                "namespace": "b", "user": "c" },
                        "after": 3, "times": 1, "probability": 0.5, "delay": "1s", "reset": "after" }),
                "update,patch pods/status named a in b by c: delay 1s, reset after it is carried out, \
                 after 3 matches, once, with probability 0.5",
            ),
            (
                json!({ "on": { "verbs": ["watch"] }, "lag": "10ms..2s", "pause": true, "split": 7,
                        "drop": { "after": 4, "cut": true }, "coalesce": "1s" }),
                "watch: lag 10ms..2s, pause, cut after 4 events, split into 7 bytes, coalesce 1s, always",
            ),
        ] {
            assert_eq!(rule(&given), expected);
        }
    }

    #[test]
    fn watches_are_named_by_their_conditions() {
        assert_eq!(watches(&json!({})), "all open watches");
        assert_eq!(watches(&json!({ "resource": "pods", "namespace": "a" })), "open watches: pods in a");
        assert_eq!(scope(&json!({ "resource": "pods" })), "all requests for pods");
        assert_eq!(scope(&json!({ "part": "status", "user": "a" })), "all requests for */status by a");
        assert_eq!(scope(&json!({ "namespace": "a" })), "all requests in a");
    }

    #[test]
    fn counters_that_are_zero_are_left_out() {
        assert_eq!(counts(&json!({ "refused": 3, "reset": 0, "delayed": 1 })), "1 delayed, 3 refused");
        assert_eq!(counts(&json!({ "refused": 0 })), "nothing");
    }
}
