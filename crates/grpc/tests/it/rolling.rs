//! Pods that are replaced while calls go on: nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_grpc::{KubeChannel, State};
use tokio::task::JoinHandle;
use tonic::Code;

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, endpoint, until};

/// Workers that call without a pause, and end with the first failure.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(channel: &KubeChannel, workers: usize) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let worker = |_| {
            let (client, stop, done) = (EchoClient::new(channel), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    client.one("hello").await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let workers = (0..workers).map(worker).collect();
        Self { stop, done, workers }
    }

    /// Lets so many more calls end, or a worker fail.
    async fn more(&self, calls: usize) {
        let goal = self.done.load(Ordering::SeqCst) + calls;
        while self.done.load(Ordering::SeqCst) < goal && self.workers.iter().all(|it| !it.is_finished()) {
            tokio::task::yield_now().await;
        }
    }

    /// Fails if any call has.
    async fn finish(self) {
        self.stop.store(true, Ordering::SeqCst);
        for worker in self.workers {
            worker.await.unwrap();
        }
    }
}

async fn roll(terminating_first: bool) {
    let mut old = Pod::start_many(10).await;
    let service = Service::of(&old);
    let channel = service.channel();
    channel.connected(10).await;
    let load = Load::start(&channel, 16);
    load.more(100).await;
    let mut new = Vec::new();
    for pod in &mut old {
        let id = pod.address.to_string();
        let next = Pod::start().await;
        service.add(endpoint(&next.address.to_string(), next.address));
        if terminating_first {
            service.terminating(&id);
            load.more(20).await;
            pod.terminate();
        } else {
            pod.terminate();
            load.more(20).await;
            service.terminating(&id);
        }
        load.more(20).await;
        service.remove(&id);
        new.push(next);
    }
    until(&channel, |it| it.ready_endpoints() == 10 && it.endpoints().len() == 10).await;
    load.more(200).await;
    load.finish().await;
    assert!(new.iter().all(|it| it.seen.calls() > 0));
    assert!(channel.endpoints().iter().all(|it| it.failures == 0 && it.in_flight == 0));
}

#[tokio::test]
async fn a_rollout_that_announces_each_pod_costs_no_call() {
    roll(true).await;
}

/// The kubelet stops a pod and the endpoints say so at about the same time; often the pod is quicker.
#[tokio::test]
async fn a_rollout_in_which_pods_go_before_the_endpoints_say_so_costs_no_call() {
    roll(false).await;
}

#[tokio::test]
async fn a_stream_on_a_terminating_pod_completes_while_new_calls_go_elsewhere() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods[..1]);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    let mut stream = client.many("wait", 10).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().count, 0);
    let leaving = pods[0].address.to_string();
    service.add(endpoint(&pods[1].address.to_string(), pods[1].address));
    service.terminating(&leaving);
    until(&channel, |it| {
        it.ready_endpoints() == 1 && it.endpoints().iter().any(|it| it.state == State::Draining)
    })
    .await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (1, 10));
    service.remove(&leaving);
    pods[0].seen.gate.add_permits(9);
    for count in 1..10 {
        assert_eq!(stream.message().await.unwrap().unwrap().count, count);
    }
    assert_eq!(stream.message().await.unwrap(), None);
    // Nothing holds it any more, and its connection is closed.
    until(&channel, |it| it.endpoints().len() == 1).await;
}

#[tokio::test]
async fn a_removed_pod_that_does_not_finish_is_cut_off_at_the_deadline() {
    let pods = Pod::start_many(1).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).drain(Duration::from_millis(20)).build().unwrap();
    let mut stream = EchoClient::new(&channel).many("wait", 10).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    service.set(Vec::new());
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), pods[0].address.to_string().as_str());
    until(&channel, |it| it.endpoints().is_empty()).await;
}

/// Readiness that flaps is no reason to connect anew.
#[tokio::test]
async fn a_pod_that_is_unready_for_a_moment_keeps_its_connection() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    channel.connected(2).await;
    let id = pods[0].address.to_string();
    service.modify(&id, |it| (it.usable, it.ready) = (false, false));
    until(&channel, |it| it.ready_endpoints() == 1).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(pods[0].seen.calls(), 0);
    service.modify(&id, |it| (it.usable, it.ready) = (true, true));
    channel.connected(2).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[0].seen.connections.load(Ordering::SeqCst)), (5, 1));
}
