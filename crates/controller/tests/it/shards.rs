//! Members that shard keys, and shards of collections, over Leases of a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_controller::sharding::{ShardField, ShardMember, ShardSelector};
use dogwatch_controller::{Action, BoxError, Context, Controller};
use dogwatch_core::{ListParams, ObjectKey, WriteParams};
use dogwatch_informer::{Change, SharedInformer};
use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::in_process::{config_map, server};
use crate::test_cluster::{Calls, HOUR, SECOND, TestCluster, name};

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

/// Waits until these members together own all keys, each key owned by one.
async fn divided(members: &[&ShardMember], keys: &[String]) {
    let mut changes: Vec<_> = members.iter().map(|it| it.changes()).collect();
    loop {
        let owners = |key: &String| members.iter().filter(|it| it.owns(key)).count();
        assert!(keys.iter().all(|it| owners(it) <= 1), "no key has two owners");
        if keys.iter().all(|it| owners(it) == 1) && members.iter().all(|it| it.is_settled()) {
            return;
        }
        let changed = futures_util::future::select_all(changes.iter_mut().map(|it| Box::pin(it.changed())));
        let changed = tokio::time::timeout(Duration::from_secs(60), changed).await;
        changed.expect("the keys are divided within a minute").0.expect("the sender is alive");
    }
}

/// Runs are serialised, but a run that only waits for another one must not outlast its stop.
#[tokio::test]
async fn a_run_that_waits_for_another_of_its_member_can_be_stopped() {
    let (_server, client) = server().await;
    let first = start(&client, "first");
    let keys = ["ns/a".to_owned()];
    divided(&[&first.member], &keys).await;
    let second = first.member.run_until(std::future::ready(()));
    tokio::time::timeout(Duration::from_secs(60), second).await.expect("it stops");
    assert!(first.member.owns("ns/a"), "the first run continues");
    first.stop.send(()).expect("running");
    first.task.await.expect("no panic");
}

#[tokio::test]
async fn keys_are_sharded_and_handed_over_as_members_join_and_leave() {
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

    // Work on a key that moves is dropped; the member that leaves waits for that.
    let member = second.member.clone();
    let key = theirs.clone();
    let working = tokio::spawn(async move { member.while_owning(&key, std::future::pending::<()>()).await });
    second.stop.send(()).expect("the member runs");
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

/// The worker of each object.
#[derive(Default)]
struct Desk {
    workers: Mutex<BTreeMap<String, &'static str>>,
    /// The objects that had two workers at once, and those that the server sent to a member that
    /// had not requested them.
    shared: Mutex<Vec<String>>,
    strays: Mutex<usize>,
    changed: watch::Sender<()>,
}

/// The objects of one shard, until dropped.
struct AtWork<'d> {
    desk: &'d Desk,
    who: &'static str,
    objects: Vec<String>,
}

impl AtWork<'_> {
    fn begin(&mut self, name: String) {
        let before = self.desk.workers.lock().unwrap().insert(name.clone(), self.who);
        self.desk.shared.lock().unwrap().extend(before.map(|it| format!("{name}: {it} and {}", self.who)));
        self.objects.push(name);
        self.desk.changed.send_replace(());
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut workers = self.desk.workers.lock().unwrap();
        for object in &self.objects {
            workers.remove(object);
        }
        drop(workers);
        self.desk.changed.send_replace(());
    }
}

impl Desk {
    /// Works on the objects of the shard, for ever.
    async fn work_on(&self, part: ShardSelector, who: &'static str, client: Client) {
        let maps = SharedInformer::builder(Api::<ConfigMap>::default_namespaced(client));
        let maps = maps.reflector(|it| it.shard(part.to_string())).build();
        let mut changes = maps.changes().expect("the informer is running");
        maps.start();
        let mut at_work = AtWork { desk: self, who, objects: Vec::new() };
        while let Some(change) = changes.next().await {
            match change {
                Change::Added { object, .. } if part.selects(&*object) => {
                    at_work.begin(object.metadata.name.clone().unwrap_or_default());
                }
                _ => *self.strays.lock().unwrap() += 1,
            }
        }
    }

    /// Waits until this many objects have workers, of these members and no others.
    async fn all_at_work(&self, objects: usize, by: &[&str]) {
        let mut changed = self.changed.subscribe();
        let done = || {
            let workers = self.workers.lock().unwrap();
            let by_each = |who: &&str| workers.values().filter(|it| *it == who).count();
            let counts: Vec<_> = by.iter().map(by_each).collect();
            counts.iter().all(|it| *it > 0) && counts.iter().sum::<usize>() == objects
        };
        while !done() {
            changed.changed().await.expect("the sender is alive");
        }
    }
}

fn work(running: &Running, desk: &Arc<Desk>, who: &'static str, client: &Client) -> JoinHandle<()> {
    let (member, desk, client) = (running.member.clone(), Arc::clone(desk), client.clone());
    tokio::spawn(async move {
        let part = |part| desk.work_on(part, who, client.clone());
        member.work_on_shards(ShardField::Uid, 8, part).await;
    })
}

/// A server that shards sends only requested objects; for one that does not, the members filter by
/// themselves.
#[tokio::test]
async fn shards_of_a_collection_are_handed_over_and_no_object_has_two_workers() {
    for divides in [true, false] {
        let server = ApiServer::builder().in_process().sharding(divides).start().await.expect("started");
        let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        let begun = maps.list(&ListParams::default()).await.expect("listed").items.len();
        let add = async |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let map = config_map(&format!("map-{number}"));
                maps.create(&WriteParams::default(), &map).await.expect("created");
            }
        };
        add(0..40).await;
        let desk = Arc::new(Desk::default());
        let first = start(&client, "first");
        let first_works = work(&first, &desk, "first", &client);
        desk.all_at_work(begun + 40, &["first"]).await;

        let second = start(&client, "second");
        let second_works = work(&second, &desk, "second", &client);
        desk.all_at_work(begun + 40, &["first", "second"]).await;
        add(40..60).await;
        desk.all_at_work(begun + 60, &["first", "second"]).await;

        second.stop.send(()).expect("the member runs");
        second.task.await.expect("no panic");
        desk.all_at_work(begun + 60, &["first"]).await;
        assert_eq!(*desk.shared.lock().unwrap(), Vec::<String>::new(), "no object had two workers");
        let strays = *desk.strays.lock().unwrap();
        assert_eq!(strays == 0, divides, "{strays} objects were sent to a member that does not own them");
        [first_works, second_works].iter().for_each(JoinHandle::abort);
        drop(first.stop);
        first.task.await.expect("no panic");
    }
}

/// One replica of a sharded controller, with its member.
struct Replica {
    member: ShardMember,
    calls: Calls,
    controller: crate::test_cluster::Running,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(cluster: &TestCluster, identity: &str) -> Self {
        Self::start_with(cluster, identity, &[], |_, _| Ok(Action::Done))
    }

    /// Starts a replica whose controller also reconciles the keys of a stream, which yields each
    /// once.
    fn start_with(
        cluster: &TestCluster,
        identity: &str,
        streamed: &[String],
        outcome: impl Fn(&ObjectKey, &Context) -> Result<Action, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let member = ShardMember::builder(cluster.client.clone(), "group").identity(identity).build();
        let (member, calls) = (member.expect("valid settings"), Calls::new());
        let (recorded, owner) = (calls.clone(), member.clone());
        let reconcile = move |key: ObjectKey, context: Context| {
            assert!(owner.owns(key.as_str()), "another replica owns {key}");
            recorded.add(name(&key));
            std::future::ready(outcome(&key, &context))
        };
        let informer = SharedInformer::new(cluster.maps.clone());
        let keys: Vec<_> = streamed.iter().map(|it| ObjectKey::namespaced("default", it)).collect();
        let controller = Controller::of(&informer).reconcile_on(futures_util::stream::iter(keys));
        let controller = controller.sharded(&member).build(reconcile);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = member.clone();
        let task = tokio::spawn(async move { running.run_until(async { drop(stopped.await) }).await });
        Self { member, calls, controller: crate::test_cluster::Running::new(controller), stop, task }
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("no panic");
        self.controller.stop().await.expect("clean shutdown");
    }
}

/// A replica reconciles the keys that it gains, whether or not their objects change, and no other
/// replica does.
#[tokio::test(start_paused = true)]
async fn each_key_of_a_sharded_controller_is_reconciled_by_its_owner() {
    let names: Vec<_> = (0..20).map(|it| format!("map-{it:02}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = Replica::start(&cluster, "first");
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(first.calls.take_sorted(), names, "a single replica owns all keys");

    let second = Replica::start(&cluster, "second");
    tokio::time::sleep(60 * SECOND).await;
    let is_of = |member: &ShardMember, name: &String| member.owns(&format!("default/{name}"));
    let share =
        |member: &ShardMember| names.iter().filter(|it| is_of(member, it)).cloned().collect::<Vec<_>>();
    let (mine, theirs) = (share(&first.member), share(&second.member));
    assert!(mine.len() + theirs.len() == 20 && !mine.is_empty() && !theirs.is_empty());
    let mut reconciled = second.calls.take();
    reconciled.sort_unstable();
    reconciled.dedup();
    assert_eq!(reconciled, theirs, "the keys that it gained");
    first.calls.take();

    for name in &names {
        cluster.put(name, "changed").await;
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!((first.calls.take_sorted(), second.calls.take_sorted()), (mine.clone(), theirs.clone()));
    cluster.delete(&mine[0]).await;
    cluster.delete(&theirs[0]).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!((first.calls.take(), second.calls.take()), (mine[..1].to_vec(), theirs[..1].to_vec()));

    second.stop().await;
    tokio::time::sleep(HOUR).await;
    let reconciled = first.calls.take_sorted();
    assert!(theirs[1..].iter().all(|it| reconciled.contains(it)), "{reconciled:?}");
    first.stop().await;
}

/// No object of a cache maps to these keys, so the objects do not bring them back.
#[tokio::test(start_paused = true)]
async fn a_replica_reconciles_the_keys_of_its_stream_when_it_gains_them() {
    let cluster = TestCluster::with(&[]).await;
    let names: Vec<_> = (0..10).map(|it| format!("streamed-{it}")).collect();
    let start = |identity: &str| Replica::start_with(&cluster, identity, &names, |_, _| Ok(Action::Done));
    let distinct = |replica: &Replica| {
        let mut names = replica.calls.take_sorted();
        names.dedup();
        names
    };
    let first = start("first");
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(first.calls.take_sorted(), names, "a single replica owns all keys");

    let second = start("second");
    tokio::time::sleep(60 * SECOND).await;
    let owned: Vec<_> =
        names.iter().filter(|it| second.member.owns(&format!("default/{it}"))).cloned().collect();
    assert!(!owned.is_empty() && owned.len() < names.len(), "{owned:?}");
    assert_eq!(distinct(&second), owned);
    first.calls.take();

    second.stop().await;
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(distinct(&first), names, "it lost some of them, and has them again");

    let second = start("second");
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(distinct(&second), owned);
    first.stop().await;
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(distinct(&second), names, "its stream yielded the others before it owned them");
    second.stop().await;
}

/// The rate limiter would otherwise keep an entry for every key that ever failed here, and a key
/// that returns would wait as long as after its last failure.
#[tokio::test(start_paused = true)]
async fn a_key_that_moves_to_another_replica_leaves_no_failures_behind() {
    let names: Vec<_> = (0..10).map(|it| format!("map-{it}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let attempts = Arc::new(Mutex::new(BTreeMap::<String, Vec<u32>>::new()));
    let seen = Arc::clone(&attempts);
    let first = Replica::start_with(&cluster, "first", &[], move |key, context| {
        seen.lock().unwrap().entry(name(key)).or_default().push(context.attempt());
        Err("on purpose".into())
    });
    tokio::time::sleep(30 * SECOND).await;
    let second = Replica::start(&cluster, "second");
    tokio::time::sleep(120 * SECOND).await;
    let moved: Vec<_> =
        names.iter().filter(|it| second.member.owns(&format!("default/{it}"))).cloned().collect();
    assert!(!moved.is_empty() && moved.len() < names.len(), "{moved:?}");
    attempts.lock().unwrap().clear();
    second.stop().await;
    tokio::time::sleep(60 * SECOND).await;
    let attempts = std::mem::take(&mut *attempts.lock().unwrap());
    for (name, attempts) in &attempts {
        assert_eq!(attempts[0] == 0, moved.contains(name), "{name}: {attempts:?}");
    }
    assert!(moved.iter().all(|it| attempts.contains_key(it)), "{attempts:?}");
    first.stop().await;
}
