//! The disturbances of followers behind a proxy: connections on both of its sides are cut, its
//! server cannot be reached for a while, and the proxy is replaced by one without history.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::proxied_server::ProxiedServer;
use super::relay::Relay;
use crate::follow::{Disturbances, Faults};

/// The pause between two disturbances.
const PACE: Duration = Duration::from_secs(1);
/// The time for which the server cannot be reached: long enough that a server which compacts its
/// history every second has forgotten what the proxy has seen.
const OUTAGE: Duration = Duration::from_secs(3);

/// The connections of a proxy, the proxy, and the faults of its server.
#[derive(Debug)]
pub(super) struct Cuts<'a> {
    /// Between the followers and the proxy.
    pub(super) front: &'a Relay,
    /// Between the proxy and the server.
    pub(super) back: &'a Relay,
    pub(super) proxied: &'a mut ProxiedServer,
    /// The faults of our own server.
    pub(super) faults: Option<Faults>,
    /// The number of times that the proxy was replaced.
    pub(super) replaced: u64,
}

impl Disturbances for Cuts<'_> {
    async fn repeat(&mut self) -> Result<Infallible> {
        let faults = async {
            match &mut self.faults {
                Some(faults) => faults.repeat().await,
                None => pending().await,
            }
        };
        let cuts = async {
            loop {
                tokio::time::sleep(PACE).await;
                self.front.cut();
                tokio::time::sleep(PACE).await;
                self.proxied.replace().await?;
                self.replaced += 1;
                tokio::time::sleep(PACE).await;
                self.back.cut();
                tokio::time::sleep(PACE).await;
                self.back.close();
                tokio::time::sleep(OUTAGE).await;
                self.back.open();
            }
        };
        tokio::select! {
            broken = faults => broken,
            broken = cuts => broken,
        }
    }

    async fn resume(&mut self) -> Result<()> {
        self.back.open();
        self.proxied.ensure_started().await?;
        match &mut self.faults {
            Some(faults) => faults.resume().await,
            None => Ok(()),
        }
    }

    async fn end(&mut self) -> Result<String> {
        let (front, back) = (self.front.connections_cut(), self.back.connections_cut());
        ensure!(front > 0 && back > 0, "no connections were cut: give it more --seconds");
        ensure!(self.replaced > 0, "the proxy was not replaced: give it more --seconds");
        let faults = match &self.faults {
            Some(faults) => format!("; injected faults of the server: {}", faults.clear().await?),
            None => String::new(),
        };
        let replaced = self.replaced;
        Ok(format!(
            "{front} connections cut in front of the proxy and {back} behind it, the proxy replaced {replaced} \
             times{faults}"
        ))
    }
}
