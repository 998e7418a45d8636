//! Members that divide keys over Leases of a server.

use std::time::Duration;

use dogwatch_client::{Api, Client};
use dogwatch_controller::sharding::ShardMember;
use dogwatch_core::ListParams;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::served::server;

struct Running {
    member: ShardMember,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn start(client: &Client, identity: &str) -> Running {
    let member = ShardMember::builder(client.clone(), "group")
        .identity(identity)
        .retry_period(Duration::from_millis(20))
        .lease_duration(Duration::from_secs(600))
        .renew_deadline(Duration::from_secs(500))
        .build()
        .expect("valid settings");
    let (stop, stopped) = oneshot::channel();
    let running = member.clone();
    let task = tokio::spawn(async move {
        running
            .run_until(async {
                let _ = stopped.await;
            })
            .await;
    });
    Running { member, stop, task }
}

/// Waits until these members own all keys between them, each key by one.
async fn divided(members: &[&ShardMember], keys: &[String]) {
    let mut changes: Vec<_> = members.iter().map(|it| it.changes()).collect();
    loop {
        let owners = |key: &String| members.iter().filter(|it| it.owns(key)).count();
        assert!(keys.iter().all(|it| owners(it) <= 1), "no key has two owners");
        if keys.iter().all(|it| owners(it) == 1) && members.iter().all(|it| it.is_settled()) {
            return;
        }
        futures_util::future::select_all(changes.iter_mut().map(|it| Box::pin(it.changed())))
            .await
            .0
            .expect("it lives");
    }
}

#[tokio::test]
async fn keys_are_divided_and_handed_over_as_members_come_and_leave() {
    let (_server, client) = server().await;
    let keys: Vec<_> = (0..50).map(|it| format!("ns/object-{it}")).collect();
    let first = start(&client, "first");
    divided(&[&first.member], &keys).await;
    let kept = keys.iter().find(|it| first.member.owns(it)).expect("all of them").clone();
    assert_eq!(first.member.while_owning(&kept, async { 7 }).await, Some(7));

    let second = start(&client, "second");
    divided(&[&first.member, &second.member], &keys).await;
    let share = keys.iter().filter(|it| second.member.owns(it)).count();
    assert!((5..45).contains(&share), "{share} of 50");
    let theirs = keys.iter().find(|it| second.member.owns(it)).expect("a share");
    assert_eq!(first.member.while_owning(theirs, async { 7 }).await, None);

    // Work on a key that moves is dropped; the one who leaves waits for that.
    let member = second.member.clone();
    let key = theirs.clone();
    let working = tokio::spawn(async move { member.while_owning(&key, std::future::pending::<()>()).await });
    second.stop.send(()).expect("it runs");
    assert_eq!(working.await.expect("no panic"), None);
    second.task.await.expect("no panic");
    divided(&[&first.member], &keys).await;
    let leases =
        Api::<Lease>::default_namespaced(client).list(&ListParams::default()).await.expect("listed").items;
    let held = leases.iter().filter_map(|it| it.spec.as_ref()?.holder_identity.as_deref());
    let mut held: Vec<_> = held.collect();
    held.sort_unstable();
    assert_eq!(held, ["", "first"]);
    drop(first.stop);
    first.task.await.expect("no panic");
}
