//! Pods: tonic servers that can be stopped gracefully, killed or frozen, and endpoint sets made of
//! them.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dogwatch_grpc::{Endpoint, EndpointId, EndpointSet, KubeChannel, Unavailable};
use futures_util::TryStreamExt;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::Router;
use tonic::transport::{Server, ServerTlsConfig};

use crate::echo::{EchoServer, EchoState};
use crate::manual_clock::eventually;

/// A server with its own runtime, so that killing it is like killing a process.
pub(crate) struct Pod {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<EchoState>,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    /// Dropping it thaws the pod.
    frozen: Option<mpsc::Sender<Infallible>>,
}

impl Pod {
    pub(crate) async fn start() -> Self {
        Self::with(|it| it, |it| it).await
    }

    pub(crate) async fn with_tls(tls: ServerTlsConfig) -> Self {
        Self::with(|it| it.tls_config(tls).unwrap(), |it| it).await
    }

    pub(crate) async fn with(
        server: impl FnOnce(Server) -> Server,
        more: impl FnOnce(Router) -> Router,
    ) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").unwrap(), server, more).await
    }

    /// Starts a pod at an address that is already bound.
    pub(crate) async fn at(listener: TcpListener) -> Self {
        Self::serve(listener, |it| it, |it| it).await
    }

    async fn serve(
        listener: TcpListener,
        server: impl FnOnce(Server) -> Server,
        more: impl FnOnce(Router) -> Router,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seen = Arc::new(EchoState::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let router = more(server(Server::builder()).add_service(EchoServer(Arc::clone(&seen))));
        let counted = Arc::clone(&seen);
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let serving = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = TcpListenerStream::new(listener).inspect_ok(move |_| {
                counted.connections.fetch_add(1, Ordering::SeqCst);
            });
            let signal = async move {
                let _ = stopped.await;
            };
            tokio::spawn(router.serve_with_incoming_shutdown(incoming, signal));
        };
        runtime.spawn(serving).await.unwrap();
        Self { address, seen, runtime: Some(runtime), stop: Some(stop), frozen: None }
    }

    pub(crate) async fn start_many(count: usize) -> Vec<Self> {
        let mut pods = Vec::new();
        for _ in 0..count {
            pods.push(Self::start().await);
        }
        pods
    }

    /// Acts as on SIGTERM: accepts no new connections, sends GOAWAY on open ones, and finishes
    /// calls.
    pub(crate) fn terminate(&mut self) {
        drop(self.stop.take());
    }

    /// Acts as on SIGSTOP, or when a node vanishes: sockets stay open, and nothing is sent on them.
    /// When this returns, no call is being answered.
    pub(crate) async fn freeze(&mut self) {
        let (thaw, frozen) = mpsc::channel::<Infallible>();
        let (begin, begun) = oneshot::channel();
        // The runtime has one thread, and this blocks it.
        self.runtime.as_ref().unwrap().spawn(async move {
            let _ = begin.send(());
            frozen.recv().is_ok()
        });
        begun.await.unwrap();
        self.frozen = Some(thaw);
    }

    /// Acts as on SIGKILL: every socket is closed. When this returns, nothing of the pod is left.
    pub(crate) async fn kill(&mut self) {
        self.frozen = None;
        if let Some(runtime) = self.runtime.take() {
            let end = move || runtime.shutdown_timeout(Duration::from_secs(60));
            tokio::task::spawn_blocking(end).await.unwrap();
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

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

/// Binds this number of loopback addresses with one port, like the pods of a service. On Linux, all
/// of 127.0.0.0/8 is local.
pub(crate) fn listeners_on_one_port(count: u8) -> Vec<TcpListener> {
    let at = |host: u8, port: u16| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port));
    for _ in 0..100 {
        let first = at(1, 0).unwrap();
        let port = first.local_addr().unwrap().port();
        let rest = (2..=count).map(|host| at(host, port)).collect::<Result<Vec<_>, _>>();
        // Another process may use the port on one of them.
        if let Ok(rest) = rest {
            return std::iter::once(first).chain(rest).collect();
        }
    }
    panic!("no port is free on {count} addresses of the loopback");
}

/// Starts pods at this number of addresses with one port.
pub(crate) async fn pods_on_one_port(count: u8) -> Vec<Pod> {
    let mut pods = Vec::new();
    for listener in listeners_on_one_port(count) {
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
