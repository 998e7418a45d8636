//! The task of a contender: the arguments that all of them get, and the lines that they print.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use dogwatch::api::Resource;
use dogwatch::config::Overrides;
use dogwatch::informer::InformerBuilder;
use dogwatch::{Api, Client, Config, View};
use k8s_openapi::NamespaceResourceScope;
use serde::Serialize;

/// Sets the options of the informer of a contender.
pub(super) type Prepare<T> = fn(InformerBuilder<T>) -> InformerBuilder<T>;

/// The arguments that all contenders get.
#[derive(Debug, Parser)]
pub(super) struct Task {
    /// The kubeconfig of the server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The namespace of the pods.
    #[arg(long)]
    namespace: String,
    /// The number of changes after the sync.
    #[arg(long)]
    pub(super) updates: u64,
    /// Measure the heap of the synced cache, and nothing else.
    #[arg(long)]
    pub(super) heap: bool,
}

impl Task {
    /// Returns a handle on the pods, with a client of its own.
    pub(super) fn api<T: View>(&self) -> Result<Api<T>>
    where
        T::Of: Resource<Scope = NamespaceResourceScope>,
    {
        let config = Config::from_kubeconfig(&self.kubeconfig, &Overrides::default())?;
        Ok(Api::namespaced(Client::new(config)?, &self.namespace))
    }
}

/// Prints a line.
pub(super) fn print(line: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
}
