//! The parameters of a delete.

use std::time::Duration;

use serde::Serialize;

use crate::version::ResourceVersion;

/// The parameters of a delete. They are sent as a `DeleteOptions` body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteParams {
    /// Validates the request without deleting anything.
    pub dry_run: bool,
    /// The time that the object has to shut down; `None` uses the default of its kind.
    pub grace_period: Option<Duration>,
    /// The policy for its dependents; `None` uses the default of its kind.
    pub propagation: Option<Propagation>,
    /// Conditions under which the object is deleted.
    pub preconditions: Option<Preconditions>,
    /// Deletes an object that the server cannot read from its storage. This may break whatever
    /// relies on the object.
    pub ignore_store_read_error: bool,
}

/// The policy for the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Propagation {
    /// The dependents stay, without an owner.
    Orphan,
    /// The dependents are garbage-collected afterwards.
    Background,
    /// The dependents are deleted first.
    Foreground,
}

/// The conditions that an object must meet to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The required uid, which distinguishes the object from another one of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The required version, which excludes any change since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteParams {
    /// Creates parameters that garbage-collect the dependents afterwards.
    pub fn background() -> Self {
        Self { propagation: Some(Propagation::Background), ..Self::default() }
    }

    /// Creates parameters that delete the dependents first.
    pub fn foreground() -> Self {
        Self { propagation: Some(Propagation::Foreground), ..Self::default() }
    }

    /// Creates parameters that keep the dependents, without an owner.
    pub fn orphan() -> Self {
        Self { propagation: Some(Propagation::Orphan), ..Self::default() }
    }

    /// Validates the request without deleting anything.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Sets the time that the object has to shut down.
    #[must_use]
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = Some(period);
        self
    }

    /// Sets conditions under which the object is deleted.
    #[must_use]
    pub fn preconditions(mut self, preconditions: Preconditions) -> Self {
        self.preconditions = Some(preconditions);
        self
    }

    /// Returns the `DeleteOptions` object, which is the body of the request.
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

/// Rounds up: half a second of grace must not become 0, which deletes at once.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

impl Preconditions {
    /// Requires this uid, which distinguishes the object from another one of the same name.
    pub fn uid(uid: impl Into<String>) -> Self {
        Self { uid: Some(uid.into()), resource_version: None }
    }

    /// Requires that the object has not changed since this version.
    pub fn version(version: &ResourceVersion) -> Self {
        Self { uid: None, resource_version: Some(version.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_options_contain_only_set_fields() {
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
