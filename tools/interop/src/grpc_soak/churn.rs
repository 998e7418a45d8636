//! A thousand connected endpoints of which a hundred are replaced each second: no call fails, and
//! no resources of removed endpoints leak.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep, sleep_until};

use super::asking::{Asking, LOOK, SETTLING};
use super::held::Held;
use super::limit;
use super::load::Outcome;
use super::membership::Membership;
use super::pods::{Street, addresses};
use super::promises::Promises;
use super::town::Town;

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
pub(super) async fn play(time: Duration, promises: &mut Promises) -> Result<()> {
    println!("churn of {ENDPOINTS} endpoints, {CHANGES} changes a second for {} s", time.as_secs());
    limit::at_least(FILES)?;
    let street = Street::open(&addresses(ENDPOINTS + SPARE))?;
    let (port, town) = (street.port, Town::start(street.port).await?);
    let crowd = street.crowd();
    let mut membership = Membership::new(addresses(ENDPOINTS + SPARE), SLICES, SIZE);
    for slice in 0..SLICES {
        town.write(slice, membership.slice(slice)).await?;
    }
    let mut caller = Asking::start()?;
    let mut stages = Stages::default();
    let start = stages.add("before the channel", caller.held().await?, town.watches().await?);
    caller.connect(&town, ENDPOINTS).await?;
    let warm_up = caller.steady(WARM_UP.0, WARM_UP.1).await?;
    let (_, connected) = caller.settled(&membership.all(port)).await?;
    let full = stages.add("all connected", caller.held().await?, town.watches().await?);

    caller.begin(RATE).await?;
    let churned = churn(&mut caller, &town, &mut membership, time).await?;
    let outcome = caller.end().await?;
    stages.add("halfway", churned.halfway.0, churned.halfway.1);
    stages.add("at most", churned.most.0, churned.most.1);
    let (_, settled) = caller.settled(&membership.all(port)).await?;
    let after = caller.returned_to(full).await?;
    stages.add("after the churn", after, town.watches().await?);

    caller.drop_channel().await?;
    let end = caller.returned_to(start).await?;
    let watches = unwatched(&town).await?;
    stages.add("after the channel", end, watches);
    caller.dismiss().await?;
    let Churned { changes, seconds, .. } = churned;
    let reached = f64::from(changes) / seconds;
    println!(
        "  {changes} endpoints replaced in {seconds:.1} s; requested {CHANGES}/s, achieved {reached:.0}/s"
    );
    println!("  {outcome}");

    let calls = Calls { warm_up, outcome, carried: crowd.seen.calls() };
    calls.judge(promises);
    promises.add(connected && settled, "the channel is connected to exactly the current endpoints");
    promises.add(after.counts_are(full), "after the churn there are as many tasks and open files as before");
    let (before, now) = (full.kibibytes, after.kibibytes);
    let tolerance = TOLERANCE >> 10;
    promises.add(
        now <= before + TOLERANCE,
        &format!("after the churn memory has grown by at most {tolerance} MiB"),
    );
    promises.add(watches == 0, "after dropping the channel there are no watches");
    promises.add(
        end.counts_are(start),
        "after dropping the channel there are as many tasks and open files as at the start",
    );
    Ok(())
}

/// The results of the churn.
struct Churned {
    changes: u32,
    seconds: f64,
    /// The caller's resources and the number of watches, after half of the time and at most.
    halfway: (Held, u64),
    most: (Held, u64),
}

async fn churn(
    caller: &mut Asking,
    town: &Town,
    membership: &mut Membership,
    time: Duration,
) -> Result<Churned> {
    let (began, tick) = (Instant::now(), Duration::from_secs(1) * AT_ONCE / CHANGES);
    let ticks = CHANGES * time.as_secs() as u32 / AT_ONCE;
    let (mut halfway, mut most) = ((Held::default(), 0), (Held::default(), 0));
    for number in 0..ticks {
        let slice = membership.replace(AT_ONCE as usize);
        town.write(slice, membership.slice(slice)).await?;
        let next = began + tick * (number + 1);
        // Read the resources while the change is being processed, and skip that when late for the
        // next change.
        sleep_until(next - tick / 2).await;
        if Instant::now() < next || number == ticks / 2 {
            let now = (caller.held().await?, town.watches().await?);
            most = (most.0.most(now.0), most.1.max(now.1));
            if number == ticks / 2 {
                halfway = now;
            }
        }
        sleep_until(next).await;
    }
    Ok(Churned { changes: ticks * AT_ONCE, seconds: began.elapsed().as_secs_f64(), halfway, most })
}

/// Waits until there are no watches of the API server. Returns the last number.
async fn unwatched(town: &Town) -> Result<u64> {
    let end = Instant::now() + SETTLING;
    loop {
        let watches = town.watches().await?;
        if watches == 0 || Instant::now() > end {
            return Ok(watches);
        }
        sleep(LOOK).await;
    }
}

struct Calls {
    warm_up: Outcome,
    outcome: Outcome,
    /// The number of calls that the pods have counted.
    carried: u64,
}

impl Calls {
    fn judge(&self, promises: &mut Promises) {
        let both = [&self.warm_up, &self.outcome];
        let sum = |of: fn(&Outcome) -> u64| both.iter().map(|it| of(it)).sum::<u64>();
        promises.add(sum(|it| it.failed) == 0, "no call failed");
        promises.add(sum(|it| it.lost) == 0, "no call was lost");
        let (answered, carried) = (sum(Outcome::answered), self.carried);
        promises.add(
            carried == answered,
            &format!("the pods served as many calls as were answered ({carried} and {answered})"),
        );
    }
}

/// Prints the table of resources, row by row.
#[derive(Debug, Default)]
struct Stages {
    rows: usize,
}

impl Stages {
    fn add(&mut self, stage: &str, held: Held, watches: u64) -> Held {
        if self.rows == 0 {
            println!("  {:20} {:>6} {:>6} {:>11} {:>8}", "", "tasks", "files", "memory", "watches");
        }
        self.rows += 1;
        println!("  {stage:20} {held} {watches:>8}");
        held
    }
}
