//! The file of rules: YAML, in which every field is known and every value is checked. An error
//! names its line.

use std::collections::{BTreeMap, BTreeSet};

use dogwatch_apimachinery::patch::PatchKind;
use dogwatch_core::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::expression::{Condition, PatchExpression};
use super::pointer::Pointer;
use super::rule::{Callers, Change, Objects, OnWrite, Rule, conceal, is_same, patch};

/// The maximum size of the file.
const MAX_BYTES: usize = 1024 * 1024;

/// The maximum number of rules.
const MAX_RULES: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    /// Required, so that a file that was emptied by mistake is no file without rules.
    rules: Option<Vec<Spanned<RuleEntry>>>,
    #[serde(default)]
    stale: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleEntry {
    name: Option<String>,
    r#match: MatchEntry,
    #[serde(default)]
    hide: bool,
    patch: Option<PatchEntry>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    redact: Vec<String>,
    #[serde(default)]
    rename_hosts: BTreeMap<String, String>,
    keep_zone: Option<String>,
    on_write: Option<OnWriteEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MatchEntry {
    resource: String,
    namespace: Option<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    labels: Option<String>,
    /// An expression that is true for the objects.
    when: Option<String>,
    user: Option<String>,
    user_agent: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchEntry {
    r#type: PatchType,
    value: Value,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PatchType {
    Merge,
    Json,
    /// An expression whose result is a merge patch.
    Cel,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnWriteEntry {
    Restore,
    Refuse,
}

/// The content of a file.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) rules: Vec<Rule>,
    /// The resources that are answered during an outage, each with its group.
    pub(crate) stale: Vec<(String, String)>,
}

/// Parses the text of a file for the resources that are cached, each with its group. The error
/// begins with the line.
pub(crate) fn parse(text: &str, cached: &[(String, String)]) -> Result<Parsed, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the rules are larger than {MAX_BYTES} bytes"));
    }
    let file: RuleFile = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map(|it| format!("line {}: ", it.line())).unwrap_or_default();
        format!("{line}{}", reason(&error))
    })?;
    let Some(entries) = file.rules else {
        return Err("line 1: the file has no `rules`; without any, it is `rules: []`".to_owned());
    };
    if entries.len() > MAX_RULES {
        return Err(format!("there are more than {MAX_RULES} rules"));
    }
    let rules = entries.into_iter().enumerate().map(|(at, entry)| {
        let line = entry.referenced.line();
        rule(at + 1, entry.value, cached).map_err(|reason| format!("line {line}: {reason}"))
    });
    let rules = rules.collect::<Result<_, _>>()?;
    let stale = file.stale.iter().map(|it| resolve(it, cached).map_err(|reason| format!("stale: {reason}")));
    Ok(Parsed { rules, stale: stale.collect::<Result<_, _>>()? })
}

/// Returns the reason of an error of the parser without its place, which the caller puts first.
fn reason(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error.without_snippet() {
        Error::Unexpected { expected: "mapping start", .. } => "expected a mapping".to_owned(),
        Error::Unexpected { expected: "sequence start", .. } => "expected a list".to_owned(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is set twice"),
        error => {
            let text = error.to_string();
            let place = error.location().map(|it| format!(" at line {}, column {}", it.line(), it.column()));
            place.and_then(|it| text.strip_suffix(it.as_str())).unwrap_or(&text).to_owned()
        }
    }
}

/// Returns the cached resource that a word names: its plural, with its group or without.
///
/// Resources of other groups may have the same plural, as pods have in metrics.k8s.io: a word
/// without a group names none of them.
fn resolve(word: &str, cached: &[(String, String)]) -> Result<(String, String), String> {
    let found: BTreeSet<&(String, String)> = match word.split_once('.') {
        Some((name, group)) => cached.iter().filter(|it| is_same(it, group, name)).collect(),
        None => cached.iter().filter(|(_, name)| name == word).collect(),
    };
    let core = found.iter().find(|(group, _)| group.is_empty());
    match (found.len(), core, found.first()) {
        (1, _, Some(&only)) => Ok(only.clone()),
        (_, Some(&core), _) => Ok(core.clone()),
        (_, _, Some((group, name))) => {
            Err(format!("{word:?} is in several groups; name one, such as \"{name}.{group}\""))
        }
        _ => {
            Err(format!("{word:?} is not a cached resource; it is named by its plural, such as \"services\""))
        }
    }
}

fn rule(number: usize, entry: RuleEntry, cached: &[(String, String)]) -> Result<Rule, String> {
    let RuleEntry {
        name,
        r#match: matched,
        hide,
        patch: patched,
        annotations,
        redact,
        rename_hosts,
        keep_zone,
        on_write,
    } = entry;
    if matched.resource.trim().is_empty() {
        return Err("a rule needs the resource that it is for".to_owned());
    }
    let resource = resolve(&matched.resource, cached)?;
    let mut changes = Vec::new();
    if let Some(entry) = patched {
        changes.push(match (entry.r#type, &entry.value) {
            (PatchType::Merge, value) => patch(PatchKind::Merge, value)?,
            (PatchType::Json, value) => patch(PatchKind::Json, value)?,
            (PatchType::Cel, Value::String(text)) => Change::Compute(PatchExpression::parse(text)?),
            (PatchType::Cel, _) => return Err("the value of a patch of type cel is an expression".to_owned()),
        });
    }
    if !annotations.is_empty() {
        changes.push(Change::Annotate(annotations));
    }
    if !rename_hosts.is_empty() {
        changes.push(Change::RenameHosts(rename_hosts));
    }
    if let Some(zone) = keep_zone {
        changes.push(Change::KeepZone(zone));
    }
    if !redact.is_empty() {
        let places: Result<Vec<Pointer>, String> = redact.iter().map(|it| Pointer::parse(it)).collect();
        let places = places?;
        if let Some(place) = places.iter().find(|it| it.is_identity()) {
            return Err(format!("a rule cannot redact {place}, which identifies the object"));
        }
        changes.push(Change::Redact(places));
    }
    if hide {
        changes = vec![Change::Hide];
    }
    if changes.is_empty() {
        return Err(
            "the rule changes nothing: it needs hide, patch, annotations, redact, renameHosts or keepZone"
                .to_owned(),
        );
    }
    let redacts = changes.iter().any(|it| matches!(it, Change::Redact(_)));
    if redacts && matches!(on_write, Some(OnWriteEntry::Restore)) {
        return Err("a rule that redacts refuses writes: remove `onWrite: restore`".to_owned());
    }
    let labels: LabelSelector = match &matched.labels {
        Some(text) => text.parse().map_err(|error| format!("{error}"))?,
        None => LabelSelector::default(),
    };
    let condition = matched.when.as_deref().map(Condition::parse).transpose()?;
    let includes_unknown = conceal(&changes);
    let namespaces: BTreeSet<String> = matched.namespaces.into_iter().chain(matched.namespace).collect();
    let name = name.unwrap_or_else(|| format!("rule {number}"));
    Ok(Rule {
        name,
        resource,
        objects: Objects { namespaces, labels, condition, includes_unknown },
        callers: Callers { user: matched.user, user_agent: matched.user_agent },
        changes,
        on_write: match on_write {
            Some(OnWriteEntry::Refuse) => OnWrite::Refuse,
            None if redacts => OnWrite::Refuse,
            Some(OnWriteEntry::Restore) | None => OnWrite::Restore,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a file for pods, secrets and services, and services of Knative.
    fn parse(text: &str) -> Result<Parsed, String> {
        let cached = [("", "pods"), ("", "secrets"), ("", "services"), ("serving.knative.dev", "services")];
        super::parse(text, &cached.map(|(group, name)| (group.to_owned(), name.to_owned())))
    }

    #[test]
    fn a_word_names_one_group() {
        let cached = [("", "pods"), ("", "services"), ("serving.knative.dev", "services"), ("", "events")];
        let more = [("a.io", "things"), ("b.io", "things"), ("c.io", "widgets")];
        let all: Vec<_> =
            cached.iter().chain(&more).map(|&(group, name)| (group.to_owned(), name.to_owned())).collect();
        let found = |word: &str| resolve(word, &all).map(|(group, name)| format!("{name}/{group}"));
        for (word, expected) in [
            ("pods", "pods/"),
            ("services", "services/"),
            ("services.serving.knative.dev", "services/serving.knative.dev"),
            ("events.events.k8s.io", "events/"),
            ("widgets", "widgets/c.io"),
            ("things.b.io", "things/b.io"),
        ] {
            assert_eq!(found(word).as_deref(), Ok(expected), "{word}");
        }
        assert!(found("things").unwrap_err().contains("things.a.io"));
        assert!(found("pods.metrics.k8s.io").unwrap_err().contains("is not a cached resource"));
        let pods = ("".to_owned(), "pods".to_owned());
        assert!(is_same(&pods, "", "pods") && !is_same(&pods, "metrics.k8s.io", "pods"));
        let events = ("".to_owned(), "events".to_owned());
        assert!(is_same(&events, "events.k8s.io", "events") && !is_same(&events, "x.io", "events"));
    }

    #[test]
    fn every_field_of_a_rule_is_read() {
        let rules = parse(
            "rules:\n\
             - name: mark\n  match: {resource: services, namespaces: [a, b], labels: 'rewrite=yes', user: jane, userAgent: nginx/}\n  \
             patch: {type: merge, value: {metadata: {annotations: {seen: 'yes'}}}}\n  annotations: {a: b}\n  \
             redact: [/spec/clusterIP]\n  renameHosts: {old.test: new.test}\n  keepZone: eu-1\n  onWrite: refuse\n\
             - match: {resource: secrets}\n  hide: true\n",
        );
        let rules = rules.unwrap().rules;
        assert_eq!((rules[0].name.as_str(), rules[1].name.as_str()), ("mark", "rule 2"));
        assert_eq!((rules[0].changes.len(), rules[1].changes.len()), (5, 1));
        assert_eq!((rules[0].on_write, rules[1].on_write), (OnWrite::Refuse, OnWrite::Restore));
        assert!(
            rules[0].callers.contain("jane", "nginx/1.2") && !rules[0].callers.contain("joe", "nginx/1.2")
        );
        assert!(!rules[0].callers.contain("jane", "curl/8"));
    }

    #[test]
    fn an_error_names_its_line_and_the_reason() {
        for (text, line, reason) in [
            ("rules:\n- match: {resource: pods}\n  hidden: true\n", "line 3", "hidden"),
            ("rules:\n- match: {resource: pods}\n  cel: 'true'\n", "line 3", "cel"),
            (
                "rules:\n- match: {resource: pods}\n  hide: true\n- match: {resource: pods}\n",
                "line 4",
                "changes nothing",
            ),
            ("rules:\n- match: {resource: pods, labels: 'a in ('}\n  hide: true\n", "line 2", "a in ("),
            ("rules:\n- match: {resource: pods}\n  redact: [spec]\n", "line 2", "does not begin with"),
            ("rules:\n- match: {resource: pods}\n  redact: [/metadata/name]\n", "line 2", "identifies"),
            (
                "rules:\n- match: {resource: pods}\n  patch: {type: json, value: [{op: add, path: /metadata/uid, value: x}]}\n",
                "line 2",
                "identifies",
            ),
            ("rules:\n- match: {resource: pods}\n  patch: {type: merge, value: []}\n", "line 2", "an object"),
            (
                "rules:\n- match: {resource: pods}\n  patch: {type: strategic, value: {}}\n",
                "line 3",
                "strategic",
            ),
            (
                "rules:\n- match: {resource: pods}\n  redact: [/spec]\n  onWrite: restore\n",
                "line 2",
                "refuses writes",
            ),
            (
                "rules:\n- match: {resource: pods, when: 'object.x ='}\n  hide: true\n",
                "line 2",
                "Syntax error",
            ),
            (
                "rules:\n- match: {resource: pods}\n  patch: {type: cel, value: {a: b}}\n",
                "line 2",
                "is an expression",
            ),
            ("rules: [\n", "line", "unclosed"),
            ("rules:\n- match: 3\n", "line 2", "expected a mapping"),
            (
                "rules:\n- match: {resource: pods}\n  hide: true\n  hide: true\n",
                "line 4",
                "`hide` is set twice",
            ),
            ("rule: []\n", "line 1", "rule"),
            ("stale: pods\n", "line 1", "expected a list"),
            ("", "line 1", "`rules`"),
            ("# nothing\n", "line 1", "`rules`"),
            ("rules:\n", "line 1", "`rules`"),
            ("rules: null\n", "line 1", "`rules`"),
            ("{}\n", "line 1", "`rules`"),
            ("stale: [pods]\n", "line 1", "`rules`"),
            ("rules:\n- match: {resource: nodes}\n  hide: true\n", "line 2", "not a cached resource"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(line) && error.contains(reason), "{text}: {error}");
            assert!(!error.contains(" at line "), "the line is named once: {error}");
        }
    }
}
