//! A thousand connected endpoints of which a hundred are replaced each second: no call notices, and nothing of those that went stays.

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

/// As many slices as Kubernetes would have, with a hundred endpoints each.
const SLICES: usize = 10;
const SIZE: usize = 100;
const ENDPOINTS: usize = SLICES * SIZE;
/// Addresses that nobody has at the moment: one is used again after a second.
const SPARE: usize = 100;
/// Endpoints that are replaced each second, and with each write of a slice.
const CHANGES: u32 = 100;
const AT_ONCE: u32 = 10;
/// Calls each second meanwhile.
const RATE: u32 = 200;
/// Before the first count every connection has carried a call or two, so that it has what it will ever have.
const WARM_UP: (u32, Duration) = (1_000, Duration::from_secs(2));
/// A listener for each address, a connection to each endpoint and to those that just went, and a few of our own.
const FILES: u64 = 2_600;
/// What memory may gain, in KiB: an allocator's free blocks are where they are. With 6,000 endpoints that went in a minute it is 1.4 KiB
/// for each, less than its task alone.
const TOLERANCE: u64 = 8 << 10;

/// Churns for so long, prints what was seen, and judges it.
///
/// # Errors
/// When it cannot be played.
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
    println!("  {changes} endpoints replaced in {seconds:.1} s; wanted {CHANGES}/s, reached {reached:.0}/s");
    println!("  {outcome}");

    let calls = Calls { warm_up, outcome, carried: crowd.seen.calls() };
    calls.judge(promises);
    promises.add(connected && settled, "the channel is connected to those endpoints and to nobody else");
    promises.add(after.counts_are(full), "after the churn there are as many tasks and open files as before");
    let (before, now) = (full.kibibytes, after.kibibytes);
    let tolerance = TOLERANCE >> 10;
    promises.add(now <= before + TOLERANCE, &format!("and no more memory, give or take {tolerance} MiB"));
    promises.add(watches == 0, "without its channel nobody watches the API server");
    promises.add(end.counts_are(start), "and there are as many tasks and open files as at the start");
    Ok(())
}

/// What churning came to.
struct Churned {
    changes: u32,
    seconds: f64,
    /// What the process that calls held when half of it was over, and at most; with the watches that there were.
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
        // One looks while the change is taken in. Who is late for the next has no time to look.
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

/// Waits until nobody watches the API server. How many do in the end.
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
    /// By the pods' own count.
    carried: u64,
}

impl Calls {
    fn judge(&self, promises: &mut Promises) {
        let both = [&self.warm_up, &self.outcome];
        let sum = |of: fn(&Outcome) -> u64| both.iter().map(|it| of(it)).sum::<u64>();
        promises.add(sum(|it| it.failed) == 0, "no call failed");
        promises.add(sum(|it| it.lost) == 0, "no call was lost");
        let (answered, carried) = (sum(Outcome::answered), self.carried);
        promises.add(carried == answered, &format!("{answered} answers are of {carried} calls carried out"));
    }
}

/// The table of what is held, printed as it grows.
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
