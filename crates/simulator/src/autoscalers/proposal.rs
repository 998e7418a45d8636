//! The number of replicas that a metric asks for, as `ReplicaCalculator` in k8s.io/kubernetes
//! v1.36.4 pkg/controller/podautoscaler/replica_calculator.go computes it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::usage::{Measured, PodUse, request};
use crate::condition;
use crate::json_access::text;
use crate::object::Pod;

/// The time for which the CPU that an unready pod uses is attributed to its start, and the one
/// within which it became unready for the first time: the defaults of
/// `--horizontal-pod-autoscaler-cpu-initialization-period` and
/// `--horizontal-pod-autoscaler-initial-readiness-delay`.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// The value that a metric should have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// Percent of the request.
    Utilization(i64),
    /// The average of all pods, in thousandths.
    AverageValue(i128),
}

/// The deviations from the target that change nothing, as fractions of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

/// The number of replicas that a metric asks for, and its value.
#[derive(Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// Percent of the request, if that is the target.
    pub(super) utilization: Option<i64>,
    /// In thousandths.
    pub(super) average: i128,
}

/// The use and the request of a pod, in thousandths. The request is zero if it does not matter.
#[derive(Clone, Copy, Debug)]
struct Sample {
    used: i128,
    requested: i128,
}

/// The pods of an autoscaler.
#[derive(Debug, Default)]
struct Groups {
    ready: Vec<Sample>,
    /// The requests of pods that have not started: their use says nothing yet.
    unready: Vec<i128>,
    /// The requests of pods of which the use is not known.
    missing: Vec<i128>,
}

/// A metric of the pods of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric<'a> {
    pub(super) measured: Measured<'a>,
    pub(super) target: Target,
    pub(super) tolerances: Tolerances,
    /// The number of replicas that the workload should have now.
    pub(super) current: i64,
}

impl Metric<'_> {
    /// Returns the number of replicas that the metric asks for.
    pub(super) fn propose(self, pods: &[PodUse<'_>], now: Timestamp) -> Result<Proposal, String> {
        if pods.iter().all(|it| it.amount.is_none()) {
            let resource = self.measured.resource;
            let reason = "no metrics returned from resource metrics API";
            return Err(format!("unable to get metrics for resource {resource}: {reason}"));
        }
        let groups = self.group(pods, now)?;
        let (ratio, utilization, average) = self.ratio(&groups.ready)?;
        let kept = Proposal { replicas: self.current, utilization, average };
        let scaled = |ratio: f64, pods: usize| (ratio * pods as f64).ceil() as i64;
        let is_tolerated =
            |ratio: f64| (1.0 - self.tolerances.down..=1.0 + self.tolerances.up).contains(&ratio);
        let adds_unready = ratio > 1.0 && !groups.unready.is_empty();
        if !adds_unready && groups.missing.is_empty() {
            if is_tolerated(ratio) {
                return Ok(kept);
            }
            return Ok(Proposal { replicas: scaled(ratio, groups.ready.len()), ..kept });
        }
        let mut all = groups.ready;
        if ratio < 1.0 {
            all.extend(groups.missing.iter().map(|it| self.assumed_busy(*it)));
        } else if ratio > 1.0 || matches!(self.target, Target::AverageValue(_)) {
            all.extend(groups.missing.iter().map(|it| Sample { used: 0, requested: *it }));
        }
        if adds_unready {
            all.extend(groups.unready.iter().map(|it| Sample { used: 0, requested: *it }));
        }
        let (new_ratio, ..) = self.ratio(&all)?;
        let turned = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
        if is_tolerated(new_ratio) || turned {
            return Ok(kept);
        }
        let replicas = scaled(new_ratio, all.len());
        let crosses =
            (new_ratio < 1.0 && replicas > self.current) || (new_ratio > 1.0 && replicas < self.current);
        Ok(if crosses { kept } else { Proposal { replicas, ..kept } })
    }

    /// Returns the pods in groups. Those that are being deleted or have failed are in none.
    fn group(self, pods: &[PodUse<'_>], now: Timestamp) -> Result<Groups, String> {
        let mut groups = Groups::default();
        let is_counted = |it: &&PodUse<'_>| !it.pod.is_deleting && text(it.pod, "/status/phase") != "Failed";
        let starts = |it: &PodUse<'_>| {
            text(it.pod, "/status/phase") == "Pending"
                || (self.measured.resource == "cpu" && it.amount.is_some() && is_starting(it.pod, now))
        };
        let counted: Vec<&PodUse<'_>> = pods.iter().filter(is_counted).collect();
        if !counted.iter().any(|it| it.amount.is_some() && !starts(it)) {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        // A missing request is an error even for a pod that is not counted.
        let requested = |pod: &Pod| match self.target {
            Target::Utilization(_) => request(pod, self.measured),
            Target::AverageValue(_) => Ok(0),
        };
        for pod in pods {
            requested(pod.pod)?;
        }
        for pod in counted {
            let requested = requested(pod.pod)?;
            match pod.amount {
                _ if starts(pod) => groups.unready.push(requested),
                Some(used) => groups.ready.push(Sample { used, requested }),
                None => groups.missing.push(requested),
            }
        }
        Ok(groups)
    }

    /// Returns the ratio of the metric to its target, with the utilization and the average.
    fn ratio(self, samples: &[Sample]) -> Result<(f64, Option<i64>, i128), String> {
        let sum = |of: fn(&Sample) -> i128| samples.iter().map(of).fold(0_i128, i128::saturating_add);
        let (used, requested) = (sum(|it| it.used), sum(|it| it.requested));
        let count = i128::try_from(samples.len()).unwrap_or(i128::MAX);
        let average = used.checked_div(count).unwrap_or(0);
        match self.target {
            Target::AverageValue(target) => Ok((average as f64 / target as f64, None, average)),
            Target::Utilization(target) => {
                let percent = used.saturating_mul(100).checked_div(requested);
                let percent = percent.ok_or("no metrics returned matched known pods")?;
                let percent = i64::try_from(percent).unwrap_or(i64::MAX);
                Ok((percent as f64 / target as f64, Some(percent), average))
            }
        }
    }

    /// Returns the sample of a pod of which the use is not known, when there would be fewer pods.
    fn assumed_busy(self, requested: i128) -> Sample {
        let used = match self.target {
            Target::Utilization(target) => requested.saturating_mul(i128::from(target.max(100))) / 100,
            Target::AverageValue(target) => target,
        };
        Sample { used, requested }
    }
}

/// Returns true if the CPU that a pod uses may be that of its start.
fn is_starting(pod: &Pod, now: Timestamp) -> bool {
    let time = |object: &Value, pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let (Some(ready), Some(begun)) = (condition::find(pod, "Ready"), time(pod, "/status/startTime")) else {
        return true;
    };
    let is_unready = text(ready, "/status") == "False";
    if now.duration_since(begun) < CPU_INITIALIZATION {
        return is_unready;
    }
    let since = time(ready, "/lastTransitionTime");
    is_unready && since.is_none_or(|it| it.duration_since(begun) < INITIAL_READINESS_DELAY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOLERANCES: Tolerances = Tolerances { down: 0.1, up: 0.1 };

    /// A pod that requests a CPU: it uses this much, and began this many seconds ago.
    fn pod(phase: &str, ready: bool, begun: i64) -> Pod {
        let at = |second: i64| Timestamp::from_second(10_000 - second).unwrap().to_string();
        Pod::from(json!({ "metadata": { "name": "p" },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
            "status": { "phase": phase, "startTime": at(begun), "conditions": [{ "type": "Ready",
                "status": if ready { "True" } else { "False" }, "lastTransitionTime": at(begun) }] } }))
    }

    fn proposed(target: Target, current: i64, pods: &[(Pod, Option<i128>)]) -> Result<Proposal, String> {
        let measured = Measured { resource: "cpu", container: None };
        let metric = Metric { measured, target, tolerances: TOLERANCES, current };
        let pods: Vec<_> = pods.iter().map(|(pod, amount)| PodUse { pod, amount: *amount }).collect();
        metric.propose(&pods, Timestamp::from_second(10_000).unwrap())
    }

    fn running(uses: &[i128]) -> Vec<(Pod, Option<i128>)> {
        uses.iter().map(|it| (pod("Running", true, 1000), Some(*it))).collect()
    }

    #[test]
    fn the_number_of_replicas_follows_the_ratio_unless_that_is_tolerated() {
        for (target, uses, expected) in [
            (50, &[500, 500][..], 2),
            (50, &[1000, 1000], 4),
            (50, &[550, 550], 2),
            (50, &[560, 560], 3),
            (50, &[450, 450], 2),
            (50, &[440, 440], 2),
            (50, &[100, 100, 100], 1),
            (50, &[0, 0], 0),
        ] {
            let count = i64::try_from(uses.len()).unwrap();
            let found = proposed(Target::Utilization(target), count, &running(uses)).unwrap();
            assert_eq!(found.replicas, expected, "{uses:?}");
        }
        let found = proposed(Target::AverageValue(250), 2, &running(&[400, 600])).unwrap();
        assert_eq!(found, Proposal { replicas: 4, utilization: None, average: 500 });
        let found = proposed(Target::Utilization(80), 2, &running(&[400, 600])).unwrap();
        assert_eq!((found.replicas, found.utilization, found.average), (2, Some(50), 500));
    }

    #[test]
    fn pods_that_start_or_are_not_measured_dampen_the_change() {
        let with = |more: Vec<(Pod, Option<i128>)>| {
            let mut pods = running(&[1000, 1000]);
            pods.extend(more);
            pods
        };
        let starting = || (pod("Running", false, 100), Some(5000));
        let pending = || (pod("Pending", false, 1), None);
        for (pods, current, expected) in [
            // At most what the others ask for, as if the new ones had no use at all.
            (with(vec![starting(), pending()]), 4, 4),
            (with(vec![pending()]), 3, 4),
            (with(vec![(pod("Running", false, 1000), Some(1000))]), 3, 4),
            (with(vec![(pod("Unknown", true, 1000), None)]), 3, 4),
            (with(vec![(pod("Failed", false, 1000), None)]), 2, 4),
        ] {
            let found = proposed(Target::Utilization(50), current, &pods).unwrap();
            assert_eq!(found.replicas, expected, "{pods:?}");
        }
        let mut idle = running(&[100, 100]);
        idle.push((pod("Unknown", true, 1000), None));
        let found = proposed(Target::Utilization(50), 3, &idle).unwrap();
        assert_eq!(found.replicas, 3, "the missing pod may be busy");
        let mut leaving = pod("Running", true, 1000);
        leaving.is_deleting = true;
        let found = proposed(Target::Utilization(50), 2, &with(vec![(leaving, Some(9000))])).unwrap();
        assert_eq!(found.replicas, 4);
    }

    #[test]
    fn a_pod_that_was_ready_before_counts_although_it_is_not_now() {
        let mut pod = Value::clone(&pod("Running", false, 1000));
        pod["status"]["conditions"][0]["lastTransitionTime"] =
            Timestamp::from_second(9_900).unwrap().to_string().into();
        let pods = vec![(Pod::from(pod), Some(1000))];
        assert_eq!(proposed(Target::Utilization(50), 1, &pods).unwrap().replicas, 2);
    }

    #[test]
    fn without_a_use_there_is_no_proposal() {
        let message = "unable to get metrics for resource cpu: no metrics returned from resource metrics API";
        assert_eq!(proposed(Target::Utilization(50), 1, &[]), Err(message.to_owned()));
        let unready = [(pod("Running", false, 10), Some(100))];
        let message = "did not receive metrics for targeted pods (pods might be unready)";
        assert_eq!(proposed(Target::Utilization(50), 1, &unready), Err(message.to_owned()));
    }
}
