//! A thousand endpoints of which a hundred are replaced per second, for a minute: no resources
//! leak.

use std::collections::VecDeque;
use std::process::Command;
use std::time::Duration;

use dogwatch_grpc::{Endpoint, KubeChannel};
use tokio::runtime::Handle;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, yield_briefly};
use crate::pods::{Pod, Service, endpoint, until};

const ENDPOINTS: usize = 1_000;
/// The number of endpoints that a channel connects to: both ends of a connection are in one
/// process, and a thousand would exceed some limits.
const CONNECTED: usize = 100;
/// Changes come in batches, ten per second.
const BATCHES: usize = 600;
const BATCH: usize = 10;
/// The tolerated memory growth between the first third and the end. Leaking a thousandth of the new
/// endpoints would stay below it.
const BYTES: usize = 4 << 20;

/// The test below runs itself again with this variable set.
const CHILD: &str = "DOGWATCH_TEST_CHURN_CHILD";

/// Returns the number of open files and sockets of this process; 0 if unknown.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Returns the memory of this process in bytes, without shared and swapped pages; 0 if unknown.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok());
    pages.unwrap_or(0) * 4_096
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The resources of a process.
#[derive(Debug, Clone, Copy)]
struct Resources {
    tasks: usize,
    descriptors: usize,
    memory: usize,
}

impl Resources {
    fn now() -> Self {
        Self { tasks: tasks(), descriptors: descriptors(), memory: memory() }
    }
}

/// Files and memory are counted per process, so this test needs its own.
#[test]
fn a_minute_of_churn_among_a_thousand_endpoints_leaks_no_task_socket_or_memory() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(churn());
    }
    let name = std::thread::current().name().expect("tests have names").to_owned();
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", &name]).env(CHILD, "yes").output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn churn() {
    let clock = ManualClock::begin();
    let pod = Pod::start().await;
    let before = Resources::now();
    let service = Service::new();
    let builder = KubeChannel::builder(service.receiver()).no_keep_alive().subset(CONNECTED);
    let channel = builder.build().unwrap();
    let client = EchoClient::new(&channel);
    let mut number = 0;
    let mut next = || -> Endpoint {
        number += 1;
        endpoint(&format!("pod-{number:05}"), pod.address)
    };
    let mut members: VecDeque<Endpoint> = (0..ENDPOINTS).map(|_| next()).collect();
    let mut early = None;
    for batch in 0..BATCHES {
        for _ in 0..BATCH {
            members.pop_front();
            members.push_back(next());
        }
        service.set(members.iter().cloned().collect());
        clock.advance(Duration::from_millis(100)).await;
        client.one("hello").await.unwrap();
        if batch == BATCHES / 3 {
            early = Some(settled(&channel, &members).await);
        }
    }
    let (early, late) = (early.unwrap(), settled(&channel, &members).await);
    assert_eq!(late.tasks, early.tasks, "{early:?} {late:?}");
    assert_eq!(late.descriptors, early.descriptors, "{early:?} {late:?}");
    assert!(late.memory <= early.memory + BYTES, "{early:?} {late:?}");
    assert_eq!(pod.seen.calls(), BATCHES);

    service.set(Vec::new());
    until(&channel, |it| it.endpoints().is_empty()).await;
    while tasks() > before.tasks + 1 || descriptors() > before.descriptors {
        yield_briefly().await;
    }
    drop((channel, client));
    while tasks() > before.tasks {
        yield_briefly().await;
    }
}

/// Returns the resources once the channel matches the set: all endpoints known, no others, and the
/// wanted number connected.
async fn settled(channel: &KubeChannel, members: &VecDeque<Endpoint>) -> Resources {
    let last = &members[ENDPOINTS - 1].id;
    until(channel, |it| {
        let all = it.endpoints();
        it.ready_endpoints() == CONNECTED
            && all.len() == ENDPOINTS
            && all.last().is_some_and(|it| it.endpoint.id == *last)
    })
    .await;
    // An endpoint that is no longer chosen closes its connection, and then the server does.
    let mut held = Resources::now();
    for _ in 0..200 {
        yield_briefly().await;
        let now = Resources::now();
        held.descriptors = held.descriptors.min(now.descriptors);
        held.tasks = held.tasks.min(now.tasks);
        held.memory = now.memory;
    }
    held
}
