//! The chapter on operations, compared with a running operator: the labels of its metrics, its
//! probes, the settings of its Deployment, and the alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use dogwatch::Manager;
use dogwatch::api::PatchParams;
use dogwatch::controller::{CancellationToken, Endpoints, LeaderElector};
use dogwatch::grpc::Resolver;
use dogwatch::testing::{self, TestCluster};
use metrics_util::debugging::DebuggingRecorder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use website::Website;

const CHAPTER: &str = include_str!("../../../docs/book/src/operations.md");
const ALERTS: &str = include_str!("../../../docs/book/manifests/alerts.yaml");
const METRICS: &str = include_str!("../../../docs/metrics.md");
const DEPLOYMENT: &str = include_str!("../../../examples/website/deploy/deployment.yaml");

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The operator of the chapter, with leader election, on a cluster of its own.
struct Operator {
    cluster: TestCluster,
    address: SocketAddr,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), dogwatch::controller::ManagerError>>,
}

impl Operator {
    async fn start() -> anyhow::Result<Self> {
        let cluster = testing::cluster().await?;
        let client = cluster.client();
        website::install(&client).await?;
        let elector = LeaderElector::builder(client.clone(), "website-operator").build()?;
        let endpoints = Endpoints::bind("127.0.0.1:0").await?;
        let address = endpoints.local_addr()?;
        let manager = Manager::new(client.clone());
        let controller = website::controller(&manager, client)?;
        let _events = manager.events("website-operator");
        let mut leaders = elector.leaders();
        let manager = manager.controller(controller).leader_election(elector).serve(endpoints);
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
        tokio::time::timeout(LIMIT, leaders.wait_for(|it| it.is_some())).await??;
        Ok(Self { cluster, address, stop, running })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.running.await??;
        Ok(())
    }
}

/// Requests a path. Returns the status and the body.
async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(String, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut response)).await??;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned()))
}

/// Returns the texts in backticks.
fn code(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the labels of each metric in docs/metrics.md.
fn listed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let (mut listed, mut previous) = (BTreeMap::new(), BTreeSet::new());
    for line in METRICS.lines().filter(|it| it.starts_with("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let mut labels = code(cells[3]);
        match cells[3].starts_with("the same") {
            true => labels.extend(&previous),
            false => previous.clone_from(&labels),
        }
        listed.insert(cells[1].trim_matches('`'), labels);
    }
    listed
}

/// The number of metrics that need more: a failure, a plugin, a rate limit, a name to look up, a
/// certificate or a call.
const MAX_MISSING: usize = 11;

#[tokio::test]
async fn the_metrics_of_an_operator_have_the_labels_that_are_listed() -> anyhow::Result<()> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install()?;
    let operator = Operator::start().await?;
    let resolver = Resolver::new(operator.cluster.client());
    let channel = resolver.channel(&"kubernetes:///greeter:80".parse()?).lazy().build()?;
    let spec = json!({ "spec": { "title": "Home", "html": "<p>Hello</p>" } });
    let sites = dogwatch::Api::<Website>::default_namespaced(operator.cluster.client());
    sites.apply("home", &PatchParams::apply("test").force(), &spec).await?;
    let published = |site: Option<&Website>| site.is_some_and(|it| it.status.is_some());
    tokio::time::timeout(LIMIT, sites.wait_for("home", published)).await??;
    operator.stop().await?;
    drop(channel);

    let (listed, mut seen, mut problems) = (listed(), BTreeSet::new(), Vec::new());
    for (key, ..) in snapshotter.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let (name, labels) = key.into_parts();
        let labels: BTreeSet<_> = labels.iter().map(|it| it.key().to_owned()).collect();
        match listed.get(name.as_str()) {
            Some(expected) if labels.iter().map(String::as_str).eq(expected.iter().copied()) => {}
            Some(expected) => problems.push(format!("{} has {labels:?}, not {expected:?}", name.as_str())),
            // Those of other crates.
            None => continue,
        }
        seen.insert(name.as_str().to_owned());
    }
    assert!(problems.is_empty(), "docs/metrics.md: {problems:#?}");
    let missing: Vec<_> = listed.keys().filter(|it| !seen.contains(**it)).collect();
    assert!(missing.len() <= MAX_MISSING, "{} were not seen: {missing:#?}", missing.len());
    Ok(())
}

#[tokio::test]
async fn the_probes_of_the_deployment_are_served_and_have_the_checks_of_the_chapter() -> anyhow::Result<()> {
    let operator = Operator::start().await?;
    let ready = async {
        while get(operator.address, "/readyz").await?.0 != "200" {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(LIMIT, ready).await??;
    for (path, name) in [("/healthz", "healthz"), ("/readyz", "readyz")] {
        assert!(DEPLOYMENT.contains(&format!("httpGet: {{path: {path}, port: http}}")), "{path}");
        let (status, body) = get(operator.address, &format!("{path}?verbose")).await?;
        assert_eq!(status, "200", "{body}");
        let checks = body.lines().filter_map(|it| it.strip_prefix("[+]")?.strip_suffix(" ok"));
        let row = CHAPTER.lines().find(|it| it.starts_with(&format!("| `{path}` |")));
        let described = row.and_then(|it| it.split('|').nth(3)).map(code).unwrap_or_default();
        assert_eq!(checks.collect::<BTreeSet<_>>(), described, "{name}");
    }
    operator.stop().await
}

#[test]
fn the_deployment_gives_the_program_the_time_that_it_takes_to_stop() {
    let deployment: Value = serde_saphyr::from_str(DEPLOYMENT).expect("YAML");
    let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    let after = CHAPTER.split(".shutdown_timeout(Duration::from_secs(").nth(1).expect("the program sets it");
    let timeout: u64 = after.split(')').next().and_then(|it| it.parse().ok()).expect("a number");
    assert!(grace.is_some_and(|it| it > timeout), "{grace:?} s, but it stops within {timeout} s");
    let port = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    let bound = format!("in a pod: 0.0.0.0:{}", port["containerPort"]);
    assert!(CHAPTER.contains(&bound), "the program of the chapter has no {bound}");
}

/// The words of PromQL in the alerts.
const FUNCTIONS: [&str; 5] = ["sum", "vector", "or", "rate", "increase"];

/// Returns the problems of an expression of Prometheus: unbalanced brackets, and names and labels
/// that are neither words of PromQL nor in the list of metrics.
fn problems_of(expression: &str, listed: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let mut problems = Vec::new();
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        if expression.matches(open).count() != expression.matches(close).count() {
            problems.push(format!("unbalanced {open}{close}"));
        }
    }
    let mut labels = BTreeSet::new();
    // Values in quotes and durations in brackets are no names.
    let unquoted: String = expression.split('"').step_by(2).collect();
    let outside = unquoted.split('[').map(|it| it.split_once(']').map_or(it, |(_, after)| after));
    let text: String = outside.collect();
    let mut words =
        text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').filter(|it| !it.is_empty());
    while let Some(word) = words.next() {
        match word {
            "by" => labels.extend(words.next()),
            _ if word.starts_with(|it: char| it.is_ascii_digit()) || FUNCTIONS.contains(&word) => {}
            _ if listed.contains_key(word) => {}
            // The label of a selector: `metric{label="value"}`.
            _ if text.contains(&format!("{{{word}=")) => drop(labels.insert(word)),
            _ => problems.push(format!("{word} is not in docs/metrics.md")),
        }
    }
    let known: BTreeSet<_> = listed.iter().filter(|it| text.contains(it.0)).flat_map(|it| it.1).collect();
    problems.extend(labels.iter().filter(|it| !known.contains(it)).map(|it| format!("no label {it}")));
    problems
}

#[test]
fn the_alerts_are_rules_of_prometheus_with_metrics_and_labels_that_exist() {
    let document: Value = serde_saphyr::from_str(ALERTS).expect("YAML");
    let rules = document["groups"][0]["rules"].as_array().expect("a group has rules");
    assert!(rules.len() > 5, "{rules:?}");
    let listed = listed();
    for rule in rules {
        let keys: BTreeSet<_> = rule.as_object().expect("a rule").keys().map(String::as_str).collect();
        assert!(keys.is_subset(&["alert", "annotations", "expr", "for"].into()), "{keys:?}");
        let name = rule["alert"].as_str().expect("an alert has a name");
        let expression = rule["expr"].as_str().expect("an alert has an expression");
        assert_eq!(problems_of(expression, &listed), [] as [&str; 0], "{name}: {expression}");
        let summary = rule["annotations"]["summary"].as_str().unwrap_or_default();
        assert!((20..=100).contains(&summary.len()), "{name}: {summary:?}");
        let time = rule.get("for").map_or("1m", |it| it.as_str().expect("a duration"));
        let is_time = time.strip_suffix('m').is_some_and(|it| it.parse::<u16>().is_ok());
        assert!(is_time, "{name}: {time}");
    }
}

#[test]
fn an_expression_with_another_metric_label_or_bracket_is_reported() {
    let listed = listed();
    let good = "sum by (controller) (rate(controller_runtime_reconcile_errors_total[10m])) > 0";
    assert_eq!(problems_of(good, &listed), [] as [&str; 0]);
    for (bad, expected) in [
        (good.replace("errors_total", "mistakes_total"), "mistakes_total is not in docs/metrics.md"),
        (good.replace("by (controller)", "by (colour)"), "no label colour"),
        (good.replacen('(', "", 1), "unbalanced ()"),
    ] {
        let problems = problems_of(&bad, &listed);
        assert!(problems[0].ends_with(expected), "{bad}: {problems:?}");
    }
}
