//! Act 4: the leader of two ingress managers is killed, and the other one takes over.

use dogwatch::Api;
use dogwatch::api::PatchParams;
use dogwatch::k8s_openapi::api::coordination::v1::Lease;
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch_apiserver::log::Record;
use ingress_manager::ANNOTATION;
use serde_json::json;
use tokio::time::Instant;

use crate::demo::connect::{FIELD_MANAGER, NAMESPACE};
use crate::demo::ingress_replica::{IngressReplica, LEASE, LEASE_DURATION};
use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, listed, took};
use crate::demo::waiting::within;

pub(super) const TITLE: &str = "The leader is killed";
pub(super) const ABOUT: &str =
    "Only one of two replicas may work. The other takes over when the lease is not renewed.";

/// The Services of the act, before and after the leader is killed.
const BEFORE: [&str; 3] = ["cart", "search", "shop"];
const AFTER: [&str; 3] = ["login", "mail", "news"];
/// The status codes of a created object, and of a write that another one has overtaken.
const CREATED: u16 = 201;
const CONFLICT: u16 = 409;

/// The requests of the managers that changed Ingresses.
struct Writes {
    /// The user and the status of each, in the order of the server's log.
    requests: Vec<(String, u16)>,
}

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    stage.does("Two replicas of a controller start. It creates an Ingress for each annotated Service.").await;
    let page = &scene.page.diagnostics;
    let mut first = IngressReplica::start(&scene.server, page, "manager-a")?;
    first.leads().await?;
    let mut second = IngressReplica::start(&scene.server, page, "manager-b")?;
    let (leader, standby) = (first.name, second.name);
    let seconds = LEASE_DURATION.as_secs();
    stage.finds(format!("{leader} holds the lease of {seconds} s and works. {standby} waits.")).await;
    stage.does(format!("Services {} are created with the annotation.", listed(BEFORE))).await;
    create_services(scene, &BEFORE).await?;
    let writes = Writes::wait_for(scene, BEFORE.len()).await?;
    stage.finds(format!("{leader} created {}.", counted(writes.created_by(leader), "Ingress"))).await;

    stage.does(format!("{leader} is killed. It has no time to give up the lease.")).await;
    let killed_at = Instant::now();
    first.kill().await;
    stage.does(format!("Services {} are created with the annotation.", listed(AFTER))).await;
    create_services(scene, &AFTER).await?;
    let holder = holder(scene).await?;
    let waits = if second.is_leader() { "leads already" } else { "has to wait" };
    stage.finds(format!("The lease still names {holder}. {standby} {waits}.")).await;
    second.leads().await?;
    let took_over = took(killed_at.elapsed());
    stage.finds(format!("The lease has expired: {standby} leads, {took_over} after the kill.")).await;

    let total = BEFORE.len() + AFTER.len();
    let writes = Writes::wait_for(scene, total).await?;
    let ingresses = ingresses(scene);
    stage
        .finds(format!(
            "Ingresses on the server: {ingresses}. {leader} created {}, and then {standby} {}.",
            writes.created_by(leader),
            writes.created_by(standby)
        ))
        .await;
    let (twice, at_once) =
        (writes.created().saturating_sub(ingresses) + writes.conflicts(), writes.late(leader));
    stage
        .finds(format!(
            "Ingresses created twice: {twice}. Writes of {leader} after the first of {standby}: {at_once}."
        ))
        .await;
    stage.does(format!("{leader} is started again, and waits now.")).await;
    let again = IngressReplica::start(&scene.server, &scene.page.diagnostics, leader)?;
    scene.replicas = vec![second, again];
    Ok(format!(
        "{standby} led {took_over} after the kill; {}, {twice} created twice",
        counted(ingresses, "Ingress")
    ))
}

async fn create_services(scene: &Scene, names: &[&str]) -> anyhow::Result<()> {
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let services = Api::<Service>::namespaced(scene.client.clone(), NAMESPACE);
    for name in names {
        let service = json!({
            "metadata": { "annotations": { ANNOTATION: format!("{name}.example") } },
            "spec": { "ports": [{ "name": "http", "port": 80 }] },
        });
        services.apply(name, &apply, &service).await?;
    }
    Ok(())
}

/// Returns the holder that is named in the lease.
async fn holder(scene: &Scene) -> anyhow::Result<String> {
    let lease = Api::<Lease>::namespaced(scene.client.clone(), NAMESPACE).get(LEASE).await?;
    Ok(lease.spec.and_then(|it| it.holder_identity).unwrap_or_else(|| "no holder".to_owned()))
}

/// Returns the number of Ingresses on the server.
fn ingresses(scene: &Scene) -> usize {
    let revision = scene.server.revision();
    scene.server.objects_at("networking.k8s.io/v1", "ingresses", revision).map_or(0, |it| it.len())
}

impl Writes {
    /// Waits until the managers have created this many Ingresses, and returns all their requests.
    async fn wait_for(scene: &Scene, created: usize) -> anyhow::Result<Self> {
        let is_created = |it: &Record| is_write(it) && it.status == CREATED;
        let log = scene.server.request_log();
        let _ = within("the managers create Ingresses", log.wait_for(is_created, created)).await?;
        let requests = scene.server.requests().filter(is_write);
        Ok(Self { requests: requests.iter().map(|it| (it.user.clone(), it.status)).collect() })
    }

    fn created(&self) -> usize {
        self.requests.iter().filter(|(_, status)| *status == CREATED).count()
    }

    fn created_by(&self, user: &str) -> usize {
        self.requests.iter().filter(|(of, status)| of == user && *status == CREATED).count()
    }

    /// Returns the number of requests that another one had overtaken.
    fn conflicts(&self) -> usize {
        self.requests.iter().filter(|(_, status)| *status == CONFLICT).count()
    }

    /// Returns the number of requests of a user after the first one of another user.
    fn late(&self, user: &str) -> usize {
        self.requests.iter().skip_while(|(of, _)| of == user).filter(|(of, _)| of == user).count()
    }
}

fn is_write(request: &Record) -> bool {
    request.resource == "ingresses"
        && ["create", "update", "patch", "delete"].contains(&request.verb.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_late_or_overtaken_are_counted() {
        let of = |all: &[(&str, u16)]| Writes {
            requests: all.iter().map(|(user, status)| ((*user).to_owned(), *status)).collect(),
        };
        let good = of(&[("a", 201), ("a", 201), ("b", 201)]);
        assert_eq!((good.created(), good.created_by("a"), good.conflicts(), good.late("a")), (3, 2, 0, 0));
        let bad = of(&[("a", 201), ("b", 201), ("a", 409)]);
        assert_eq!((bad.created(), bad.conflicts(), bad.late("a")), (2, 1, 1));
    }
}
