//! Follows the ConfigMaps of a namespace with kube-rs' reflector and prints the final state; see
//! ../../README.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use futures_util::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Config};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The cache counts as final when it has not changed for this long.
const SETTLED: Duration = Duration::from_secs(1);

/// Follows ConfigMaps until one of this name appears.
#[derive(Debug, Parser)]
struct Options {
    /// The kubeconfig of the server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The namespace to follow.
    #[arg(long)]
    namespace: String,
    /// The ConfigMap that marks the end.
    #[arg(long, value_name = "NAME")]
    until: String,
    /// Read the initial state with a streaming list instead of pages.
    #[arg(long)]
    watch_list: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig).context("cannot read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let api = Api::<ConfigMap>::namespaced(Client::try_from(config)?, &options.namespace);

    let (store, writer) = reflector::store();
    let config = watcher::Config::default();
    let config = if options.watch_list { config.streaming_lists() } else { config };
    let changes = watch(api, config).default_backoff().reflect(writer);
    pin_mut!(changes);

    let (mut events, mut lists, mut synced) = (0_u64, 0_u64, false);
    loop {
        let over = store.find(|it| it.metadata.name.as_deref() == Some(&options.until)).is_some();
        let next = match over {
            true => match tokio::time::timeout(SETTLED, changes.next()).await {
                Ok(next) => next,
                Err(_) => break,
            },
            false => changes.next().await,
        };
        match next.context("the reflector ended")? {
            Ok(Event::Init) => lists += 1,
            Ok(Event::InitDone) if !synced => {
                synced = true;
                println!("{}", json!({ "synced": store.len() }));
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => events += 1,
            Ok(_) => {}
            // The reflector retries by itself, with backoff.
            Err(error) => eprintln!("kube-rs: {error}"),
        }
    }
    let (objects, digest) = summary(&store);
    let end = json!({
        "peer": "kube-rs 5.0", "objects": objects, "digest": digest, "events": events, "lists": lists,
    });
    println!("{end}");
    Ok(())
}

/// Returns the number of objects and the digest of their names and versions.
fn summary(store: &Store<ConfigMap>) -> (usize, String) {
    let versions: BTreeMap<_, _> = store
        .state()
        .iter()
        .map(|it| {
            (
                it.metadata.name.clone().unwrap_or_default(),
                it.metadata.resource_version.clone().unwrap_or_default(),
            )
        })
        .collect();
    let mut digest = Sha256::new();
    for (name, version) in &versions {
        digest.update(format!("{name} {version}\n"));
    }
    let hex = digest.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    (versions.len(), hex)
}
