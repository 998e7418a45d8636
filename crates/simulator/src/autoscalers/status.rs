//! The status of an autoscaler, and the events, while it is evaluated.

use serde_json::{Value, json};

use super::limits::Limited;
use super::metrics::{Evaluated, Failure};
use crate::condition;
use crate::json_access::{items, number};
use crate::recorder::Event;

/// The status of an autoscaler, and the events about it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) status: Value,
    pub(super) events: Vec<Event>,
    now: String,
}

/// The number of replicas that all metrics together ask for.
#[derive(Debug, PartialEq)]
pub(super) struct Combined {
    pub(super) replicas: i64,
    /// The name of the metric that asks for most.
    pub(super) metric: String,
}

impl Report {
    /// Creates a report that begins with the present status.
    pub(super) fn new(autoscaler: &Value, now: String) -> Self {
        let status = autoscaler.get("status").filter(|it| it.is_object()).cloned();
        Self { status: status.unwrap_or_else(|| json!({})), events: Vec::new(), now }
    }

    /// Sets a condition.
    pub(super) fn condition(&mut self, kind: &str, status: bool, reason: &str, message: &str) {
        let mut conditions = items(&self.status, "/conditions").to_vec();
        let status = if status { "True" } else { "False" };
        condition::set(&mut conditions, kind, status, reason, message, &self.now);
        self.status["conditions"] = conditions.into();
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push(Event::warning(reason, message));
    }

    /// Reports that the scale of the target cannot be read.
    pub(super) fn no_scale(&mut self, error: &str) {
        self.warn("FailedGetScale", error.to_owned());
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        self.condition("AbleToScale", false, "FailedGetScale", &message);
    }

    /// Reports that the pods of the target are not known.
    pub(super) fn no_pods(&mut self, event: &'static str, reason: &str, error: &str, message: &str) {
        self.warn(event, error.to_owned());
        self.condition("ScalingActive", false, reason, message);
        self.warn("FailedComputeMetricsReplicas", error.to_owned());
    }

    /// Reports the values of the metrics, and returns what they ask for together: the most that any
    /// of them does. Returns `None` if none of them can be evaluated, or only those that ask for
    /// fewer replicas: the others may ask for more (`computeReplicasForMetrics` in
    /// k8s.io/kubernetes v1.36.4 pkg/controller/podautoscaler/horizontal.go).
    pub(super) fn combine(
        &mut self,
        evaluated: Vec<Result<Evaluated, Failure>>,
        current: i64,
    ) -> Option<Combined> {
        let (count, mut statuses) = (evaluated.len(), Vec::new());
        let (mut combined, mut failures): (Option<Combined>, Vec<Failure>) = (None, Vec::new());
        for metric in evaluated {
            match metric {
                Ok(Evaluated { replicas, name, status }) => {
                    statuses.push(status);
                    if combined.as_ref().is_none_or(|it| it.replicas == 0 || replicas > it.replicas) {
                        combined = Some(Combined { replicas, metric: name });
                    }
                }
                Err(failure) => {
                    // The statuses stand in the order of the metrics.
                    statuses.push(json!({ "type": "" }));
                    self.warn(failure.reason, failure.message.clone());
                    failures.push(failure);
                }
            }
        }
        self.status["currentMetrics"] = statuses.into();
        if let Some(first) = failures.first() {
            let message = format!("the HPA was unable to compute the replica count: {}", first.message);
            let (invalid, summary) = (failures.len(), &first.summary);
            let shrinks = combined.as_ref().is_none_or(|it| it.replicas < current);
            if shrinks {
                self.condition("ScalingActive", false, first.reason, &message);
                let error =
                    format!("invalid metrics ({invalid} invalid out of {count}), first error is: {summary}");
                self.warn("FailedComputeMetricsReplicas", error);
                return None;
            }
        }
        if let Some(Combined { metric, .. }) = &combined {
            let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
            self.condition("ScalingActive", true, "ValidMetricFound", &message);
        }
        combined
    }

    /// Reports the limits of the number of replicas.
    pub(super) fn limited(&mut self, limited: &Limited) {
        self.condition("AbleToScale", true, limited.able.0, limited.able.1);
        let (reason, message) = limited.limited;
        self.condition("ScalingLimited", limited.is_limited, reason, message);
    }

    /// Reports that the target has got another number of replicas.
    pub(super) fn rescaled(&mut self, replicas: i64, reason: &str) {
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.condition("AbleToScale", true, "SucceededRescale", &message);
        let message = format!("New size: {replicas}; reason: {reason}");
        self.events.push(Event::normal("SuccessfulRescale", message));
        self.status["lastScaleTime"] = self.now.as_str().into();
    }

    /// Reports that the target could not get another number of replicas.
    pub(super) fn not_rescaled(&mut self, replicas: i64, reason: &str, error: &str) {
        let message = format!("New size: {replicas}; reason: {reason}; error: {error}");
        self.warn("FailedRescale", message);
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.condition("AbleToScale", false, "FailedUpdateScale", &message);
    }

    /// Sets the numbers of replicas that the target has and should have. Without the latter, the
    /// last one stays.
    pub(super) fn replicas(&mut self, current: i64, desired: Option<i64>) {
        let desired = desired.or_else(|| number(&self.status, "/desiredReplicas")).unwrap_or(0);
        self.status["currentReplicas"] = current.into();
        self.status["desiredReplicas"] = desired.into();
    }

    /// Removes the values of metrics, which were not evaluated.
    pub(super) fn without_metrics(&mut self) {
        if let Some(status) = self.status.as_object_mut() {
            status.remove("currentMetrics");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(replicas: i64, name: &str) -> Result<Evaluated, Failure> {
        Ok(Evaluated { replicas, name: name.to_owned(), status: json!({ "type": name }) })
    }

    fn failed() -> Result<Evaluated, Failure> {
        Err(Failure { reason: "FailedGetPodsMetric", message: "none".to_owned(), summary: "no".to_owned() })
    }

    fn combined(metrics: Vec<Result<Evaluated, Failure>>) -> (Option<Combined>, Report) {
        let mut report = Report::new(&json!({}), "t".to_owned());
        let combined = report.combine(metrics, 3);
        (combined, report)
    }

    #[test]
    fn the_metric_that_asks_for_most_decides() {
        let (found, report) = combined(vec![evaluated(2, "a"), evaluated(5, "b"), evaluated(4, "c")]);
        assert_eq!(found, Some(Combined { replicas: 5, metric: "b".to_owned() }));
        let active = &report.status["conditions"][0];
        assert_eq!((&active["status"], &active["reason"]), (&json!("True"), &json!("ValidMetricFound")));
        assert_eq!(report.status["currentMetrics"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_metric_that_fails_prevents_fewer_replicas_only() {
        let (found, report) = combined(vec![failed(), evaluated(5, "b")]);
        assert_eq!(found.map(|it| it.replicas), Some(5));
        assert_eq!(report.status["currentMetrics"], json!([{ "type": "" }, { "type": "b" }]));
        for metrics in [vec![failed(), evaluated(2, "b")], vec![failed(), failed()]] {
            let (found, report) = combined(metrics);
            assert_eq!(found, None);
            let active = &report.status["conditions"][0];
            assert_eq!(
                (&active["status"], &active["reason"]),
                (&json!("False"), &json!("FailedGetPodsMetric"))
            );
            assert_eq!(active["message"], "the HPA was unable to compute the replica count: none");
        }
        let (_, report) = combined(vec![failed()]);
        let message = "invalid metrics (1 invalid out of 1), first error is: no".to_owned();
        assert_eq!(report.events.last(), Some(&Event::warning("FailedComputeMetricsReplicas", message)));
    }
}
