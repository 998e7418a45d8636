//! Credential plugins that work (rule AU-3). Each is a real shell script that counts its runs.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dogwatch_client::auth::{AuthError, AuthLayer, AuthOptions, Credentials};
use dogwatch_client::config::{
    ExecCluster, ExecConfig, ExecEnv, Identity, InteractiveMode, Pem, PluginPolicy,
};
use dogwatch_client::{Client, Config};
use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use metrics_util::debugging::DebugValue;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tower::ServiceExt;
use tower_layer::Layer;

use super::{Server, authorize, config};
use crate::support::{Authority, ServerSetup, text};

pub(super) const V1: &str = "client.authentication.k8s.io/v1";

/// A plugin in its own directory. The script sees the directory as `$DIR`, and the number of this
/// run as `$RUN`.
pub(super) struct Script {
    home: TempDir,
    pub(super) exec: ExecConfig,
}

impl Script {
    pub(super) fn new(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let prelude = "echo run >> \"$DIR/runs\"\nRUN=$(($(wc -l < \"$DIR/runs\")))\n";
        fs::write(home.path().join("plugin.sh"), format!("{prelude}{script}\n")).unwrap();
        let directory = home.path().to_str().unwrap().to_owned();
        let exec = ExecConfig {
            api_version: V1.to_owned(),
            // Run by an existing shell: executing a script written a moment ago may fail while
            // another test forks with its file open for writing.
            command: "/bin/sh".to_owned(),
            args: vec![format!("{directory}/plugin.sh")],
            env: vec![ExecEnv { name: "DIR".to_owned(), value: directory }],
            interactive_mode: Some(InteractiveMode::Never),
            ..ExecConfig::default()
        };
        Self { home, exec }
    }

    /// A plugin that prints this status, in which the shell replaces `$RUN`.
    pub(super) fn printing(status: &Value) -> Self {
        Self::new(&format!("cat <<END\n{}\nEND", document(V1, status)))
    }

    pub(super) fn credentials(&self) -> Credentials {
        self.with_options(AuthOptions::default()).unwrap()
    }

    pub(super) fn with_options(&self, options: AuthOptions) -> Result<Credentials, AuthError> {
        let mut config = config();
        config.auth.exec = Some(self.exec.clone());
        Credentials::with_options(&config, options)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(super) fn runs(&self) -> usize {
        fs::read_to_string(self.file("runs")).unwrap_or_default().lines().count()
    }

    /// A pipe that the script can open as `$DIR/alive`: it ends when the last process that has it
    /// open ends.
    pub(super) fn lifeline(&self) -> pipe::Receiver {
        let path = self.file("alive");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        pipe::OpenOptions::new().open_receiver(path).unwrap()
    }
}

pub(super) fn document(version: &str, status: &Value) -> Value {
    json!({ "apiVersion": version, "kind": "ExecCredential", "status": status })
}

fn in_seconds(seconds: i64) -> String {
    (Timestamp::now() + SignedDuration::from_secs(seconds)).to_string()
}

async fn token(credentials: &Credentials) -> String {
    authorize(credentials).await.unwrap().0
}

#[tokio::test]
async fn au_3_a_credential_is_kept_until_it_expires_and_for_ever_without_an_expiry() {
    for status in
        [json!({"token": "t$RUN"}), json!({"token": "t$RUN", "expirationTimestamp": in_seconds(3600)})]
    {
        let script = Script::printing(&status);
        let credentials = script.credentials();
        for _ in 0..3 {
            assert_eq!(token(&credentials).await, "Bearer t1");
        }
        assert_eq!(script.runs(), 1, "{status}");
    }
}

#[tokio::test]
async fn au_3_an_expired_credential_is_replaced_before_the_next_request() {
    let script = Script::printing(&json!({"token": "t$RUN", "expirationTimestamp": in_seconds(-1)}));
    let credentials = script.credentials();
    assert_eq!(token(&credentials).await, "Bearer t1");
    assert_eq!(token(&credentials).await, "Bearer t2");
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn au_3_a_401_runs_the_plugin_again_and_sends_the_request_again() {
    let script = Script::printing(&json!({"token": "t$RUN"}));
    let credentials = script.credentials();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::OK);
    assert_eq!(server.authorizations(), ["Bearer t1", "Bearer t2"]);
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn a_request_is_not_repeated_if_the_plugin_returns_the_same_token() {
    let script = Script::printing(&json!({"token": "same"}));
    let credentials = script.credentials();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.authorizations(), ["Bearer same"]);
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn au_3_a_late_401_to_old_credentials_runs_nothing() {
    let script = Script::printing(&json!({"token": "t$RUN"}));
    let credentials = script.credentials();
    let (_, old) = authorize(&credentials).await.unwrap();
    credentials.rejected(old.clone());
    assert_eq!(token(&credentials).await, "Bearer t2");
    credentials.rejected(old);
    assert_eq!(token(&credentials).await, "Bearer t2");
    assert_eq!(script.runs(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn au_3_twenty_requests_at_once_run_one_process() {
    let script = Script::printing(&json!({"token": "t$RUN"}));
    let credentials = script.credentials();
    let requests = (0..20).map(|_| {
        let credentials = credentials.clone();
        tokio::spawn(async move { token(&credentials).await })
    });
    for result in join_all(requests).await {
        assert_eq!(result.unwrap(), "Bearer t1");
    }
    assert_eq!(script.runs(), 1);
}

#[tokio::test]
async fn twenty_rejections_at_once_run_one_process_more() {
    let script = Script::printing(&json!({"token": "t$RUN"}));
    let credentials = script.credentials();
    let tickets: Vec<_> = join_all((0..20).map(|_| authorize(&credentials))).await;
    for ticket in tickets {
        credentials.rejected(ticket.unwrap().1);
    }
    let again = join_all((0..20).map(|_| token(&credentials))).await;
    assert!(again.iter().all(|token| token == "Bearer t2"), "{again:?}");
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn au_3_a_plugin_gets_the_clusters_data_only_if_the_kubeconfig_requests_it() {
    let cluster = ExecCluster {
        server: "https://cluster.example:6443".to_owned(),
        certificate_authority_data: Some("Q0E=".to_owned()),
        config: Some(json!({"audience": "a"})),
        ..ExecCluster::default()
    };
    for version in [V1, "client.authentication.k8s.io/v1beta1"] {
        for provide in [false, true] {
            let answer = document(version, &json!({"token": "t"}));
            let mut script =
                Script::new(&format!("printf %s \"$KUBERNETES_EXEC_INFO\" > \"$DIR/info\"\necho '{answer}'"));
            script.exec.api_version = version.to_owned();
            script.exec.cluster = Some(cluster.clone());
            script.exec.provide_cluster_info = provide;
            assert_eq!(token(&script.credentials()).await, "Bearer t");

            let info: Value =
                serde_json::from_str(&fs::read_to_string(script.file("info")).unwrap()).unwrap();
            let mut spec = json!({ "interactive": false });
            if provide {
                spec["cluster"] = json!({
                    "server": "https://cluster.example:6443",
                    "certificate-authority-data": "Q0E=",
                    "config": {"audience": "a"},
                });
            }
            assert_eq!(info, json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec}));
        }
    }
}

#[tokio::test]
async fn au_3_a_plugin_gets_the_processs_environment_and_its_own_and_no_input() {
    let answer = document(V1, &json!({"token": "$1-$OWN-$KUBERNETES_EXEC_INFO_SEEN-$ours-$input"}));
    let mut script = Script::new(&format!(
        "case $KUBERNETES_EXEC_INFO in {{*) KUBERNETES_EXEC_INFO_SEEN=ours;; esac\n\
         [ -n \"$PATH\" ] && ours=inherited\nif read line; then input=some; else input=none; fi\n\
         cat <<END\n{answer}\nEND"
    ));
    script.exec.args.push("argument".to_owned());
    let variable = |name: &str, value: &str| ExecEnv { name: name.to_owned(), value: value.to_owned() };
    script.exec.env.extend([variable("OWN", "own"), variable("KUBERNETES_EXEC_INFO", "spoofed")]);
    assert_eq!(token(&script.credentials()).await, "Bearer argument-own-ours-inherited-none");
}

fn pair() -> (String, String) {
    let pair = rcgen::generate_simple_self_signed(["jane".to_owned()]).unwrap();
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

fn texts(identity: &Identity) -> (&str, &str) {
    match (&identity.certificate, &identity.key) {
        (Pem::Data(certificate), Pem::Data(key)) => (certificate.expose_secret(), key.expose_secret()),
        other => panic!("expected data, got {other:?}"),
    }
}

#[tokio::test]
async fn au_3_only_a_new_certificate_is_published_on_the_channel() {
    let (first, second) = (pair(), pair());
    let status = |token: &str, (certificate, key): &(String, String)| json!({"token": token, "clientCertificateData": certificate, "clientKeyData": key});
    let script = Script::new("cat \"$DIR/answer\"");
    let answer = |status: &Value| fs::write(script.file("answer"), document(V1, status).to_string()).unwrap();
    let credentials = script.credentials();
    let mut identity = credentials.identity();
    assert!(identity.borrow().is_none());

    answer(&status("one", &first));
    let (text, ticket) = authorize(&credentials).await.unwrap();
    assert_eq!(text, "Bearer one");
    assert!(identity.has_changed().unwrap());
    let announced = identity.borrow_and_update().clone().unwrap();
    assert_eq!(texts(&announced), (first.0.as_str(), first.1.as_str()));

    answer(&status("two", &first));
    credentials.rejected(ticket);
    let (text, ticket) = authorize(&credentials).await.unwrap();
    assert_eq!(text, "Bearer two");
    assert!(!identity.has_changed().unwrap());

    answer(&status("two", &second));
    credentials.rejected(ticket);
    let (_, ticket) = authorize(&credentials).await.unwrap();
    assert!(identity.has_changed().unwrap());
    assert_eq!(texts(identity.borrow_and_update().as_ref().unwrap()).0, second.0);

    answer(&json!({"token": "three"}));
    credentials.rejected(ticket);
    assert_eq!(token(&credentials).await, "Bearer three");
    assert!(identity.borrow().is_none());
}

/// The upstream scenario TLSCredentials: a valid certificate, one of another CA, then a valid one,
/// each after the previous one expired.
#[tokio::test]
async fn au_3_tls_credentials() {
    let [cluster, users, strangers] = ["cluster", "users", "strangers"].map(Authority::new);
    let setup = ServerSetup::tls(cluster.server(&["127.0.0.1"])).ask_for_certificates(&users, true);
    let server = setup.start(|_, _| std::future::ready(text("ok"))).await;
    let script = Script::new("cat \"$DIR/answer$RUN\"");
    for (run, issuer) in [(1, &users), (2, &strangers), (3, &users)] {
        let leaf = issuer.client("jane");
        let status = json!({
            "clientCertificateData": leaf.certificate, "clientKeyData": leaf.key,
            "expirationTimestamp": in_seconds(-1),
        });
        fs::write(script.file(&format!("answer{run}")), document(V1, &status).to_string()).unwrap();
    }
    let mut config = Config::new(server.url().parse().unwrap());
    config.tls.ca = Some(Pem::Data(cluster.pem().into()));
    config.auth.exec = Some(script.exec.clone());
    let client = Client::builder(config).max_retries(0).build().unwrap();
    for good in [true, false, true] {
        let answer = client.get().path(&["/"]).bytes().await;
        assert_eq!(answer.is_ok(), good, "{answer:?}");
    }
    assert_eq!(script.runs(), 3);
}

#[tokio::test]
async fn a_request_with_only_a_certificate_is_sent_again_with_the_next_certificate() {
    let script = Script::new("cat \"$DIR/answer$RUN\"");
    for run in 1..=2 {
        let (certificate, key) = pair();
        let status = json!({"clientCertificateData": certificate, "clientKeyData": key});
        fs::write(script.file(&format!("answer{run}")), document(V1, &status).to_string()).unwrap();
    }
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    assert_eq!(server.send(&script.credentials()).await.unwrap(), StatusCode::OK);
    assert_eq!(server.authorizations(), ["", ""]);
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn a_request_that_is_dropped_kills_the_plugin_it_waits_for() {
    let script = Script::new("exec 3> \"$DIR/alive\"\necho started >&3\nexec sleep 600");
    let mut alive = script.lifeline();
    let service = AuthLayer::new(script.credentials()).layer(Server::default());
    let request = service.oneshot(Request::get("/").body(Full::default()).unwrap());
    let mut started = [0; 8];
    tokio::select! {
        _ = request => panic!("the plugin never answers"),
        read = alive.read_exact(&mut started) => assert_eq!(read.unwrap(), 8),
    }
    assert_eq!(alive.read(&mut started).await.unwrap(), 0, "the process has ended");
}

/// Returns the metrics recorded while a future ran, one line each, sorted.
fn recorded(work: impl Future<Output = ()>) -> Vec<(String, DebugValue)> {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    let mut lines: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            (format!("{} {}", key.key().name(), labels.join(",")), value)
        })
        .collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

#[test]
fn rq_17_the_age_of_a_certificate_is_measured_when_it_is_replaced() {
    let valid_since = |seconds: i64| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["jane".to_owned()]).unwrap();
        params.not_before = (std::time::SystemTime::now() - Duration::from_secs(seconds as u64)).into();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let lines = recorded(async {
        let script = Script::new("cat \"$DIR/answer\"");
        let credentials = script.credentials();
        let pairs = [valid_since(3600), valid_since(1800)].map(Some);
        for pair in pairs.iter().chain([&pairs[1], &None]) {
            let mut status = json!({"token": "t"});
            if let Some((certificate, key)) = pair {
                status["clientCertificateData"] = json!(certificate);
                status["clientKeyData"] = json!(key);
            }
            fs::write(script.file("answer"), document(V1, &status).to_string()).unwrap();
            let (_, ticket) = authorize(&credentials).await.unwrap();
            credentials.rejected(ticket);
        }
    });
    let found =
        lines.into_iter().find(|it| it.0.trim() == "rest_client_exec_plugin_certificate_rotation_age");
    let Some((_, DebugValue::Histogram(ages))) = found else { panic!("no histogram: {found:?}") };
    let [first, second] = ages[..] else { panic!("one for each replaced certificate: {ages:?}") };
    assert!((3600.0..5400.0).contains(&first.0), "{first}");
    assert!((1800.0..3600.0).contains(&second.0), "{second}");
}

#[test]
fn au_3_runs_and_policy_checks_are_counted_with_client_gos_names() {
    let lines = recorded(async {
        token(&Script::printing(&json!({"token": "t"})).credentials()).await;
        authorize(&Script::new("exit 3").credentials()).await.unwrap_err();
        let mut missing = Script::new("");
        missing.exec.command = "/nonexistent/plugin".to_owned();
        authorize(&missing.credentials()).await.unwrap_err();
        let mut denying = config();
        denying.auth.exec = Some(Script::new("").exec);
        denying.plugin_policy = PluginPolicy::DenyAll;
        authorize(&Credentials::new(&denying, None).unwrap()).await.unwrap_err();
    });
    let lines: Vec<_> = lines.into_iter().map(|(name, value)| format!("{name} {value:?}")).collect();
    assert_eq!(
        lines,
        [
            "rest_client_exec_plugin_call_total code=0,call_status=no_error Counter(1)",
            "rest_client_exec_plugin_call_total code=1,call_status=plugin_not_found_error Counter(1)",
            "rest_client_exec_plugin_call_total code=3,call_status=plugin_execution_error Counter(1)",
            "rest_client_exec_plugin_policy_call_total status=allowed Counter(3)",
            "rest_client_exec_plugin_policy_call_total status=denied Counter(1)",
            "rest_client_exec_plugin_ttl_seconds  Gauge(inf)",
        ]
    );
}

/// Only responses behind `pods`, `services` and `nodes` come from another program; anything else
/// may be called `proxy`.
#[tokio::test]
async fn a_401_in_a_namespace_called_proxy_renews_the_credentials() {
    let target = |path: &str| Request::post(path).body(Full::from("payload")).unwrap();
    for (path, renewed) in [
        ("/api/v1/namespaces/proxy/configmaps", true),
        ("/apis/apps/v1/namespaces/a/deployments/proxy", true),
        ("/apis/x.example/v1/namespaces/a/gateways/b/proxy", true),
        ("/api/v1/namespaces/a/services/web:80/proxy/login", false),
        ("/api/v1/namespaces/a/pods/web/proxy", false),
        ("/base/api/v1/nodes/n/proxy/metrics", false),
    ] {
        let script = Script::printing(&json!({"token": "t$RUN"}));
        let credentials = script.credentials();
        let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
        let service = AuthLayer::new(credentials).layer(server.clone());
        let status = service.oneshot(target(path)).await.unwrap().status();
        assert_eq!(status == StatusCode::OK, renewed, "{path}");
        assert_eq!(server.seen().len(), 1 + usize::from(renewed), "{path}");
    }
}

/// client-go caches authenticators by configuration and cluster: an interactive login happens once.
#[tokio::test]
async fn au_3_clients_of_one_plugin_share_its_credentials() {
    let (certificate, key) = pair();
    let status = json!({"token": "t$RUN", "clientCertificateData": certificate, "clientKeyData": key});
    let script = Script::printing(&status);
    let (one, two) = (script.credentials(), script.credentials());
    assert_eq!([token(&one).await, token(&two).await], ["Bearer t1", "Bearer t1"]);
    assert!(two.identity().borrow().is_some(), "the certificate is shared as well");
    let mut options = AuthOptions::default();
    options.plugin_time_limit = Some(Duration::from_secs(30));
    assert_eq!(token(&script.with_options(options).unwrap()).await, "Bearer t2", "with other options");
    drop((one, two));
    assert_eq!(token(&script.credentials()).await, "Bearer t3", "nothing is kept after the last client");
}
