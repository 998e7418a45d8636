//! The log of one run of a container, read while the run goes on.

use bytes::Bytes;
use tokio::sync::watch;

use super::container::{Container, Run};
use super::followers::Followed;
use super::log_lines::{self, LogLine};
use super::log_options::LogOptions;
use crate::json_access::text;

/// Follows the log of a run until the run ends, or its pod is gone or replaced.
#[derive(Debug)]
pub(super) struct LogFollower {
    pod: watch::Receiver<Followed>,
    uid: String,
    container: String,
    run: String,
    /// The number of lines that were returned.
    returned: usize,
    is_over: bool,
}

impl LogFollower {
    /// Follows a run after its first lines.
    pub(super) fn after(run: &Run<'_>, lines: usize, pod: watch::Receiver<Followed>) -> Self {
        Self {
            pod,
            uid: text(run.container.pod, "/metadata/uid").to_owned(),
            container: run.container.name().to_owned(),
            run: run.id.to_owned(),
            returned: lines,
            is_over: false,
        }
    }

    /// Returns the next lines; `None` at the end of the log.
    pub(super) async fn next(&mut self) -> Option<Vec<LogLine>> {
        loop {
            if self.is_over {
                return None;
            }
            let mut lines = self.read();
            let new = lines.split_off(self.returned.min(lines.len()));
            self.returned = self.returned.saturating_add(new.len());
            if !new.is_empty() {
                return Some(new);
            }
            if !self.is_over {
                self.is_over = self.pod.changed().await.is_err();
            }
        }
    }

    /// Returns all lines of the run so far, and notes its end.
    fn read(&mut self) -> Vec<LogLine> {
        let now = self.pod.borrow_and_update();
        self.is_over = now.is_gone;
        let container =
            Container::find(&now.pod, &self.container).filter(|it| text(it.pod, "/metadata/uid") == self.uid);
        let Some(run) = container.and_then(|it| it.run_with_id(&self.run)) else {
            self.is_over = true;
            return Vec::new();
        };
        self.is_over |= run.end.is_some();
        log_lines::of_run(&run)
    }
}

/// The body of a response with a log.
#[derive(Debug)]
pub(super) struct LogBody {
    options: LogOptions,
    first: Option<String>,
    later: Option<LogFollower>,
    /// The number of bytes that the response may still have.
    left: Option<u64>,
}

impl LogBody {
    /// Begins with the lines of a run that the options select. `later` has those that follow.
    pub(super) fn new(options: LogOptions, lines: &[LogLine], later: Option<LogFollower>) -> Self {
        let first = options.first_lines(lines).map(|it| it.written(options.timestamps)).collect();
        Self { left: options.limit, options, first: Some(first), later }
    }

    /// Returns the next part; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.left == Some(0) {
                return None;
            }
            let part = match self.first.take() {
                Some(first) => first,
                None => {
                    let lines = self.later.as_mut()?.next().await?;
                    let lines = lines.iter().filter(|it| self.options.includes(it));
                    lines.map(|it| it.written(self.options.timestamps)).collect()
                }
            };
            let mut part = Bytes::from(part);
            if let Some(left) = &mut self.left {
                part.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left = left.saturating_sub(part.len() as u64);
            }
            if !part.is_empty() {
                return Some(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::object::Pod;

    fn pod(uid: &str, state: Value) -> Arc<Pod> {
        Arc::new(Pod::from(json!({ "metadata": { "name": "p", "uid": uid },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "containerStatuses": [{ "name": "c", "containerID": "1", "state": state }] } })))
    }

    fn running() -> Value {
        json!({ "running": { "startedAt": "2026-01-02T03:04:05Z" } })
    }

    fn ended() -> Value {
        json!({ "terminated": { "containerID": "1", "exitCode": 0, "startedAt": "2026-01-02T03:04:05Z",
            "finishedAt": "2026-01-02T03:04:09Z" } })
    }

    fn body(query: &str) -> (LogBody, watch::Sender<Followed>) {
        let first = pod("u", running());
        let (sender, receiver) = watch::channel(Followed { pod: Arc::clone(&first), is_gone: false });
        let run = Container::find(&first, "c").unwrap().logged_run(false).unwrap();
        let lines = log_lines::of_run(&run);
        let later = LogFollower::after(&run, lines.len(), receiver);
        let options = LogOptions::parse(query, "2026-01-02T03:04:10Z".parse().unwrap()).unwrap();
        (LogBody::new(options, &lines, Some(later)), sender)
    }

    async fn rest(mut body: LogBody) -> String {
        let mut all = String::new();
        while let Some(part) = body.next().await {
            all.push_str(std::str::from_utf8(&part).unwrap());
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_followed_log_ends_with_the_run() {
        for is_gone in [false, true] {
            let (mut body, sender) = body("");
            let first = body.next().await.unwrap();
            assert_eq!(first.iter().filter(|it| **it == b'\n').count(), 2);
            sender.send_replace(Followed { pod: pod("u", ended()), is_gone });
            assert_eq!(rest(body).await, "c has completed, exit code 0\n");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_followed_log_ends_when_another_pod_has_the_name() {
        let (body, sender) = body("tailLines=0");
        sender.send_replace(Followed { pod: pod("v", running()), is_gone: false });
        assert_eq!(rest(body).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_ends_a_followed_log_within_a_line() {
        let (body, _sender) = body("limitBytes=9");
        assert_eq!(rest(body).await, "simulated");
    }
}
