//! The order in which a program searches for its cluster, and the configuration of a pod (rules
//! KC-5 and KC-9).

use dogwatch_client::config::{Config, ConfigError, Environment, Overrides, Pem};

use super::{Files, overrides, secret, single, text, token};

/// Returns the environment of a pod with a service account.
fn pod(files: &Files) -> Environment {
    files.write("sa/token", "pod-token\n");
    files.write("sa/ca.crt", "-----BEGIN CERTIFICATE-----\n");
    files.write("sa/namespace", "pod-space\n");
    outside(files).with_var("KUBERNETES_SERVICE_HOST", "10.0.0.1").with_var("KUBERNETES_SERVICE_PORT", "443")
}

/// Returns an environment with an empty home directory.
fn outside(files: &Files) -> Environment {
    Environment::empty().with_home(files.path("home")).with_service_account(files.path("sa"))
}

fn infer(environment: &Environment) -> Result<Config, ConfigError> {
    Config::infer(environment, &Overrides::default())
}

const POD: &str = "https://10.0.0.1/";

#[test]
fn kc_5_a_kubeconfig_comes_before_the_pod() {
    let files = Files::new();
    let environment = pod(&files);
    assert_eq!(infer(&environment).unwrap().server.as_str(), POD);
    files.write("home/.kube/config", &single("{server: 'https://home'}", "{}"));
    assert_eq!(infer(&environment).unwrap().server.as_str(), "https://home/");
    let listed = files.write("listed", &single("{server: 'https://listed'}", "{}"));
    let environment = environment.with_var("KUBECONFIG", listed);
    assert_eq!(infer(&environment).unwrap().server.as_str(), "https://listed/");
    let explicit = files.write("explicit", &single("{server: 'https://explicit'}", "{}"));
    let config = Config::infer(&environment, &overrides(|it| it.kubeconfig = Some(explicit))).unwrap();
    assert_eq!(config.server.as_str(), "https://explicit/");
}

/// The content of `.kube/config`, and whether the pod is used then.
#[test]
fn kc_5_the_pod_is_used_only_if_no_cluster_is_configured() {
    let cases = [
        ("", true),
        ("current-context: ''", true),
        ("clusters: [{name: a, cluster: {server: 'https://a'}}]", true),
        ("preferences: {colors: true}", true),
        ("current-context: gone", false),
        ("contexts: [{name: a, context: {cluster: gone}}]\ncurrent-context: a", false),
        ("contexts: [{name: a, context: {user: gone}}]\ncurrent-context: a", false),
        ("clusters: [{name: a}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a", false),
        ("not a kubeconfig", false),
    ];
    for (text, used) in cases {
        let files = Files::new();
        let environment = pod(&files);
        files.write("home/.kube/config", text);
        match infer(&environment) {
            Ok(config) => assert!(used && config.server.as_str() == POD, "{text}"),
            Err(error) => assert!(!used && !error.is_empty(), "{text}: {error}"),
        }
    }
}

#[test]
fn kc_5_the_pod_takes_precedence_over_defaults() {
    let files = Files::new();
    let defaults = overrides(|it| it.cluster_defaults.server = text("http://localhost:8080"));
    let inside = Config::infer(&pod(&files), &defaults).unwrap();
    assert_eq!(inside.server.as_str(), POD);
    let alone = Environment::empty();
    assert_eq!(Config::infer(&alone, &defaults).unwrap().server.as_str(), "http://localhost:8080/");
}

#[test]
fn kc_5_a_file_named_by_the_caller_is_never_replaced_by_the_pod() {
    let files = Files::new();
    let empty = files.write("empty", "");
    let error =
        Config::infer(&pod(&files), &overrides(|it| it.kubeconfig = Some(empty.clone()))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no cluster is configured: searched {} (names no cluster); \
             set KUBECONFIG to the path of a kubeconfig, or name a server",
            empty.display()
        )
    );
}

#[test]
fn kc_5_all_broken_files_are_reported_together() {
    let files = Files::new();
    let (a, b) = (files.write("a", "clusters: 1"), files.write("b", "kind: Pod"));
    let list = std::env::join_paths([&a, &b]).unwrap();
    let error = infer(&pod(&files).with_var("KUBECONFIG", list)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot read the kubeconfig:\n  {}: line 1, column 11: expected a list\n  \
             {}: is not a kubeconfig: kind is \"Pod\" and not \"Config\"",
            a.display(),
            b.display()
        )
    );
}

#[test]
fn kc_9_a_pod_uses_its_service_account() {
    let files = Files::new();
    let config = infer(&pod(&files)).unwrap();
    assert_eq!((config.server.as_str(), token(&config)), (POD, Some("pod-token")));
    assert_eq!(config.auth.token_file, Some(files.path("sa/token")));
    assert!(matches!(&config.tls.ca, Some(Pem::File(path)) if *path == files.path("sa/ca.crt")));
    assert_eq!(config.default_namespace, "pod-space");
    assert!(!format!("{config:?}").contains("pod-token"));
}

#[test]
fn kc_9_hosts_of_all_kinds_become_addresses() {
    let files = Files::new();
    let cases = [
        ("10.0.0.1", "6443", "https://10.0.0.1:6443/"),
        ("fd00::1", "443", "https://[fd00::1]/"),
        ("fd00::1", "6443", "https://[fd00::1]:6443/"),
        ("kubernetes.default.svc", "443", "https://kubernetes.default.svc/"),
    ];
    for (host, port, server) in cases {
        let environment =
            pod(&files).with_var("KUBERNETES_SERVICE_HOST", host).with_var("KUBERNETES_SERVICE_PORT", port);
        assert_eq!(infer(&environment).unwrap().server.as_str(), server);
    }
}

#[test]
fn kc_9_unusable_roots_are_ignored() {
    let files = Files::new();
    let environment = pod(&files);
    files.write("sa/ca.crt", "nothing");
    assert!(infer(&environment).unwrap().tls.ca.is_none());
    std::fs::remove_file(files.path("sa/ca.crt")).unwrap();
    assert!(infer(&environment).unwrap().tls.ca.is_none());
}

#[test]
fn kc_6_a_pods_namespace_is_the_variable_then_the_file() {
    let files = Files::new();
    let environment = pod(&files);
    let named = environment.clone().with_var("POD_NAMESPACE", "variable");
    assert_eq!(infer(&named).unwrap().default_namespace, "variable");
    let asked = overrides(|it| it.namespace = text("asked"));
    assert_eq!(Config::infer(&named, &asked).unwrap().default_namespace, "asked");
    files.write("sa/namespace", " \n");
    assert_eq!(infer(&environment).unwrap().default_namespace, "default");
    std::fs::remove_file(files.path("sa/namespace")).unwrap();
    assert_eq!(infer(&environment).unwrap().default_namespace, "default");
}

/// Each override alone and with the others: a server, a token, a token file, roots.
#[test]
fn kc_5_overrides_apply_in_a_pod_too() {
    let files = Files::new();
    let environment = pod(&files);
    let (own_token, own_ca) = (files.write("own-token", "own"), files.write("own-ca", "pem"));
    for bits in 0..16_u8 {
        let [by_server, by_token, by_file, by_ca] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let overrides = overrides(|it| {
            it.cluster_info.server = by_server.then(|| "https://other".to_owned());
            it.user_info.token = by_token.then(|| secret("mine")).flatten();
            it.user_info.token_file = by_file.then(|| own_token.clone());
            it.cluster_info.certificate_authority = by_ca.then(|| own_ca.clone());
        });
        let config = Config::in_cluster_from(&environment, &overrides).unwrap();
        assert_eq!(config.server.as_str(), if by_server { "https://other/" } else { POD });
        let (value, file) = match (by_token, by_file) {
            (true, true) => ("mine", Some(own_token.clone())),
            (true, false) => ("mine", None),
            (false, true) => ("own", Some(own_token.clone())),
            (false, false) => ("pod-token", Some(files.path("sa/token"))),
        };
        assert_eq!((token(&config), &config.auth.token_file), (Some(value), &file), "{bits:04b}");
        let ca = if by_ca { own_ca.clone() } else { files.path("sa/ca.crt") };
        assert!(matches!(config.tls.ca, Some(Pem::File(path)) if path == ca), "{bits:04b}");
    }
    let insecure = overrides(|it| it.cluster_info.insecure_skip_tls_verify = true);
    let config = Config::in_cluster_from(&environment, &insecure).unwrap();
    assert!(config.tls.insecure_skip_verify && config.tls.ca.is_none());
}
