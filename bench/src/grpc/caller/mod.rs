//! The side that calls, in a process of its own: it is told line by line what to do, and says how it went.
//!
//! | line | what it does |
//! |---|---|
//! | `burst IN_FLIGHT MILLISECONDS` | calls without a pause, so many at a time; answers when they have ended |
//! | `begin RATE` | calls so often a second, whether earlier calls have ended or not; answers nothing |
//! | `end` | ends that, waits for what is under way, and answers |
//!
//! It says `{"ready":true}` first, and an [`Outcome`](outcome::Outcome) as a line of JSON each time. It ends with its input. It knows neither
//! what is measured nor who is called. Peers outside of the workspace take in this folder as it is, so that all who are
//! written in Rust call in the same way.
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

/// Calls as told on the standard input. With several callees, those who call are dealt out to them.
pub(crate) async fn serve<C: Callee>(callees: Vec<C>) -> Result<()> {
    println!("{{\"ready\":true}}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut steady = None;
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = match (words.as_slice(), steady.take()) {
            (["burst", in_flight, time], None) => {
                let time = Duration::from_millis(time.parse().context("milliseconds")?);
                calls::burst(&callees, in_flight.parse().context("calls in flight")?, time).await?
            }
            (["begin", rate], None) => {
                steady = Some(Steady::begin(callees.clone(), rate.parse().context("a rate")?));
                continue;
            }
            (["end"], Some(steady)) => steady.end().await?,
            _ => bail!("{line:?} cannot be done now"),
        };
        println!("{}", serde_json::to_string(&outcome)?);
    }
    Ok(())
}
