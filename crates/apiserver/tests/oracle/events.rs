//! The events of a watch: read in the background, collected when a scenario asks for them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::scenario::Collect;

/// A stream of events. Dropping it closes its connection.
#[derive(Debug)]
pub(crate) struct Events {
    arriving: mpsc::UnboundedReceiver<Arrival>,
    /// The reason of the end, once the stream has ended.
    end: Option<String>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Arrival {
    Event(Value),
    End(String),
}

impl Events {
    /// Starts to read. Must be called inside a runtime.
    pub(crate) fn new(body: Incoming) -> Self {
        // Unbounded: a scenario has only a handful of events.
        let (send, arriving) = mpsc::unbounded_channel();
        let reader = tokio::spawn(async move {
            let end = read(body, &send).await;
            // Fails if the stream was dropped.
            let _ = send.send(Arrival::End(end));
        });
        Self { arriving, end: None, reader: Some(reader) }
    }

    /// Returns a stream that the server rejected.
    pub(crate) fn refused() -> Self {
        let (_, arriving) = mpsc::unbounded_channel();
        Self { arriving, end: Some("refused".to_owned()), reader: None }
    }

    /// Collects events until there are as many as wanted, then waits for the settle time. Returns
    /// them with the state of the stream.
    pub(crate) async fn collect(&mut self, wanted: &Collect<'_>) -> (Vec<Value>, String) {
        let mut events = Vec::new();
        let deadline = Instant::now() + Duration::from_secs_f64(wanted.timeout);
        let enough = |events: &[Value]| {
            let have = without_bookmarks(events, wanted.collapse_bookmarks).len();
            wanted.count.is_some_and(|it| have >= it)
        };
        while self.end.is_none() && !enough(&events) && self.next(deadline, &mut events).await {}
        let deadline = Instant::now() + Duration::from_secs_f64(wanted.settle);
        while self.end.is_none() && self.next(deadline, &mut events).await {}
        let end = self.end.clone().unwrap_or_else(|| "open".to_owned());
        (without_bookmarks(&events, wanted.collapse_bookmarks), end)
    }

    /// Waits for the next event or the end. Returns false if neither comes before the deadline.
    async fn next(&mut self, deadline: Instant, events: &mut Vec<Value>) -> bool {
        match timeout_at(deadline, self.arriving.recv()).await {
            Err(_) => return false,
            Ok(Some(Arrival::Event(event))) => events.push(event),
            Ok(Some(Arrival::End(end))) => self.end = Some(end),
            Ok(None) => self.end = Some("lost".to_owned()),
        }
        true
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reader.iter().for_each(JoinHandle::abort);
    }
}

/// Reads lines until the stream ends, and returns the reason of the end.
async fn read(mut body: Incoming, send: &mpsc::UnboundedSender<Arrival>) -> String {
    let mut pending = Vec::new();
    while let Some(frame) = body.frame().await {
        let bytes = match frame {
            Ok(frame) => frame.into_data().unwrap_or_else(|_| Bytes::new()),
            Err(error) => return format!("error: {error}"),
        };
        pending.extend_from_slice(&bytes);
        while let Some(end) = pending.iter().position(|it| *it == b'\n') {
            let line: Vec<_> = pending.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            let unparsable = |_| json!({"unparsable": String::from_utf8_lossy(&line)});
            let event = serde_json::from_slice(&line).unwrap_or_else(unparsable);
            if send.send(Arrival::Event(event)).is_err() {
                break;
            }
        }
    }
    "eof".to_owned()
}

/// Removes periodic bookmarks, whose time is up to the server, or keeps only the last of each run.
/// The bookmark that ends the initial events is not periodic.
fn without_bookmarks(events: &[Value], collapse: bool) -> Vec<Value> {
    let periodic =
        |it: &Value| it["type"] == "BOOKMARK" && !it.to_string().contains("k8s.io/initial-events-end");
    let mut kept: Vec<Value> = Vec::new();
    for event in events {
        if periodic(event) {
            if !collapse {
                continue;
            }
            kept.pop_if(|it| periodic(it));
        }
        kept.push(event.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_bookmarks_are_dropped_or_collapsed_but_not_the_end_of_the_initial_events() {
        let periodic = |n: u8| json!({"type": "BOOKMARK", "n": n});
        let end = json!({"type": "BOOKMARK", "object": {"k8s.io/initial-events-end": "true"}});
        let added = json!({"type": "ADDED"});
        let events = [periodic(1), periodic(2), end.clone(), periodic(3), added.clone()];
        assert_eq!(without_bookmarks(&events, false), [end.clone(), added.clone()]);
        assert_eq!(without_bookmarks(&events, true), [periodic(2), end, periodic(3), added]);
    }
}
