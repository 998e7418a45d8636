//! Calls per second and processor time per call, 64 in flight, 1 KiB there and back, beside tonic's own channels.
//!
//! Servers are in another process, so that the processor time is the client's alone. Contenders take turns, and the best
//! of several rounds counts: whatever else the machine does can only add to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use dogwatch_grpc::{Endpoint, EndpointId, EndpointSet, KubeChannel, LeastRequest, Policy};
use prost::bytes::Bytes;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::StdError;
use tonic::transport::Channel;

use super::echo::{Echo, Servers, codec, path};

const IN_FLIGHT: usize = 64;
const PAYLOAD: usize = 1_024;
const SERVERS: [usize; 3] = [1, 10, 100];

/// At least so many times the calls of tonic's `balance_list`.
const THROUGHPUT_GOAL: f64 = 1.5;
/// At most so many times the processor time of a single tonic channel to one server.
const CPU_GOAL: f64 = 1.1;

/// The best so far: calls per second, and microseconds of processor time per call.
#[derive(Debug, Clone, Copy)]
struct Best {
    rate: f64,
    cpu: f64,
}

impl Default for Best {
    fn default() -> Self {
        Self { rate: 0.0, cpu: f64::INFINITY }
    }
}

impl Best {
    fn take(&mut self, round: Self) {
        self.rate = self.rate.max(round.rate);
        self.cpu = self.cpu.min(round.cpu);
    }
}

pub(super) fn run(quick: bool) -> Result<()> {
    let (rounds, calls) = if quick { (3, 4_000) } else { (7, 20_000) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!(
        "{:34} {:>12} {:>12} {:>12}",
        format!("{IN_FLIGHT} in flight, {PAYLOAD} bytes"),
        "servers",
        "calls/s",
        "CPU us/call"
    );
    let mut goals = Vec::new();
    for count in SERVERS {
        let servers = Servers::start(count)?;
        let [single, listed, turns, least] = runtime.block_on(measure(&servers, rounds, calls))?;
        let names =
            ["tonic, one channel to one", "tonic, balance_list", "KubeChannel", "KubeChannel, least_request"];
        for (name, best) in names.iter().zip([single, listed, turns, least]) {
            println!("{name:34} {count:>12} {:>12.0} {:>12.1}", best.rate, best.cpu);
        }
        let times = turns.rate / listed.rate;
        goals.push((
            times >= THROUGHPUT_GOAL,
            format!("{count} servers: {times:.2} times balance_list's calls"),
        ));
        let share = turns.cpu / single.cpu;
        goals.push((
            share <= CPU_GOAL,
            format!("{count} servers: {share:.2} times the CPU of a single channel"),
        ));
    }
    for (met, goal) in &goals {
        println!("{}: {goal}", if *met { "met" } else { "MISSED" });
    }
    ensure!(goals.iter().all(|it| it.0), "a goal is missed");
    Ok(())
}

async fn measure(servers: &Servers, rounds: usize, calls: usize) -> Result<[Best; 4]> {
    let uri = |address| Channel::from_shared(format!("http://{address}")).map(|it| it.tcp_nodelay(true));
    let first = servers.addresses.first().context("there is a server")?;
    let single = uri(*first)?.connect().await?;
    let all = servers.addresses.iter().map(|it| uri(*it)).collect::<Result<Vec<_>, _>>()?;
    let listed = Channel::balance_list(all.into_iter());
    let turns = ours(servers, Policy::RoundRobin).await?;
    let least = ours(servers, LeastRequest::default().into()).await?;
    let mut best = [Best::default(); 4];
    // One round for the caches, and for the connections that are made by calls.
    for round in 0..=rounds {
        let this = [
            hammer(&single, calls).await?,
            hammer(&listed, calls).await?,
            hammer(&turns, calls).await?,
            hammer(&least, calls).await?,
        ];
        if round > 0 {
            best.iter_mut().zip(this).for_each(|(best, this)| best.take(this));
        }
    }
    Ok(best)
}

async fn ours(servers: &Servers, policy: Policy) -> Result<KubeChannel> {
    let endpoint = |(index, address): (usize, &std::net::SocketAddr)| {
        Arc::new(Endpoint {
            id: EndpointId::new(format!("pod-{index:03}")),
            addresses: vec![*address],
            usable: true,
            ready: true,
            serving: true,
            terminating: false,
            zone: None,
            node: None,
            pod: None,
            weight: 1,
        })
    };
    let endpoints = servers.addresses.iter().enumerate().map(endpoint).collect();
    let set = Arc::new(EndpointSet { generation: 1, endpoints, unavailable: None });
    let (_sender, sets) = tokio::sync::watch::channel(set);
    let channel = KubeChannel::builder(sets).policy(policy).build()?;
    channel.connected(servers.addresses.len()).await;
    Ok(channel)
}

async fn hammer<T>(service: &T, calls: usize) -> Result<Best>
where
    T: GrpcService<Body> + Clone + Send + Sync + 'static,
    T::Future: Send,
    T::Error: Into<StdError>,
    T::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<StdError> + Send,
{
    let left = Arc::new(AtomicUsize::new(calls));
    let payload = Bytes::from(vec![7; PAYLOAD]);
    let start = (Instant::now(), ProcessTime::now());
    let worker = |_| {
        let (left, payload, mut grpc) = (Arc::clone(&left), payload.clone(), Grpc::new(service.clone()));
        tokio::spawn(async move {
            let less = |it: usize| it.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                grpc.ready().await.map_err(|it| anyhow::anyhow!(it.into()))?;
                let request = tonic::Request::new(Echo { payload: payload.clone() });
                grpc.unary(request, path(), codec()).await?;
            }
            anyhow::Ok(())
        })
    };
    let workers: Vec<_> = (0..IN_FLIGHT).map(worker).collect();
    for worker in workers {
        worker.await??;
    }
    let (wall, cpu) = (start.0.elapsed().as_secs_f64(), start.1.elapsed().as_secs_f64());
    Ok(Best { rate: calls as f64 / wall, cpu: cpu * 1e6 / calls as f64 })
}
