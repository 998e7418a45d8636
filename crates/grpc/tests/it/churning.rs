//! A thousand endpoints come and go: nothing of them stays.

use dogwatch_grpc::KubeChannel;
use tokio::runtime::Handle;

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, endpoint, until};

const AT_A_TIME: usize = 100;
const ROUNDS: usize = 10;

/// The sockets of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_thousand_endpoints_leave_no_task_and_no_call_behind() {
    let pod = Pod::start().await;
    let service = Service::new();
    let channel: KubeChannel = service.channel();
    let client = EchoClient::new(&channel);
    let tasks = Handle::current().metrics().num_alive_tasks();
    for round in 0..ROUNDS {
        let name = |it: usize| format!("pod-{:04}", round * AT_A_TIME + it);
        service.set((0..AT_A_TIME).map(|it| endpoint(&name(it), pod.address)).collect());
        let first = name(0);
        until(&channel, |it| {
            let all = it.endpoints();
            it.ready_endpoints() == AT_A_TIME
                && all.len() == AT_A_TIME
                && all[0].endpoint.id.as_str() == first
        })
        .await;
        for _ in 0..AT_A_TIME {
            client.one("hello").await.unwrap();
        }
    }
    assert_eq!(pod.seen.calls(), ROUNDS * AT_A_TIME);
    let open = descriptors();
    service.set(Vec::new());
    until(&channel, |it| it.endpoints().is_empty()).await;
    while Handle::current().metrics().num_alive_tasks() > tasks {
        tokio::task::yield_now().await;
    }
    // Other tests of this process open and close sockets too, but not by the hundred while we look.
    while open > 0 && descriptors() + AT_A_TIME > open.max(AT_A_TIME * 2) + AT_A_TIME / 2 {
        tokio::task::yield_now().await;
    }
}
