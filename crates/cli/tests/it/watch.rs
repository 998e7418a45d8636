//! `dogwatch watch` against an in-process API server.

use dogwatch::api::{DeleteParams, DynamicObject, Gvk, Patch, PatchParams, ResourceType, Scope};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use serde_json::{Value, json};

use crate::running_command::{RunningCommand, apply, client};
use crate::{assert_failure, run, text};

/// Two config maps in `default`, one elsewhere, a service, and a custom resource with one object.
const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: default, labels: {tier: front}}
data: {a: '1', b: '2'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second, namespace: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: third, namespace: other}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wi]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: small, namespace: default}
spec: {size: 3}
";

async fn cluster() -> ApiServer {
    ApiServer::builder().yaml(OBJECTS).start().await.expect("started")
}

fn config_maps() -> ResourceType {
    ResourceType {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        scope: Scope::Namespaced,
    }
}

fn map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

async fn put(client: &Client, name: &str, value: &str) {
    apply(client, &config_maps(), "default", &map(name, value)).await;
}

async fn delete(client: &Client, name: &str) {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    maps.delete(name, &DeleteParams::default()).await.expect("found");
}

/// Returns the output of `--once`; checks that it succeeds and prints nothing on stderr.
async fn once(server: &ApiServer, arguments: &[&str]) -> Vec<String> {
    let (code, out, err) =
        RunningCommand::start(server, &[&["watch", "--once"], arguments].concat()).end().await;
    assert_eq!((code, err), (Some(0), Vec::new()), "{arguments:?}");
    out
}

/// Returns the words of a line, without the last one, which is an age.
fn words(line: &str) -> Vec<&str> {
    let mut words: Vec<_> = line.split_whitespace().collect();
    let age = words.pop();
    assert!(age.is_some_and(|it| it == "AGE" || it.starts_with(|it: char| it.is_ascii_digit())), "{line}");
    words
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_server() {
    let server = cluster().await;
    let maps = once(&server, &["cm"]).await;
    let maps: Vec<_> = maps.iter().map(|it| words(it)).collect();
    assert_eq!(maps, [&["NAME", "DATA"][..], &["first", "2"], &["second", "0"]]);
    let widgets = once(&server, &["wi"]).await;
    assert_eq!(widgets, ["NAME    SIZE", "small   3"]);
    let all = once(&server, &["configmaps", "-A"]).await;
    let all: Vec<_> = all.iter().map(|it| words(it)).collect();
    assert_eq!(all[0], ["NAMESPACE", "NAME", "DATA"]);
    assert!(all.contains(&vec!["other", "third", "0"]), "{all:?}");
}

#[tokio::test]
async fn every_name_of_a_resource_resolves_and_selectors_apply() {
    let server = cluster().await;
    for arguments in [
        &["cm"][..],
        &["configmap"],
        &["ConfigMap"],
        &["configmaps.v1"],
        &["cm", "--namespace", "default"],
        &["cm", "-A", "--field-selector", "metadata.namespace=default"],
    ] {
        let names = once(&server, &[arguments, &["-o", "name"]].concat()).await;
        assert_eq!(names, ["configmap/first", "configmap/second"], "{arguments:?}");
    }
    for (arguments, expected) in [
        (&["cm", "-l", "tier=front"][..], "configmap/first"),
        (&["cm", "-l", "tier!=front"], "configmap/second"),
        (&["cm", "--field-selector", "metadata.name=second"], "configmap/second"),
        (&["cm", "-n", "other"], "configmap/third"),
        (&["Widget.v1.example.com"], "widget.example.com/small"),
        (&["widgets.example.com"], "widget.example.com/small"),
    ] {
        assert_eq!(once(&server, &[arguments, &["-o", "name"]].concat()).await, [expected], "{arguments:?}");
    }
}

#[tokio::test]
async fn json_is_the_object_of_the_server() {
    let server = cluster().await;
    let lines = once(&server, &["cm", "-o", "json"]).await;
    let maps = Api::<DynamicObject>::dynamic(client(&server), config_maps()).in_namespace("default");
    assert_eq!(lines.len(), 2);
    for line in lines {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["type"], "ADDED");
        let name = line["object"]["metadata"]["name"].as_str().expect("a name");
        let object = maps.get(name).await.expect("found");
        assert_eq!(line["object"], serde_json::to_value(&object).expect("an object"));
    }
}

#[tokio::test]
async fn names_select_objects_and_the_missing_ones_are_reported() {
    let server = cluster().await;
    assert_eq!(once(&server, &["cm", "second", "-o", "name"]).await, ["configmap/second"]);
    let both = once(&server, &["cm", "second", "first", "-o", "name"]).await;
    assert_eq!(both, ["configmap/first", "configmap/second"]);
    assert_eq!(once(&server, &["cm", "-A", "third", "-o", "name"]).await, ["configmap/third"]);
    let arguments = ["watch", "--once", "cm", "-o", "name", "first", "nobody", "nothing"];
    let (code, out, err) = RunningCommand::start(&server, &arguments).end().await;
    assert_eq!((code, out), (Some(1), vec!["configmap/first".to_owned()]));
    assert_eq!(err, ["error: configmaps not found in namespace default: nobody, nothing"]);
}

#[tokio::test]
async fn a_name_that_does_not_exist_yet_is_awaited() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "cm", "-o", "name", "second", "new"]);
    assert_eq!(command.line().await, "configmap/second");
    command.stderr_line("configmaps \"new\" does not exist; waiting for it").await;
    let client = client(&server);
    put(&client, "other", "1").await;
    put(&client, "new", "1").await;
    assert_eq!(command.line().await, "configmap/new");
}

#[tokio::test]
async fn wide_output_has_the_columns_that_usually_do_not_fit() {
    let server = cluster().await;
    let narrow = once(&server, &["services", "-A"]).await;
    let wide = once(&server, &["services", "-A", "-o", "wide"]).await;
    assert!(!narrow[0].contains("SELECTOR") && wide[0].ends_with("SELECTOR"), "{narrow:?} {wide:?}");
    assert_eq!(narrow.len(), wide.len());
}

#[tokio::test]
async fn yaml_is_one_document_for_each_change() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "wi", "-o", "yaml"]);
    assert_eq!(command.line().await, "---");
    assert_eq!(command.line().await, "# ADDED");
    assert_eq!(command.line().await, "apiVersion: example.com/v1");
    assert_eq!(command.line().await, "kind: Widget");
    let printed = once(&server, &["wi", "-o", "yaml"]).await;
    assert_eq!((printed[0].as_str(), printed[1].as_str()), ("---", "apiVersion: example.com/v1"));
    assert!(
        printed.iter().any(|it| it == "spec:") && printed.iter().any(|it| it == "  size: 3"),
        "{printed:?}"
    );
}

#[tokio::test]
async fn every_output_can_be_sorted_by_a_field() {
    let server = cluster().await;
    let client = client(&server);
    for (name, value) in [("a", "web-10"), ("b", "web-9"), ("c", "web-11")] {
        put(&client, name, value).await;
    }
    let sorted = ["--sort-by", ".data.value", "a", "b", "c"];
    let names = once(&server, &[&["cm", "-o", "name"], &sorted[..]].concat()).await;
    assert_eq!(names, ["configmap/b", "configmap/a", "configmap/c"]);
    let table = once(&server, &[&["cm"], &sorted[..]].concat()).await;
    let first: Vec<_> = table.iter().map(|it| words(it)[0]).collect();
    assert_eq!(first, ["NAME", "b", "a", "c"]);
    let mut json = RunningCommand::start(&server, &[&["watch", "cm", "-o", "json"], &sorted[..]].concat());
    for name in ["b", "a", "c"] {
        assert_eq!(json.json().await["object"]["metadata"]["name"], name);
    }
    // Changes are printed as they happen.
    put(&client, "b", "web-99").await;
    put(&client, "a", "web-0").await;
    for name in ["b", "a"] {
        let line = json.json().await;
        assert_eq!((&line["type"], &line["object"]["metadata"]["name"]), (&json!("MODIFIED"), &json!(name)));
    }
}

/// The tables of `kubectl get pods,deployments`: the kind is in the name, and an empty line
/// between.
#[tokio::test]
async fn several_kinds_are_printed_in_their_order_with_the_kind_in_the_name() {
    let server = cluster().await;
    let lines = once(&server, &["wi,cm,pods"]).await;
    assert_eq!(lines[..3], ["NAME                       SIZE", "widget.example.com/small   3", ""]);
    assert_eq!(words(&lines[3]), ["NAME", "DATA"]);
    assert_eq!(words(&lines[4]), ["configmap/first", "2"]);
    assert_eq!(lines.len(), 6, "an empty kind has no headings: {lines:?}");
    let names = once(&server, &["wi,cm", "-o", "name"]).await;
    assert_eq!(names, ["widget.example.com/small", "configmap/first", "configmap/second"]);
    let both = once(&server, &["cm,wi,configmaps", "-A", "-o", "json"]).await;
    let kind = |it: &String| serde_json::from_str::<Value>(it).expect("JSON")["object"]["kind"].clone();
    let kinds: Vec<_> = both.iter().map(kind).collect();
    assert_eq!(kinds.iter().filter(|it| *it == "Widget").count(), 1);
    assert_eq!(kinds.last(), Some(&json!("Widget")));
    let arguments = ["watch", "--once", "cm,wi", "first", "small", "-o", "name"];
    let (code, out, err) = RunningCommand::start(&server, &arguments).end().await;
    assert_eq!((code, out.len()), (Some(1), 2));
    let missing = "configmaps in namespace default: small; widgets.example.com in namespace default: first";
    assert_eq!(err, ["error: some objects do not exist".to_owned(), format!("cause: {missing}")]);
}

#[cfg(unix)]
#[tokio::test]
async fn changes_of_several_kinds_are_lines_as_they_happen() {
    let server = cluster().await;
    let client = client(&server);
    let mut table = RunningCommand::start(&server, &["watch", "wi,cm"]);
    assert_eq!(table.line().await, "EVENT      NAME                       SIZE");
    assert_eq!(table.line().await, "ADDED      widget.example.com/small   3");
    assert_eq!(words(&table.line().await), ["EVENT", "NAME", "DATA"]);
    for name in ["configmap/first", "configmap/second"] {
        assert_eq!(words(&table.line().await)[..2], ["ADDED", name]);
    }
    put(&client, "new", "1").await;
    assert_eq!(words(&table.line().await), ["ADDED", "configmap/new", "1"]);
    let widgets = ResourceType {
        gvk: Gvk::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        scope: Scope::Namespaced,
    };
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "small" },
                         "spec": { "size": 4 } });
    apply(&client, &widgets, "default", &widget).await;
    assert_eq!(table.line().await, "MODIFIED   widget.example.com/small   4");
    delete(&client, "new").await;
    assert_eq!(words(&table.line().await), ["DELETED", "configmap/new", "1"]);
    table.interrupt().await;
    assert_eq!(table.end().await, (Some(0), Vec::new(), Vec::new()));
}

#[tokio::test]
async fn an_empty_collection_prints_kubectls_message() {
    let server = cluster().await;
    let (code, out, err) = RunningCommand::start(&server, &["watch", "pods", "--once"]).end().await;
    assert_eq!((code, out), (Some(0), Vec::new()));
    assert_eq!(err, ["No resources found in default namespace."]);
    assert_eq!(once(&server, &["pods", "-o", "json"]).await, [] as [&str; 0]);
}

#[tokio::test]
async fn an_empty_collection_is_reported_before_its_first_change() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "cm", "-l", "app=new", "-o", "name"]);
    command.stderr_line("configmaps in default: no objects yet; waiting for changes").await;
    let client = client(&server);
    put(&client, "other", "1").await;
    let metadata = json!({ "name": "new", "labels": { "app": "new" } });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    apply(&client, &config_maps(), "default", &map).await;
    assert_eq!(command.line().await, "configmap/new");
}

#[cfg(unix)]
#[tokio::test]
async fn every_change_is_a_line_until_an_interrupt() {
    let server = cluster().await;
    let client = client(&server);
    let mut json = RunningCommand::start(&server, &["watch", "cm", "-o", "json"]);
    // After the initial objects were printed, the watch continues from there: nothing that is
    // written now is part of the list.
    for name in ["first", "second"] {
        let line = json.json().await;
        assert_eq!((&line["type"], &line["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    let mut table = RunningCommand::start(&server, &["watch", "cm", "-l", "tier"]);
    assert_eq!(words(&table.line().await), ["EVENT", "NAME", "DATA"]);
    assert_eq!(words(&table.line().await), ["ADDED", "first", "2"]);
    put(&client, "new", "1").await;
    put(&client, "new", "2").await;
    delete(&client, "new").await;
    for (event, value) in [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")] {
        let line = json.json().await;
        assert_eq!(line["type"], event);
        assert_eq!(
            (&line["object"]["kind"], &line["object"]["apiVersion"]),
            (&json!("ConfigMap"), &json!("v1"))
        );
        assert_eq!(line["object"]["data"]["value"], value);
    }
    delete(&client, "first").await;
    assert_eq!(words(&table.line().await), ["DELETED", "first", "2"]);
    assert_eq!(json.json().await["type"], "DELETED");
    for mut command in [json, table] {
        command.interrupt().await;
        assert_eq!(command.end().await, (Some(0), Vec::new(), Vec::new()));
    }
}

/// More than all buffers together hold: the pipe, the waiting lines and changes, and the queue
/// behind the connection.
#[tokio::test]
async fn a_slow_reader_gets_every_change() {
    const CHANGES: usize = 4_000;
    let server = cluster().await;
    let mut json = RunningCommand::start(
        &server,
        &["watch", "cm", "-o", "json", "--field-selector", "metadata.name=second"],
    );
    let mut names = RunningCommand::start(
        &server,
        &["watch", "cm", "-o", "name", "--field-selector", "metadata.name=second"],
    );
    assert_eq!(json.json().await["type"], "ADDED");
    assert_eq!(names.line().await, "configmap/second");
    // Nothing is read while the object changes.
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    for at in 1..=CHANGES {
        let data = json!({ "at": at.to_string(), "padding": "x".repeat(200) });
        let patch = json!({ "data": data });
        maps.patch("second", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    }
    for at in 1..=CHANGES {
        let line = json.json().await;
        assert_eq!(
            (&line["type"], &line["object"]["data"]["at"]),
            (&json!("MODIFIED"), &json!(at.to_string()))
        );
        assert_eq!(names.line().await, "configmap/second", "{at}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_closed_stdout_ends_it_even_without_changes() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "cm", "-o", "name"]);
    assert_eq!(command.line().await, "configmap/first");
    command.close();
    assert_eq!(command.end().await, (Some(0), Vec::new(), Vec::new()));
}

/// As with `-n "$NAMESPACE"` if the variable is not set: kubectl uses the namespace of the context.
#[tokio::test]
async fn an_empty_namespace_means_that_of_the_context() {
    let server = cluster().await;
    let expected = ["configmap/first", "configmap/second"];
    assert_eq!(once(&server, &["cm", "-o", "name", "-n", ""]).await, expected);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_reported_even_without_changes() {
    let server = cluster().await;
    let home = tempfile::tempdir().expect("a temporary directory");
    let full = std::fs::File::create("/dev/full").expect("Linux has /dev/full");
    let arguments = ["watch", "wi", "-o", "name", "--server", server.url()];
    let mut command = tokio::process::Command::from(crate::dogwatch(home.path(), &arguments));
    let child = command.stdout(full).stderr(std::process::Stdio::piped()).kill_on_drop(true).spawn();
    let output = child.expect("the command starts").wait_with_output();
    let output = tokio::time::timeout(std::time::Duration::from_secs(60), output).await;
    let output = output.expect("it exits within a minute").expect("stderr is readable");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.starts_with("error: cannot write to stdout\ncause: No space left"), "{printed}");
}

#[tokio::test]
async fn a_server_message_on_stderr_cannot_control_the_terminal() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "cm", "-o", "name"]);
    assert_eq!(command.line().await, "configmap/first");
    let rule = Rule::on("watch").resource("configmaps").refuse(403).message("not \u{1b}[2Jyou");
    server.faults().rule(rule);
    server.faults().drop_watches();
    let stderr_line = command.stderr_line("cannot watch configmaps").await;
    assert!(stderr_line.contains("not \u{fffd}[2Jyou"), "{stderr_line:?}");
}

#[tokio::test]
async fn a_problem_and_its_resolution_are_printed() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "cm", "-o", "name"]);
    assert_eq!(command.line().await, "configmap/first");
    let rule = server.faults().rule(Rule::on("watch").resource("configmaps").refuse(403).message("not you"));
    server.faults().drop_watches();
    let stderr_line = command.stderr_line("cannot watch configmaps").await;
    assert!(
        stderr_line.contains("not you") && stderr_line.contains("grant the verbs list and watch"),
        "{stderr_line}"
    );
    rule.remove();
    command.stderr_line("configmaps is synced again").await;
}

#[tokio::test]
async fn the_removal_of_a_definition_is_printed_and_its_objects_are_deleted() {
    let server = cluster().await;
    let mut command = RunningCommand::start(&server, &["watch", "wi"]);
    assert_eq!(command.line().await, "EVENT      NAME    SIZE");
    assert_eq!(command.line().await, "ADDED      small   3");
    let definitions = ResourceType {
        gvk: Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        plural: "customresourcedefinitions".into(),
        scope: Scope::Cluster,
    };
    let definitions = Api::<DynamicObject>::dynamic(client(&server), definitions);
    definitions.delete("widgets.example.com", &DeleteParams::default()).await.expect("found");
    assert_eq!(command.line().await, "DELETED    small   3");
    command.stderr_line("widgets.example.com is no longer served").await;
}

#[tokio::test]
async fn impossible_requests_are_reported_and_exit_with_1() {
    let server = cluster().await;
    server.faults().rule(Rule::on("list").resource("secrets").refuse(403).message("not you"));
    for (arguments, parts) in [
        (&["widgetz"][..], &["\"widgetz\"", "similar: widgets.example.com", "api-resources"][..]),
        (&["secrets"], &["not you", "--context"]),
        (&["tokenreviews"], &["does not support list"]),
        (&["pods", "--field-selector", "spec.nonsense=1"], &["spec.nonsense"]),
    ] {
        let (code, out, err) = RunningCommand::start(&server, &[&["watch"], arguments].concat()).end().await;
        assert_eq!((code, out), (Some(1), Vec::new()), "{arguments:?}");
        let printed = err.join("\n") + "\n";
        assert_failure(&printed);
        assert!(parts.iter().all(|it| printed.contains(it)), "{printed}");
    }
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    // The port was free a moment ago, and nothing listens on it now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = run(home.path(), &["watch", "pods", "--server", &format!("http://127.0.0.1:{port}")]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains("check that the server runs"), "{printed}");
}

#[test]
fn bad_usage_exits_with_2_and_help_has_examples() {
    let home = tempfile::tempdir().unwrap();
    for more in [
        &[][..],
        &["pods", "-n", "a", "-A"],
        &["pods", "-l", "a=("],
        &["pods", "--field-selector", "a"],
        &["pods", "-o", "custom"],
        &["pods", "pod/web"],
        &["pod/web"],
        &["pods,,services"],
        &["pods", ""],
        &["pods", "web", "-l", "a=b"],
        &["pods", "web", "--field-selector", "a=b"],
        &["pods", "--sort-by", "{.a}{.b}"],
    ] {
        let output = run(home.path(), &[&["watch"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
    let output = run(home.path(), &["watch", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    assert!(help.contains("dogwatch watch pods -A") && help.contains("--kubeconfig"), "{help}");
}
