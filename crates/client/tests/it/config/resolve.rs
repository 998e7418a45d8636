//! Resolving one kubeconfig with overrides to settings (rules KC-3, KC-4, KC-6, KC-7 and KC-8).

use std::time::Duration;

use dogwatch_client::config::{
    Cluster, Config, Environment, ExecSection, HttpVersion, InteractiveMode, Kubeconfig, Overrides, Pem,
    PluginPolicy, User,
};
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::{Files, overrides, resolve, resolve_with, secret, single, text, token, with_cluster, with_user};

fn data(pem: &Pem) -> Option<&str> {
    match pem {
        Pem::Data(text) => Some(text.expose_secret()),
        _ => None,
    }
}

#[test]
fn a_clean_kubeconfig_becomes_settings() {
    let config = resolve(&single(
        "{server: 'https://host:6443/prefix', tls-server-name: name, disable-compression: true, \
         proxy-url: 'http://me:hush@proxy:3128'}",
        "{token: the-token, as: alice, as-uid: '7', as-groups: [g], as-user-extra: {k: [v, w]}}",
    ))
    .unwrap();
    assert_eq!(config.server.as_str(), "https://host:6443/prefix");
    assert_eq!(config.tls.server_name.as_deref(), Some("name"));
    assert!(config.disable_compression && config.tls.ca.is_none() && !config.tls.insecure_skip_verify);
    assert_eq!(config.proxy_url.as_ref().unwrap().as_str(), "http://me:hush@proxy:3128/");
    assert_eq!(token(&config), Some("the-token"));
    assert_eq!(config.impersonate.user.as_deref(), Some("alice"));
    assert_eq!(config.impersonate.uid.as_deref(), Some("7"));
    assert_eq!(config.impersonate.groups, ["g"]);
    assert_eq!(config.impersonate.extra["k"], ["v", "w"]);
    assert_eq!(config.default_namespace, "default");
    assert_eq!((config.timeout, config.http), (None, HttpVersion::Auto));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && !shown.contains("the-token"), "{shown}");
}

#[test]
fn certificates_in_the_file_are_decoded() {
    let config = resolve(&single(
        "{server: 'https://host', certificate-authority-data: Y2EtZGF0YQ==}",
        "{client-certificate-data: Y2VydC1kYXRh, client-key-data: a2V5LWRhdGE=}",
    ))
    .unwrap();
    assert_eq!(config.tls.ca.as_ref().and_then(data), Some("ca-data"));
    let identity = config.tls.identity.unwrap();
    assert_eq!((data(&identity.certificate), data(&identity.key)), (Some("cert-data"), Some("key-data")));
}

#[test]
fn certificates_in_other_files_stay_paths() {
    let files = Files::new();
    for name in ["ca", "cert", "key"] {
        files.write(name, name);
    }
    let path = files.write(
        "config",
        &single(
            "{server: 'https://host', certificate-authority: ca}",
            "{client-certificate: cert, client-key: key}",
        ),
    );
    let config = Config::from_kubeconfig(path, &Overrides::default()).unwrap();
    assert!(matches!(config.tls.ca, Some(Pem::File(path)) if path == files.path("ca")));
    let identity = config.tls.identity.unwrap();
    assert!(matches!(identity.certificate, Pem::File(path) if path == files.path("cert")));
    assert!(matches!(identity.key, Pem::File(path) if path == files.path("key")));
}

#[test]
fn kc_8_a_token_file_is_read_now_and_kept_for_later() {
    let files = Files::new();
    let path = files.write("token", "from-file\n");
    let user = format!("{{tokenFile: {}}}", path.display());
    let config = resolve(&single("{server: 'https://host'}", &user)).unwrap();
    assert_eq!((token(&config), config.auth.token_file.as_ref()), (Some("from-file"), Some(&path)));
}

#[test]
fn kc_8_a_token_comes_before_its_file() {
    let config = resolve(&single("{server: 'https://host'}", "{token: first, tokenFile: /gone}")).unwrap();
    assert_eq!((token(&config), &config.auth.token_file), (Some("first"), &Some("/gone".into())));
}

#[test]
fn kc_8_all_other_credentials_are_kept() {
    let config = resolve(&single("{server: 'https://host'}", "{username: me, password: hush}")).unwrap();
    let basic = config.auth.basic.as_ref().unwrap();
    assert_eq!((basic.username.as_str(), basic.password.expose_secret()), ("me", "hush"));
    assert!(!format!("{config:?}").contains("hush"));

    let config =
        resolve(&single("{server: 'https://host'}", "{auth-provider: {name: oidc, config: {a: b}}}"))
            .unwrap();
    let provider = config.auth.provider.unwrap();
    assert_eq!((provider.name.as_str(), provider.config["a"].as_str()), ("oidc", "b"));
}

#[test]
fn a_plugin_gets_the_clusters_data_if_it_requests_it() {
    let files = Files::new();
    let ca = files.write("ca", "pem");
    let cluster = format!(
        "{{server: 'https://host/', certificate-authority: {}, tls-server-name: name, proxy-url: 'http://proxy', \
         extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: foo, other: [1]}}}}]}}",
        ca.display()
    );
    let exec = |more: &str| {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: plugin, args: [a, b], \
             env: [{{name: K, value: v}}], installHint: \"get \\e[1mit\"{more}}}}}"
        );
        resolve(&single(&cluster, &user)).unwrap().auth.exec.unwrap()
    };
    let config = exec(", provideClusterInfo: true");
    assert_eq!(
        (config.command.as_str(), config.args.as_slice()),
        ("plugin", ["a".to_owned(), "b".to_owned()].as_slice())
    );
    assert_eq!((config.env[0].name.as_str(), config.env[0].value.as_str()), ("K", "v"));
    assert_eq!(config.install_hint.as_deref(), Some("get U+001B[1mit"));
    assert_eq!(config.interactive_mode, Some(InteractiveMode::IfAvailable));
    let cluster = config.cluster.unwrap();
    assert_eq!(cluster.server, "https://host");
    assert_eq!(cluster.tls_server_name.as_deref(), Some("name"));
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some("cGVt"));
    assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy"));
    assert_eq!(cluster.config, Some(json!({"audience": "foo", "other": [1]})));

    assert_eq!(exec("").cluster, None);
    assert_eq!(exec(", interactiveMode: Never").interactive_mode, Some(InteractiveMode::Never));
    assert_eq!(exec(", interactiveMode: Always").interactive_mode, Some(InteractiveMode::Always));
}

#[test]
fn kc_3_the_caller_can_supply_a_plugin() {
    let exec = ExecSection {
        api_version: text("client.authentication.k8s.io/v1"),
        command: text("mine"),
        interactive_mode: text("Never"),
        ..ExecSection::default()
    };
    let config = resolve_with(
        &single("{server: 'https://host'}", "{auth-provider: {name: oidc}}"),
        &with_user(User { exec: Some(exec), ..User::default() }),
    )
    .unwrap();
    assert_eq!(config.auth.exec.unwrap().command, "mine");
    assert!(config.auth.provider.is_none());
}

#[test]
fn kc_3_the_callers_fields_win() {
    let files = Files::new();
    let ca = files.write("ca", "pem");
    let yaml = single(
        "{server: 'https://host', tls-server-name: name, certificate-authority-data: Y2E=}",
        "{token: file-token}",
    );
    let server = with_cluster(Cluster { server: text("https://other"), ..Cluster::default() });
    let config = resolve_with(&yaml, &server).unwrap();
    assert_eq!((config.server.as_str(), config.tls.server_name.as_deref()), ("https://other/", None));

    let insecure = with_cluster(Cluster { insecure_skip_tls_verify: true, ..Cluster::default() });
    let config = resolve_with(&yaml, &insecure).unwrap();
    assert!(config.tls.insecure_skip_verify && config.tls.ca.is_none());

    let other_ca = with_cluster(Cluster { certificate_authority: Some(ca.clone()), ..Cluster::default() });
    let config = resolve_with(&yaml, &other_ca).unwrap();
    assert!(matches!(config.tls.ca, Some(Pem::File(path)) if path == ca));

    let config = resolve_with(&yaml, &with_user(User { token: secret("mine"), ..User::default() })).unwrap();
    assert_eq!(token(&config), Some("mine"));

    let rest = overrides(|it| {
        it.timeout = Some(Duration::from_secs(5));
        it.plugin_policy = PluginPolicy::DenyAll;
        it.cluster_info.disable_compression = true;
    });
    let config = resolve_with(&yaml, &rest).unwrap();
    assert_eq!((config.timeout, config.plugin_policy), (Some(Duration::from_secs(5)), PluginPolicy::DenyAll));
    assert!(config.disable_compression);
    let config = resolve_with(&yaml, &overrides(|it| it.timeout = Some(Duration::ZERO))).unwrap();
    assert_eq!(config.timeout, None);
}

#[test]
fn kc_3_a_certificate_of_the_callers_replaces_both_forms() {
    let files = Files::new();
    let (cert, key) = (files.write("cert", "c"), files.write("key", "k"));
    let yaml = single("{server: 'https://host'}", "{client-certificate-data: Yg==, client-key-data: Yg==}");
    let user = User { client_certificate: Some(cert.clone()), client_key: Some(key), ..User::default() };
    let identity = resolve_with(&yaml, &with_user(user)).unwrap().tls.identity.unwrap();
    assert!(matches!(identity.certificate, Pem::File(path) if path == cert));

    let user = User { client_certificate: Some(cert), ..User::default() };
    let identity = resolve_with(&yaml, &with_user(user)).unwrap().tls.identity.unwrap();
    assert_eq!(data(&identity.key), Some("b"));
}

/// Two of everything; the context `a` is current.
const TWO: &str = "\
clusters: [{name: a, cluster: {server: 'https://a'}}, {name: b, cluster: {server: 'https://b'}}]
users: [{name: a, user: {token: a}}, {name: b, user: {token: b}}]
contexts:
- {name: a, context: {cluster: a, user: a}}
- {name: b, context: {cluster: b, user: b, namespace: space}}
- {name: anonymous, context: {cluster: a}}
current-context: a
";

#[test]
fn kc_4_the_caller_chooses_context_cluster_and_user_apart() {
    // The context, cluster and user given by the caller; the resulting server, token and namespace.
    let cases = [
        ("", "", "", "https://a/", Some("a"), "default"),
        ("b", "", "", "https://b/", Some("b"), "space"),
        ("", "b", "", "https://b/", Some("a"), "default"),
        ("", "", "b", "https://a/", Some("b"), "default"),
        ("b", "a", "a", "https://a/", Some("a"), "space"),
        ("anonymous", "", "", "https://a/", None, "default"),
        ("anonymous", "b", "b", "https://b/", Some("b"), "default"),
    ];
    for (context, cluster, user, server, login, namespace) in cases {
        let asked =
            overrides(|it| (it.context, it.cluster, it.user) = (text(context), text(cluster), text(user)));
        let config = resolve_with(TWO, &asked).unwrap();
        assert_eq!(config.server.as_str(), server, "{context} {cluster} {user}");
        assert_eq!(token(&config), login, "{context} {cluster} {user}");
        assert_eq!(config.default_namespace, namespace, "{context} {cluster} {user}");
    }
}

#[test]
fn kc_4_values_given_by_the_caller_need_not_be_in_the_file() {
    let dangling =
        "contexts: [{name: a, context: {cluster: gone, user: gone, namespace: n}}]\ncurrent-context: a";
    let brought = overrides(|it| {
        it.cluster_info.server = text("https://host");
        it.user_info.token = secret("mine");
    });
    let config = resolve_with(dangling, &brought).unwrap();
    assert_eq!((config.server.as_str(), token(&config)), ("https://host/", Some("mine")));
    assert_eq!(config.default_namespace, "n");
    assert_eq!(resolve_with("", &brought).unwrap().server.as_str(), "https://host/");
}

#[test]
fn kc_3_defaults_fill_unset_fields_of_the_cluster() {
    let defaults = overrides(|it| it.cluster_defaults.server = text("http://localhost:8080"));
    let cases = [
        ("{}", "http://localhost:8080/"),
        ("{server: ''}", "http://localhost:8080/"),
        ("{server: 'https://host'}", "https://host/"),
    ];
    for (cluster, server) in cases {
        assert_eq!(resolve_with(&single(cluster, "{}"), &defaults).unwrap().server.as_str(), server);
    }
    assert_eq!(resolve_with("", &defaults).unwrap().server.as_str(), "http://localhost:8080/");
}

#[test]
fn kc_6_the_namespace_is_the_callers_or_the_contexts_or_the_pods() {
    let files = Files::new();
    files.write("sa/token", "t");
    files.write("sa/namespace", " from-file\n");
    let outside = Environment::empty().with_service_account(files.path("sa"));
    let inside = outside
        .clone()
        .with_var("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        .with_var("KUBERNETES_SERVICE_PORT", "443");
    let named = inside.clone().with_var("POD_NAMESPACE", "from-variable");
    let bare = inside.clone().with_service_account(files.path("gone"));
    let silent = single("{server: 'https://host'}", "{}");
    let explicit = silent.replace("user: a}", "user: a, namespace: default}");
    let asked = overrides(|it| it.namespace = text("asked"));
    let none = Overrides::default();
    let cases = [
        (&silent, &asked, &named, "asked"),
        (&explicit, &asked, &named, "asked"),
        (&explicit, &none, &named, "default"),
        (&silent, &none, &named, "from-variable"),
        (&silent, &none, &inside, "from-file"),
        (&silent, &none, &outside, "default"),
        (&silent, &none, &bare, "default"),
    ];
    for (yaml, overrides, environment, namespace) in cases {
        let config = Config::resolve(&Kubeconfig::from_yaml(yaml).unwrap(), overrides, environment).unwrap();
        assert_eq!(config.default_namespace, namespace, "{environment:?}");
    }
}

#[test]
fn kc_7_a_bare_host_is_https_if_there_are_tls_settings() {
    let cases = [
        ("{server: 'localhost:6443'}", "{}", "http://localhost:6443/"),
        ("{server: 'localhost:6443', insecure-skip-tls-verify: true}", "{}", "https://localhost:6443/"),
        ("{server: 'host:6443', certificate-authority-data: Y2E=}", "{token: t}", "https://host:6443/"),
        ("{server: host}", "{client-certificate-data: Yg==, client-key-data: Yg==}", "https://host/"),
        ("{server: '[::1]:80'}", "{}", "http://[::1]/"),
    ];
    for (cluster, user, server) in cases {
        assert_eq!(resolve(&single(cluster, user)).unwrap().server.as_str(), server, "{cluster}");
    }
}

#[test]
fn kc_7_credentials_are_sent_in_clear_text_only_to_loopback() {
    let users = [
        "{token: t}",
        "{username: u}",
        "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1beta1}}",
        "{auth-provider: {name: oidc}}",
        "{client-certificate-data: Yg==, client-key-data: Yg==}",
    ];
    let allow = overrides(|it| it.allow_plaintext_credentials = true);
    for user in users {
        let exposed = single("{server: 'http://host'}", user);
        assert!(resolve(&exposed).is_err(), "{user}");
        assert!(resolve_with(&exposed, &allow).unwrap().allow_plaintext_credentials, "{user}");
        assert!(resolve(&single("{server: 'http://127.0.0.1:8080'}", user)).is_ok(), "{user}");
        assert!(resolve(&single("{server: 'https://host'}", user)).is_ok(), "{user}");
    }
    let anonymous = resolve(&single("{server: 'http://host'}", "{as: alice}")).unwrap();
    assert_eq!(anonymous.impersonate.user.as_deref(), Some("alice"));
}

#[test]
fn http_2_can_be_turned_off_by_the_environment() {
    let kubeconfig = Kubeconfig::from_yaml(&single("{server: 'https://host'}", "{}")).unwrap();
    let environment = Environment::empty().with_var("DISABLE_HTTP2", "1");
    let config = Config::resolve(&kubeconfig, &Overrides::default(), &environment).unwrap();
    assert_eq!(config.http, HttpVersion::Http1);
}

#[test]
fn a_kubeconfig_built_in_code_works() {
    let cluster = Cluster { server: text("https://host"), ..Cluster::default() };
    let user = User { token: secret("t"), ..User::default() };
    let yaml = Kubeconfig::single("mine", cluster, user).to_yaml().unwrap();
    assert_eq!(
        yaml,
        "apiVersion: v1\nkind: Config\nclusters:\n- name: mine\n  cluster:\n    server: https://host\nusers:\n\
         - name: mine\n  user:\n    token: t\ncontexts:\n- name: mine\n  context:\n    cluster: mine\n    user: mine\n\
         current-context: mine\n"
    );
    let config = Config::from_kubeconfig_str(&yaml, &Overrides::default()).unwrap();
    assert_eq!(token(&config), Some("t"));
    assert_eq!(token(&config.anonymous()), None);
}
