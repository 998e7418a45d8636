//! Replays one scenario on one server and tells every difference.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::events::Events;
use super::http_client::{Client, Headers};
use super::paths::Path;
use super::scenario::{Action, Scenario, Step};
use super::selection::{Answer, Content, Outcome, keep};
use super::variables::Variables;
use super::{compare, symbols};

/// Between two requests of a poll.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a request that is answered by 429 is repeated, as clients do.
const PATIENCE: f64 = 15.0;

/// A scenario under way.
struct Run<'a> {
    scenario: &'a Scenario,
    client: Client,
    variables: Variables,
    streams: BTreeMap<String, Events>,
    outcomes: Vec<Outcome>,
}

/// Replays a scenario: the differences, one line each, the first to be looked at first.
pub(crate) async fn replay(scenario: &Scenario, client: Client) -> Vec<String> {
    let mut run =
        Run { scenario, client, variables: Variables::new(), streams: BTreeMap::new(), outcomes: Vec::new() };
    let went = run.steps().await;
    run.streams.clear();
    run.clean_up().await;
    let mut differences = run.differences();
    if let Err(problem) = went {
        differences.push(format!("step {}: {problem}", run.outcomes.len() + 1));
    }
    differences
}

impl Run<'_> {
    async fn steps(&mut self) -> Result<(), String> {
        if self.scenario.wants_namespace() {
            let name = self.variables.namespace();
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
            let path = "/api/v1/namespaces";
            let answer = self.client.request("POST", path, &Headers::new(), Some(body.into())).await?;
            if answer.status != 201 {
                return Err(format!("the namespace was not created: {answer:?}"));
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
            Action::Request { method } => Outcome::Answer(self.request(step, method).await?),
            Action::Watch { name } => {
                let path = self.variables.resolve(&step.path)?;
                let (answer, body) = self.client.open(&path, &self.headers(step)?).await?;
                let events = body.map_or_else(Events::refused, Events::new);
                self.streams.insert(name.to_owned(), events);
                Outcome::Answer(answer)
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

    /// Sends the request of a step, again and again where it asks for that.
    async fn request(&mut self, step: &Step, method: &str) -> Result<Answer, String> {
        let path = self.variables.resolve(&step.path)?;
        let headers = self.headers(step)?;
        let body = step.body().map(|it| self.variables.resolve(&it)).transpose()?.map(Bytes::from);
        let patience = step.poll.as_ref().map_or(PATIENCE, |it| it.timeout);
        let deadline = Instant::now() + Duration::from_secs_f64(patience);
        loop {
            let answer = self.client.request(method, &path, &headers, body.clone()).await?;
            if self.is_awaited(step, &answer)? || Instant::now() >= deadline {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    }

    fn is_awaited(&self, step: &Step, answer: &Answer) -> Result<bool, String> {
        let Some(poll) = &step.poll else { return Ok(answer.status != 429) };
        let Some(path) = &poll.path else { return Ok(answer.status == poll.status) };
        let path = Path::new(&self.variables.resolve(path)?);
        let value = match &answer.content {
            Content::Json(value) => path.first(value),
            _ => None,
        };
        Ok(answer.status == poll.status && value == poll.equals.as_ref())
    }

    fn headers(&self, step: &Step) -> Result<Headers, String> {
        let resolve = |it: &Option<String>| it.as_ref().map(|it| self.variables.resolve(it)).transpose();
        step.headers.iter().map(|(name, value)| Ok((name.clone(), resolve(value)?))).collect()
    }

    fn save(&mut self, step: &Step, outcome: &Outcome) {
        let events;
        let (document, headers) = match outcome {
            Outcome::Answer(Answer { content: Content::Json(value), headers, .. }) => {
                (Some(value), Some(headers))
            }
            Outcome::Answer(Answer { headers, .. }) => (None, Some(headers)),
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

    /// Deletes what it has made, as far as it can: the server may be somebody's.
    async fn clean_up(&mut self) {
        let namespace = self.scenario.wants_namespace().then(|| "/api/v1/namespaces/${ns}".to_owned());
        for path in self.scenario.cleanup.iter().chain(&namespace) {
            if let Ok(path) = self.variables.resolve(path) {
                let _ = self.client.request("DELETE", &path, &Headers::new(), None).await;
            }
        }
    }

    fn differences(&self) -> Vec<String> {
        let resolve = |path: &str| self.variables.resolve(path).unwrap_or_else(|_| path.to_owned());
        let steps = || self.scenario.steps.iter();
        let kept = steps().zip(&self.outcomes).map(|(step, it)| keep(self.scenario, step, it, &resolve));
        let kept: Vec<_> = kept.collect();
        let shown = symbols::transcript(&kept, &self.variables.own_names());
        let mut told = Vec::new();
        for (index, (step, got)) in steps().zip(&shown).enumerate() {
            let note = step.note.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            for difference in compare::step(&step.expect, got) {
                told.push(format!("step {}{note}: {difference}", index + 1));
            }
        }
        told
    }
}
