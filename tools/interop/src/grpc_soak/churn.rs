//! A thousand connected endpoints of which a hundred are replaced each second: no call fails, and
//! no resources of removed endpoints leak.

use std::time::Duration;

use anyhow::Result;
use grpc_testkit::{Pod, addresses, listeners_on_one_port};
use tokio::time::{Instant, sleep, sleep_until};

use super::caller_process::{CallerProcess, POLL, SETTLE_TIMEOUT};
use super::checks::Checks;
use super::echo::CallCounts;
use super::limit;
use super::load::Outcome;
use super::membership::Membership;
use super::resource_usage::ResourceUsage;
use super::test_cluster::TestCluster;

/// As many slices as Kubernetes would create, with a hundred endpoints each.
const SLICES: usize = 10;
const SIZE: usize = 100;
const ENDPOINTS: usize = SLICES * SIZE;
/// The number of addresses that are currently unused: an address is used again after a second.
const SPARE: usize = 100;
/// The number of endpoints replaced each second, and with each write of a slice.
const CHANGES: u32 = 100;
const AT_ONCE: u32 = 10;
/// The number of calls per second during the churn.
const RATE: u32 = 200;
/// The rate and length of the warm-up. After it, every connection has carried a call or two and has
/// allocated all it needs.
const WARM_UP: (u32, Duration) = (1_000, Duration::from_secs(2));
/// The number of open files: a listener for each address, a connection to each endpoint and to
/// those just removed, and a few others.
const FILES: u64 = 2_600;
/// The tolerated growth of memory, in KiB, because of fragmentation in the allocator. With 6,000
/// endpoints replaced in a minute it is 1.4 KiB for each, less than one task needs.
const TOLERANCE: u64 = 8 << 10;

/// Replaces endpoints for `time`, prints the resources used, and judges the results.
///
/// # Errors
/// If the scenario cannot run.
pub(super) async fn run(time: Duration, checks: &mut Checks) -> Result<()> {
    println!("churn of {ENDPOINTS} endpoints, {CHANGES} changes a second for {} s", time.as_secs());
    limit::at_least(FILES)?;
    let addresses = addresses(ENDPOINTS + SPARE);
    let server = Pod::<CallCounts>::on_current_runtime(listeners_on_one_port(&addresses)?)?;
    let port = server.address.port();
    let cluster = TestCluster::start(port).await?;
    let mut membership = Membership::new(addresses, SLICES, SIZE);
    for slice in 0..SLICES {
        cluster.write(slice, membership.slice(slice)).await?;
    }
    let mut caller = CallerProcess::start()?;
    let mut table = UsageTable::default();
    let start = table.add("before the channel", caller.resource_usage().await?, cluster.watches().await?);
    caller.connect(&cluster, ENDPOINTS).await?;
    let warm_up = caller.steady(WARM_UP.0, WARM_UP.1).await?;
    let (_, connected) = caller.wait_for_endpoints(&membership.all(port)).await?;
    let full = table.add("all connected", caller.resource_usage().await?, cluster.watches().await?);

    caller.begin(RATE).await?;
    let result = churn(&mut caller, &cluster, &mut membership, time).await?;
    let outcome = caller.end().await?;
    table.add("halfway", result.halfway.0, result.halfway.1);
    table.add("at most", result.max.0, result.max.1);
    let (_, settled) = caller.wait_for_endpoints(&membership.all(port)).await?;
    let after = caller.wait_for_usage(full).await?;
    table.add("after the churn", after, cluster.watches().await?);

    caller.drop_channel().await?;
    let end = caller.wait_for_usage(start).await?;
    let watches = wait_for_no_watches(&cluster).await?;
    table.add("after the channel", end, watches);
    caller.shut_down().await?;
    let ChurnResult { changes, seconds, .. } = result;
    let achieved = f64::from(changes) / seconds;
    println!(
        "  {changes} endpoints replaced in {seconds:.1} s; requested {CHANGES}/s, achieved {achieved:.0}/s"
    );
    println!("  {outcome}");

    let calls = Calls { warm_up, outcome, carried: server.seen.calls() };
    calls.judge(checks);
    checks.add(connected && settled, "the channel is connected to exactly the current endpoints");
    checks
        .add(after.has_same_counts(full), "after the churn there are as many tasks and open files as before");
    let (before, now) = (full.kibibytes, after.kibibytes);
    let tolerance = TOLERANCE >> 10;
    checks.add(
        now <= before + TOLERANCE,
        &format!("after the churn memory has grown by at most {tolerance} MiB"),
    );
    checks.add(watches == 0, "after dropping the channel there are no watches");
    checks.add(
        end.has_same_counts(start),
        "after dropping the channel there are as many tasks and open files as at the start",
    );
    Ok(())
}

/// The results of the churn.
struct ChurnResult {
    changes: u32,
    seconds: f64,
    /// The caller's resources and the number of watches, after half of the time and at most.
    halfway: (ResourceUsage, u64),
    max: (ResourceUsage, u64),
}

async fn churn(
    caller: &mut CallerProcess,
    cluster: &TestCluster,
    membership: &mut Membership,
    time: Duration,
) -> Result<ChurnResult> {
    let (began, tick) = (Instant::now(), Duration::from_secs(1) * AT_ONCE / CHANGES);
    let ticks = CHANGES * time.as_secs() as u32 / AT_ONCE;
    let (mut halfway, mut max) = ((ResourceUsage::default(), 0), (ResourceUsage::default(), 0));
    for number in 0..ticks {
        let slice = membership.replace(AT_ONCE as usize);
        cluster.write(slice, membership.slice(slice)).await?;
        let next = began + tick * (number + 1);
        // Read the resources while the change is being processed, and skip that when late for the
        // next change.
        sleep_until(next - tick / 2).await;
        if Instant::now() < next || number == ticks / 2 {
            let now = (caller.resource_usage().await?, cluster.watches().await?);
            max = (max.0.max(now.0), max.1.max(now.1));
            if number == ticks / 2 {
                halfway = now;
            }
        }
        sleep_until(next).await;
    }
    Ok(ChurnResult { changes: ticks * AT_ONCE, seconds: began.elapsed().as_secs_f64(), halfway, max })
}

/// Waits until there are no watches of the API server. Returns the last number.
async fn wait_for_no_watches(cluster: &TestCluster) -> Result<u64> {
    let end = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let watches = cluster.watches().await?;
        if watches == 0 || Instant::now() > end {
            return Ok(watches);
        }
        sleep(POLL).await;
    }
}

struct Calls {
    warm_up: Outcome,
    outcome: Outcome,
    /// The number of calls that the pods have counted.
    carried: u64,
}

impl Calls {
    fn judge(&self, checks: &mut Checks) {
        let both = [&self.warm_up, &self.outcome];
        let sum = |of: fn(&Outcome) -> u64| both.iter().map(|it| of(it)).sum::<u64>();
        checks.add(sum(|it| it.failed) == 0, "no call failed");
        checks.add(sum(|it| it.lost) == 0, "no call was lost");
        let (answered, carried) = (sum(Outcome::answered), self.carried);
        checks.add(
            carried == answered,
            &format!("the pods served as many calls as were answered ({carried} and {answered})"),
        );
    }
}

/// Prints the table of resources, row by row.
#[derive(Debug, Default)]
struct UsageTable {
    rows: usize,
}

impl UsageTable {
    fn add(&mut self, label: &str, usage: ResourceUsage, watches: u64) -> ResourceUsage {
        if self.rows == 0 {
            println!("  {:20} {:>6} {:>6} {:>11} {:>8}", "", "tasks", "files", "memory", "watches");
        }
        self.rows += 1;
        println!("  {label:20} {usage} {watches:>8}");
        usage
    }
}
