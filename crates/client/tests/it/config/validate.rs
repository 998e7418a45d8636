//! Problems of entries (rule KC-8): one line per fact.

use dogwatch_client::config::{ConfigError, Kubeconfig};

use super::{Files, resolve, single};

/// Returns the problems of a kubeconfig, without the heading.
fn problems(yaml: &str) -> Vec<String> {
    match Kubeconfig::from_yaml(yaml).unwrap().validate() {
        Ok(()) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn kc_8_valid_entries_have_no_problems() {
    let files = Files::new();
    let path = files.write("file", "pem").display().to_string();
    let v1 = "apiVersion: client.authentication.k8s.io/v1, command: c, interactiveMode";
    let cases = [
        ("{server: 'https://h'}".to_owned(), "{}".to_owned()),
        ("{server: 'h:80', insecure-skip-tls-verify: true}".to_owned(), "{token: t}".to_owned()),
        (format!("{{server: h, certificate-authority: {path}}}"), format!("{{tokenFile: {path}}}")),
        ("{server: h, certificate-authority-data: Y2E=}".to_owned(), "{username: u, password: p}".to_owned()),
        ("{server: h}".to_owned(), format!("{{client-certificate: {path}, client-key: {path}}}")),
        ("{server: h}".to_owned(), format!("{{client-certificate-data: Yg==, client-key: {path}}}")),
        (
            "{server: h}".to_owned(),
            "{token: t, client-certificate-data: Yg==, client-key-data: Yg==}".to_owned(),
        ),
        ("{server: h}".to_owned(), "{token: t, tokenFile: /gone}".to_owned()),
        ("{server: h}".to_owned(), format!("{{exec: {{{v1}: Never}}}}")),
        ("{server: h}".to_owned(), format!("{{exec: {{{v1}: Always, env: [{{name: a}}]}}}}")),
        (
            "{server: h}".to_owned(),
            "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: c}}".to_owned(),
        ),
        ("{server: h}".to_owned(), "{as: a}".to_owned()),
        ("{server: h}".to_owned(), "{as: a, as-uid: u, as-groups: [g], as-user-extra: {k: [v]}}".to_owned()),
        ("{server: h}".to_owned(), "{client-key: /gone}".to_owned()),
    ];
    for (cluster, user) in cases {
        assert_eq!(problems(&single(&cluster, &user)), [""; 0], "{cluster} {user}");
    }
}

#[test]
fn kc_8_problems_of_clusters() {
    let cases = [
        ("{}", "server: is missing"),
        ("{tls-server-name: n}", "server: is missing"),
        ("{server: 'ftp://h'}", "server: \"ftp://h\" is neither an http:// nor an https:// address"),
        (
            "{server: h, proxy-url: 'socks6://me:hush@p'}",
            "proxy-url: \"socks6://[REDACTED]@p\" is not an http://, https:// or socks5:// address",
        ),
        ("{server: h, certificate-authority-data: '!'}", "certificate-authority-data: is not base64"),
        (
            "{server: h, certificate-authority-data: Y2E=, insecure-skip-tls-verify: true}",
            "insecure-skip-tls-verify: excludes a certificate authority; set only one of them",
        ),
    ];
    for (cluster, problem) in cases {
        assert_eq!(problems(&single(cluster, "{}")), [format!("cluster \"a\": {problem}")]);
    }
}

#[test]
fn kc_8_problems_of_users() {
    let exec = "apiVersion: client.authentication.k8s.io/v1, command: c, interactiveMode: Never";
    let cases = [
        ("{token: t, username: u}".to_owned(), "token: excludes username and password; set only one of them"),
        ("{token: t, password: p}".to_owned(), "token: excludes username and password; set only one of them"),
        (
            "{client-certificate-data: Yg==}".to_owned(),
            "client-key: is missing: client-certificate needs client-key or client-key-data",
        ),
        (
            "{client-certificate-data: '!', client-key-data: Yg==}".to_owned(),
            "client-certificate-data: is not base64",
        ),
        (
            "{client-certificate-data: Yg==, client-key-data: '!'}".to_owned(),
            "client-key-data: is not base64",
        ),
        (
            format!("{{auth-provider: {{name: n}}, exec: {{{exec}}}}}"),
            "exec: excludes auth-provider; set only one of them",
        ),
        (format!("{{exec: {{{}}}}}", exec.replace("command: c, ", "")), "exec.command: is missing"),
        ("{exec: {command: c, interactiveMode: Never}}".to_owned(), "exec.apiVersion: is missing"),
        (
            format!("{{exec: {{{}}}}}", exec.replace("io/v1", "io/v1alpha1")),
            "exec.apiVersion: \"client.authentication.k8s.io/v1alpha1\" is not supported; \
             use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1",
        ),
        (format!("{{exec: {{{exec}, env: [{{value: hush}}]}}}}"), "exec.env: has a variable without a name"),
        (
            format!("{{exec: {{{}}}}}", exec.replace(", interactiveMode: Never", "")),
            "exec.interactiveMode: is missing; use Never, IfAvailable or Always",
        ),
        (
            format!("{{exec: {{{}}}}}", exec.replace("Never", "Sometimes")),
            "exec.interactiveMode: \"Sometimes\" is not one of Never, IfAvailable and Always",
        ),
        ("{as-uid: u}".to_owned(), "as: is missing: as-uid, as-groups and as-user-extra need it"),
        ("{as-groups: [g]}".to_owned(), "as: is missing: as-uid, as-groups and as-user-extra need it"),
        (
            "{as-user-extra: {k: [v]}}".to_owned(),
            "as: is missing: as-uid, as-groups and as-user-extra need it",
        ),
    ];
    for (user, problem) in cases {
        assert_eq!(problems(&single("{server: h}", &user)), [format!("user \"a\": {problem}")], "{user}");
    }
}

#[test]
fn kc_8_a_form_given_twice_is_a_problem() {
    let files = Files::new();
    let path = files.write("file", "pem").display().to_string();
    let cluster = format!("{{server: h, certificate-authority: {path}, certificate-authority-data: Y2E=}}");
    assert_eq!(
        problems(&single(&cluster, "{}")),
        ["cluster \"a\": certificate-authority: excludes certificate-authority-data; set only one of them"]
    );
    let user = format!(
        "{{client-certificate: {path}, client-certificate-data: Yg==, client-key: {path}, client-key-data: Yg==}}"
    );
    assert_eq!(
        problems(&single("{server: h}", &user)),
        [
            "user \"a\": client-certificate: excludes client-certificate-data; set only one of them",
            "user \"a\": client-key: excludes client-key-data; set only one of them",
        ]
    );
}

#[test]
fn kc_8_files_must_be_readable() {
    let gone = Files::new().path("gone");
    let error = std::fs::File::open(&gone).unwrap_err();
    let gone = gone.display();
    let cases = [
        ("certificate-authority", single(&format!("{{server: h, certificate-authority: {gone}}}"), "{}")),
        (
            "client-certificate",
            single("{server: h}", &format!("{{client-certificate: {gone}, client-key-data: Yg==}}")),
        ),
        (
            "client-key",
            single("{server: h}", &format!("{{client-certificate-data: Yg==, client-key: {gone}}}")),
        ),
        ("tokenFile", single("{server: h}", &format!("{{tokenFile: {gone}}}"))),
    ];
    for (field, yaml) in cases {
        let kind = if field == "certificate-authority" { "cluster" } else { "user" };
        assert_eq!(problems(&yaml), [format!("{kind} \"a\": {field}: cannot read {gone}: {error}")]);
    }
}

#[test]
fn kc_8_problems_of_contexts() {
    let label = "is not a DNS label: at most 63 of a-z, 0-9 and -, with no - at either end";
    let cases = [
        ("{name: c, context: {cluster: a}}", "context \"c\": user: is missing".to_owned()),
        ("{name: c, context: {user: a}}", "context \"c\": cluster: is missing".to_owned()),
        (
            "{name: c, context: {cluster: a, user: z}}",
            "context \"c\": user: there is no user \"z\"".to_owned(),
        ),
        (
            "{name: c, context: {cluster: z, user: a}}",
            "context \"c\": cluster: there is no cluster \"z\"".to_owned(),
        ),
        ("{context: {cluster: a, user: a}}", "the context given by the caller: name: is missing".to_owned()),
        (
            "{name: c, context: {cluster: a, user: a, namespace: Not_Ok}}",
            format!("context \"c\": namespace: \"Not_Ok\" {label}"),
        ),
        (
            "{name: c, context: {cluster: a, user: a, namespace: a-}}",
            format!("context \"c\": namespace: \"a-\" {label}"),
        ),
    ];
    for (context, problem) in cases {
        let yaml = format!(
            "clusters: [{{name: a, cluster: {{server: h}}}}]\nusers: [{{name: a}}]\ncontexts: [{context}]\n"
        );
        assert_eq!(problems(&yaml), [problem]);
    }
}

#[test]
fn kc_8_every_problem_is_reported() {
    let yaml = "current-context: gone\ncontexts: [{name: c}]\nclusters: [{name: d}]\nusers: [{name: u, user: {as-uid: x}}]";
    assert_eq!(
        problems(yaml),
        [
            "context \"gone\": current-context: there is no such context",
            "context \"c\": user: is missing",
            "context \"c\": cluster: is missing",
            "user \"u\": as: is missing: as-uid, as-groups and as-user-extra need it",
            "cluster \"d\": server: is missing",
        ]
    );
}

#[test]
fn an_unused_entry_may_be_invalid() {
    let yaml = single("{server: 'https://h'}", "{}")
        .replace("clusters: [", "clusters: [{name: bad, cluster: {proxy-url: x}}, ")
        .replace("users: [", "users: [{name: bad, user: {exec: {interactiveMode: Odd}}}, ");
    assert!(resolve(&yaml).is_ok());
    assert_eq!(problems(&yaml).len(), 5);
}

#[test]
fn an_empty_kubeconfig_is_not_valid() {
    let error = Kubeconfig::default().validate().unwrap_err();
    assert!(error.is_empty());
    assert!(!Kubeconfig::from_yaml("clusters: [{name: a}]").unwrap().validate().unwrap_err().is_empty());
}
