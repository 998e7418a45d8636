//! Tells of every pod in the cluster that comes, changes or goes. The informer behind it keeps a copy of them all, and goes on through
//! every failure; the handler hears what changed, from a task of its own.
//!
//! ```text
//! cargo run --example 06_watch_with_a_handler -- --events 10      # or until Ctrl-C
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::sync::Arc;

use clap::Parser;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Deleted, EventHandler, HandlerOptions, Object, Overflow, SharedInformer};
use tokio::sync::Semaphore;

#[derive(Parser)]
struct Arguments {
    /// End after so many changes, counting the pods that are there.
    #[arg(long, value_name = "N", default_value_t = u32::MAX, hide_default_value = true)]
    events: u32,
}

/// Prints, and counts what it printed.
struct Teller(Arc<Semaphore>);

impl Teller {
    fn tell(&self, pod: &Pod, what: &str) {
        println!("{} {what}", pod.key().map(String::from).unwrap_or_default());
        self.0.add_permits(1);
    }
}

impl EventHandler<Pod> for Teller {
    fn on_add(&mut self, pod: &Arc<Pod>, initial: bool) {
        self.tell(pod, if initial { "is there" } else { "came" });
    }
    fn on_update(&mut self, old: &Arc<Pod>, new: &Arc<Pod>) {
        self.tell(new, &format!("changed: version {} after {}", new.version(), old.version()));
    }
    fn on_delete(&mut self, last: Deleted<Pod>) {
        self.tell(last.last(), if last.is_missed() { "went unseen" } else { "went" });
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let told = Arc::new(Semaphore::new(0));
    let pods = SharedInformer::new(Api::<Pod>::all(Client::from_env().await?));
    // Every change, however slow the terminal is; unless asked for, what waits is merged to the newest of each pod.
    pods.add_handler_with(Teller(Arc::clone(&told)), HandlerOptions::default().overflow(Overflow::Grow))?;
    tokio::select! {
        () = pods.run_until(tokio::signal::ctrl_c()) => {}
        _ = told.acquire_many(Arguments::parse().events) => pods.stop().await,
    }
    Ok(())
}
