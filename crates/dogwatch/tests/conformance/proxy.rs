//! A stretch of wire between client and server that a test can cut. It carries bytes and knows no TLS and no HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch::Config;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Listens on loopback and passes every connection on to the server. Dropping it cuts them all.
#[derive(Debug)]
pub(crate) struct Cable {
    address: SocketAddr,
    cuts: watch::Sender<()>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Cable {
    /// Lays a cable to the server of these settings.
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
                tokio::spawn(carry(client, host.clone(), port, cut.clone()));
            }
        });
        Self { address, cuts, connections, task }
    }

    /// The same settings by way of this cable. The certificate is still verified against the server's own name.
    pub(crate) fn through(&self, mut config: Config) -> Config {
        let host = config.server.host_str().expect("a server has a host").trim_matches(['[', ']']).to_owned();
        config.tls.server_name.get_or_insert(host);
        config.server.set_ip_host(self.address.ip()).expect("http and https have hosts");
        config.server.set_port(Some(self.address.port())).expect("http and https have ports");
        config
    }

    /// Breaks every connection there is. New ones are carried again.
    pub(crate) fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// How many connections there were so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, host: String, port: u16, mut cut: watch::Receiver<()>) {
    cut.mark_unchanged();
    let Ok(mut server) = TcpStream::connect((host.as_str(), port)).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        // Both sockets are dropped here, in the middle of whatever they carried.
        _ = cut.changed() => {}
    }
}
