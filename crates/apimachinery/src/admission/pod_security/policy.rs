//! The policy of a namespace: a level and a version for each mode, from its labels.

use std::fmt;

use serde_json::Value;

use crate::kinds::json_access::at;
use crate::strconv::quote;
use crate::{FieldError, FieldErrorKind, FieldErrors};

/// The prefix of the labels.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// A level of the Pod Security Standards; a greater one is stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The minor version of Kubernetes whose checks apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(i64),
    #[default]
    Latest,
}

/// A level in a version, for example `restricted:v1.30`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// The demands of a namespace on its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate this are rejected.
    pub enforce: LevelVersion,
    /// Pods and workloads that violate this are stored with a warning.
    pub warn: LevelVersion,
    /// The problems of the labels.
    pub problems: FieldErrors,
}

impl Policy {
    /// Reads the policy from the labels of a namespace.
    ///
    /// Labels that are not valid are problems. Until they are corrected, the strictest level and
    /// the latest version apply to `enforce`, and no level to `warn`.
    pub fn of(namespace: &Value) -> Self {
        let mut problems = FieldErrors::new();
        let mut mode = |name: &str| -> (Option<Option<Level>>, Option<Version>) {
            let label = |suffix: &str| {
                let label = format!("{PREFIX}{name}{suffix}");
                let value = at(namespace, "/metadata/labels")?.get(&label)?.as_str()?;
                Some((label, value))
            };
            let level = label("").map(|(label, value)| {
                let level = level(value);
                if level.is_none() {
                    problems.push(invalid(&label, value, "must be one of privileged, baseline, restricted"));
                }
                level
            });
            let version = label("-version").map(|(label, value)| {
                version(value).unwrap_or_else(|| {
                    problems.push(invalid(&label, value, r#"must be "latest" or "v1.x""#));
                    Version::Latest
                })
            });
            (level, version)
        };
        let (enforce_level, enforce_version) = mode("enforce");
        // Nothing is audited, but the labels have to be valid.
        mode("audit");
        let (warn_level, warn_version) = mode("warn");
        let enforce = LevelVersion {
            level: enforce_level.map_or(Level::Privileged, |it| it.unwrap_or(Level::Restricted)),
            version: enforce_version.unwrap_or_default(),
        };
        let mut warn = LevelVersion {
            level: warn_level.flatten().unwrap_or_default(),
            version: warn_version.unwrap_or_default(),
        };
        // Clients are warned about what is enforced, unless a label says otherwise: workloads are
        // not rejected, only their pods are.
        if warn_level.is_none() && enforce_level.flatten().is_some_and(|it| it > warn.level) {
            warn.level = enforce.level;
            warn.version = warn_version.unwrap_or(enforce.version);
        }
        Self { enforce, warn, problems }
    }
}

impl LevelVersion {
    /// Returns true if everything is allowed.
    pub fn allows_everything(self) -> bool {
        self.level == Level::Privileged
    }

    /// Returns true if pods that were allowed by `old` may violate this: it is another level or
    /// version, and not just a lower level.
    pub fn may_be_stricter_than(self, old: Self) -> bool {
        !(self == old
            || self.level == Level::Privileged
            || (self.version == old.version && self.level <= old.level))
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// Reads `latest` or `v1.x`, where x is a number without leading zeros.
fn version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_number =
        minor.bytes().all(|it| it.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'));
    minor.parse().ok().filter(|_| is_number).map(Version::Minor)
}

fn invalid(label: &str, value: &str, detail: &str) -> FieldError {
    FieldError::with_value(format!("metadata.labels[{label}]"), FieldErrorKind::Invalid, quote(value), detail)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn policy(labels: &[(&str, &str)]) -> Policy {
        let labels: Map<String, Value> =
            labels.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), (*value).into())).collect();
        Policy::of(&json!({ "metadata": { "labels": labels } }))
    }

    #[test]
    fn labels_select_a_level_and_a_version_for_each_mode() {
        for (labels, enforce, warn) in [
            (&[][..], "privileged:latest", "privileged:latest"),
            (&[("enforce", "baseline")], "baseline:latest", "baseline:latest"),
            (&[("enforce", "baseline"), ("warn", "privileged")], "baseline:latest", "privileged:latest"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.30")],
                "restricted:v1.30",
                "restricted:v1.30",
            ),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.9"), ("warn-version", "v1.10")],
                "baseline:v1.9",
                "baseline:v1.10",
            ),
            (&[("warn", "restricted")], "privileged:latest", "restricted:latest"),
        ] {
            let policy = policy(labels);
            assert_eq!((policy.enforce.to_string(), policy.warn.to_string()), (enforce.into(), warn.into()));
            assert!(policy.problems.is_empty());
        }
    }

    #[test]
    fn a_label_that_is_not_valid_enforces_the_strictest_level_and_warns_of_nothing() {
        let wrong = policy(&[("enforce", "Baseline"), ("audit-version", "v1.01"), ("warn", "")]);
        assert_eq!(wrong.enforce.to_string(), "restricted:latest");
        assert_eq!(wrong.warn.to_string(), "privileged:latest");
        let problems: Vec<_> = wrong.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"Baseline\": must be one of privileged, \
                 baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\"",
                "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"\": must be one of privileged, baseline, restricted",
            ]
        );
        for text in ["v1.", "v1.-1", "v1.+1", "v2.0", "1.30", "v1.99999999999999999999", "Latest"] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn existing_pods_matter_if_a_level_rises_or_its_version_changes() {
        let of =
            |level: &str, version: &str| policy(&[("enforce", level), ("enforce-version", version)]).enforce;
        let old = of("baseline", "latest");
        for (new, expected) in [
            (of("baseline", "latest"), false),
            (of("privileged", "v1.1"), false),
            (of("restricted", "latest"), true),
            (of("baseline", "v1.1"), true),
        ] {
            assert_eq!(new.may_be_stricter_than(old), expected, "{new}");
        }
        assert!(!old.may_be_stricter_than(of("restricted", "latest")));
    }
}
