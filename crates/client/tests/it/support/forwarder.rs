//! A network path between a client and a server that can go dark without closing anything.

use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{Running, listen};

/// A forwarder of connections to a server.
pub(crate) struct Forwarder {
    address: SocketAddr,
    dark: watch::Sender<usize>,
    _running: Running,
}

impl Forwarder {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let (dark, watched) = watch::channel(0);
        let (address, running) = listen(move |mut client| {
            let mut dark = watched.clone();
            dark.mark_unchanged();
            async move {
                let mut server = TcpStream::connect(server).await.expect("the server listens");
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = dark.changed() => {
                        // Both sockets stay open and silent until the forwarder is dropped.
                        std::future::pending::<()>().await;
                    }
                }
            }
        })
        .await;
        Self { address, dark, _running: running }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, drops all data on the open connections. New ones work.
    pub(crate) fn go_dark(&self) {
        self.dark.send_modify(|times| *times += 1);
    }
}
