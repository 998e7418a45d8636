//! Never two owners: random schedules in simulated time, with skewed clocks, late writes, lost
//! responses, and members that join, crash and leave. When the faults end, every key has exactly
//! one owner.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{Reason, Status};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{MemberLeaseStore, ShardMember};
use crate::leader::clock::{Clock, Skew};

/// The number of schedules, unless `SHARDING_SCHEDULES` names another: `SHARDING_SCHEDULES=10000
/// cargo test --release -p dogwatch-controller sharding::simulation`.
const SCHEDULES: u64 = 100;
const MEMBERS: usize = 3;
const KEYS: usize = 8;
const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
/// The durations of the phase with faults and of the one without.
const FAULTY: Duration = Duration::from_secs(300);
const FAULT_FREE: Duration = Duration::from_secs(120);

/// The Leases of all members, with a server's versions and conflicts.
#[derive(Default)]
struct Server {
    leases: Mutex<(BTreeMap<String, Lease>, u64)>,
}

#[derive(Clone)]
enum Request {
    List,
    Create(Lease),
    Update(Lease),
    Delete(String, String),
}

impl Server {
    fn carry_out(&self, request: Request) -> Result<Vec<Lease>, Error> {
        let refused = |reason| Err(Status::failure(reason, "no").into());
        let mut stored = self.leases.lock().unwrap();
        let (mut lease, is_new) = match request {
            Request::List => return Ok(stored.0.values().cloned().collect()),
            Request::Delete(name, version) => {
                let same = |it: &Lease| it.metadata.resource_version.as_ref() == Some(&version);
                if !stored.0.get(&name).is_some_and(same) {
                    return refused(Reason::Conflict);
                }
                stored.0.remove(&name);
                return Ok(Vec::new());
            }
            Request::Create(lease) => (lease, true),
            Request::Update(lease) => (lease, false),
        };
        let name = lease.metadata.name.clone().unwrap();
        match (stored.0.get(&name), is_new) {
            (Some(_), true) => return refused(Reason::AlreadyExists),
            (None, false) => return refused(Reason::NotFound),
            (Some(old), false) if old.metadata.resource_version != lease.metadata.resource_version => {
                return refused(Reason::Conflict);
            }
            (Some(old), false) if *old == lease => return Ok(vec![lease]),
            _ => {}
        }
        stored.1 += 1;
        lease.metadata.resource_version = Some(stored.1.to_string());
        stored.0.insert(name, lease.clone());
        Ok(vec![lease])
    }
}

/// The connection of one member.
struct Connection {
    server: Arc<Server>,
    faulty: watch::Receiver<bool>,
    random: Mutex<(StdRng, Option<Instant>)>,
    slow: Duration,
}

impl Connection {
    /// Sends a request. It is carried out even if the caller stops waiting.
    async fn request(&self, request: Request) -> Result<Vec<Lease>, Error> {
        let (there, back, end) = self.delivery();
        let server = Arc::clone(&self.server);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            sleep(there).await;
            let outcome = match end {
                0..8 => server.carry_out(request),
                // Carried out without a response.
                8 => server.carry_out(request).and_then(|_| Err(Error::TimedOut(there))),
                _ => Err(Error::TimedOut(there)),
            };
            sleep(back).await;
            let _ = answer.send(outcome);
        });
        answered.await.unwrap()
    }

    fn delivery(&self) -> (Duration, Duration, u32) {
        let mut state = self.random.lock().unwrap();
        let (random, cut) = &mut *state;
        let mut travel = |most: Duration| most.mul_f64(random.random::<f64>().powi(3));
        if !*self.faulty.borrow() {
            return (travel(Duration::from_millis(20)), travel(Duration::from_millis(20)), 0);
        }
        let (there, back) = (travel(self.slow), travel(self.slow));
        if cut.is_some_and(|it| Instant::now() < it) {
            return (there, back, 9);
        }
        if random.random_bool(0.03) {
            *cut = Instant::now().checked_add(LEASE.mul_f64(random.random_range(0.3..3.0)));
        }
        (there, back, random.random_range(0..10))
    }

    async fn one(&self, request: Request) -> Result<Lease, Error> {
        Ok(self.request(request).await?.pop().unwrap())
    }
}

impl MemberLeaseStore for Connection {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>> {
        Box::pin(self.request(Request::List))
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(self.one(Request::Create(lease)))
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(self.one(Request::Update(lease)))
    }

    fn delete<'s>(&'s self, name: &'s str, version: &'s str) -> BoxFuture<'s, Result<(), Error>> {
        Box::pin(async move {
            self.request(Request::Delete(name.to_owned(), version.to_owned())).await.map(|_| ())
        })
    }
}

/// The workers of each key, and the first violation.
#[derive(Default)]
struct WorkLog {
    workers: Mutex<BTreeMap<usize, Vec<usize>>>,
    violation: Mutex<Option<String>>,
    taken: Mutex<u64>,
}

struct Work<'d>(&'d WorkLog, usize, usize);

impl<'d> Work<'d> {
    fn begin(log: &'d WorkLog, key: usize, who: usize) -> Self {
        let mut workers = log.workers.lock().unwrap();
        let workers_of_key = workers.entry(key).or_default();
        workers_of_key.push(who);
        *log.taken.lock().unwrap() += 1;
        if workers_of_key.len() > 1 {
            log.violation.lock().unwrap().get_or_insert(format!("{workers_of_key:?} work on key {key}"));
        }
        Self(log, key, who)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut workers = self.0.workers.lock().unwrap();
        workers.get_mut(&self.1).unwrap().retain(|it| *it != self.2);
    }
}

/// Works on one key whenever its member owns it.
async fn work_on(member: ShardMember, key: usize, who: usize, log: Arc<WorkLog>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut changes = member.changes();
    let name = format!("ns/key-{key}");
    loop {
        let takes = LEASE.mul_f64(random.random_range(0.0..3.0));
        let work = async {
            let _work = Work::begin(&log, key, who);
            sleep(takes).await;
        };
        if member.while_owning(&name, work).await.is_none() {
            let _ = tokio::time::timeout(LEASE, changes.changed()).await;
        }
    }
}

/// One member: joins, leaves, crashes and comes back until the faults end, and then stays.
async fn process(
    who: usize,
    seed: u64,
    server: Arc<Server>,
    log: Arc<WorkLog>,
    faulty: watch::Receiver<bool>,
) {
    let mut random = StdRng::seed_from_u64(seed);
    let slow = LEASE.mul_f64(10f64.powf(random.random_range(-2.5..0.2)));
    let connection = Connection {
        server,
        faulty: faulty.clone(),
        random: Mutex::new((StdRng::seed_from_u64(random.random()), None)),
        slow,
    };
    let mut clock = Clock::new();
    clock.skew = Skew {
        rate: random.random_range(1.0..1.45),
        offset: Duration::from_millis(random.random_range(0..1_000_000)),
        wall: random.random_range(-100_000..100_000),
        frozen: random.random_bool(0.1),
        per_reading: Duration::ZERO,
    };
    let member = ShardMember::over(connection, "group")
        .identity(format!("member-{who}"))
        .lease_duration(LEASE)
        .renew_deadline(RENEW)
        .retry_period(RETRY)
        .simulated(clock)
        .build()
        .expect("valid settings");
    let mut workers = JoinSet::new();
    for key in 0..KEYS {
        workers.spawn(work_on(member.clone(), key, who, Arc::clone(&log), random.random()));
    }
    loop {
        let fault_free = !*faulty.borrow();
        let mut some_time =
            || if fault_free { FAULTY * 100 } else { LEASE.mul_f64(random.random_range(0.0..20.0)) };
        let (stops, crashes, rests) = (some_time(), some_time(), some_time() / 8);
        let mut cleared = faulty.clone();
        let round = async {
            let _ = tokio::time::timeout(crashes, member.run_until(sleep(stops))).await;
            sleep(rests).await;
        };
        tokio::select! {
            biased;
            () = round => {}
            _ = cleared.wait_for(|it| !it), if !fault_free => {}
        }
    }
}

async fn play(seed: u64) -> Result<u64, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let (server, log) = (Arc::new(Server::default()), Arc::new(WorkLog::default()));
    let faulty = watch::Sender::new(true);
    let mut processes = JoinSet::new();
    for who in 0..MEMBERS {
        let (server, log) = (Arc::clone(&server), Arc::clone(&log));
        processes.spawn(process(who, random.random(), server, log, faulty.subscribe()));
    }
    sleep(FAULTY).await;
    faulty.send_replace(false);
    sleep(FAULT_FREE).await;
    // Work ends and starts over between two moments; one worker is active at each of them.
    let owned = || log.workers.lock().unwrap().values().filter(|it| it.len() == 1).count();
    let owned = owned();
    let taken = *log.taken.lock().unwrap();
    match log.violation.lock().unwrap().take() {
        Some(both) => Err(both),
        None if owned < KEYS => {
            Err(format!("only {owned} of {KEYS} keys have an owner after the faults have ended"))
        }
        None => Ok(taken),
    }
}

/// A task is not scheduled for longer than the renew deadline, while its member comes back: another
/// member may have had the key in between, so work that was begun before must not continue.
#[tokio::test(start_paused = true)]
async fn work_that_slept_through_a_lapse_is_dropped_although_its_key_is_owned_again() {
    let fault_free = watch::Sender::new(false);
    let connection = Connection {
        server: Arc::default(),
        faulty: fault_free.subscribe(),
        random: Mutex::new((StdRng::seed_from_u64(1), None)),
        slow: Duration::ZERO,
    };
    let member = ShardMember::over(connection, "group")
        .identity("me")
        .lease_duration(LEASE)
        .renew_deadline(RENEW)
        .retry_period(RETRY)
        .build()
        .expect("valid settings");
    let mut run = pin!(member.run_until(pending()));
    let mut changes = member.changes();
    let mut owned = async || {
        while !member.owns("key") {
            changes.changed().await.expect("the member is alive");
        }
    };
    tokio::select! {
        biased;
        () = &mut run => unreachable!("it is not stopped"),
        () = owned() => {}
    }
    let mut work = pin!(member.while_owning("key", pending::<()>()));
    assert!(work.as_mut().now_or_never().is_none());
    tokio::time::advance(RENEW).await;
    assert!(!member.owns("key"), "it was not renewed");
    tokio::select! {
        biased;
        () = &mut run => unreachable!("it is not stopped"),
        () = owned() => {}
    }
    assert_eq!(work.now_or_never(), Some(None));
}

/// A connection on which a deletion takes long.
struct SlowDeletions(Connection);

impl MemberLeaseStore for SlowDeletions {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>> {
        self.0.list()
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        self.0.create(lease)
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        self.0.update(lease)
    }

    fn delete<'s>(&'s self, name: &'s str, version: &'s str) -> BoxFuture<'s, Result<(), Error>> {
        Box::pin(async move {
            sleep(RETRY).await;
            self.0.delete(name, version).await
        })
    }
}

/// A Deployment that was scaled down from twenty replicas to one.
#[tokio::test(start_paused = true)]
async fn the_leases_of_many_former_members_are_deleted_without_a_lapse_of_ownership() {
    let (fault_free, server) = (watch::Sender::new(false), Arc::<Server>::default());
    for gone in 0..20 {
        let name = Some(format!("gone-{gone}"));
        let spec = LeaseSpec {
            holder_identity: name.clone(),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: ObjectMeta { name, ..ObjectMeta::default() }, spec: Some(spec) };
        server.carry_out(Request::Create(lease)).expect("a new Lease");
    }
    let connection = Connection {
        server: Arc::clone(&server),
        faulty: fault_free.subscribe(),
        random: Mutex::new((StdRng::seed_from_u64(1), None)),
        slow: Duration::ZERO,
    };
    let member = ShardMember::over(SlowDeletions(connection), "group")
        .identity("me")
        .lease_duration(LEASE)
        .renew_deadline(RENEW)
        .retry_period(RETRY)
        .build()
        .expect("valid settings");
    let leases = || server.leases.lock().unwrap().0.len();
    let work = async {
        let mut changes = member.changes();
        while !member.owns("key") {
            changes.changed().await.expect("the member is alive");
        }
        let all_deleted = async {
            while leases() > 1 {
                sleep(RETRY).await;
            }
        };
        member.while_owning("key", all_deleted).await
    };
    tokio::select! {
        biased;
        () = member.run_until(pending()) => unreachable!("it is not stopped"),
        done = tokio::time::timeout(LEASE * 100, work) => {
            assert_eq!(done, Ok(Some(())), "{} Leases are left", leases());
        }
    }
}

/// Replicas that all have the same name, or a pod that was force-deleted while its node kept
/// running.
#[tokio::test(start_paused = true)]
async fn two_processes_with_one_identity_do_not_both_own_a_key() {
    let (fault_free, server) = (watch::Sender::new(false), Arc::<Server>::default());
    let member = || {
        let random = Mutex::new((StdRng::seed_from_u64(1), None));
        let connection = Connection {
            server: Arc::clone(&server),
            faulty: fault_free.subscribe(),
            random,
            slow: Duration::ZERO,
        };
        let member = ShardMember::over(connection, "group").identity("me").build().expect("valid settings");
        let running = member.clone();
        (member, tokio::spawn(async move { running.run_until(pending()).await }))
    };
    let (first, first_run) = member();
    sleep(RETRY).await;
    assert!(first.owns("key"));
    let (second, _second_run) = member();
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert!(first.owns("key") && !second.owns("key"), "one of them owns it");
    }
    first_run.abort();
    for _ in 0..(LEASE.as_millis() / 100 - 1) {
        sleep(Duration::from_millis(100)).await;
        assert!(!(first.owns("key") && second.owns("key")), "the Lease has not expired");
    }
    sleep(3 * RETRY).await;
    assert!(!first.owns("key") && second.owns("key"));
}

#[test]
fn no_key_has_two_owners_and_each_has_one_when_the_faults_end() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let (one, schedules) = (number("SHARDING_SEED"), number("SHARDING_SCHEDULES").unwrap_or(SCHEDULES));
    let mut taken = 0;
    for seed in one.map_or(0..schedules, |it| it..it + 1) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime.expect("the runtime builds").block_on(play(seed)) {
            Ok(count) => taken += count,
            Err(what) => panic!("SHARDING_SEED={seed}: {what}"),
        }
    }
    assert!(one.is_some() || taken > 20 * schedules, "only {taken} pieces of work: the test tests nothing");
}
