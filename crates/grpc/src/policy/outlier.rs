//! gRPC's outlier detection (A50): ejects endpoints that fail while others do not, as a function
//! over tallies.
//!
//! Time and randomness are passed in. Which calls count as failed is decided where calls end.

use std::time::Duration;

use tokio::time::Instant;

use crate::load::Tally;

/// Ejects endpoints that fail more than the others, for a time that grows with each ejection. The
/// defaults are those of A50.
///
/// ```
/// use dogwatch_grpc::{KubeChannel, OutlierDetection};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outlier = OutlierDetection { max_ejection_percent: 30, ..OutlierDetection::default() };
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.outlier(outlier).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OutlierDetection {
    /// The interval between sweeps. Defaults to 10 s.
    pub interval: Duration,
    /// The duration of the first ejection; the second lasts twice as long, and so on. Defaults to
    /// 30 s.
    pub base_ejection: Duration,
    /// The longest ejection. Defaults to 300 s.
    pub longest_ejection: Duration,
    /// No more endpoints are ejected once this percentage is. One endpoint may always be ejected.
    /// Defaults to 10.
    pub max_ejection_percent: u32,
    /// Compares endpoints by the rate of calls that succeed. Enabled by default.
    pub success_rate: Option<SuccessRate>,
    /// Ejects by the percentage of calls that fail, whatever the other endpoints do. Enabled by
    /// default.
    pub failure_percentage: Option<FailurePercentage>,
}

/// Ejects endpoints whose success rate is below the mean by a number of standard deviations.
///
/// ```
/// use dogwatch_grpc::{OutlierDetection, SuccessRate};
///
/// let success_rate = Some(SuccessRate { minimum_hosts: 3, ..SuccessRate::default() });
/// let outlier = OutlierDetection { success_rate, ..OutlierDetection::default() };
/// assert!(outlier.failure_percentage.is_some());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessRate {
    /// The number of standard deviations. Defaults to 1.9.
    pub deviations: f64,
    /// The percentage of ejections that are carried out. Defaults to 100.
    pub enforcement: u32,
    /// The minimum number of endpoints with enough calls. Defaults to 5.
    pub minimum_hosts: usize,
    /// The number of calls since the last sweep that is enough. Defaults to 100.
    pub request_volume: u32,
}

/// Ejects endpoints that fail more than a percentage of their calls.
///
/// ```
/// use dogwatch_grpc::{FailurePercentage, OutlierDetection};
///
/// let half = FailurePercentage { threshold: 50, ..FailurePercentage::default() };
/// let mut outlier = OutlierDetection::default();
/// outlier.failure_percentage = Some(half);
/// assert!(outlier.success_rate.is_some());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FailurePercentage {
    /// The percentage. Defaults to 85.
    pub threshold: u32,
    /// The percentage of ejections that are carried out. Defaults to 100.
    pub enforcement: u32,
    /// The minimum number of endpoints with enough calls. Defaults to 5.
    pub minimum_hosts: usize,
    /// The number of calls since the last sweep that is enough. Defaults to 50.
    pub request_volume: u32,
}

impl Default for OutlierDetection {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            base_ejection: Duration::from_secs(30),
            longest_ejection: Duration::from_secs(300),
            max_ejection_percent: 10,
            success_rate: Some(SuccessRate::default()),
            failure_percentage: Some(FailurePercentage::default()),
        }
    }
}

impl Default for SuccessRate {
    fn default() -> Self {
        Self { deviations: 1.9, enforcement: 100, minimum_hosts: 5, request_volume: 100 }
    }
}

impl Default for FailurePercentage {
    fn default() -> Self {
        Self { threshold: 85, enforcement: 100, minimum_hosts: 5, request_volume: 50 }
    }
}

/// The ejection record of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Host {
    pub(crate) ejected: Option<Instant>,
    /// The ejection multiplier: the current ejection lasts this many times the base.
    pub(crate) times: u32,
}

/// Runs one sweep over all endpoints: ejects, lowers multipliers, and ends ejections. `chance`
/// returns random numbers below 100. Returns the number of new ejections.
pub(crate) fn sweep(
    hosts: &mut [(&mut Host, Tally)],
    outlier: &OutlierDetection,
    now: Instant,
    mut chance: impl FnMut() -> u32,
) -> usize {
    let mut suspects = Vec::new();
    if let Some(rule) = &outlier.success_rate {
        suspects.extend(by_success_rate(hosts, rule).into_iter().map(|it| (it, rule.enforcement)));
    }
    if let Some(rule) = &outlier.failure_percentage {
        suspects.extend(by_failures(hosts, rule).into_iter().map(|it| (it, rule.enforcement)));
    }
    let before = hosts.iter().filter(|it| it.0.ejected.is_some()).count();
    let mut ejected = before;
    for (index, enforcement) in suspects {
        if ejected * 100 >= outlier.max_ejection_percent as usize * hosts.len() && ejected > 0 {
            break;
        }
        let host = &mut hosts[index].0;
        if host.ejected.is_none() && chance() < enforcement {
            host.ejected = Some(now);
            host.times += 1;
            ejected += 1;
        }
    }
    for (host, _) in hosts {
        match host.ejected {
            None => host.times = host.times.saturating_sub(1),
            Some(since) => {
                let longest = outlier.longest_ejection.max(outlier.base_ejection);
                if now - since > outlier.base_ejection.saturating_mul(host.times).min(longest) {
                    host.ejected = None;
                }
            }
        }
    }
    ejected - before
}

fn calls(tally: Tally) -> u32 {
    tally.succeeded.saturating_add(tally.failed)
}

/// Returns the hosts with enough calls, and their success rates; empty if there are too few hosts.
fn rated(hosts: &[(&mut Host, Tally)], volume: u32, minimum: usize) -> Vec<(usize, f64)> {
    let enough = |it: &(usize, &(&mut Host, Tally))| calls(it.1.1) >= volume.max(1);
    let rate = |tally: Tally| f64::from(tally.succeeded) / f64::from(calls(tally));
    let rated: Vec<_> =
        hosts.iter().enumerate().filter(enough).map(|(index, it)| (index, rate(it.1))).collect();
    if rated.len() < minimum { Vec::new() } else { rated }
}

fn by_success_rate(hosts: &[(&mut Host, Tally)], rule: &SuccessRate) -> Vec<usize> {
    let rated = rated(hosts, rule.request_volume, rule.minimum_hosts);
    let count = rated.len().max(1) as f64;
    let mean = rated.iter().map(|it| it.1).sum::<f64>() / count;
    let variance = rated.iter().map(|it| (it.1 - mean).powi(2)).sum::<f64>() / count;
    let least = mean - rule.deviations * variance.sqrt();
    rated.into_iter().filter(|it| it.1 < least).map(|it| it.0).collect()
}

fn by_failures(hosts: &[(&mut Host, Tally)], rule: &FailurePercentage) -> Vec<usize> {
    let rated = rated(hosts, rule.request_volume, rule.minimum_hosts);
    rated.into_iter().filter(|it| (1.0 - it.1) * 100.0 > f64::from(rule.threshold)).map(|it| it.0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(succeeded: u32, failed: u32) -> Tally {
        Tally { succeeded, failed }
    }

    fn run_sweep(hosts: &mut [Host], tallies: &[Tally], outlier: &OutlierDetection, now: Instant) -> usize {
        let mut pairs: Vec<_> = hosts.iter_mut().zip(tallies.iter().copied()).collect();
        sweep(&mut pairs, outlier, now, || 0)
    }

    fn ejected(hosts: &[Host]) -> Vec<usize> {
        (0..hosts.len()).filter(|it| hosts[*it].ejected.is_some()).collect()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_fails_alone_is_ejected_longer_each_time_and_forgiven() {
        let outlier = OutlierDetection::default();
        let mut hosts = [Host::default(); 10];
        let good = tally(100, 0);
        let mut bad = [good; 10];
        bad[7] = tally(20, 80);
        run_sweep(&mut hosts, &bad, &outlier, Instant::now());
        assert_eq!(ejected(&hosts), [7]);
        // It is back after 30 s, and ejected for 60 s the next time.
        for _ in 0..3 {
            tokio::time::advance(seconds(10)).await;
            run_sweep(&mut hosts, &[good; 10], &outlier, Instant::now());
            assert_eq!(ejected(&hosts), [7]);
        }
        tokio::time::advance(seconds(10)).await;
        run_sweep(&mut hosts, &[good; 10], &outlier, Instant::now());
        assert_eq!((ejected(&hosts), hosts[7].times), (vec![], 1));
        run_sweep(&mut hosts, &bad, &outlier, Instant::now());
        assert_eq!((ejected(&hosts), hosts[7].times), (vec![7], 2));
        tokio::time::advance(seconds(59)).await;
        run_sweep(&mut hosts, &[good; 10], &outlier, Instant::now());
        assert_eq!(ejected(&hosts), [7]);
        tokio::time::advance(seconds(2)).await;
        run_sweep(&mut hosts, &[good; 10], &outlier, Instant::now());
        assert!(ejected(&hosts).is_empty());
        for _ in 0..2 {
            run_sweep(&mut hosts, &[good; 10], &outlier, Instant::now());
        }
        assert_eq!(hosts[7].times, 0, "the multiplier should decrease without failures");
    }

    #[tokio::test(start_paused = true)]
    async fn an_ejection_is_counted_although_another_ends_in_the_same_sweep() {
        let outlier = OutlierDetection { max_ejection_percent: 50, ..OutlierDetection::default() };
        let mut hosts = [Host::default(); 6];
        let mut tallies = [tally(100, 0); 6];
        tallies[2] = tally(0, 100);
        assert_eq!(run_sweep(&mut hosts, &tallies, &outlier, Instant::now()), 1);
        tokio::time::advance(seconds(31)).await;
        (tallies[2], tallies[4]) = (tally(0, 0), tally(0, 100));
        assert_eq!(run_sweep(&mut hosts, &tallies, &outlier, Instant::now()), 1);
        assert_eq!(ejected(&hosts), [4]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_ejection_never_lasts_longer_than_the_longest() {
        let outlier = OutlierDetection::default();
        let mut hosts = [Host { ejected: Some(Instant::now()), times: 1_000 }; 1];
        tokio::time::advance(seconds(301)).await;
        run_sweep(&mut hosts, &[Tally::default()], &outlier, Instant::now());
        assert!(ejected(&hosts).is_empty());
    }

    #[test]
    fn rules_require_enough_hosts_and_enough_calls() {
        let now = Instant::now();
        let (good, bad) = (tally(100, 0), tally(0, 100));
        let cases: [(&str, Vec<Tally>, Vec<usize>); 5] = [
            ("four hosts are too few", vec![good, good, good, bad], vec![]),
            ("five are enough", vec![good, good, good, good, bad], vec![4]),
            ("too few calls", vec![good, good, good, good, tally(0, 49)], vec![]),
            ("equal rates are no outlier", vec![tally(90, 10); 6], vec![]),
            ("failing all calls is", vec![bad; 6], vec![0]),
        ];
        for (case, tallies, expected) in cases {
            let mut hosts = vec![Host::default(); tallies.len()];
            run_sweep(&mut hosts, &tallies, &OutlierDetection::default(), now);
            assert_eq!(ejected(&hosts), expected, "{case}");
        }
    }

    #[test]
    fn enforcement_is_a_probability() {
        let never = SuccessRate { enforcement: 0, ..SuccessRate::default() };
        let outlier = OutlierDetection {
            success_rate: Some(never),
            failure_percentage: None,
            ..OutlierDetection::default()
        };
        let mut hosts = [Host::default(); 5];
        let tallies = [tally(0, 100), tally(100, 0), tally(100, 0), tally(100, 0), tally(100, 0)];
        run_sweep(&mut hosts, &tallies, &outlier, Instant::now());
        assert!(ejected(&hosts).is_empty());
    }

    proptest! {
        #[test]
        fn no_more_are_ejected_than_the_limit_allows(
            tallies in prop::collection::vec((0u32..500, 0u32..500), 1..60),
            percent in 0u32..100,
            rounds in 1usize..5,
        ) {
            let outlier = OutlierDetection { max_ejection_percent: percent, ..OutlierDetection::default() };
            let tallies: Vec<_> = tallies.into_iter().map(|(good, bad)| tally(good, bad)).collect();
            let mut hosts = vec![Host::default(); tallies.len()];
            for _ in 0..rounds {
                run_sweep(&mut hosts, &tallies, &outlier, Instant::now());
            }
            let allowed = (hosts.len() * percent as usize).div_ceil(100).max(1);
            prop_assert!(ejected(&hosts).len() <= allowed, "{} of {}", ejected(&hosts).len(), hosts.len());
        }
    }
}
