//! After the story: the cluster keeps running, and the pods that a user changes are printed as the
//! informer reports them.

use std::collections::HashMap;

use dogwatch::Object as _;
use dogwatch::informer::{Change, HandlerOptions};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use futures_util::StreamExt;

use super::scene::Scene;
use super::stage::Stage;
use super::workload;
use crate::sanitize::without_controls;

/// Prints the changes of the pods until it is dropped.
///
/// # Errors
/// Returns an error if the informer has stopped.
pub(super) async fn watch(scene: &Scene, stage: &Stage) -> anyhow::Result<()> {
    let mut changes = scene.pods.changes_with(HandlerOptions::default().name("printed changes"))?;
    // The states of the existing pods, so that only new ones are printed.
    let mut states = HashMap::new();
    while let Some(change) = changes.next().await {
        if let Some(line) = line(&change, &mut states) {
            stage.finds(line).await;
        }
    }
    anyhow::bail!("the informer of the pods ended")
}

/// Returns the line for a change, if it leads to another state that a user did not see yet.
fn line(change: &Change<Pod>, states: &mut HashMap<String, &'static str>) -> Option<String> {
    let name = change.object().header().name.to_owned();
    let shown = without_controls(&name);
    if matches!(change, Change::Deleted(_)) {
        states.remove(&name);
        return Some(format!("pod {shown} was deleted"));
    }
    let state = state_of(change.object());
    let is_new = states.insert(name, state) != Some(state);
    let is_initial = matches!(change, Change::Added { initial: true, .. });
    (is_new && !is_initial).then(|| format!("pod {shown} {state}"))
}

fn state_of(pod: &Pod) -> &'static str {
    match (workload::is_terminating(pod), workload::node_of(pod)) {
        (true, _) => "is terminating",
        (false, None) => "waits for a node",
        (false, Some(_)) if workload::is_ready(pod) => "is ready",
        (false, Some(_)) => "starts on its node",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dogwatch::informer::Deleted;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_new_states_are_printed() {
        let pod = |spec: serde_json::Value| -> Arc<Pod> {
            let pod = json!({ "metadata": { "name": "a\u{1b}" }, "spec": spec });
            Arc::new(serde_json::from_value(pod).expect("a pod"))
        };
        let (waits, starts) =
            (pod(json!({ "containers": [] })), pod(json!({ "nodeName": "n", "containers": [] })));
        let updated = |new: &Arc<Pod>| Change::Updated { old: waits.clone(), new: new.clone() };
        let mut states = HashMap::new();
        let mut printed = |change: Change<Pod>| line(&change, &mut states);
        assert_eq!(printed(Change::Added { object: waits.clone(), initial: true }), None);
        assert_eq!(printed(updated(&waits)), None);
        assert_eq!(printed(updated(&starts)).as_deref(), Some("pod a\u{fffd} starts on its node"));
        assert_eq!(printed(updated(&starts)), None);
        let deleted = printed(Change::Deleted(Deleted::Seen(starts.clone())));
        assert_eq!(deleted.as_deref(), Some("pod a\u{fffd} was deleted"));
    }
}
