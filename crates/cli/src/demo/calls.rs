//! A gRPC service in a permanent rollout, on servers on loopback, and a client that calls it
//! through a channel without failures.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::{DeleteParams, PatchParams};
use dogwatch::grpc::{KubeChannel, Resolver};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::{Api, Client};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt as _, stream};
use serde_json::{Value, json};

use super::backend::Backend;
use super::greeter::greet;
use super::task::{DemoContext, DemoTask, Output, counted};

/// The service; its namespace always exists.
const NAMESPACE: &str = "default";
const SERVICE: &str = "greeter";
const TARGET: &str = "kubernetes:///greeter.default:grpc";
/// The number of servers at a time, and the number of concurrent calls.
const BACKENDS: u8 = 3;
const CONCURRENCY: usize = 4;
/// The maximum number of servers that the summary lists with their shares.
const MAX_NAMED: usize = 6;
/// The pauses between two calls of one caller, between two steps of a rollout, and from announcing
/// the end of a server to stopping it.
const CALL_PAUSE: Duration = Duration::from_millis(2);
const ROLLOUT_PAUSE: Duration = Duration::from_millis(1500);
const TERMINATION_NOTICE: Duration = Duration::from_millis(200);

/// The servers, and the outcomes of the calls.
pub(super) struct Calls {
    client: Client,
    output: Output,
    tally: Arc<Mutex<Tally>>,
    rolled: u32,
}

#[derive(Debug, Default)]
struct Tally {
    /// The number of calls that each server handled.
    taken: BTreeMap<String, u64>,
    failed: u64,
    why: Option<String>,
}

impl Calls {
    pub(super) fn new(context: &DemoContext) -> Self {
        let (client, output) = (context.client.clone(), context.output.clone());
        Self { client, output, tally: Arc::default(), rolled: 0 }
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        let apply = PatchParams::apply("dogwatch-demo").force();
        let service =
            json!({ "spec": { "clusterIP": "None", "ports": [{ "name": "grpc", "port": 50051 }] } });
        let services = Api::<Service>::namespaced(self.client.clone(), NAMESPACE);
        services.apply(SERVICE, &apply, &service).await?;
        let slices = Api::<EndpointSlice>::namespaced(self.client.clone(), NAMESPACE);
        let mut backends = Vec::new();
        for number in 1..=BACKENDS {
            backends.push(Backend::start(backend_name(number), number).await?);
            list(&slices, &backends[backends.len() - 1], true).await?;
        }
        let resolver = Resolver::new(self.client.clone());
        let channel = resolver.channel(&TARGET.parse()?).build()?;
        self.output
            .print(format!("gRPC calls go to {TARGET}: {BACKENDS} servers, replaced one after another"));
        let calling = stream::iter(0..CONCURRENCY).for_each_concurrent(None, |_| call(&channel, &self.tally));
        tokio::select! {
            () = calling => Ok(()),
            failed = roll(&slices, &mut backends, &self.output, &mut self.rolled) => failed,
        }
    }
}

/// Replaces the oldest server with a new one, repeatedly.
async fn roll(
    slices: &Api<EndpointSlice>,
    backends: &mut Vec<Backend>,
    output: &Output,
    rolled: &mut u32,
) -> anyhow::Result<()> {
    let mut number = BACKENDS;
    loop {
        tokio::time::sleep(ROLLOUT_PAUSE).await;
        number = number % 200 + 1;
        let new = Backend::start(backend_name(number), number).await?;
        list(slices, &new, true).await?;
        let old = backends.remove(0);
        list(slices, &old, false).await?;
        tokio::time::sleep(TERMINATION_NOTICE).await;
        output.print(format!("{} replaces {} and takes over its calls", new.name, old.name));
        backends.push(new);
        slices.delete(&old.name, &DeleteParams::default()).await?;
        old.end().await?;
        *rolled += 1;
    }
}

/// Makes calls one after another.
async fn call(channel: &KubeChannel, tally: &Mutex<Tally>) {
    loop {
        let outcome = greet(channel).await;
        {
            let mut tally = tally.lock();
            match outcome {
                Ok(name) => *tally.taken.entry(name).or_default() += 1,
                Err(status) => {
                    tally.failed += 1;
                    tally.why = Some(status.to_string());
                }
            }
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
}

fn backend_name(number: u8) -> String {
    format!("{SERVICE}-{number}")
}

/// Writes the EndpointSlice of a server: ready, or terminating.
async fn list(slices: &Api<EndpointSlice>, backend: &Backend, ready: bool) -> anyhow::Result<()> {
    let apply = PatchParams::apply("dogwatch-demo").force();
    slices.apply(&backend.name, &apply, &slice(&backend.name, backend.address, ready)).await?;
    Ok(())
}

fn slice(name: &str, address: SocketAddr, ready: bool) -> Value {
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": SERVICE } },
        "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": address.port(), "protocol": "TCP" }],
        "endpoints": [{
            "addresses": [address.ip().to_string()],
            "conditions": { "ready": ready, "serving": true, "terminating": !ready },
            "targetRef": { "kind": "Pod", "name": name, "uid": name },
        }],
    })
}

impl DemoTask for Calls {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.work().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let tally = self.tally.lock();
        let taken: u64 = tally.taken.values().sum();
        let mut text = format!(
            "{}, {} failed, while {} replaced",
            counted(taken + tally.failed, "call"),
            tally.failed,
            if self.rolled == 1 {
                "1 server was".to_owned()
            } else {
                format!("{} servers were", self.rolled)
            }
        );
        if let Some(why) = &tally.why {
            text.push_str(&format!("; last error: {why}"));
        }
        vec![("gRPC", text), ("calls by server", shares(&tally.taken))]
    }
}

/// Formats the share of the calls of each server; for many servers, the minimum and the maximum.
fn shares(taken: &BTreeMap<String, u64>) -> String {
    let all = taken.values().sum::<u64>().max(1);
    let share = |count: &u64| count * 100 / all;
    if taken.len() > MAX_NAMED {
        let (least, most) = (taken.values().min().map_or(0, share), taken.values().max().map_or(0, share));
        return format!("{least} % to {most} % of the calls, over {} servers", taken.len());
    }
    // The names differ only in their numbers: the shorter is the older.
    let mut by_age: Vec<_> = taken.iter().collect();
    by_age.sort_by_key(|(name, _)| (name.len(), name.as_str()));
    let shares: Vec<String> =
        by_age.into_iter().map(|(name, count)| format!("{name} {} %", share(count))).collect();
    shares.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_many_servers_fit_on_a_line() {
        let of = |count: u8| (1..=count).map(|it| (format!("greeter-{it}"), 10)).collect();
        assert_eq!(shares(&of(2)), "greeter-1 50 %, greeter-2 50 %");
        assert_eq!(shares(&of(20)), "5 % to 5 % of the calls, over 20 servers");
        assert_eq!(shares(&of(0)), "");
    }
}
