//! A TCP proxy between client and server whose connections a test can cut. It forwards bytes and
//! knows neither TLS nor HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch::Config;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A proxy that listens on loopback and forwards every connection to the server. Dropping it cuts
/// all connections.
#[derive(Debug)]
pub(crate) struct CuttableProxy {
    address: SocketAddr,
    cuts: watch::Sender<()>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl CuttableProxy {
    /// Starts a proxy to the server of this config.
    pub(crate) async fn to(config: &Config) -> Self {
        let host = config.server.host_str().expect("a server has a host").trim_matches(['[', ']']).to_owned();
        let port = config.server.port_or_known_default().expect("http and https have ports");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (cuts, cut) = watch::channel(());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(client, host.clone(), port, cut.clone()));
            }
        });
        Self { address, cuts, connections, task }
    }

    /// Returns the config with the proxy as its server. The certificate is still verified against
    /// the server's own name.
    pub(crate) fn through(&self, mut config: Config) -> Config {
        let host = config.server.host_str().expect("a server has a host").trim_matches(['[', ']']).to_owned();
        config.tls.server_name.get_or_insert(host);
        config.server.set_ip_host(self.address.ip()).expect("http and https have hosts");
        config.server.set_port(Some(self.address.port())).expect("http and https have ports");
        config
    }

    /// Cuts every open connection. New connections are forwarded again.
    pub(crate) fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// Returns the number of connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for CuttableProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: TcpStream, host: String, port: u16, mut cut: watch::Receiver<()>) {
    cut.mark_unchanged();
    let Ok(mut server) = TcpStream::connect((host.as_str(), port)).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        // Drops both sockets, possibly in the middle of a frame.
        _ = cut.changed() => {}
    }
}
