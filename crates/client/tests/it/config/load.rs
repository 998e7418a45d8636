//! The files that are read, and their merge (rules KC-1 and KC-2).

use std::path::{Path, PathBuf};

use dogwatch_client::config::{ConfigError, Environment, Kubeconfig, Loaded};

use super::{Files, warnings_of};

/// Returns an environment in which `KUBECONFIG` lists these paths.
fn listing(paths: &[PathBuf]) -> Environment {
    Environment::empty().with_var("KUBECONFIG", std::env::join_paths(paths).unwrap())
}

fn load(environment: &Environment) -> Loaded {
    Kubeconfig::load(environment, None).unwrap()
}

/// Returns a kubeconfig that sets only its current context.
fn choosing(context: &str) -> String {
    format!("current-context: {context}")
}

fn chosen(loaded: &Loaded) -> Option<&str> {
    loaded.kubeconfig.current_context.as_deref()
}

#[test]
fn kc_1_an_explicit_file_is_the_only_one() {
    let files = Files::new();
    let explicit = files.write("explicit", &choosing("explicit"));
    let environment = listing(&[files.write("listed", "clusters: [{name: listed}]")]);
    let loaded = Kubeconfig::load(&environment, Some(&explicit)).unwrap();
    assert_eq!(chosen(&loaded), Some("explicit"));
    assert!(loaded.kubeconfig.clusters.is_empty());
    assert_eq!(loaded.files, [explicit]);
}

#[test]
fn kc_1_an_explicit_file_must_exist() {
    let path = Files::new().path("gone");
    let error = Kubeconfig::load(&Environment::empty(), Some(&path)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read the kubeconfig: {}: does not exist", path.display()));
}

#[test]
fn kc_1_an_empty_explicit_path_is_none() {
    let files = Files::new();
    let environment = listing(&[files.write("listed", &choosing("listed"))]);
    let loaded = Kubeconfig::load(&environment, Some(Path::new(""))).unwrap();
    assert_eq!(chosen(&loaded), Some("listed"));
}

#[test]
fn kc_1_missing_and_empty_names_are_skipped() {
    let files = Files::new();
    let present = files.write("present", &choosing("present"));
    let gone = files.path("gone");
    let loaded = load(&listing(&[PathBuf::new(), gone.clone(), present.clone(), PathBuf::new()]));
    assert_eq!(chosen(&loaded), Some("present"));
    assert_eq!((loaded.files, loaded.missing), (vec![present], vec![gone]));
}

#[test]
fn kc_1_a_file_listed_twice_is_read_once() {
    let files = Files::new();
    let (a, b) = (files.write("a", &choosing("a")), files.write("b", &choosing("b")));
    let loaded = load(&listing(&[a.clone(), b.clone(), a.clone(), b.clone()]));
    assert_eq!(loaded.files, [a, b]);
}

#[test]
fn kc_1_a_broken_file_is_reported_and_the_others_are_read() {
    let files = Files::new();
    let broken = files.write("broken", "clusters:\n- name: [a\n");
    let directory = files.path("directory");
    std::fs::create_dir(&directory).unwrap();
    let good = files.write("good", &choosing("good"));
    let loaded = load(&listing(&[broken.clone(), directory.clone(), good]));
    assert_eq!(chosen(&loaded), Some("good"));
    let reported: Vec<_> = loaded.broken.iter().map(|error| error.file.clone().unwrap()).collect();
    assert_eq!(reported, [broken, directory]);
    assert!(loaded.broken[0].position.is_some());
}

#[test]
fn kc_1_the_home_directory_is_used_only_if_the_variable_is_unset_or_empty() {
    let files = Files::new();
    files.write(".kube/config", &choosing("home"));
    let home = Environment::empty().with_home(files.path(""));
    assert_eq!(chosen(&load(&home)), Some("home"));
    assert_eq!(chosen(&load(&home.clone().with_var("KUBECONFIG", ""))), Some("home"));
    let gone = home.clone().with_var("KUBECONFIG", files.path("gone"));
    assert_eq!(chosen(&load(&gone)), None);
    let nothing = home.with_var("KUBECONFIG", std::env::join_paths(["", ""]).unwrap());
    assert_eq!(chosen(&load(&nothing)), None);
}

#[test]
fn kc_1_without_a_home_directory_there_is_nothing_to_read() {
    let loaded = load(&Environment::empty());
    assert!(loaded.files.is_empty() && loaded.missing.is_empty() && loaded.broken.is_empty());
    let loaded = load(&Environment::empty().with_home(""));
    assert!(loaded.missing.is_empty());
}

#[test]
fn kc_1_a_warning_is_logged_only_if_every_listed_file_is_missing() {
    let files = Files::new();
    let present = files.write("present", "");
    let gone = files.path("gone");
    let home = Environment::empty().with_home(files.path("nowhere"));
    let cases = [
        (listing(std::slice::from_ref(&gone)), 1),
        (listing(&[gone.clone(), files.path("gone too")]), 1),
        (listing(&[gone, present]), 0),
        (listing(&[PathBuf::new(), PathBuf::new()]), 0),
        (home, 0),
    ];
    for (environment, warnings) in cases {
        assert_eq!(warnings_of(|| drop(load(&environment))).len(), warnings, "{environment:?}");
    }
}

#[test]
fn kc_2_the_first_file_that_defines_an_entry_wins() {
    let files = Files::new();
    let one = files.write(
        "one",
        "users: [{name: red, user: {token: one}}]\nclusters: [{name: cow, cluster: {server: one}}]\n\
         contexts: [{name: federal, context: {namespace: one}}]\nextensions: [{name: x, extension: 1}]",
    );
    let two = files.write(
        "two",
        "users: [{name: red, user: {token: two, username: two}}, {name: blue, user: {username: two}}]\n\
         clusters: [{name: cow, cluster: {server: two, tls-server-name: two}}, {name: pig}]\n\
         contexts: [{name: federal, context: {namespace: two, cluster: cow}}]\n\
         extensions: [{name: x, extension: 2}, {name: y, extension: 2}]\ncurrent-context: federal",
    );
    let merged = load(&listing(&[one.clone(), two.clone()])).kubeconfig;
    let red = merged.user("red").unwrap();
    assert_eq!((red.username.as_deref(), red.origin.as_ref()), (None, Some(&one)));
    assert_eq!(merged.user("blue").unwrap().origin.as_ref(), Some(&two));
    let cow = merged.cluster("cow").unwrap();
    assert_eq!((cow.server.as_deref(), cow.tls_server_name.as_deref()), (Some("one"), None));
    assert!(merged.cluster("pig").is_some());
    let federal = merged.context("federal").unwrap();
    assert_eq!((federal.namespace.as_deref(), federal.cluster.as_deref()), (Some("one"), None));
    assert_eq!(federal.origin.as_ref(), Some(&one));
    let extensions: Vec<_> = merged.extensions.iter().map(|it| (&*it.name, it.extension.as_i64())).collect();
    assert_eq!(extensions, [("x", Some(1)), ("y", Some(2))]);
    assert_eq!(merged.current_context.as_deref(), Some("federal"));
}

#[test]
fn kc_2_the_first_current_context_wins() {
    let files = Files::new();
    let paths = [
        files.write("none", "current-context: ''"),
        files.write("one", &choosing("one")),
        files.write("two", &choosing("two")),
    ];
    assert_eq!(chosen(&load(&listing(&paths))), Some("one"));
}

#[test]
fn kc_2_relative_paths_start_at_the_file_that_wrote_them() {
    let files = Files::new();
    let one = files.write(
        "one/config",
        "clusters: [{name: a, cluster: {certificate-authority: ca.pem}}]\n\
         users: [{name: a, user: {client-certificate: ../c.pem, client-key: /abs/k.pem, tokenFile: t}}]",
    );
    let two =
        files.write("two/config", "users: [{name: b, user: {tokenFile: t, exec: {command: ./plugin}}}]");
    let merged = load(&listing(&[one, two])).kubeconfig;
    let a = merged.user("a").unwrap();
    assert_eq!(merged.cluster("a").unwrap().certificate_authority, Some(files.path("one/ca.pem")));
    assert_eq!(a.client_certificate, Some(files.path("one/../c.pem")));
    assert_eq!(a.client_key, Some("/abs/k.pem".into()));
    assert_eq!(a.token_file, Some(files.path("one/t")));
    let b = merged.user("b").unwrap();
    assert_eq!(b.token_file, Some(files.path("two/t")));
    assert_eq!(b.exec.as_ref().unwrap().command.as_deref(), files.path("two/./plugin").to_str());
}

#[test]
fn a_single_file_is_read_with_its_paths_as_written() {
    let files = Files::new();
    let path = files.write("config", "users: [{name: a, user: {tokenFile: t}}]");
    let read = Kubeconfig::read(&path).unwrap();
    assert_eq!(read.user("a").unwrap().token_file, Some("t".into()));
    assert_eq!(read.user("a").unwrap().origin, Some(path));
    assert!(matches!(Kubeconfig::read(files.path("gone")), Err(ConfigError::Files(_))));
}
