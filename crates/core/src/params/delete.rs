//! How to delete.

use std::time::Duration;

use serde::Serialize;

use crate::version::ResourceVersion;

/// How to delete. Travels as a `DeleteOptions` body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteParams {
    /// Go through everything but deleting.
    pub dry_run: bool,
    /// How long the object may take to end; `None` leaves it to its kind.
    pub grace_period: Option<Duration>,
    /// What becomes of its dependents; `None` leaves it to its kind.
    pub propagation: Option<Propagation>,
    /// Delete only this very object.
    pub preconditions: Option<Preconditions>,
    /// Delete an object the server cannot read from its storage. Breaks what relied on it.
    pub ignore_store_read_error: bool,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Propagation {
    /// They stay, without an owner.
    Orphan,
    /// They are collected afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// What must still be true of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is still this object, not another of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It did not change since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteParams {
    /// Dependents are collected afterwards.
    pub fn background() -> Self {
        Self { propagation: Some(Propagation::Background), ..Self::default() }
    }

    /// Dependents go first.
    pub fn foreground() -> Self {
        Self { propagation: Some(Propagation::Foreground), ..Self::default() }
    }

    /// Dependents stay, without an owner.
    pub fn orphan() -> Self {
        Self { propagation: Some(Propagation::Orphan), ..Self::default() }
    }

    /// Goes through everything but deleting.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// How long the object may take to end.
    #[must_use]
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = Some(period);
        self
    }

    /// Deletes only this very object.
    #[must_use]
    pub fn preconditions(mut self, preconditions: Preconditions) -> Self {
        self.preconditions = Some(preconditions);
        self
    }

    /// The `DeleteOptions` object that is the body of the request.
    pub fn body(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct DeleteOptions<'a> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            dry_run: Option<[&'static str; 1]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            grace_period_seconds: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            propagation_policy: Option<Propagation>,
            #[serde(skip_serializing_if = "Option::is_none")]
            preconditions: Option<&'a Preconditions>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            ignore_store_read_error_with_cluster_breaking_potential: bool,
        }
        DeleteOptions {
            kind: "DeleteOptions",
            api_version: "v1",
            dry_run: self.dry_run.then_some(["All"]),
            grace_period_seconds: self.grace_period.map(whole_seconds),
            propagation_policy: self.propagation,
            preconditions: self.preconditions.as_ref(),
            ignore_store_read_error_with_cluster_breaking_potential: self.ignore_store_read_error,
        }
    }
}

/// Rounds up: half a second of grace must not become 0, which kills at once.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

impl Preconditions {
    /// It is still this object, not another of the same name.
    pub fn uid(uid: impl Into<String>) -> Self {
        Self { uid: Some(uid.into()), resource_version: None }
    }

    /// It did not change since this version.
    pub fn version(version: &ResourceVersion) -> Self {
        Self { uid: None, resource_version: Some(version.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_options_carry_only_what_was_asked() {
        let json = |params: DeleteParams| serde_json::to_string(&params.body()).expect("serializes");
        assert_eq!(json(DeleteParams::default()), r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#);
        for (period, seconds) in [(0, 0), (1, 1), (500, 1), (1000, 1), (1001, 2)] {
            let params = DeleteParams::default().grace_period(Duration::from_millis(period));
            let expected = format!(r#""gracePeriodSeconds":{seconds}}}"#);
            assert!(json(params).ends_with(&expected), "{period} ms");
        }
        let all = DeleteParams::foreground()
            .dry_run()
            .grace_period(Duration::ZERO)
            .preconditions(Preconditions::uid("u"));
        assert_eq!(
            json(all),
            r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"],"gracePeriodSeconds":0,"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#
        );
    }
}
