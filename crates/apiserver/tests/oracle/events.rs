//! The events of a watch, read as they come and taken when a scenario looks.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::scenario::Collect;

/// A stream of events. When dropped, its connection is closed.
#[derive(Debug)]
pub(crate) struct Events {
    arriving: mpsc::UnboundedReceiver<Arrival>,
    /// How the stream ended, if it has.
    end: Option<String>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Arrival {
    Event(Value),
    End(String),
}

impl Events {
    /// Reads from now on. Must be called inside a runtime.
    pub(crate) fn new(body: Incoming) -> Self {
        // Not bounded: a scenario makes a handful of events.
        let (send, arriving) = mpsc::unbounded_channel();
        let reader = tokio::spawn(async move {
            let end = read(body, &send).await;
            // Nobody may be interested any more.
            let _ = send.send(Arrival::End(end));
        });
        Self { arriving, end: None, reader: Some(reader) }
    }

    /// A stream that was refused.
    pub(crate) fn refused() -> Self {
        let (_, arriving) = mpsc::unbounded_channel();
        Self { arriving, end: Some("refused".to_owned()), reader: None }
    }

    /// What has come since the last call, once it is as much as wanted, and how the stream stands.
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

    /// Waits for one more thing to happen; false when nothing has in time.
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

/// Reads lines until the stream ends, and says how.
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

/// Periodic bookmarks come when the server likes: they are left out, or one of each run is kept, the last. The one that ends the
/// initial events is not periodic.
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
