//! Streams of snapshots: a slow browser does not delay others, and a page that is dropped ends
//! them.

use dogwatch_diagnostics::Diagnostics;
use dogwatch_workqueue::WorkQueue;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::browser::{Snapshots, fetch, send};

/// Opens a stream that is never read.
async fn open_and_ignore(page: &dogwatch_diagnostics::Served) -> TcpStream {
    let mut stream = TcpStream::connect(page.address()).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", page.address());
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn browsers_that_do_not_read_do_not_delay_others() {
    let page = Diagnostics::new();
    // Large snapshots, so that the buffers of a connection that is not read are soon full.
    let queues: Vec<_> = (0..60).map(|_| WorkQueue::<String>::new()).collect();
    for queue in &queues {
        for number in 0..50 {
            queue.add(format!("{number}{}", "x".repeat(400)));
            std::mem::forget(queue.try_take().unwrap());
        }
        page.add_queue("large", queue);
    }
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let _ignored = [open_and_ignore(&served).await, open_and_ignore(&served).await];
    let mut snapshots = Snapshots::open(&served).await;
    let mut times = Vec::new();
    for _ in 0..6 {
        times.push(snapshots.next().await["time_ms"].as_u64().unwrap());
    }
    let later = queues[0].clone();
    later.add("new".to_owned());
    let shown = |it: &serde_json::Value| it["queues"][0]["ready"] == json!(1);
    snapshots.wait_for("a change is shown", shown).await;
    assert!(times.is_sorted() && times[0] < times[5], "{times:?}");
}

#[tokio::test]
async fn a_seventeenth_browser_is_refused_until_another_one_leaves() {
    let served = Diagnostics::new().serve("127.0.0.1:0").await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = Snapshots::open(&served).await;
        stream.next().await;
        streams.push(stream);
    }
    let refused = send(served.address(), "GET", "/events", &[]).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(fetch(&served, "GET", "/", &[]).await.0, 200, "the page itself can be loaded");
    streams.pop();
    let limit = tokio::time::Instant::now();
    while send(served.address(), "GET", "/events", &[]).await.status() != 200 {
        assert!(limit.elapsed() < crate::browser::LIMIT, "the place of the browser that left is free");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropping_the_page_ends_its_streams_and_frees_its_port() {
    let page = Diagnostics::new();
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let address = served.address();
    let mut snapshots = Snapshots::open(&served).await;
    snapshots.next().await;
    drop(served);
    snapshots.ended().await;
    let again = page.serve(address).await.unwrap();
    assert_eq!(fetch(&again, "GET", "/icon.svg", &[]).await.0, 200);
}

#[tokio::test]
async fn files_are_served_with_their_types_and_nothing_else_is() {
    let served = Diagnostics::new().serve("127.0.0.1:0").await.unwrap();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/snapshot.json", "application/json"),
    ] {
        let response = send(served.address(), "GET", path, &[]).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &content_type.parse().unwrap())
        );
    }
    for path in ["/page.html", "/../Cargo.toml", "/actions", "/favicon.ico"] {
        assert_eq!(fetch(&served, "GET", path, &[]).await.0, 404, "{path}");
    }
    assert_eq!(
        fetch(&served, "DELETE", "/", &[("origin", &format!("http://{}", served.address()))]).await.0,
        405
    );
}
