//! The distribution of calls: even at any rate, and to all pods where there are many.

use anyhow::Result;
use tokio::time::Duration;

use super::scenario::Scenario;
use crate::grpc::caller_process::Balancing;
use crate::grpc::pods::Pods;

const PODS: usize = 5;
/// More pods than fit into two slices.
pub(super) const MANY: u8 = 250;
const SLICE: usize = 100;
/// The rate and length of the calls to many pods. With random picks, about one run in a thousand
/// would miss a pod.
const RATE: u32 = 1_000;
const TIME: Duration = Duration::from_secs(3);

/// Calls a few pods over a new channel at this rate. Returns Jain's fairness index of their shares:
/// 1 is even.
pub(super) async fn fairness(scenario: &Scenario<'_>, rate: u32) -> Result<f64> {
    let service = scenario.service(&format!("fair-{rate}"));
    let pods = Pods::start(PODS as u8)?;
    scenario.publish(&service, &pods, 0..PODS, None).await?;
    let time = if rate > 10 { scenario.settings.steady } else { scenario.settings.seldom };
    scenario.caller(&service, Balancing::RoundRobin).await?.steady(rate, time).await?;
    Ok(jains_index(&pods.calls()))
}

/// Returns the number of pods that are called, of many.
pub(super) async fn pods_called(scenario: &Scenario<'_>) -> Result<usize> {
    let (service, pods) = (scenario.service("many"), Pods::start(MANY)?);
    scenario.cluster.publish_pods(&service, &pods, SLICE).await?;
    scenario.caller(&service, Balancing::RoundRobin).await?.steady(RATE, TIME).await?;
    Ok(pods.calls().iter().filter(|it| **it > 0).count())
}

/// Jain's index: the square of the sum divided by n times the sum of the squares. It is 1 if all
/// shares are equal, and 1/n if one pod has all calls.
fn jains_index(distribution: &[u64]) -> f64 {
    let sum: f64 = distribution.iter().map(|it| *it as f64).sum();
    let squares: f64 = distribution.iter().map(|it| (*it as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (squares * distribution.len() as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_even_shares_and_one_nth_for_a_single_pod() {
        assert_eq!(jains_index(&[7, 7, 7, 7]), 1.0);
        assert_eq!(jains_index(&[9, 0, 0, 0]), 0.25);
        assert_eq!(jains_index(&[0, 0]), 0.0);
        assert!((jains_index(&[5, 4, 4, 4, 3]) - 400.0 / 410.0).abs() < 1e-9);
    }
}
