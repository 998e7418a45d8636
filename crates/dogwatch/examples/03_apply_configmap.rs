//! Applies a config map with server-side apply, and prints the other managers on a conflict.
//!
//! ```text
//! cargo run --example 03_apply_configmap -- greeting hello=world answer=42
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::collections::BTreeMap;

use anyhow::Context;
use clap::Parser;
use dogwatch::api::{ApplyError, PatchParams};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client};

#[derive(Parser)]
struct Arguments {
    /// The name of the config map, in the namespace of the kubeconfig.
    #[arg(default_value = "greeting")]
    name: String,
    /// The data of the config map, as `key=value`.
    #[arg(default_value = "hello=world")]
    data: Vec<String>,
    /// Take over fields that other managers own.
    #[arg(long)]
    force: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut wanted = ConfigMap::default();
    wanted.metadata.name = Some(arguments.name.clone());
    let data: Option<BTreeMap<_, _>> = arguments.data.iter().map(|it| it.split_once('=')).collect();
    let data = data.context("data must be given as key=value")?;
    wanted.data = Some(data.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());

    let config_maps = Api::<ConfigMap>::default_namespaced(Client::from_env().await?);
    let params = PatchParams::apply("dogwatch-example");
    let params = if arguments.force { params.force() } else { params };
    match config_maps.apply(&arguments.name, &params, &wanted).await {
        Ok(stored) => {
            let version = stored.metadata.resource_version.unwrap_or_default();
            println!("applied {} at version {version}", arguments.name);
            stored.data.iter().flatten().for_each(|(key, value)| println!("  {key}={value}"));
            Ok(())
        }
        Err(ApplyError::Conflict(conflicts)) => {
            conflicts.iter().for_each(|it| println!("{} is owned by {}", it.field, it.manager));
            anyhow::bail!(
                "other managers own {} of these fields; use --force to take them over",
                conflicts.len()
            )
        }
        Err(error) => Err(error.into()),
    }
}
