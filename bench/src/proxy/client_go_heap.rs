//! The heap of client-go's cache of the same pods, measured by `bench/peers/client-go`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use processes::go;
use serde::Deserialize;

use crate::server_pods::NAMESPACE;

/// The line with the heap. The one before it has the number of objects alone.
#[derive(Debug, Deserialize)]
struct Report {
    objects: u64,
    live_bytes: f64,
}

/// Returns the KB of heap that client-go's informer uses for each pod of the server of this
/// kubeconfig. `None` if Go is not installed.
///
/// # Errors
/// If the program does not build, or does not measure this number of pods.
pub(super) async fn kb_per_pod(kubeconfig: &Path, pods: u32) -> Result<Option<f64>> {
    let Some(program) = go::build("client-go")? else { return Ok(None) };
    let mut command = Command::new(program);
    command.arg("sync").arg("--kubeconfig").arg(kubeconfig).args(["--namespace", NAMESPACE, "--heap"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await?;
    let output = output.context("cannot start client-go's informer")?;
    ensure!(
        output.status.success(),
        "client-go's informer failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    per_pod(&String::from_utf8_lossy(&output.stdout), pods).map(Some)
}

fn per_pod(output: &str, pods: u32) -> Result<f64> {
    let mut reports = output.lines().filter_map(|it| serde_json::from_str::<Report>(it).ok());
    let report = reports.next().with_context(|| format!("client-go printed no heap: {output}"))?;
    let Report { objects, live_bytes } = report;
    ensure!(objects == u64::from(pods), "client-go has {objects} pods instead of {pods}");
    Ok(live_bytes / 1e3 / objects as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_is_divided_by_the_pods() {
        let output = "{\"synced\":100}\n{\"live_bytes\":2280000,\"objects\":100}\n";
        assert_eq!(per_pod(output, 100).unwrap(), 22.8);
        assert!(per_pod(output, 101).is_err(), "it must have the same pods as the proxy");
        assert!(per_pod("{\"synced\":100}\n", 100).is_err());
    }
}
