//! `dogwatch watch` and `dogwatch serve` on a terminal.

use dogwatch_apiserver::ApiServer;

use crate::on_terminal::OnTerminal;
use crate::running_command::{apply, client};

const MAP: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: first, namespace: default } }";

/// Watches config maps on a terminal.
fn start(server: &ApiServer, term: &str) -> OnTerminal {
    OnTerminal::start_with(&["watch", "cm", "--server", server.url()], &[("TERM", term)])
}

#[tokio::test]
async fn keys_are_not_echoed_and_q_quits() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let mut watch = start(&server, "xterm");
    assert!(watch.echoes());
    watch.until("first").await;
    assert!(!watch.echoes());
    watch.type_keys("zzz");
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
    assert!(!watch.shown().contains('z'), "{:?}", watch.shown());
    assert!(watch.echoes(), "the terminal is restored");
}

#[tokio::test]
async fn a_dumb_terminal_gets_lines_instead_of_a_screen() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let watch = start(&server, "dumb");
    watch.until("ADDED      first").await;
    assert!(!watch.shown().contains('\u{1b}'), "{:?}", watch.shown());
}

/// A pseudo-terminal without a size counts as one of 80 by 24.
#[tokio::test]
async fn rows_that_do_not_fit_are_scrolled_to() {
    let mut builder = ApiServer::builder();
    for at in 0..60 {
        let metadata = serde_json::json!({ "name": format!("map-{at:02}"), "namespace": "default" });
        builder = builder.object(&serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        }));
    }
    let server = builder.start().await.expect("started");
    let mut watch = start(&server, "xterm");
    watch.until("rows 1-20 of 60; arrows, page keys, Home and End scroll").await;
    assert!(watch.shown().contains("map-19") && !watch.shown().contains("map-20"), "{:?}", watch.shown());
    watch.type_keys("\u{1b}[B");
    watch.until("rows 2-21 of 60").await;
    watch.type_keys("\u{1b}[6~");
    watch.until("rows 22-41 of 60").await;
    watch.type_keys("\u{1b}[F");
    watch.until("rows 41-60 of 60").await;
    watch.until("map-59").await;
    watch.type_keys("\u{1b}[H\u{1b}[A");
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
}

#[tokio::test]
async fn without_colour_no_change_is_coloured() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let arguments = ["watch", "cm", "--server", server.url()];
    for (no_color, coloured) in [("1", false), ("", true)] {
        let watch = OnTerminal::start_with(&arguments, &[("TERM", "xterm"), ("NO_COLOR", no_color)]);
        watch.until(", synced").await;
        let name = format!("new-{coloured}");
        let map =
            serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        let resource = dogwatch::api::ResourceType {
            gvk: dogwatch::api::Gvk::new("", "v1", "ConfigMap"),
            plural: "configmaps".into(),
            scope: dogwatch::api::Scope::Namespaced,
        };
        apply(&client(&server), &resource, "default", &map).await;
        watch.until(&name).await;
        assert_eq!(watch.shown().contains("\u{1b}[38;5;10m"), coloured, "{:?}", watch.shown());
    }
}

#[tokio::test]
async fn an_empty_table_says_that_nothing_was_found_until_something_is() {
    let server = ApiServer::builder().start().await.expect("started");
    let mut watch = start(&server, "xterm");
    let is_empty = |it: &str| it.lines().any(|it| it == "No resources found in default namespace.");
    watch.until_picture("the message", |it| is_empty(it) && it.contains("0 objects, synced")).await;
    let maps =
        dogwatch::api::ResourceType::namespaced(dogwatch::api::Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let map = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "new" } });
    apply(&client(&server), &maps, "default", &map).await;
    let has_row = |it: &str| it.contains("NAME ") && it.lines().any(|it| it.starts_with("new "));
    watch.until_picture("the object", |it| has_row(it) && !is_empty(it)).await;
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
}

#[tokio::test]
async fn a_lost_server_is_shown_as_not_synced() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let watch = start(&server, "xterm");
    watch.until("configmaps in default: 1 object, synced; q quits").await;
    server.stop().await;
    watch.until("NOT SYNCED for ").await;
    watch.until("1 object as of then (").await;
}

#[tokio::test]
async fn a_server_on_a_terminal_says_what_to_type_next() {
    let mut serve = OnTerminal::start_with(&["serve", "--simulate", "--admin"], &[("TERM", "dumb")]);
    serve.until("simulated: ").await;
    let shown = serve.shown();
    let lines: Vec<_> = shown.lines().collect();
    let url = lines[0].strip_prefix("ready ").expect("the ready line is first");
    assert!(
        lines[1].starts_with(&format!("try it:       kubectl --server {url} create deployment")),
        "{lines:?}"
    );
    let begins: Vec<_> = lines.iter().filter_map(|it| it.split_once(": ")).map(|it| it.0).collect();
    assert_eq!(begins, ["try it", "enforced", "not enforced", "simulated"]);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    serve.interrupt();
    assert_eq!(serve.ended().await, Some(0));
}

#[tokio::test]
async fn the_demo_has_colours_on_a_terminal_unless_they_are_turned_off() {
    let headline = "\u{1b}[1;36mACT 1: List, then watch\u{1b}[0m";
    for (variables, has_colours) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        let mut demo = OnTerminal::start_with(&["demo"], variables);
        demo.until("> Deployment web is created").await;
        assert_eq!(demo.shown().contains(headline), has_colours, "{variables:?}: {:?}", demo.shown());
        assert_eq!(demo.shown().contains('\u{1b}'), has_colours, "{variables:?}: {:?}", demo.shown());
        demo.interrupt();
        assert_eq!(demo.ended().await, Some(0), "{:?}", demo.shown());
        demo.until("1 List, then watch           interrupted").await;
    }
}

#[tokio::test]
async fn several_kinds_are_stacked_and_tab_selects_the_one_that_scrolls() {
    let mut builder = ApiServer::builder().yaml(MAP);
    for at in 0..60 {
        let metadata = serde_json::json!({ "name": format!("account-{at:02}"), "namespace": "default" });
        builder = builder.object(&serde_json::json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
        }));
    }
    let server = builder.start().await.expect("started");
    let arguments = ["watch", "cm,sa", "--server", server.url()];
    let mut watch = OnTerminal::start_with(&arguments, &[("TERM", "xterm")]);
    let picture =
        watch.until_picture("both tables", |it| it.contains("rows 1-") && it.contains("first")).await;
    let lines: Vec<_> = picture.lines().collect();
    assert_eq!(
        lines[0], "> configmaps in default: 1 object, synced; Tab selects a table, q quits",
        "{picture}"
    );
    assert!(lines[1].starts_with("NAME ") && lines[2].starts_with("first "), "{picture}");
    assert!(lines[4].starts_with("serviceaccounts in default: 6"), "{picture}");
    watch.type_keys("\tG");
    watch.until_picture("the last account", |it| it.contains("account-59") && it.contains("first")).await;
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
}

#[tokio::test]
async fn a_narrow_terminal_shows_a_table_that_fits() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let arguments = ["watch", "cm", "--server", server.url()];
    let mut watch = OnTerminal::start_sized(&arguments, &[("TERM", "xterm")], (40, 12));
    let fits = |it: &str| it.lines().count() <= 12 && it.lines().all(|it| it.chars().count() <= 40);
    watch.until_picture("the object", |it| it.contains("first") && it.contains("synced") && fits(it)).await;
    // The name of another one is longer than the terminal is wide.
    let metadata = serde_json::json!({ "name": "x".repeat(60) });
    let map = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    let maps =
        dogwatch::api::ResourceType::namespaced(dogwatch::api::Gvk::new("", "v1", "ConfigMap"), "configmaps");
    apply(&client(&server), &maps, "default", &map).await;
    watch.until_picture("both", |it| it.contains("first") && it.contains("xxxx") && fits(it)).await;
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
}

#[tokio::test]
async fn the_demo_breaks_the_lines_of_its_story_for_a_narrow_terminal() {
    let mut demo = OnTerminal::start_sized(&["demo"], &[("TERM", "dumb")], (40, 12));
    demo.until("> Deployment web is created").await;
    demo.interrupt();
    assert_eq!(demo.ended().await, Some(0), "{:?}", demo.shown());
    demo.until("SUMMARY after ").await;
    let shown = demo.shown();
    let story = shown.lines().map(str::trim_end).skip_while(|it| !it.starts_with("ACT 1: "));
    let story: Vec<_> = story.take_while(|it| !it.starts_with("SUMMARY ")).collect();
    assert!(story.len() > 5, "{shown}");
    let wide: Vec<_> = story.iter().filter(|it| it.chars().count() > 40).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}
