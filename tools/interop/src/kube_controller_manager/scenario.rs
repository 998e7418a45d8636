//! The scenario: one section per responsibility of kube-controller-manager, each reporting its
//! observations.
//!
//! A section creates the objects it needs and waits for the expected reaction. Sections share a
//! namespace, which the last one deletes.

use anyhow::Result;
use serde_json::{Value, json};

use super::objects::Objects;
use super::report::{Observation, Report, observed_if};

/// The namespace of the scenario.
const NAMESPACE: &str = "original-controllers";

/// Runs all sections. Fails only if the server rejects a request of the scenario itself.
pub(super) async fn run(objects: &Objects, report: &mut Report) -> Result<()> {
    election(objects, report).await;
    namespace_begins(objects, report).await?;
    deployment(objects, report).await?;
    service(objects, report).await?;
    rollout(objects, report).await?;
    background(objects, report).await?;
    foreground(objects, report).await?;
    orphans(objects, report).await?;
    absent_owner(objects, report).await?;
    namespace_ends(objects, report).await
}

fn core(rest: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{rest}")
}

fn apps(rest: &str) -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/{rest}")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

fn names(objects: &[Value]) -> String {
    if objects.is_empty() {
        return "none".to_owned();
    }
    objects.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns true if `object` is owned by the object with this uid.
fn is_owned_by(object: &Value, uid: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_some_and(|it| it.iter().any(|it| it["uid"] == *uid))
}

/// Returns the objects of a collection that an object owns.
async fn owned(objects: &Objects, path: &str, uid: &Value) -> Result<Vec<Value>> {
    let mut list = objects.list(path).await?;
    list.retain(|it| is_owned_by(it, uid));
    Ok(list)
}

/// Returns the ReplicaSets and pods of a Deployment, by the label with its name.
async fn dependents_of(objects: &Objects, app: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let of = |mut list: Vec<Value>| {
        list.retain(|it| it["metadata"]["labels"]["app"] == app);
        list
    };
    Ok((of(objects.list(&apps("replicasets")).await?), of(objects.list(&core("pods")).await?)))
}

async fn election(objects: &Objects, report: &mut Report) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let mut first = None;
    let held = "kube-controller-manager acquires and renews its lease";
    report
        .expect(held, async || {
            let spec = objects.get(path).await?["spec"].take();
            let (holder, renewed) = (text(&spec["holderIdentity"]), text(&spec["renewTime"]).to_owned());
            let before = first.get_or_insert(renewed.clone());
            observed_if(!holder.is_empty() && *before != renewed, format!("{holder} renewed it at {renewed}"))
        })
        .await;
}

async fn namespace_begins(objects: &Objects, report: &mut Report) -> Result<()> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    objects.create("/api/v1/namespaces", &namespace).await?;
    report
        .expect("a new namespace gets its service account", async || {
            Ok(Observation::Seen(name(&objects.get(&core("serviceaccounts/default")).await?)))
        })
        .await;
    report
        .expect("a new namespace gets the root certificate", async || {
            let map = objects.get(&core("configmaps/kube-root-ca.crt")).await?;
            observed_if(text(&map["data"]["ca.crt"]).contains("BEGIN CERTIFICATE"), name(&map))
        })
        .await;
    Ok(())
}

/// Creates a Deployment.
async fn deploy(objects: &Objects, app: &str, replicas: u32) -> Result<Value> {
    let labels = json!({ "app": app });
    let container =
        json!({ "name": "main", "image": "example.invalid/main:1", "ports": [{ "containerPort": 80 }] });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": app, "labels": labels },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    });
    objects.create(&apps("deployments"), &deployment).await
}

async fn deployment(objects: &Objects, report: &mut Report) -> Result<()> {
    let uid = deploy(objects, "web", 3).await?["metadata"]["uid"].take();
    let mut set = Value::Null;
    report
        .expect("a Deployment gets its ReplicaSet", async || {
            let sets = owned(objects, &apps("replicasets"), &uid).await?;
            if let [only] = sets.as_slice() {
                set = only["metadata"]["uid"].clone();
            }
            observed_if(sets.len() == 1, names(&sets))
        })
        .await;
    report
        .expect("the ReplicaSet gets its 3 pods", async || {
            let pods = owned(objects, &core("pods"), &set).await?;
            observed_if(pods.len() == 3, names(&pods))
        })
        .await;
    report
        .expect("the Deployment counts 3 available pods", async || {
            let status = objects.get(&apps("deployments/web")).await?["status"].take();
            let done = status["availableReplicas"] == 3 && status["observedGeneration"] == 1;
            observed_if(done, format!("{} of {}", status["availableReplicas"], status["replicas"]))
        })
        .await;
    Ok(())
}

async fn service(objects: &Objects, report: &mut Report) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 80 }] },
    });
    objects.create(&core("services"), &service).await?;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices");
    report
        .expect("the EndpointSlice of a Service has the 3 ready pods", async || {
            let slices = objects.list(&slices).await?;
            let endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().into_iter().flatten());
            let ready: Vec<_> = endpoints
                .filter(|it| it["conditions"]["ready"] == true && it["nodeName"] == super::node::NODE)
                .map(|it| text(&it["addresses"][0]))
                .collect();
            observed_if(ready.len() == 3, format!("{} with {}", names(&slices), ready.join(", ")))
        })
        .await;
    report
        .expect("the Endpoints of the Service have them too", async || {
            let endpoints = objects.get(&core("endpoints/web")).await?;
            let count = endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len);
            observed_if(count == 3, format!("{count} addresses"))
        })
        .await;
    Ok(())
}

async fn rollout(objects: &Objects, report: &mut Report) -> Result<()> {
    let template =
        json!({ "spec": { "containers": [{ "name": "main", "image": "example.invalid/main:2" }] } });
    objects.merge(&apps("deployments/web"), &json!({ "spec": { "template": template } })).await?;
    report
        .expect("a new image rolls out", async || {
            let (sets, pods) = dependents_of(objects, "web").await?;
            let new = pods
                .iter()
                .filter(|it| it["spec"]["containers"][0]["image"] == "example.invalid/main:2")
                .count();
            let status = objects.get(&apps("deployments/web")).await?["status"].take();
            let done = sets.len() == 2 && pods.len() == 3 && new == 3 && status["updatedReplicas"] == 3;
            observed_if(done, format!("{} ReplicaSets, {new} of {} pods are new", sets.len(), pods.len()))
        })
        .await;
    objects.merge(&apps("deployments/web/scale"), &json!({ "spec": { "replicas": 1 } })).await?;
    report
        .expect("scaling to 1 leaves 1 pod", async || {
            let (_, pods) = dependents_of(objects, "web").await?;
            observed_if(pods.len() == 1, names(&pods))
        })
        .await;
    Ok(())
}

async fn background(objects: &Objects, report: &mut Report) -> Result<()> {
    objects.delete(&apps("deployments/web"), "Background").await?;
    report
        .expect("a Deployment deleted in the background is removed with all its dependents", async || {
            let gone = objects.is_gone(&apps("deployments/web")).await?;
            let (sets, pods) = dependents_of(objects, "web").await?;
            let left = format!("ReplicaSets left: {}; pods left: {}", names(&sets), names(&pods));
            observed_if(gone && sets.is_empty() && pods.is_empty(), left)
        })
        .await;
    Ok(())
}

async fn foreground(objects: &Objects, report: &mut Report) -> Result<()> {
    deploy(objects, "front", 2).await?;
    wait_for_pods(objects, report, "front").await;
    // A pod with a finalizer keeps everything above it.
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let pod = dependents_of(objects, "front").await?.1.first().map(name).unwrap_or_default();
    objects.merge(&core(&format!("pods/{pod}")), &hold).await?;
    objects.delete(&apps("deployments/front"), "Foreground").await?;
    report
        .expect("a Deployment deleted in the foreground waits for its dependents", async || {
            let metadata = objects.get(&apps("deployments/front")).await?["metadata"].take();
            let (sets, pods) = dependents_of(objects, "front").await?;
            let waits = text(&metadata["finalizers"][0]) == "foregroundDeletion";
            let set = sets.first().map(|it| it["metadata"]["finalizers"].clone()).unwrap_or_default();
            let what = format!("its ReplicaSet waits for {} with finalizers {set}", names(&pods));
            observed_if(waits && pods.len() == 1 && text(&set[0]) == "foregroundDeletion", what)
        })
        .await;
    objects.merge(&core(&format!("pods/{pod}")), &json!({ "metadata": { "finalizers": null } })).await?;
    report
        .expect("it is removed after its dependents", async || {
            let gone = objects.is_gone(&apps("deployments/front")).await?;
            let (sets, pods) = dependents_of(objects, "front").await?;
            // Once it is removed, none of its dependents may be left.
            let left = format!("ReplicaSets left: {}; pods left: {}", names(&sets), names(&pods));
            observed_if(gone && sets.is_empty() && pods.is_empty(), left)
        })
        .await;
    Ok(())
}

async fn wait_for_pods(objects: &Objects, report: &mut Report, app: &str) {
    report
        .expect(&format!("the Deployment {app} gets its pods"), async || {
            let (_, pods) = dependents_of(objects, app).await?;
            let status = objects.get(&apps(&format!("deployments/{app}"))).await?["status"].take();
            observed_if(status["availableReplicas"] == pods.len() && !pods.is_empty(), names(&pods))
        })
        .await;
}

async fn orphans(objects: &Objects, report: &mut Report) -> Result<()> {
    let uid = deploy(objects, "left", 1).await?["metadata"]["uid"].take();
    wait_for_pods(objects, report, "left").await;
    objects.delete(&apps("deployments/left"), "Orphan").await?;
    report
        .expect("a Deployment deleted with Orphan leaves its ReplicaSet without an owner", async || {
            let gone = objects.is_gone(&apps("deployments/left")).await?;
            let (sets, pods) = dependents_of(objects, "left").await?;
            let free = sets.iter().filter(|it| !is_owned_by(it, &uid)).count();
            let what = format!("{} has {} pod", names(&sets), pods.len());
            observed_if(gone && sets.len() == 1 && free == 1 && pods.len() == 1, what)
        })
        .await;
    Ok(())
}

async fn absent_owner(objects: &Objects, report: &mut Report) -> Result<()> {
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "00000000-0000-4000-8000-000000000000" });
    let map = |name: &str, owners: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "ownerReferences": owners } });
    let here = objects.create(&core("configmaps"), &map("here", json!([]))).await?;
    let there =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "here", "uid": here["metadata"]["uid"] });
    objects.create(&core("configmaps"), &map("astray", json!([owner]))).await?;
    objects.create(&core("configmaps"), &map("kept", json!([owner, there]))).await?;
    report
        .expect("an object whose only owner does not exist is garbage-collected", async || {
            observed_if(objects.is_gone(&core("configmaps/astray")).await?, "astray is gone")
        })
        .await;
    report
        .expect("an object with another owner stays, without the absent one", async || {
            let map = objects.get(&core("configmaps/kept")).await?;
            let owners = map["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            observed_if(
                owners == 1 && is_owned_by(&map, &here["metadata"]["uid"]),
                format!("kept has {owners} owner"),
            )
        })
        .await;
    Ok(())
}

async fn namespace_ends(objects: &Objects, report: &mut Report) -> Result<()> {
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["example.com/hold"] },
    });
    objects.create(&core("configmaps"), &held).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    objects.delete(&path, "Background").await?;
    report
        .expect("a terminating namespace reports the finalizers it waits for", async || {
            let status = objects.get(&path).await?["status"].take();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let remaining = conditions.iter().find(|it| it["type"] == "NamespaceFinalizersRemaining");
            let message = remaining.map(|it| text(&it["message"])).unwrap_or_default();
            let sees = status["phase"] == "Terminating" && message.contains("example.com/hold");
            observed_if(sees, format!("{}: {message}", text(&status["phase"])))
        })
        .await;
    report
        .expect("all other objects in it are removed", async || {
            let (sets, pods) = dependents_of(objects, "left").await?;
            let maps = objects.list(&core("configmaps")).await?;
            let left =
                format!("ReplicaSets {}, pods {}, ConfigMaps {}", names(&sets), names(&pods), names(&maps));
            observed_if(sets.is_empty() && pods.is_empty() && names(&maps) == "held", left)
        })
        .await;
    objects.merge(&core("configmaps/held"), &json!({ "metadata": { "finalizers": null } })).await?;
    report
        .expect("the namespace itself is removed", async || {
            observed_if(objects.is_gone(&path).await?, NAMESPACE)
        })
        .await;
    Ok(())
}
