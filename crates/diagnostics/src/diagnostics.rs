//! The page as programs use it.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use dogwatch_controller::{Controller, LeaderElector, Manager};
use dogwatch_core::Object;
#[cfg(feature = "grpc")]
use dogwatch_grpc::KubeChannel;
use dogwatch_informer::{InformerFactory, SharedInformer};
use dogwatch_workqueue::{Note, WorkQueue};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::task::JoinHandle;

use crate::action::{Action, ActionResult};
use crate::server;
use crate::sources::Sources;

/// A live page of the informers, work queues, controllers and gRPC channels of a program.
///
/// Sources can be added and may end at any time, before and while the page is served. They are held
/// weakly: the page keeps nothing alive, and what has ended disappears from it. Clones are the same
/// page.
///
/// ```
/// use dogwatch_diagnostics::Diagnostics;
/// use dogwatch_workqueue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = WorkQueue::<String>::new();
/// let page = Diagnostics::new().program("uploader");
/// page.add_queue("uploads", &queue);
/// page.add_action("drop everything", {
///     let queue = queue.clone();
///     move || {
///         let queue = queue.clone();
///         async move { queue.shut_down() }
///     }
/// });
/// let served = page.serve("127.0.0.1:0").await?;
/// assert!(served.url().starts_with("http://127.0.0.1:"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Diagnostics {
    sources: Arc<Sources>,
    is_remote: bool,
    names: Vec<String>,
}

/// A page that is being served. Dropping it closes the connections of all browsers and ends running
/// actions.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// An error of serving a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not on this machine's loopback, and [`Diagnostics::allow_remote`] is not set.
    #[error(
        "the live page has no login and is served on loopback only, not at {address}: use 127.0.0.1, or \
         `Diagnostics::allow_remote`"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be resolved or bound.
    #[error("cannot listen on the address of the live page")]
    Bind(#[source] io::Error),
}

impl Diagnostics {
    /// Creates a page without sources.
    pub fn new() -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|it| it.file_stem()).map(|it| it.to_string_lossy());
        let sources = Sources::new(program.map_or_else(|| "program".to_owned(), |it| it.into_owned()));
        Self { sources: Arc::new(sources), is_remote: false, names: Vec::new() }
    }

    /// Sets the name of the program on the page. Defaults to the name of the executable.
    #[must_use]
    pub fn program(self, name: impl Into<String>) -> Self {
        self.sources.set_program(name.into());
        self
    }

    /// Permits addresses other than the loopback. Everyone who can connect can then look, and run
    /// the actions. Off by default.
    #[must_use]
    pub fn allow_remote(mut self) -> Self {
        self.is_remote = true;
        self
    }

    /// Accepts requests to this host name, without a port. By default these are `localhost` and the
    /// address that the browser connected to; any other name may be that of a web page that tries
    /// to use a browser's access.
    #[must_use]
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Adds an informer. Adding it twice has no effect.
    pub fn add_informer<T: Object>(&self, informer: &SharedInformer<T>) {
        self.sources.add_informer(informer.monitor());
    }

    /// Adds all informers of a factory, also those that it creates later.
    pub fn add_factory(&self, factory: &InformerFactory) {
        self.sources.add_factory(factory.monitor());
    }

    /// Adds a controller with its queue. Its informers are added separately.
    pub fn add_controller(&self, controller: &Controller) {
        self.sources.add_controller(controller.monitor());
    }

    /// Adds the informers of a manager, also later ones, and the controllers that it has now. The
    /// page shows them with the identity of its leader election, if it takes part in one by now,
    /// and otherwise with a number if there are several managers.
    pub fn add_manager(&self, manager: &Manager) {
        let identity = manager.elector().map(LeaderElector::identity);
        self.sources.add_manager(identity, manager.informers().monitor(), manager.monitors());
    }

    /// Adds a queue under this name. Its keys, and their notes, are shown as text: an
    /// [`ObjectKey`](dogwatch_core::ObjectKey) or string as it is, others in the form of `Debug`.
    ///
    /// Queues of controllers are shown with them.
    pub fn add_queue<K, N>(&self, name: impl Into<String>, queue: &WorkQueue<K, N>)
    where
        K: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static,
        N: Note + Clone + fmt::Debug,
    {
        self.sources.add_queue(name.into(), queue);
    }

    /// Adds a gRPC channel under this name.
    #[cfg(feature = "grpc")]
    pub fn add_channel(&self, name: impl Into<String>, channel: &KubeChannel) {
        self.sources.add_channel(&name.into(), channel.monitor());
    }

    /// Adds a button that runs this function. The page shows what the function returns: a text that
    /// says what was done, nothing, which is shown as "done", or a `Result` of these with an error.
    ///
    /// Only the page itself can run it, and only once at a time. It ends with the page, and
    /// otherwise runs to its end, even if the browser goes away. Buttons stay as long as the page:
    /// what the function holds is kept alive.
    pub fn add_action<F>(&self, name: impl Into<String>, run: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output: ActionResult> + Send + 'static,
    {
        self.sources.add_action(Action::new(name.into(), run));
    }

    /// Serves the page at this address until the result is dropped; port 0 chooses a free port. A
    /// page can be served at several addresses.
    ///
    /// # Errors
    /// Returns an error if the address is not on the loopback, unless [`Self::allow_remote`] is
    /// set, or if it cannot be bound.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub async fn serve(&self, address: impl ToSocketAddrs) -> Result<Served, ServeError> {
        let addresses = tokio::net::lookup_host(address).await.map_err(ServeError::Bind)?;
        let addresses: Vec<_> = addresses.collect();
        let outside = addresses.iter().find(|it| !it.ip().to_canonical().is_loopback());
        if let Some(address) = outside.filter(|_| !self.is_remote) {
            return Err(ServeError::NotLoopback { address: *address });
        }
        let listener = TcpListener::bind(&*addresses).await.map_err(ServeError::Bind)?;
        let address = listener.local_addr().map_err(ServeError::Bind)?;
        let serving = server::serve(listener, Arc::clone(&self.sources), self.names.clone());
        tracing::info!(%address, "serving the live page");
        Ok(Served { address, task: tokio::spawn(serving) })
    }
}

impl Default for Diagnostics {
    fn default() -> Self {
        Self::new()
    }
}

impl Served {
    /// Returns the address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}
