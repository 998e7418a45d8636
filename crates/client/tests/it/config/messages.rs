//! The messages of configuration errors, word for word.

use dogwatch_client::config::{Config, ConfigError, Environment, Overrides, User};

use super::{Files, overrides, resolve, resolve_with, single, text, with_user};

/// Returns the error message.
fn error_message(result: Result<Config, ConfigError>) -> String {
    result.map(|_| "nothing is wrong").unwrap_err().to_string()
}

/// Returns the error message about a kubeconfig, read from a file whose name becomes `FILE`.
fn message_for_file(yaml: &str, overrides: &Overrides) -> String {
    let files = Files::new();
    let path = files.write("config", yaml);
    error_message(Config::from_kubeconfig(&path, overrides)).replace(&path.display().to_string(), "FILE")
}

fn plain() -> Overrides {
    Overrides::default()
}

#[test]
fn malformed_text() {
    assert_eq!(
        message_for_file("clusters:\n- cluster: {server: [}\n", &plain())
            .split_inclusive("column ")
            .next()
            .unwrap(),
        "cannot read the kubeconfig: FILE: line 2, column "
    );
    assert_eq!(
        message_for_file("users:\n- name: a\n  user: hush\n", &plain()),
        "cannot read the kubeconfig: FILE: line 3, column 9: expected a mapping"
    );
}

#[test]
fn kc_4_names_given_by_the_caller_that_do_not_exist() {
    let yaml = single("{server: 'https://h'}", "{}");
    let cases = [
        (overrides(|it| it.context = text("x")), "context \"x\" does not exist; defined: \"a\""),
        (overrides(|it| it.cluster = text("x")), "cluster \"x\" does not exist; defined: \"a\""),
        (overrides(|it| it.user = text("x")), "user \"x\" does not exist; defined: \"a\""),
    ];
    for (asked, message) in cases {
        assert_eq!(error_message(resolve_with(&yaml, &asked)), message);
    }
    let two = "contexts: [{name: a}, {name: b}]";
    let asked = overrides(|it| it.context = text("x"));
    assert_eq!(
        error_message(resolve_with(two, &asked)),
        "context \"x\" does not exist; defined: \"a\", \"b\""
    );
    let error = resolve_with("", &asked).unwrap_err();
    assert_eq!(error.to_string(), "context \"x\" does not exist; none is defined");
    assert!(error.is_context_not_found());
}

#[test]
fn kc_4_names_in_the_file_that_do_not_exist() {
    let head = "the configuration cannot be used:";
    assert_eq!(
        error_message(resolve("current-context: gone")),
        format!("{head} context \"gone\": current-context: there is no such context")
    );
    assert!(resolve("current-context: gone").unwrap_err().is_context_not_found());
    let yaml = "clusters: [{name: a, cluster: {server: 'https://h'}}]\n\
                contexts: [{name: c, context: {cluster: CLUSTER, user: USER}}]\ncurrent-context: c";
    let of = |cluster: &str, user: &str| yaml.replace("CLUSTER", cluster).replace("USER", user);
    assert_eq!(
        message_for_file(&of("a", "gone"), &plain()),
        format!("{head} context \"c\" of FILE: user: there is no user \"gone\"")
    );
    assert_eq!(
        message_for_file(&of("gone", ""), &plain()),
        format!("{head} context \"c\" of FILE: cluster: there is no cluster \"gone\"")
    );
    assert_eq!(
        message_for_file(&of("", ""), &plain()),
        format!("{head} context \"c\" of FILE: cluster: is missing")
    );
    assert_eq!(
        message_for_file(&of("gone", "gone"), &plain()),
        format!(
            "{head}\n  context \"c\" of FILE: cluster: there is no cluster \"gone\"\n  \
             context \"c\" of FILE: user: there is no user \"gone\""
        )
    );
}

#[test]
fn kc_8_entries_that_cannot_be_used() {
    let head = "the configuration cannot be used:";
    assert_eq!(
        message_for_file(&single("{}", "{}"), &plain()),
        format!("{head} cluster \"a\" of FILE: server: is missing")
    );
    assert_eq!(
        message_for_file(&single("{server: 'https://h'}", "{client-certificate-data: Yg==}"), &plain()),
        format!(
            "{head} user \"a\" of FILE: client-key: is missing: client-certificate needs \
             client-key or client-key-data"
        )
    );
    assert_eq!(
        message_for_file(
            &single("{server: 'https://h'}", "{client-certificate-data: Yg==, client-key-data: hush!}"),
            &plain()
        ),
        format!("{head} user \"a\" of FILE: client-key-data: is not base64")
    );
    assert_eq!(
        message_for_file(
            &single(
                "{server: 'https://h', certificate-authority-data: '/v8='}",
                "{token: hush, username: u}"
            ),
            &plain()
        ),
        format!(
            "{head}\n  cluster \"a\" of FILE: certificate-authority-data: is not base64 of PEM text\n  \
             user \"a\" of FILE: token: excludes username and password; set only one of them"
        )
    );
    let asked = overrides(|it| it.namespace = text("Not/Ok"));
    assert_eq!(
        error_message(resolve_with(&single("{server: 'https://h'}", "{}"), &asked)),
        format!(
            "{head} the context given by the caller: namespace: \"Not/Ok\" is not a DNS label: \
             at most 63 of a-z, 0-9 and -, with no - at either end"
        )
    );
}

#[test]
fn an_unreadable_token_file() {
    let files = Files::new();
    let gone = files.path("gone");
    let cause = std::fs::File::open(&gone).unwrap_err();
    let user = User { token_file: Some(gone.clone()), ..User::default() };
    assert_eq!(
        error_message(resolve_with(&single("{server: 'https://h'}", "{}"), &with_user(user))),
        format!(
            "the configuration cannot be used: user \"a\": tokenFile: cannot read {}: {cause}",
            gone.display()
        )
    );
    let empty = files.write("empty", " \n");
    let user = User { token_file: Some(empty.clone()), ..User::default() };
    assert_eq!(
        error_message(resolve_with(&single("{server: 'https://h'}", "{}"), &with_user(user))),
        format!("the configuration cannot be used: user \"a\": tokenFile: {} is empty", empty.display())
    );
}

#[test]
fn kc_7_credentials_in_clear_text() {
    let end = "use https:// in the server of cluster \"a\", or allow plaintext credentials";
    assert_eq!(
        error_message(resolve(&single("{server: 'http://host:8080/'}", "{token: hush}"))),
        format!("refusing to send the token of user \"a\" in clear text to http://host:8080; {end}")
    );
    assert_eq!(
        error_message(resolve(&single("{server: 'host:8080'}", "{username: me, password: hush}"))),
        format!("refusing to send the password of user \"a\" in clear text to http://host:8080; {end}")
    );
}

#[test]
fn kc_5_nothing_is_configured() {
    let files = Files::new();
    let home = Environment::empty().with_home(files.path("home")).with_service_account(files.path("sa"));
    let missing = files.path("home/.kube/config");
    let end = "set KUBECONFIG to the path of a kubeconfig, or name a server";
    assert_eq!(
        error_message(Config::infer(&home, &plain())),
        format!(
            "no cluster is configured: searched {} (does not exist); \
             not running in a pod: KUBERNETES_SERVICE_HOST is not set; {end}",
            missing.display()
        )
    );
    let half = home.with_var("KUBERNETES_SERVICE_HOST", "h").with_var("KUBERNETES_SERVICE_PORT", "1");
    assert_eq!(
        error_message(Config::infer(&half, &plain())),
        format!(
            "no cluster is configured: searched {} (does not exist); not running in a pod: {} does not exist; {end}",
            missing.display(),
            files.path("sa/token").display()
        )
    );
    assert_eq!(
        error_message(Config::infer(&Environment::empty(), &plain())),
        format!(
            "no cluster is configured: there is no kubeconfig; \
             not running in a pod: KUBERNETES_SERVICE_HOST is not set; {end}"
        )
    );
    assert_eq!(
        error_message(resolve("")),
        format!("no cluster is configured: searched the given kubeconfig (names no cluster); {end}")
    );
}

#[test]
fn no_context_is_chosen() {
    let error = resolve("contexts: [{name: a}, {name: b}]").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no context is chosen and the kubeconfig has no current-context; defined: \"a\", \"b\""
    );
    assert!(error.is_empty());
}

#[test]
fn kc_9_not_in_a_pod() {
    let files = Files::new();
    let empty = Environment::empty().with_service_account(files.path("sa"));
    assert_eq!(
        error_message(Config::in_cluster_from(&empty, &plain())),
        "not running in a pod: KUBERNETES_SERVICE_HOST is not set"
    );
    let half = empty.with_var("KUBERNETES_SERVICE_HOST", "h");
    assert_eq!(
        error_message(Config::in_cluster_from(&half, &plain())),
        "not running in a pod: KUBERNETES_SERVICE_PORT is not set"
    );
    let asked = overrides(|it| {
        it.namespace = text("No");
        it.user_info.token = super::secret("t");
    });
    let half = half.with_var("KUBERNETES_SERVICE_PORT", "1");
    assert!(
        error_message(Config::in_cluster_from(&half, &asked))
            .contains("namespace: \"No\" is not a DNS label")
    );
    let token = files.path("sa/token");
    let cause = std::fs::File::open(&token).unwrap_err();
    assert_eq!(
        error_message(Config::in_cluster_from(&half, &plain())),
        format!(
            "the configuration cannot be used: user \"in-cluster\": tokenFile: cannot read {}: {cause}",
            token.display()
        )
    );
}
