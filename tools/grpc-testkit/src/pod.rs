//! Pods: tonic servers on loopback addresses.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::stream::select_all;
use futures_util::{FutureExt, TryStreamExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::listeners::incoming;
use crate::service::{Handler, HandlerService};

/// A server with one handler. Dropping it ends it.
///
/// [`start`](Self::start) and the functions next to it give the server a runtime of its own, so
/// that it can be killed or frozen like a process. [`on_current_runtime`](Self::on_current_runtime)
/// needs no thread per server, for hundreds of them or to measure calls; such a server can only be
/// terminated.
#[derive(Debug)]
pub struct Pod<H> {
    /// The address of the first listener.
    pub address: SocketAddr,
    /// The handler, with the calls that it has recorded.
    pub seen: Arc<H>,
    connections: Arc<AtomicUsize>,
    /// Dropping it terminates the server.
    running: Option<oneshot::Sender<()>>,
    /// Absent on the current runtime, and after a kill.
    runtime: Option<Runtime>,
    /// Dropping it thaws the server.
    frozen: Option<mpsc::Sender<Infallible>>,
}

impl<H: Handler + Default> Pod<H> {
    /// Starts a pod with its own runtime on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Panics if the system has no free port or thread.
    pub async fn start() -> Self {
        Self::with(|it| it, |it| it).await
    }

    /// Starts several pods like [`start`](Self::start).
    ///
    /// # Panics
    /// Panics if the system has no free port or thread.
    pub async fn start_many(count: usize) -> Vec<Self> {
        let mut pods = Vec::new();
        for _ in 0..count {
            pods.push(Self::start().await);
        }
        pods
    }

    /// Starts a pod like [`start`](Self::start) whose server has other settings and more services.
    ///
    /// # Panics
    /// Panics if the system has no free port or thread.
    pub async fn with(
        configure: impl FnOnce(Server) -> Server,
        extend: impl FnOnce(Router) -> Router,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback has a free port");
        Self::on_own_runtime(listener, configure, extend).await
    }

    /// Starts a pod with its own runtime at an address that is already bound.
    ///
    /// # Panics
    /// Panics if the system has no free thread.
    pub async fn at(listener: TcpListener) -> Self {
        Self::on_own_runtime(listener, |it| it, |it| it).await
    }

    async fn on_own_runtime(
        listener: TcpListener,
        configure: impl FnOnce(Server) -> Server,
        extend: impl FnOnce(Router) -> Router,
    ) -> Self {
        // One thread, so that a task that blocks it freezes the server.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("the system has a thread for a runtime");
        let seen = Arc::new(H::default());
        let router = extend(configure(Server::builder()).add_service(HandlerService(Arc::clone(&seen))));
        let serving = runtime.spawn(async move { Self::serve(seen, router, [listener]) });
        let pod = serving.await.expect("starting a server does not panic");
        let mut pod = pod.expect("the listener is bound");
        pod.runtime = Some(runtime);
        pod
    }

    /// Starts a pod on the current runtime, at all of these listeners: a thousand endpoints cost
    /// only a listener each.
    ///
    /// # Errors
    /// If there is no listener, or one cannot be registered with the runtime.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn on_current_runtime(listeners: impl IntoIterator<Item = TcpListener>) -> io::Result<Self> {
        let seen = Arc::new(H::default());
        let router = Server::builder().add_service(HandlerService(Arc::clone(&seen)));
        Self::serve(seen, router, listeners)
    }

    fn serve(
        seen: Arc<H>,
        router: Router,
        listeners: impl IntoIterator<Item = TcpListener>,
    ) -> io::Result<Self> {
        let incomings = listeners.into_iter().map(incoming).collect::<io::Result<Vec<_>>>()?;
        let first = incomings.first().ok_or_else(|| io::Error::other("there is no listener"))?;
        let address = first.local_addr()?;
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let incoming = select_all(incomings).inspect_ok(move |_| {
            accepted.fetch_add(1, Ordering::SeqCst);
        });
        let (running, terminated) = oneshot::channel::<()>();
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, terminated.map(drop)));
        Ok(Self { address, seen, connections, running: Some(running), runtime: None, frozen: None })
    }
}

impl<H> Pod<H> {
    /// Returns the number of connections that it has accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Acts as on SIGTERM: refuses new connections, sends GOAWAY on open ones, and finishes calls
    /// in flight.
    pub fn terminate(&mut self) {
        self.running = None;
    }

    /// Acts as on SIGSTOP, or when a node vanishes: sockets stay open, and nothing is sent on them.
    /// When this returns, no call is being answered.
    ///
    /// # Panics
    /// Panics if the pod has no runtime of its own.
    pub async fn freeze(&mut self) {
        let runtime = self.runtime.as_ref().expect("a pod that is frozen has its own runtime");
        let (thaw, thawed) = mpsc::channel::<Infallible>();
        let (begin, begun) = oneshot::channel();
        // The runtime has one thread, and this blocks it.
        runtime.spawn(async move {
            let _ = begin.send(());
            thawed.recv().is_ok()
        });
        begun.await.expect("the runtime is not shut down");
        self.frozen = Some(thaw);
    }

    /// Acts as on SIGKILL: every socket is closed. When this returns, nothing of the pod is left.
    ///
    /// # Panics
    /// Panics if the pod has no runtime of its own, or was killed before.
    pub async fn kill(&mut self) {
        self.frozen = None;
        let runtime = self.runtime.take().expect("a pod that is killed has its own runtime");
        let end = move || runtime.shutdown_timeout(Duration::from_secs(60));
        tokio::task::spawn_blocking(end).await.expect("shutting down does not panic");
    }
}

impl<H> Drop for Pod<H> {
    fn drop(&mut self) {
        // A runtime must not be dropped, which waits, inside of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
