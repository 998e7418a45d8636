//! `dogwatch ui` on a terminal, against an in-process API server with a simulator.

use dogwatch::api::{Gvk, ResourceType, Scope};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_simulator::{Settings, Simulator};
use serde_json::{Value, json};

use crate::on_terminal::OnTerminal;
use crate::running_command::{apply, client};
use crate::{assert_failure, run, server, text};

const XTERM: [(&str, &str); 1] = [("TERM", "xterm")];

fn start(server: &ApiServer, arguments: &[&str], variables: &[(&str, &str)]) -> OnTerminal {
    let ui = OnTerminal::start_with(&[&["ui"], arguments, &["--server", server.url()]].concat(), variables);
    ui.resize(100, 30);
    ui
}

fn deployments() -> ResourceType {
    ResourceType {
        gvk: Gvk::new("apps", "v1", "Deployment"),
        plural: "deployments".into(),
        scope: Scope::Namespaced,
    }
}

fn deployment(replicas: u32) -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
            },
        },
    })
}

async fn with_maps(names: &[&str]) -> ApiServer {
    let mut builder = ApiServer::builder();
    for name in names {
        let metadata = json!({ "name": name, "namespace": "default" });
        builder = builder.object(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }));
    }
    builder.start().await.expect("started")
}

#[tokio::test]
async fn a_pod_appears_and_is_filtered_and_opened_and_the_terminal_is_restored() {
    let server = ApiServer::builder().start().await.expect("started");
    let client = client(&server);
    let simulator = Simulator::builder(client.clone()).settings(Settings::instant()).start();
    let mut ui = start(&server, &["pods,deploy"], &XTERM);
    ui.until_picture("an empty table", |it| it.contains("pods in default: 0 objects, synced")).await;
    assert!(!ui.echoes());

    apply(&client, &deployments(), "default", &deployment(2)).await;
    let running = |it: &str| it.lines().filter(|it| it.contains("web-") && it.contains("Running")).count();
    // The other kind is watched too: the list of kinds has its count.
    let kinds =
        |it: &str| it.lines().filter_map(|it| it.split('│').next()).map(str::to_owned).collect::<Vec<_>>();
    let counted = |it: &String| it.starts_with("deployments.apps ") && it.trim_end().ends_with(" 1");
    ui.until_picture("two pods", |it| running(it) == 2 && kinds(it).iter().any(counted)).await;
    ui.type_keys("/no-such\u{7f}");
    ui.until_picture("no row", |it| running(it) == 0 && it.contains("0 match \"no-suc\"")).await;
    ui.type_keys("\u{15}web-\r");
    ui.until_picture("the rows again", |it| running(it) == 2 && it.contains("2 match \"web-\"")).await;

    ui.type_keys("y");
    ui.until_picture("YAML", |it| it.contains("apiVersion: v1") && it.contains("kind: Pod")).await;
    ui.type_keys("d");
    ui.until_picture("a description", |it| it.contains("Kind:         Pod")).await;
    ui.type_keys("G");
    ui.until_picture("the events", |it| it.contains("Events:") && it.contains("Scheduled")).await;
    ui.type_keys("qt");
    let tree = |it: &str| {
        let lines: Vec<_> = it.lines().map(str::trim_start).collect();
        let at = lines.iter().position(|it| it.starts_with("Deployment web  (ready: 2/2"));
        at.is_some_and(|at| lines[at + 1].starts_with("ReplicaSet web-") && lines[at + 2].starts_with("* "))
    };
    ui.until_picture("the owners", tree).await;
    ui.type_keys("ql");
    // No node of this simulation has a kubelet: the message is that of the server.
    let error = |it: &str| it.contains("Log of Pod") && it.contains("the kubelet of");
    ui.until_picture("the error of the server", error).await;
    ui.type_keys("qh");
    let health =
        |it: &str| it.contains("Health of the caches") && it.contains("version") && it.contains("of rows");
    ui.until_picture("the health", health).await;
    ui.type_keys("q\t");
    ui.until_picture("the other kind", |it| it.contains("deployments.apps in default: 1 object")).await;
    ui.type_keys("?");
    ui.until_picture("the help", |it| it.contains("Moving")).await;
    ui.type_keys("qq");
    assert_eq!(ui.ended().await, Some(0));
    assert!(ui.echoes(), "the terminal is restored");
    assert!(ui.shown().contains("\u{1b}[?1049l") && ui.shown().contains("\u{1b}[?25h"));
    simulator.stop().await;
}

#[tokio::test]
async fn kinds_are_chosen_at_the_left_and_a_narrow_window_shows_one_part() {
    let server = with_maps(&["first", "second"]).await;
    let mut ui = start(&server, &["-A"], &XTERM);
    ui.until_picture("the pods", |it| it.contains("pods in all namespaces: 0 objects, synced")).await;
    ui.type_keys("\u{1b}[D/configm\r\r");
    ui.until_picture("the config maps", |it| it.contains("NAMESPACE") && it.contains("first")).await;
    ui.resize(40, 10);
    ui.signal("WINCH");
    let narrow = |it: &str| it.lines().count() <= 10 && !it.contains("KINDS") && it.contains("second");
    let picture = ui.until_picture("a narrow table", narrow).await;
    assert!(picture.lines().all(|it| it.chars().count() <= 40), "{picture}");
    ui.type_keys("\u{1b}[D");
    ui.until_picture("the kinds", |it| it.contains("KINDS") && !it.contains("second")).await;
    ui.signal("TERM");
    assert_eq!(ui.ended().await, Some(0));
    assert!(ui.echoes() && ui.shown().contains("\u{1b}[?1049l"), "a signal restores the terminal too");
}

#[tokio::test]
async fn the_logs_of_the_containers_of_a_pod_are_shown_in_turn() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default},
                spec: {containers: [{name: app, image: a}, {name: sidecar, image: a}]}}";
    let server = ApiServer::builder().yaml(pod).start().await.expect("started");
    let logs = &[("app", "the first line\nanother \u{1b}[2Jone\n"), ("sidecar", "of the sidecar\n")];
    let url = format!("http://{}", server::with_logs(&server, logs).await);
    let mut ui = OnTerminal::start_with(&["ui", "pods", "--server", &url], &XTERM);
    ui.resize(100, 30);
    ui.until_picture("the pod", |it| it.contains("pods in default: 1 object, synced")).await;
    ui.type_keys("l");
    let first = |it: &str| {
        it.contains(", container app: 2 lines; the log has ended") && it.contains("the first line")
    };
    let picture = ui.until_picture("the first log", first).await;
    assert!(picture.contains("another \u{fffd}[2Jone") && picture.contains("c next container"), "{picture}");
    ui.type_keys("c");
    let second = |it: &str| it.contains(", container sidecar: 1 line;") && it.contains("of the sidecar");
    let picture = ui.until_picture("the second log", second).await;
    assert!(!picture.contains("the first line"), "{picture}");
    ui.type_keys("c");
    ui.until_picture("the first log again", first).await;
    ui.type_keys("qq");
    assert_eq!(ui.ended().await, Some(0));
}

#[tokio::test]
async fn all_columns_are_shown_on_request_and_hidden_again() {
    let server = ApiServer::builder().start().await.expect("started");
    let arguments = ["ui", "services", "--server", server.url()];
    let mut ui = OnTerminal::start_sized(&arguments, &XTERM, (160, 30));
    let headings = |it: &str| it.lines().any(|it| it.contains("CLUSTER-IP"));
    ui.until_picture("the usual ones", |it| headings(it) && !it.contains("SELECTOR")).await;
    ui.type_keys("w");
    ui.until_picture("all columns", |it| headings(it) && it.contains("SELECTOR")).await;
    ui.type_keys("w");
    ui.until_picture("the usual ones", |it| headings(it) && !it.contains("SELECTOR")).await;
    ui.type_keys("q");
    assert_eq!(ui.ended().await, Some(0));
}

#[tokio::test]
async fn a_kind_that_is_closed_is_not_watched_any_more() {
    let server = with_maps(&["first"]).await;
    let mut ui = start(&server, &["cm,secrets"], &XTERM);
    ui.until_picture("the config map", |it| it.contains("configmaps in default: 1 object, synced")).await;
    ui.type_keys("x");
    let closed = |it: &str| it.contains("secrets in default: 0 objects, synced") && !it.contains("first");
    ui.until_picture("the other kind", closed).await;
    let watches =
        |resource: &str| server.requests().resource(resource).filter(|it| it.verb == "watch").count();
    let before = (watches("configmaps"), watches("secrets"));
    server.faults().drop_watches();
    ui.until_picture("the other kind, watched again", |it| closed(it) && watches("secrets") > before.1).await;
    assert_eq!(watches("configmaps"), before.0);
    // The focus is on the kinds now, where the same key closes the selected one.
    ui.type_keys("/configm\r\r");
    ui.until_picture("the config map again", |it| it.contains("configmaps in default: 1 object, synced"))
        .await;
    ui.signal("TERM");
    assert_eq!(ui.ended().await, Some(0));
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_and_a_lost_server_are_not_synced() {
    let server = with_maps(&["first"]).await;
    server.faults().rule(Rule::on("list").resource("secrets").refuse(403).message("not \u{1b}[2Jyou"));
    let mut ui = start(&server, &["cm,secrets"], &XTERM);
    ui.until_picture("the config map", |it| it.contains("configmaps in default: 1 object, synced")).await;
    ui.type_keys("\t");
    let refused =
        |it: &str| it.contains("secrets in default: not synced yet") && it.contains("\u{fffd}[2Jyou");
    ui.until_picture("the reason", refused).await;
    ui.type_keys("\t");
    server.stop().await;
    let lost = |it: &str| {
        it.contains("NOT SYNCED for ") && it.contains("1 object as of then") && it.contains("first")
    };
    ui.until_picture("the rows of before", lost).await;
    // Ctrl-C is a key in raw mode.
    ui.type_keys("\u{3}");
    assert_eq!(ui.ended().await, Some(0));
    assert!(ui.echoes());
}

#[tokio::test]
async fn without_colour_none_is_used() {
    let server = with_maps(&["first"]).await;
    for (no_color, coloured) in [("1", false), ("", true)] {
        let mut ui = start(&server, &["cm"], &[("TERM", "xterm"), ("NO_COLOR", no_color)]);
        ui.until_picture("the table", |it| it.contains("1 object, synced")).await;
        let name = format!("new-{coloured}");
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        let maps = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        apply(&client(&server), &maps, "default", &map).await;
        ui.until_picture("the new one", |it| it.contains(&format!("+{name}"))).await;
        assert_eq!(ui.shown().contains("38;5;2;"), coloured, "{:?}", ui.shown());
        ui.type_keys("q");
        assert_eq!(ui.ended().await, Some(0));
        let maps = dogwatch::Api::<dogwatch::k8s_openapi::api::core::v1::ConfigMap>::namespaced(
            self::client(&server),
            "default",
        );
        maps.delete(&name, &dogwatch::api::DeleteParams::default()).await.expect("found");
    }
}

#[tokio::test]
async fn a_terminal_that_cannot_be_drawn_on_is_an_error() {
    let mut dumb = OnTerminal::start_with(&["ui"], &[("TERM", "dumb")]);
    assert_eq!(dumb.ended().await, Some(1));
    dumb.until("`dogwatch watch`").await;
    let shown = dumb.shown().replace('\r', "");
    assert_failure(&shown);
    assert!(shown.contains("TERM=dumb") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["ui"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(
        printed.contains("stdout is not a terminal") && printed.contains("`dogwatch watch`"),
        "{printed}"
    );
}

#[test]
fn bad_usage_exits_with_2_and_help_lists_the_keys() {
    let home = tempfile::tempdir().unwrap();
    for more in [&["pods", "-n", "a", "-A"][..], &["pods,"], &["pod/web"], &["pods", "web"]] {
        assert_eq!(run(home.path(), &[&["ui"], more].concat()).status.code(), Some(2), "{more:?}");
    }
    let output = run(home.path(), &["ui", "--help"]);
    let help = text(&output.stdout);
    assert!(help.contains("describe, with events") && help.contains("--kubeconfig"), "{help}");
}
