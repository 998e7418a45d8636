//! Replays one scenario on one server and reports every difference.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::events::Events;
use super::http_client::{Client, Headers};
use super::paths::Path;
use super::scenario::{Action, Scenario, Step};
use super::selection::{Content, Outcome, Reply, select};
use super::variables::Variables;
use super::{compare, symbols};

/// The pause between two requests of a poll.
const PAUSE: Duration = Duration::from_millis(50);
/// The seconds for which a request is retried that gets a 429, or a 503 with `Retry-After`, as
/// clients do.
const RETRY_SECONDS: f64 = 15.0;

/// A scenario in progress.
struct Run<'a> {
    scenario: &'a Scenario,
    client: Client,
    /// The server is in real time, so that a scenario may take longer than a second.
    clock_runs: bool,
    variables: Variables,
    streams: BTreeMap<String, Events>,
    outcomes: Vec<Outcome>,
}

/// Replays a scenario and returns the differences, one per line. Later ones often follow from the
/// first.
pub(crate) async fn replay(scenario: &Scenario, client: Client, clock_runs: bool) -> Vec<String> {
    let (variables, streams, outcomes) = (Variables::new(), BTreeMap::new(), Vec::new());
    let mut run = Run { scenario, client, clock_runs, variables, streams, outcomes };
    let outcome = run.steps().await;
    run.streams.clear();
    run.clean_up().await;
    let mut differences = run.differences();
    if let Err(problem) = outcome {
        differences.push(format!("step {}: {problem}", run.outcomes.len() + 1));
    }
    differences
}

impl Run<'_> {
    async fn steps(&mut self) -> Result<(), String> {
        if self.scenario.needs_namespace() {
            let name = self.variables.namespace();
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
            let path = "/api/v1/namespaces";
            let reply = self.client.request("POST", path, &Headers::new(), Some(body.into())).await?;
            if reply.status != 201 {
                return Err(format!("the namespace was not created: {reply:?}"));
            }
        }
        for step in &self.scenario.steps {
            let outcome = self.step(step).await?;
            self.outcomes.push(outcome);
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<Outcome, String> {
        let outcome = match step.action() {
            Action::Request { method } => Outcome::Reply(self.request(step, method).await?),
            Action::Watch { name } => {
                let path = self.variables.resolve(&step.path)?;
                let (reply, body) = self.client.open(&path, &self.headers(step)?).await?;
                let events = body.map_or_else(Events::refused, Events::new);
                self.streams.insert(name.to_owned(), events);
                Outcome::Reply(reply)
            }
            Action::Collect(wanted) => {
                let unknown = || format!("there is no watch {}", wanted.name);
                let stream = self.streams.get_mut(wanted.name).ok_or_else(unknown)?;
                let (events, end) = stream.collect(&wanted).await;
                Outcome::Events { events, end }
            }
        };
        self.save(step, &outcome);
        Ok(outcome)
    }

    /// Sends the request of a step, repeatedly if the step polls.
    async fn request(&mut self, step: &Step, method: &str) -> Result<Reply, String> {
        let path = self.variables.resolve(&step.path)?;
        let headers = self.headers(step)?;
        let body = step.body().map(|it| self.variables.resolve(&it)).transpose()?.map(Bytes::from);
        let timeout = step.poll.as_ref().map_or(RETRY_SECONDS, |it| it.timeout);
        let deadline = Instant::now() + Duration::from_secs_f64(timeout);
        loop {
            let reply = self.client.request(method, &path, &headers, body.clone()).await?;
            if self.is_done(step, &reply)? || Instant::now() >= deadline {
                return Ok(reply);
            }
            sleep(PAUSE).await;
        }
    }

    fn is_done(&self, step: &Step, reply: &Reply) -> Result<bool, String> {
        // As client-go v0.36.4 does (rest/with_retry.go, checkWait): the server asks for another
        // attempt. A proxy answers 503 if a connection of its own ended before the request was
        // sent.
        let asks_again =
            reply.status == 429 || (reply.status == 503 && reply.headers.contains_key("retry-after"));
        let Some(poll) = &step.poll else { return Ok(!asks_again) };
        let Some(path) = &poll.path else { return Ok(reply.status == poll.status) };
        let path = Path::new(&self.variables.resolve(path)?);
        let value = match &reply.content {
            Content::Json(value) => path.first(value),
            _ => None,
        };
        Ok(reply.status == poll.status && value == poll.equals.as_ref())
    }

    fn headers(&self, step: &Step) -> Result<Headers, String> {
        let resolve = |it: &Option<String>| it.as_ref().map(|it| self.variables.resolve(it)).transpose();
        step.headers.iter().map(|(name, value)| Ok((name.clone(), resolve(value)?))).collect()
    }

    fn save(&mut self, step: &Step, outcome: &Outcome) {
        let events;
        let (document, headers) = match outcome {
            Outcome::Reply(Reply { content: Content::Json(value), headers, .. }) => {
                (Some(value), Some(headers))
            }
            Outcome::Reply(Reply { headers, .. }) => (None, Some(headers)),
            Outcome::Events { events: seen, .. } => {
                events = Value::Array(seen.clone());
                (Some(&events), None)
            }
        };
        for (name, path) in &step.save {
            let path = Path::new(path);
            self.variables.save(name, document.and_then(|it| path.first(it)));
        }
        for (name, header) in &step.save_header {
            let value = headers.and_then(|it| it.get(&header.to_ascii_lowercase())).cloned();
            self.variables.save(name, Some(&json!(value.unwrap_or_default())));
        }
    }

    /// Deletes the created objects, ignoring failures: the server may be shared.
    async fn clean_up(&mut self) {
        let namespace = self.scenario.needs_namespace().then(|| "/api/v1/namespaces/${ns}".to_owned());
        for path in self.scenario.cleanup.iter().chain(&namespace) {
            if let Ok(path) = self.variables.resolve(path) {
                let _ = self.client.request("DELETE", &path, &Headers::new(), None).await;
            }
        }
    }

    fn differences(&self) -> Vec<String> {
        let resolve = |path: &str| self.variables.resolve(path).unwrap_or_else(|_| path.to_owned());
        let steps = || self.scenario.steps.iter();
        let selected =
            steps().zip(&self.outcomes).map(|(step, it)| select(self.scenario, step, it, &resolve));
        let selected: Vec<_> = selected.collect();
        let shown = symbols::transcript(&selected, &self.variables.own_names());
        let mut report = Vec::new();
        for (index, (step, mut got)) in steps().zip(shown).enumerate() {
            let mut expected = step.expect.clone();
            if self.clock_runs {
                [&mut expected, &mut got].into_iter().for_each(compare::order_by_manager);
            }
            let note = step.note.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            for difference in compare::step(&expected, &got) {
                report.push(format!("step {}{note}: {difference}", index + 1));
            }
        }
        report
    }
}
