//! Never two leaders: thousands of random schedules in simulated time, each with its own clocks,
//! latencies and faults.
//!
//! A schedule is generated from its seed alone, and a failure names the seed. During fault
//! injection, requests are slow, cut, rejected, or carried out without a response, also long after
//! the sender has given up on them; electors stop, crash and restart. Then the faults end, and
//! within a bounded time one elector must lead.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::clock::{Clock, Skew};
use super::scripted::{Connection, Delivery, Outcome, Server};
use super::{LeaderElector, Leadership};

/// The numbers of schedules with two electors, and with three.
const OF_TWO: u64 = 600;
const OF_THREE: u64 = 150;
/// The durations of the phase with faults and of the one without, in lease durations.
const FAULTY: u32 = 14;
const FAULT_FREE: u32 = 9;

/// Returns the time this long from now.
fn after(wait: Duration) -> Instant {
    Instant::now().checked_add(wait).expect("a simulated time is short")
}

/// The leaders right now, as the work itself sees it.
struct Leaders {
    leading: Mutex<Vec<usize>>,
    /// Set when two led at once.
    violation: Mutex<Option<String>>,
    terms: Mutex<u32>,
    began: Instant,
}

impl Leaders {
    fn new() -> Self {
        Self {
            leading: Mutex::default(),
            violation: Mutex::default(),
            terms: Mutex::default(),
            began: Instant::now(),
        }
    }
}

/// Counts an elector as leading until it is dropped.
struct LeadingGuard(Arc<Leaders>, usize);

impl LeadingGuard {
    fn take(leaders: &Arc<Leaders>, who: usize) -> Self {
        let mut leading = leaders.leading.lock().unwrap();
        leading.push(who);
        *leaders.terms.lock().unwrap() += 1;
        if leading.len() > 1 {
            let at = leaders.began.elapsed();
            leaders.violation.lock().unwrap().get_or_insert(format!("{leading:?} lead at once, {at:?} in"));
        }
        drop(leading);
        Self(Arc::clone(leaders), who)
    }
}

impl Drop for LeadingGuard {
    fn drop(&mut self) {
        self.0.leading.lock().unwrap().retain(|it| *it != self.1);
    }
}

/// The parameters that the electors of one schedule share.
struct Parameters {
    lease: Duration,
    renew: Duration,
    retry: Duration,
    /// The maximum ratio between the rates of the fastest and the slowest clock.
    spread: f64,
    /// Set when the lease is deleted from time to time; all electors then wait before they create
    /// it.
    deletions: bool,
}

impl Parameters {
    fn random(random: &mut StdRng) -> Self {
        let lease = Duration::from_secs(random.random_range(2..=15));
        let renew = lease.mul_f64(random.random_range(0.4..0.85));
        let retry = renew.mul_f64(random.random_range(0.15..0.6));
        // A little less than the rule allows: time advances in steps of a millisecond here.
        let spread = (lease.as_secs_f64() - 0.01) / (renew.as_secs_f64() + 0.01);
        Self { lease, renew, retry, spread: spread.min(2.0), deletions: random.random_bool(0.5) }
    }

    fn skew(&self, random: &mut StdRng) -> Skew {
        Skew {
            rate: random.random_range(1.0..self.spread),
            offset: Duration::from_millis(random.random_range(0..1_000_000)),
            wall: random.random_range(-100_000..100_000),
            frozen: random.random_bool(0.1),
            per_reading: Duration::ZERO,
        }
    }
}

/// Returns the fault injector of one elector's requests: mostly good, with outages of the
/// connection.
fn inject_faults(
    seed: u64,
    faulty: watch::Receiver<bool>,
    slow: Duration,
    lease: Duration,
) -> impl FnMut(&str) -> Delivery + Send {
    let mut random = StdRng::seed_from_u64(seed);
    let mut outage: Option<(Instant, Outcome)> = None;
    move |_| {
        let mut travel = |most: Duration| most.mul_f64(random.random::<f64>().powi(3));
        let brief = Duration::from_millis(20);
        if !*faulty.borrow() {
            return Delivery { there: travel(brief), back: travel(brief), end: Outcome::Answered };
        }
        let (there, back) = (travel(slow), travel(slow));
        if let Some((until, end)) = outage {
            if Instant::now() < until {
                return Delivery { there, back, end };
            }
            outage = None;
        }
        let end = match random.random_range(0..100) {
            0..66 => Outcome::Answered,
            66..74 => Outcome::AnswerLost,
            74..80 => Outcome::AnswerSilent,
            80..84 => Outcome::Cut,
            84..88 => Outcome::Silent,
            88..92 => Outcome::Refused(500),
            _ => {
                let ends = [Outcome::Silent, Outcome::Cut, Outcome::AnswerSilent, Outcome::Refused(503)];
                let end = ends[random.random_range(0..ends.len())];
                outage = Some((after(lease.mul_f64(random.random_range(0.2..3.0))), end));
                // A connection often becomes slow before it breaks: this one request is still
                // answered, late.
                let back = lease.mul_f64(random.random_range(0.0..0.6));
                return Delivery { there: Duration::ZERO, back, end: Outcome::Answered };
            }
        };
        Delivery { there, back, end }
    }
}

/// One process: takes part repeatedly, with work that ends, stops, crashes or is lost, until the
/// faults end; then it keeps working.
async fn process(
    who: usize,
    seed: u64,
    parameters: Arc<Parameters>,
    server: Arc<Server>,
    leaders: Arc<Leaders>,
    faulty: watch::Receiver<bool>,
) {
    let mut random = StdRng::seed_from_u64(seed);
    // Most connections are quick and some are very slow: a candidate that is slow to take the lease
    // cannot catch a leader that overruns.
    let slow = parameters.lease.mul_f64(10f64.powf(random.random_range(-2.5..0.4)));
    let connection =
        Connection::new(&server, inject_faults(random.random(), faulty.clone(), slow, parameters.lease));
    let mut clock = Clock::new();
    clock.skew = parameters.skew(&mut random);
    let mut elector = LeaderElector::with_lock(connection, "lock");
    if parameters.deletions {
        elector = elector.wait_before_creating();
    }
    let elector = elector
        .identity(format!("elector-{who}"))
        .lease_duration(parameters.lease)
        .renew_deadline(parameters.renew)
        .retry_period(parameters.retry)
        .release_on_stop(random.random_bool(0.7))
        .simulated(clock, random.random())
        .build()
        .expect("valid settings");
    let span = parameters.lease * random.random_range(3..40);
    loop {
        let fault_free = !*faulty.borrow();
        let mut some_time = || if fault_free { span * 1_000 } else { span.mul_f64(random.random::<f64>()) };
        let (work_ends, stops, crashes, rests) = (some_time(), some_time(), some_time(), some_time() / 16);
        let lead = |_: Leadership| {
            let guard = LeadingGuard::take(&leaders, who);
            async move {
                let _guard = guard;
                sleep(work_ends).await;
            }
        };
        let mut cleared = faulty.clone();
        let round = async {
            let _ = tokio::time::timeout(crashes, elector.run_until(sleep(stops), lead)).await;
            sleep(rests).await;
        };
        tokio::select! {
            biased;
            () = round => {}
            _ = cleared.wait_for(|it| !it), if !fault_free => {}
        }
    }
}

/// Runs one schedule. Returns the number of terms, or a description of the violation.
async fn play(seed: u64, electors: usize) -> Result<u32, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let parameters = Arc::new(Parameters::random(&mut random));
    let server = Arc::new(Server::default());
    let leaders = Arc::new(Leaders::new());
    let faulty = watch::Sender::new(true);
    let mut processes = tokio::task::JoinSet::new();
    for who in 0..electors {
        let (server, leaders) = (Arc::clone(&server), Arc::clone(&leaders));
        processes.spawn(process(
            who,
            random.random(),
            Arc::clone(&parameters),
            server,
            leaders,
            faulty.subscribe(),
        ));
    }
    let end = after(parameters.lease * FAULTY);
    while Instant::now() < end {
        sleep(parameters.lease.mul_f64(random.random_range(0.0..8.0))).await;
        if parameters.deletions && random.random_bool(0.5) && server.lease().is_some() {
            // Every elector has had the time to see the lease since it was created; its holder does
            // not know yet that it is deleted.
            sleep(parameters.lease * 2).await;
            server.edit(|_| None);
        } else {
            // A touch does not change the holder.
            server.edit(|lease| lease);
        }
    }
    faulty.send_replace(false);
    // The longest way to a leader: a request from before is carried out late, a candidate that saw
    // it waits for a lease duration, and candidates that collide retry.
    sleep(parameters.lease * FAULT_FREE).await;
    let leads = leaders.leading.lock().unwrap().len();
    let terms = *leaders.terms.lock().unwrap();
    match leaders.violation.lock().unwrap().take() {
        Some(both) => Err(both),
        None if leads == 0 => Err("no elector leads although the faults have ended".to_owned()),
        None => Ok(terms),
    }
}

fn try_schedules(electors: usize, schedules: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let (one, schedules) = (number("ELECTION_SEED"), number("ELECTION_SCHEDULES").unwrap_or(schedules));
    let seeds = one.map_or(0..schedules, |it| it..it + 1);
    let mut terms = 0;
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime.expect("the runtime builds").block_on(play(seed, electors)) {
            Ok(count) => terms += u64::from(count),
            Err(what) => panic!("{electors} electors, ELECTION_SEED={seed}: {what}"),
        }
    }
    let few = one.is_none() && terms < 3 * schedules;
    assert!(!few, "only {terms} terms in {schedules} schedules: the test tests nothing");
}

#[test]
fn two_electors_never_lead_at_once_and_one_leads_when_the_faults_end() {
    try_schedules(2, OF_TWO);
}

#[test]
fn three_electors_never_lead_at_once_and_one_leads_when_the_faults_end() {
    try_schedules(3, OF_THREE);
}
