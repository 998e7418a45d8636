//! A tunnel: bytes both ways between two connections that have switched protocols.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The number of bytes that are in flight in each direction.
const BUFFER: usize = 16 * 1024;

/// The time that one direction may be silent when the other has ended. A peer that has closed its
/// side may still wait for the rest of an answer, but not for ever: kube-apiserver ends both at
/// once (`tryUpgrade` in k8s.io/apimachinery v0.36.4 pkg/util/proxy/upgradeaware.go).
const LINGER: Duration = Duration::from_secs(10);

/// Copies bytes between two streams until both directions have ended, one of them fails, or one has
/// ended and the other is silent. The end of a stream is passed on, so that a half-closed
/// connection stays half-closed.
///
/// # Errors
/// The error that ended the tunnel.
pub(crate) async fn tunnel<A, B>(client: A, backend: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((client_reader, client_writer), (backend_reader, backend_writer)) =
        (tokio::io::split(client), tokio::io::split(backend));
    let copied = AtomicU64::new(0);
    let up = copy(client_reader, backend_writer, &copied);
    let down = copy(backend_reader, client_writer, &copied);
    tokio::pin!(up, down);
    tokio::select! {
        // Tokio's budget ends the turn of a side that always has bytes, so that the other has one.
        biased;
        ended = &mut up => {
            ended?;
            finish(down, &copied).await
        }
        ended = &mut down => {
            ended?;
            finish(up, &copied).await
        }
    }
}

/// Completes a direction whose counterpart has ended, as long as bytes arrive.
async fn finish(direction: impl Future<Output = io::Result<()>>, copied: &AtomicU64) -> io::Result<()> {
    tokio::pin!(direction);
    loop {
        let before = copied.load(Ordering::Relaxed);
        match timeout(LINGER, &mut direction).await {
            Ok(ended) => return ended,
            Err(_) if copied.load(Ordering::Relaxed) == before => return Ok(()),
            Err(_) => {}
        }
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    copied: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        let Some(bytes) = buffer.get(..length).filter(|it| !it.is_empty()) else {
            return to.shutdown().await;
        };
        to.write_all(bytes).await?;
        to.flush().await?;
        copied.fetch_add(length as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::Instant;

    use super::*;

    /// Returns the outer ends of a tunnel, and its task.
    fn tunnelled()
    -> (tokio::io::DuplexStream, tokio::io::DuplexStream, tokio::task::JoinHandle<io::Result<()>>) {
        let ((client, near), (far, backend)) = (duplex(BUFFER), duplex(BUFFER));
        (client, backend, tokio::spawn(tunnel(near, far)))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_both_ways_and_an_end_is_passed_on() {
        let (mut client, mut backend, task) = tunnelled();
        let sent: Vec<u8> = (0..300_000u32).map(|it| (it % 251) as u8).collect();
        let writing = async {
            client.write_all(&sent).await.expect("open");
            client.shutdown().await.expect("open");
        };
        let mut received = Vec::new();
        let (_, read) = tokio::join!(writing, backend.read_to_end(&mut received));
        assert!(read.is_ok() && received == sent);
        // The client's side is half-closed: the answer still arrives.
        backend.write_all(b"answer").await.expect("open");
        drop(backend);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("open");
        assert_eq!(answer, "answer");
        assert!(task.await.expect("no panic").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_backend_does_not_keep_a_tunnel_whose_client_is_gone() {
        let (client, backend, task) = tunnelled();
        let begun = Instant::now();
        drop(client);
        assert!(task.await.expect("no panic").is_ok());
        assert_eq!(begun.elapsed(), LINGER);
        drop(backend);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_still_sends_is_waited_for() {
        let (mut client, mut backend, task) = tunnelled();
        client.shutdown().await.expect("open");
        let answering = async {
            for _ in 0..5 {
                tokio::time::sleep(LINGER.mul_f32(0.7)).await;
                backend.write_all(b"x").await.expect("the tunnel is open");
            }
            drop(backend);
        };
        let mut answer = String::new();
        let (_, read) = tokio::join!(answering, client.read_to_string(&mut answer));
        assert!(read.is_ok() && answer == "xxxxx", "{answer}");
        assert!(task.await.expect("no panic").is_ok());
    }
}
