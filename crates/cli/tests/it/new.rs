//! `dogwatch new`: the files of an operator, its manifests on our own API server, and what it
//! rejects.
//!
//! `cargo xtask new-operator` builds such an operator and runs its test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dogwatch::api::{DynamicObject, Gvk, ResourceType, WriteParams};
use dogwatch::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;

use crate::{assert_failure, run, text};

/// Every file of an operator.
const FILES: [&str; 15] = [
    ".dockerignore",
    ".gitignore",
    "Cargo.toml",
    "Dockerfile",
    "README.md",
    "example.yaml",
    "manifests/01-crd.yaml",
    "manifests/02-rbac.yaml",
    "manifests/03-deployment.yaml",
    "rustfmt.toml",
    "src/controller.rs",
    "src/lib.rs",
    "src/main.rs",
    "src/resource.rs",
    "tests/operator.rs",
];

/// Writes an operator for Buoy objects, and returns its folder and what was printed.
fn buoy_operator(home: &Path) -> (PathBuf, String) {
    let folder = home.join("buoys");
    let path = folder.to_str().expect("the temporary folder has a name in UTF-8");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let arguments =
        ["new", "buoy-operator", "--group", "sea.example", "--path", path, "--dogwatch", checkout];
    let output = run(home, &arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    (folder, text(&output.stdout).to_owned())
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn files_below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in folder.read_dir().expect("the folder exists").flatten() {
        let name = format!("{prefix}{}", entry.file_name().display());
        if entry.path().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn an_operator_has_every_file_and_the_output_says_what_to_type_next() {
    let home = tempfile::tempdir().unwrap();
    let (folder, printed) = buoy_operator(home.path());
    let mut found = BTreeSet::new();
    files_below(&folder, "", &mut found);
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), FILES);
    for file in FILES {
        assert!(printed.contains(&format!("\n  {file}\n")), "{file} in {printed}");
    }
    assert!(printed.contains(&format!("\n  cd {}\n  cargo test ", folder.display())), "{printed}");
}

#[test]
fn the_names_are_in_the_manifest_the_code_and_the_documents() {
    let home = tempfile::tempdir().unwrap();
    let (folder, _) = buoy_operator(home.path());
    let facade = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dogwatch").canonicalize().unwrap();
    for (file, parts) in [
        ("Cargo.toml", &["name = \"buoy-operator\"", facade.to_str().unwrap()][..]),
        ("README.md", &["# buoy-operator\n", "`buoys.sea.example`"]),
        ("Dockerfile", &["target/release/buoy-operator"]),
        ("src/resource.rs", &["group = \"sea.example\"", "kind = \"Buoy\"", "pub struct BuoySpec {"]),
        ("src/controller.rs", &["\"sea.example/buoy-operator\"", "controller_for::<Buoy>()"]),
        ("src/main.rs", &["buoy_operator::manager(client)"]),
        (
            "tests/operator.rs",
            &["use buoy_operator::{Buoy, BuoySpec};", "\"system:serviceaccount:buoy-operator:"],
        ),
        (".gitignore", &["/target\n"]),
    ] {
        let text = read(&folder, file);
        for part in parts {
            assert!(text.contains(part), "{part} in {file}:\n{text}");
        }
        assert!(!text.contains("__"), "a token in {file}:\n{text}");
    }
}

#[tokio::test]
async fn the_manifests_are_accepted_by_an_api_server() {
    let home = tempfile::tempdir().unwrap();
    let (folder, _) = buoy_operator(home.path());
    let server = ["manifests/01-crd.yaml", "manifests/02-rbac.yaml", "manifests/03-deployment.yaml"]
        .iter()
        .fold(ApiServer::builder().in_process(), |server, file| server.yaml(&read(&folder, file)));
    let server = server.start().await.expect("the server accepts the manifests");
    let client = Client::from_service(server.url().parse().unwrap(), "default", server.service());
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let established = dogwatch::conditions::is_crd_established;
    let waiting = definitions.wait_for("buoys.sea.example", established);
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting)
        .await
        .expect("the definition is established within 30 seconds")
        .expect("the definition is there");

    let example: serde_json::Value = serde_saphyr::from_str(&read(&folder, "example.yaml")).unwrap();
    let gvk = Gvk::new("sea.example", "v1alpha1", "Buoy");
    let buoys = Api::<DynamicObject>::dynamic(client, ResourceType::namespaced(gvk, "buoys"));
    let example: DynamicObject = serde_json::from_value(example).unwrap();
    let created = buoys.in_namespace("default").create(&WriteParams::default(), &example).await.unwrap();
    assert_eq!(created.data["spec"]["replicas"], 2);
}

#[test]
fn the_default_is_a_folder_of_the_name_and_the_checkout_is_said_to_be_no_address_for_others() {
    let home = tempfile::tempdir().unwrap();
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let arguments = ["new", "mouse-operator", "--plural", "mice", "--dogwatch", checkout];
    let output = crate::dogwatch(home.path(), &arguments).current_dir(home.path()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).contains("Cargo.toml has the path of the checkout"));
    let crd = read(&home.path().join("mouse-operator"), "manifests/01-crd.yaml");
    assert!(crd.contains("name: mice.example.com\n"), "{crd}");
    let resource = read(&home.path().join("mouse-operator"), "src/resource.rs");
    assert!(resource.contains("plural = \"mice\""), "{resource}");
}

/// A package of the same name on a registry would be built with the code of a stranger.
#[test]
fn without_a_checkout_or_a_git_url_nothing_is_written() {
    let home = tempfile::tempdir().unwrap();
    let output =
        crate::dogwatch(home.path(), &["new", "website-operator"]).current_dir(home.path()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains("on no registry") && printed.contains("--dogwatch ../dogwatch"), "{printed}");
    assert!(!home.path().join("website-operator").exists());
    let git = ["new", "website-operator", "--dogwatch", "https://example.com/dogwatch.git"];
    let output = crate::dogwatch(home.path(), &git).current_dir(home.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = read(&home.path().join("website-operator"), "Cargo.toml");
    assert!(manifest.contains("dogwatch = { git = \"https://example.com/dogwatch.git\", "), "{manifest}");
}

#[test]
fn bad_arguments_are_rejected_with_a_reason_and_a_hint_and_write_nothing() {
    let home = tempfile::tempdir().unwrap();
    let full = home.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("notes"), "keep").unwrap();
    let (full, free) = (full.to_str().unwrap(), home.path().join("free"));
    let free = free.to_str().unwrap();
    for (arguments, error, hint) in [
        (&["Website", "--path", free][..], "\"Website\" is not a name for an operator", "website-operator"),
        (&["tokio", "--path", free], "a crate that the operator uses", "website-operator"),
        (&["web", "--kind", "web", "--path", free], "\"web\" is not a name for a kind\ncause: ", "--kind"),
        (&["web", "--group", "nodot", "--path", free], "\"nodot\" is not an API group", "--group"),
        (&["web", "--path", full], "exists and is not an empty folder", "--path"),
        (
            &["web", "--path", free, "--dogwatch", "/no/such"],
            "no dogwatch in \"/no/such\"\ncause: ",
            "git URL",
        ),
    ] {
        let output = run(home.path(), &[&["new"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let printed = text(&output.stderr);
        assert_failure(printed);
        let lines: Vec<&str> = printed.lines().collect();
        let (last, before) = lines.split_last().unwrap();
        assert!(before.join("\n").contains(error), "{printed}");
        assert!(last.starts_with("hint: ") && last.contains(hint), "{printed}");
        assert!(!Path::new(free).exists(), "{arguments:?} wrote something");
    }
    assert_eq!(std::fs::read_dir(full).unwrap().count(), 1);
}
