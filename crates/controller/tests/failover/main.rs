//! Failover between two processes and one lease: a leader that is killed, and one that stops in
//! order.
//!
//! This program is both the test and the processes: started with `elector`, it takes part in an
//! election, prints its state in lines, and exits on a `stop` line or at the end of its input, so
//! it never outlives the test. The times of the handover are read from the Lease that the processes
//! write.

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::process::Stdio;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client, Config, RetryWatcher};
use dogwatch_controller::leader::{LeaderElector, Leadership};
use dogwatch_core::{ListParams, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_secs(1);

/// The latency of a request on an idle machine.
const LATENCY: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["elector", url, identity] => elector(url, identity).await,
        filters => {
            let wanted = |name: &str| {
                let mut names = filters.iter().filter(|it| !it.starts_with('-')).peekable();
                names.peek().is_none() || names.any(|it| name.contains(it))
            };
            macro_rules! run {
                ($($test:ident),*) => {$(
                    if wanted(stringify!($test)) {
                        $test().await;
                        println!("test {} ... ok", stringify!($test));
                    }
                )*};
            }
            run!(
                a_killed_leader_is_replaced_within_the_lease_duration_and_a_retry_period,
                a_leader_that_stops_is_replaced_within_a_retry_period
            );
        }
    }
}

/// The program of one process.
async fn elector(url: &str, identity: &str) {
    let client = Client::new(Config::new(url.parse().expect("a URL"))).expect("a client");
    let elector = LeaderElector::builder(client, "lock")
        .namespace("default")
        .identity(identity)
        .lease_duration(LEASE)
        .renew_deadline(DEADLINE)
        .retry_period(RETRY)
        .on_new_leader(|leader| println!("sees {leader}"))
        .build()
        .expect("valid settings");
    let stopped = async {
        let mut line = String::new();
        let _ = BufReader::new(tokio::io::stdin()).read_line(&mut line).await;
    };
    let lead = |led: Leadership| async move {
        println!("leads {}", led.transitions());
        std::future::pending::<()>().await;
    };
    let _ = elector.run_until(stopped, lead).await;
    println!("ends");
}

/// A process, as the test sees it.
struct Process {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(url: &str, identity: &str) -> Self {
        let myself = std::env::current_exe().expect("this program");
        let mut child = Command::new(myself)
            .args(["elector", url, identity])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this program starts");
        let input = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, input, lines }
    }

    async fn says(&mut self, wanted: &str) {
        loop {
            let line = self.lines.next_line().await.expect("its output is readable");
            if line.expect("the process still runs") == wanted {
                return;
            }
        }
    }
}

/// Starts two processes: the first leads, the second has seen it.
async fn two(server: &ApiServer) -> (Process, Process) {
    let mut first = Process::start(server.url(), "first");
    first.says("leads 0").await;
    let mut second = Process::start(server.url(), "second");
    second.says("sees first").await;
    (first, second)
}

/// The sequence of states of the lease.
struct Record {
    states: Vec<LeaseSpec>,
    watch: RetryWatcher<Lease>,
}

impl Record {
    /// Begins to record.
    async fn begin(server: &ApiServer) -> Self {
        let client = Client::new(Config::new(server.url().parse().expect("a URL"))).expect("a client");
        let api = Api::<Lease>::namespaced(client, "default");
        let list = api.list(&ListParams::default()).await.expect("listed");
        let watch = api.watch_from(WatchParams::after(list.metadata.version)).expect("a version");
        Self { states: list.items.into_iter().filter_map(|it| it.spec).collect(), watch }
    }

    /// Records until this identity holds the lease.
    async fn until(mut self, last: &str) -> Vec<LeaseSpec> {
        while self.states.last().and_then(|it| it.holder_identity.as_deref()) != Some(last) {
            let event =
                self.watch.try_next().await.expect("the watch continues").expect("the watch continues");
            if let WatchEvent::Added(lease) | WatchEvent::Modified(lease) = event {
                self.states.extend(lease.spec);
            }
        }
        self.states
    }
}

/// Runs the work, and returns by how much timers were late at worst meanwhile, because the machine
/// was busy.
async fn with_lateness<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let mut worst = Duration::ZERO;
    let ticks = async {
        loop {
            let due = Instant::now() + Duration::from_millis(10);
            tokio::time::sleep_until(due).await;
            worst = worst.max(due.elapsed());
        }
    };
    let done = tokio::select! {
        done = work => done,
        () = ticks => unreachable!("the ticks never end"),
    };
    (done, worst)
}

fn time(it: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime>) -> Timestamp {
    it.expect("a lease has its times").0
}

/// Returns the time from the last renewal of the leader to the first of the next.
fn handover(states: &[LeaseSpec]) -> SignedDuration {
    let [.., before, after] = states else { panic!("the lease did not change hands") };
    time(after.acquire_time.as_ref()).duration_since(time(before.renew_time.as_ref()))
}

#[track_caller]
fn within(took: SignedDuration, bound: Duration, late: Duration) {
    let allowed = bound + LATENCY + 10 * late;
    assert!(took <= SignedDuration::try_from(allowed).expect("short"), "{took:?}, allowed were {allowed:?}");
}

async fn a_killed_leader_is_replaced_within_the_lease_duration_and_a_retry_period() {
    let server = ApiServer::start().await.expect("a free port");
    let (mut first, mut second) = two(&server).await;
    let record = Record::begin(&server).await;
    let (states, late) = with_lateness(async {
        first.child.kill().await.expect("the process runs");
        second.says("leads 1").await;
        record.until("second").await
    })
    .await;
    let took = handover(&states);
    assert!(took >= SignedDuration::try_from(LEASE).expect("short"), "{took:?} is too early");
    within(took, LEASE + RETRY, late);
    println!("killed: {took:?} from the last renewal to the next leader, the machine was late by {late:?}");
}

async fn a_leader_that_stops_is_replaced_within_a_retry_period() {
    let server = ApiServer::start().await.expect("a free port");
    let (mut first, mut second) = two(&server).await;
    let record = Record::begin(&server).await;
    let (states, late) = with_lateness(async {
        first.input.write_all(b"stop\n").await.expect("the process reads its input");
        first.says("ends").await;
        second.says("leads 1").await;
        record.until("second").await
    })
    .await;
    let released = &states[states.len() - 2];
    assert_eq!(released.holder_identity.as_deref(), Some(""), "it was released");
    let took = handover(&states);
    within(took, RETRY, late);
    println!("stopped: {took:?} from the release to the next leader, the machine was late by {late:?}");
}
