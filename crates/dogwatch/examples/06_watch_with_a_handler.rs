//! Prints every pod of the cluster that is added, updated or deleted. The informer keeps a cache of
//! all pods and recovers from failures; the handler runs in a task of its own.
//!
//! ```text
//! cargo run --example 06_watch_with_a_handler -- --events 10      # or until Ctrl-C
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::sync::Arc;

use clap::Parser;
use dogwatch::informer::{Deleted, EventHandler, HandlerOptions, Overflow};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, SharedInformer};
use tokio::sync::Semaphore;

#[derive(Parser)]
struct Arguments {
    /// Exit after this many changes, including the pods of the first list.
    #[arg(long, value_name = "N", default_value_t = u32::MAX, hide_default_value = true)]
    events: u32,
}

/// A handler that prints every change, and counts the lines it printed.
struct Printer(Arc<Semaphore>);

impl Printer {
    fn print(&self, pod: &Pod, what: &str) {
        let header = pod.header();
        println!("{}/{} {what}", header.namespace.unwrap_or("-"), header.name);
        self.0.add_permits(1);
    }
}

impl EventHandler<Pod> for Printer {
    fn on_add(&mut self, pod: &Arc<Pod>, initial: bool) {
        self.print(pod, if initial { "exists" } else { "added" });
    }
    fn on_update(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        self.print(new, &format!("updated: version {} after {}", new.version(), old.version()));
    }
    fn on_delete(&mut self, last: Deleted<Pod>) {
        self.print(last.last(), if last.is_missed() { "deleted, unobserved" } else { "deleted" });
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let printed = Arc::new(Semaphore::new(0));
    let pods = SharedInformer::new(Api::<Pod>::all(Client::from_env().await?));
    // Deliver every change, however slow the terminal is. By default, pending changes are merged
    // into the newest of each pod.
    pods.add_handler_with(Printer(Arc::clone(&printed)), HandlerOptions::default().overflow(Overflow::Grow))?;
    tokio::select! {
        () = pods.run_until(tokio::signal::ctrl_c()) => {}
        _ = printed.acquire_many(Arguments::parse().events) => pods.stop().await,
    }
    Ok(())
}
