//! Pods with the echo service, endpoint sets made of them, and addresses without a server.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use dogwatch_grpc::{Endpoint, EndpointId, EndpointSet, KubeChannel, Unavailable};
use grpc_testkit::{addresses, listeners_on_one_port};
use tokio::sync::watch;

use crate::echo::EchoState;
use crate::manual_clock::eventually;

/// A server of the echo service.
pub(crate) type Pod = grpc_testkit::Pod<EchoState>;

pub(crate) fn endpoint(id: &str, address: SocketAddr) -> Endpoint {
    let mut endpoint = Endpoint::at(address);
    endpoint.id = EndpointId::new(id);
    endpoint
}

/// The endpoints of a service, controlled by the test.
#[derive(Debug)]
pub(crate) struct Service {
    sender: watch::Sender<Arc<EndpointSet>>,
}

impl Service {
    pub(crate) fn new() -> Self {
        Self { sender: watch::Sender::new(Arc::default()) }
    }

    pub(crate) fn of(pods: &[Pod]) -> Self {
        let service = Self::new();
        service.set(endpoints(pods));
        service
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<Arc<EndpointSet>> {
        self.sender.subscribe()
    }

    pub(crate) fn channel(&self) -> KubeChannel {
        KubeChannel::from_endpoints(self.receiver())
    }

    pub(crate) fn set(&self, endpoints: Vec<Endpoint>) {
        self.change(|it| *it = endpoints.into_iter().map(Arc::new).collect());
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Endpoint>>)) {
        self.sender.send_modify(|set| {
            let mut next = EndpointSet::clone(set);
            next.generation += 1;
            change(&mut next.endpoints);
            next.endpoints.sort_by(|a, b| a.id.cmp(&b.id));
            let usable = next.endpoints.iter().any(|it| it.usable);
            next.unavailable = (!usable).then_some(Unavailable::NothingReady(next.endpoints.len()));
            *set = Arc::new(next);
        });
    }

    pub(crate) fn unavailable(&self, why: Unavailable) {
        self.sender.send_modify(|set| {
            let next =
                EndpointSet { generation: set.generation + 1, endpoints: Vec::new(), unavailable: Some(why) };
            *set = Arc::new(next);
        });
    }

    /// Changes one endpoint.
    pub(crate) fn modify(&self, id: &str, change: impl FnOnce(&mut Endpoint)) {
        self.change(|all| {
            let found = all.iter_mut().find(|it| it.id.as_str() == id).unwrap();
            let mut endpoint = Endpoint::clone(found);
            change(&mut endpoint);
            *found = Arc::new(endpoint);
        });
    }

    pub(crate) fn terminating(&self, id: &str) {
        self.modify(id, |it| {
            (it.usable, it.ready, it.terminating) = (false, false, true);
        });
    }

    pub(crate) fn remove(&self, id: &str) {
        self.change(|all| all.retain(|it| it.id.as_str() != id));
    }

    pub(crate) fn add(&self, endpoint: Endpoint) {
        self.change(|all| all.push(Arc::new(endpoint)));
    }
}

pub(crate) fn endpoints(pods: &[Pod]) -> Vec<Endpoint> {
    pods.iter().map(|it| endpoint(&it.address.to_string(), it.address)).collect()
}

/// Waits until a condition holds for a channel, independently of the paused clock.
///
/// # Panics
/// Panics if it does not hold for too long, with the line of the caller and the state of the
/// endpoints.
#[track_caller]
pub(crate) fn until(channel: &KubeChannel, holds: impl Fn(&KubeChannel) -> bool) -> impl Future<Output = ()> {
    eventually(move || holds(channel), || format!("{:#?}", channel.endpoints()))
}

/// Waits until this number of endpoints can be called, independently of the paused clock.
///
/// # Panics
/// Panics if they cannot for too long, with the line of the caller and the state of the endpoints.
#[track_caller]
pub(crate) fn connected(channel: &KubeChannel, count: usize) -> impl Future<Output = ()> {
    until(channel, move |it| it.ready_endpoints() >= count)
}

/// Waits until these pods have started this number of calls in total.
///
/// # Panics
/// Panics if they have not for too long, with the line of the caller and their counts.
#[track_caller]
pub(crate) fn calls_begun(pods: &[Pod], count: usize) -> impl Future<Output = ()> {
    let seen: Vec<_> = pods.iter().map(|it| Arc::clone(&it.seen)).collect();
    let calls = move || seen.iter().map(|it| it.calls()).collect::<Vec<_>>();
    let shown = calls.clone();
    eventually(
        move || calls().iter().sum::<usize>() >= count,
        move || format!("{:?} of {count} calls", shown()),
    )
}

/// Starts pods at this number of addresses with one port.
pub(crate) async fn pods_on_one_port(count: usize) -> Vec<Pod> {
    let mut pods = Vec::new();
    for listener in listeners_on_one_port(&addresses(count)).unwrap() {
        pods.push(Pod::at(listener).await);
    }
    pods
}

/// Returns an address on which nothing listens; it is bound, so that nothing else can.
pub(crate) fn refused() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Returns an address that the kernel accepts connections for, and that never answers.
pub(crate) fn black_hole() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns an address whose accept queue is full, so that the kernel does not answer there either;
/// with the sockets that fill it.
pub(crate) fn full_accept_queue() -> (Vec<socket2::Socket>, SocketAddr) {
    let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let listener = socket();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let guest = |_| {
        let guest = socket();
        guest.set_nonblocking(true).unwrap();
        // The attempt is in progress; there are more of them than the queue can hold.
        let _ = guest.connect(&address);
        guest
    };
    let guests = (0..8).map(guest);
    (std::iter::once(listener).chain(guests).collect(), address.as_socket().unwrap())
}
