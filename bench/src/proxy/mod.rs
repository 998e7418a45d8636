//! `cargo xtask bench proxy`: watchers of pods directly on an API server, and the same watchers
//! through a proxy that caches pods: CPU, connections, memory, latency, and whether every watcher
//! receives every change.
//!
//! ```text
//! direct:   changes ──► API server ──────────► watchers (this process)
//! through:  changes ──► API server ──► proxy ──► watchers (this process)
//! ```
//!
//! Changes are made directly on the API server. The `mod` lines below are in layer order.

mod latencies;
mod watch_events;
mod processors;
mod upstream;
mod proxy_process;
mod client_go_heap;
mod watcher_tokens;
mod watchers;
mod costs;
mod goals;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use cpu_time::ProcessTime;
use testbed::runtime;
use testbed::server::OwnServer;
use tokio::time::{Instant, sleep};

use self::costs::{Comparison, Costs, Floor, ProxyMemory, Upward};
use self::processors::Ticks;
use self::proxy_process::ProxyProcess;
use self::upstream::Upstream;
use self::watchers::{Completeness, Watchers};
use crate::server_pods::ServerPods;

/// The time that everything is left idle before it is measured.
const REST: Duration = Duration::from_secs(3);

/// The time for which a server without clients is measured.
const IDLE: Duration = Duration::from_secs(10);

/// Measures watchers of pods on an API server, directly and through a proxy.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench proxy")]
struct Options {
    /// The number of pods.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// The numbers of watchers, each of which is measured directly and through the proxy.
    #[arg(long, default_value = "1000,5000", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=50_000))]
    watchers: Vec<u32>,
    /// The number of changes per second. Every watcher receives every one.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    changes: u32,
    /// The seconds for which changes are made, in each phase.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Give each watcher a token of its own, requested for a service account: the proxy then has to
    /// review each of them. Without it, all have the token of the kubeconfig.
    #[arg(long)]
    token_per_watcher: bool,
    /// Use the API server of this kubeconfig, whose user has a bearer token. It must not have
    /// controllers that delete pods of nodes and owners that do not exist. The pods are left in the
    /// namespace bench-peers for the next run. Without it, our own server is started.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    ours: OwnServer,
}

/// Prints the tables and the goals.
///
/// # Errors
/// If a server does not start, a request fails, or events are lost. Another missed goal is not an
/// error.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let name = "cargo xtask bench proxy".to_owned();
    let options = Options::parse_from(std::iter::once(&name).chain(arguments));
    runtime::run(compare(options))
}

async fn compare(options: Options) -> Result<()> {
    let binary = options.ours.binary()?;
    let upstream = Upstream::new(&options.ours, options.kubeconfig.as_deref()).await?;
    let pods = ServerPods::prepare(&upstream.client()?, usize::try_from(options.pods)?).await?;
    let before = upstream.watches().await?;
    let most = options.watchers.iter().max().filter(|_| options.token_per_watcher);
    let count = most.map_or(Ok(0), |it| usize::try_from(*it))?;
    let tokens = match count {
        0 => Vec::new(),
        count => watcher_tokens::issue(&upstream.client()?, count).await?,
    };
    let mut bench = Bench { options: &options, binary, upstream: &upstream, pods, tokens, before };

    let floor = bench.floor().await?;
    let Options { pods, changes, seconds, .. } = &options;
    println!(
        "{pods} pods of 12 to 14 KB in JSON, {changes} changes per second for {seconds} s; server: {}, TLS and HTTP/2 on \
         all connections;\nthe changes alone take {:.2} s of CPU time there, and {:.1} % of a core without clients;\na \
         proxy without a cache has {:.1} MB; {}",
        upstream.name,
        floor.writes_cpu,
        floor.idle_cpu * 100.0,
        floor.empty_mb,
        match floor.client_go_kb {
            Some(kb) => format!("client-go's cache has {kb:.1} KB of heap per pod"),
            None => "client-go was not measured: Go is not installed".to_owned(),
        }
    );
    let mut complete = true;
    for watchers in &options.watchers {
        let comparison = bench.with(usize::try_from(*watchers)?).await?;
        println!("\n{watchers} watchers\n{}", table::table(&comparison, floor));
        if let Some(ratio) = comparison.ratio_without_writes(floor) {
            println!("upstream CPU for watches alone, of that without the proxy: {ratio:.3}\n");
        }
        print!("{}", goals::verdicts(&comparison, floor));
        for it in [&comparison.direct.completeness, &comparison.through.completeness] {
            complete &= it.lost == 0 && it.wrong == 0;
        }
    }
    ensure!(complete, "watchers did not receive exactly the changes");
    Ok(())
}

/// The servers and pods of all phases.
struct Bench<'a> {
    options: &'a Options,
    /// The program of the proxy.
    binary: PathBuf,
    upstream: &'a Upstream,
    pods: ServerPods,
    /// The tokens of the watchers. Empty if all have that of the kubeconfig.
    tokens: Vec<String>,
    /// The watches of pods that the server had before, such as its own.
    before: u64,
}

impl Bench<'_> {
    /// Measures changes without watchers, a proxy without a cache, and client-go's cache.
    async fn floor(&mut self) -> Result<Floor> {
        let proxy = ProxyProcess::start(&self.binary, self.upstream, false).await?;
        sleep(REST).await;
        let empty_mb = proxy.resident_mb()?;
        drop(proxy);
        eprintln!("measuring the server without clients, and then the changes without watchers");
        let (before, began) = (self.upstream.cpu_seconds().await?, Instant::now());
        sleep(IDLE).await;
        let idle_cpu = (self.upstream.cpu_seconds().await? - before) / began.elapsed().as_secs_f64();
        let Costs { upstream_cpu: writes_cpu, seconds: writes_seconds, .. } = self.change(None, None).await?;
        eprintln!("measuring the heap of client-go's cache");
        let client_go_kb = client_go_heap::kb_per_pod(&self.upstream.kubeconfig, self.options.pods).await?;
        self.upstream.watches_ended(self.before).await?;
        Ok(Floor { writes_cpu, writes_seconds, idle_cpu, empty_mb, client_go_kb })
    }

    /// Measures both phases with this many watchers.
    async fn with(&mut self, watchers: usize) -> Result<Comparison> {
        eprintln!("measuring {watchers} watchers, directly");
        let (direct, direct_upward) = self.direct(watchers).await?;
        self.upstream.watches_ended(self.before).await?;
        eprintln!("measuring {watchers} watchers, through the proxy");
        let (through, through_upward, memory) = self.through(watchers).await?;
        self.upstream.watches_ended(self.before).await?;
        Ok(Comparison { watchers, direct, direct_upward, through, through_upward, memory })
    }

    async fn direct(&mut self, count: usize) -> Result<(Costs, Upward)> {
        let watchers = Watchers::open(&self.upstream.connector, count, &self.tokens).await?;
        sleep(REST).await;
        let watches = self.upstream.watches().await?.saturating_sub(self.before);
        let upward = Upward { connections: watchers.connections(), watches };
        Ok((self.change(Some(&watchers), None).await?, upward))
    }

    async fn through(&mut self, count: usize) -> Result<(Costs, Upward, ProxyMemory)> {
        // A new process for each number: what watchers used before is not free for those that
        // follow.
        let proxy = ProxyProcess::start(&self.binary, self.upstream, true).await?;
        sleep(REST).await;
        let (ready_mb, at_first) = (proxy.resident_mb()?, proxy.counters().await?);
        let watchers = Watchers::open(&proxy.connector, count, &self.tokens).await?;
        sleep(REST).await;
        let (idle_mb, counters) = (proxy.resident_mb()?, proxy.counters().await?);
        let watches = self.upstream.watches().await?.saturating_sub(self.before);
        let upward = Upward { connections: proxy.upstream_connections()?, watches };
        let costs = self.change(Some(&watchers), Some(&proxy)).await?;
        let reviews = proxy.counters().await?.reviews.saturating_sub(at_first.reviews);
        let memory = ProxyMemory {
            ready_mb,
            idle_mb,
            end_mb: proxy.resident_mb()?,
            objects: counters.objects,
            bytes: counters.bytes,
            watches: counters.watches,
            forwarded: counters.forwarded.saturating_sub(at_first.forwarded),
            reviews,
        };
        Ok((costs, upward, memory))
    }

    /// Makes the changes, waits until the watchers have received them, and measures both.
    async fn change(&mut self, watchers: Option<&Watchers>, proxy: Option<&ProxyProcess>) -> Result<Costs> {
        let Options { changes, seconds, .. } = self.options;
        let (count, pace) = (u64::from(*changes) * u64::from(*seconds), Duration::from_secs(1) / *changes);
        let proxy_cpu = || proxy.map(ProxyProcess::cpu_seconds).transpose();
        let (upstream_before, proxy_before) = (self.upstream.cpu_seconds().await?, proxy_cpu()?);
        let (ticks, load, began) = (Ticks::read()?, ProcessTime::now(), Instant::now());
        let sum = self.pods.touch(count, pace).await?;
        let completeness = match watchers {
            Some(watchers) => watchers.received(count, sum).await,
            None => Completeness::default(),
        };
        let (seconds, load_cpu) = (began.elapsed().as_secs_f64(), load.elapsed().as_secs_f64());
        let percentile = |share| watchers.and_then(|it| it.percentile(share));
        Ok(Costs {
            seconds,
            upstream_cpu: self.upstream.cpu_seconds().await? - upstream_before,
            proxy_cpu: proxy_cpu()?.zip(proxy_before).map(|(now, before)| now - before),
            load_cpu,
            busy: Ticks::read()?.busy_since(ticks),
            p50: percentile(0.5),
            p99: percentile(0.99),
            completeness,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_numbers_of_watchers_are_a_list() {
        let options = Options::parse_from(["proxy", "--watchers", "10,20"]);
        assert_eq!(options.watchers, [10, 20]);
        assert_eq!(Options::parse_from(["proxy"]).watchers, [1000, 5000]);
        assert!(Options::try_parse_from(["proxy", "--watchers", "10,0"]).is_err());
    }
}
