//! The calling side, in a process of its own: it reads commands line by line and prints the
//! outcomes.
//!
//! | command | effect |
//! |---|---|
//! | `burst IN_FLIGHT MILLISECONDS` | calls without a pause, with `IN_FLIGHT` concurrent calls; prints the outcome |
//! | `begin RATE` | calls `RATE` times a second, whether earlier calls have ended or not; prints nothing |
//! | `end` | stops what `begin` started, waits for the calls in flight, prints the outcome |
//!
//! It first prints `{"ready":true}`, then an [`Outcome`](outcome::Outcome) as one line of JSON per
//! command. It exits when its input ends. It knows neither the measurement nor the endpoints. Peers
//! outside of the workspace include this directory by path, so that all callers written in Rust
//! call in the same way.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod echo;
pub(crate) mod outcome;
mod calls;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};

use self::calls::Steady;
use self::echo::Callee;

/// Runs the commands on standard input. With several clients, the concurrent calls are distributed
/// over them in turn.
pub(crate) async fn serve<C: Callee>(callees: Vec<C>) -> Result<()> {
    println!("{{\"ready\":true}}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut steady = None;
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = match (words.as_slice(), steady.take()) {
            (["burst", in_flight, time], None) => {
                let time = Duration::from_millis(time.parse().context("invalid number of milliseconds")?);
                calls::burst(&callees, in_flight.parse().context("invalid number of calls in flight")?, time)
                    .await?
            }
            (["begin", rate], None) => {
                steady = Some(Steady::begin(callees.clone(), rate.parse().context("invalid rate")?));
                continue;
            }
            (["end"], Some(steady)) => steady.end().await?,
            _ => bail!("unexpected command {line:?}"),
        };
        println!("{}", serde_json::to_string(&outcome)?);
    }
    Ok(())
}
