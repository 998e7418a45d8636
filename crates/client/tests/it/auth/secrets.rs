//! No secret in any log: neither `Debug` nor an error shows one, whatever the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use dogwatch_client::auth::{AuthError, AuthLayer, AuthOptions, Credentials};
use dogwatch_client::config::{AuthProvider, BasicAuth, ExecEnv, Pem};
use dogwatch_client::{BoxError, Config, RequestBody, ResponseBody, boxed};
use futures_core::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use proptest::prelude::*;
use serde_json::json;

use super::plugin::Script;
use super::{config, full_text};

/// Returns everything that could reach a log on the way from settings to a request.
async fn everything_shown(config: &Config, options: AuthOptions) -> String {
    let mut shown = format!("{config:?} {options:?} ");
    let credentials = match Credentials::with_options(config, options) {
        Ok(credentials) => credentials,
        Err(error) => return shown + &full_text(&error),
    };
    let mut headers = HeaderMap::new();
    match credentials.authorize(&mut headers).await {
        Ok(ticket) => {
            shown += &format!("{ticket:?} {ticket:#?} {headers:?}");
            credentials.rejected(ticket);
            if let Err(error) = credentials.authorize(&mut HeaderMap::new()).await {
                shown += &full_text(&error);
            }
        }
        Err(error) => shown += &full_text(&error),
    }
    let layer = AuthLayer::new(credentials.clone());
    shown + &format!("{credentials:?} {credentials:#?} {layer:?} {:?}", credentials.identity())
}

fn assert_hidden(shown: &str, secret: &str) {
    for form in [secret.to_owned(), STANDARD.encode(secret), URL_SAFE_NO_PAD.encode(secret)] {
        assert!(!shown.contains(&form), "{form} is in {shown}");
    }
}

/// An issuer that answers everything with the secret, in the given shape and with its status.
fn leaky_issuer(
    secret: String,
    shape: usize,
) -> impl Fn(Option<Pem>, Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>
{
    move |_, request| {
        let discovery = request.uri().path().ends_with("openid-configuration");
        let (status, text) = match shape {
            _ if discovery => (200, json!({"token_endpoint": "https://id.example/token"}).to_string()),
            0 => (200, secret.clone()),
            1 => (400, json!({"error": secret, "error_description": secret}).to_string()),
            2 => (200, json!({"id_token": secret, "refresh_token": secret}).to_string()),
            _ => {
                let claims =
                    URL_SAFE_NO_PAD.encode(json!({"sub": secret, "exp": 4_000_000_000_u64}).to_string());
                (200, json!({"id_token": format!("e30.{claims}.{secret}")}).to_string())
            }
        };
        let response = Response::builder().status(status).body(boxed(Full::<Bytes>::from(text)));
        Box::pin(async move { Ok(response?) })
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tokens_and_passwords_are_never_shown(secret in "[A-Z][a-zA-Z0-9+/]{11,40}", newline in any::<bool>()) {
        // A newline makes the token unusable, and the error must hide it as well.
        let value = if newline { format!("{secret}\n{secret}") } else { secret.clone() };
        let mut bearer = config();
        bearer.auth.token = Some(value.clone().into());
        let mut basic = config();
        basic.auth.basic = Some(BasicAuth { username: "jane".to_owned(), password: value.clone().into() });
        let directory = tempfile::tempdir().unwrap();
        let mut file = config();
        file.auth.token_file = Some(directory.path().join("token"));
        std::fs::write(directory.path().join("token"), &value).unwrap();
        for config in [bearer, basic, file] {
            assert_hidden(&run(everything_shown(&config, AuthOptions::default())), &secret);
        }
    }

    #[test]
    fn the_responses_of_an_issuer_are_never_shown(secret in "[A-Z][a-zA-Z0-9+/]{11,40}", shape in 0..4_usize) {
        let options = ["id-token", "refresh-token", "client-secret", "idp-certificate-authority-data"];
        for left_out in 0..options.len() {
            let mut provider = BTreeMap::from([
                ("idp-issuer-url".to_owned(), "https://id.example".to_owned()),
                ("client-id".to_owned(), "kubernetes".to_owned()),
            ]);
            for (index, option) in options.iter().enumerate() {
                if index != left_out {
                    provider.insert((*option).to_owned(), secret.clone());
                }
            }
            let mut config = config();
            config.auth.provider = Some(AuthProvider { name: "oidc".to_owned(), config: provider, origin: None });
            let mut options = AuthOptions::default();
            options.http = Some(Arc::new(leaky_issuer(secret.clone(), shape)));
            assert_hidden(&run(everything_shown(&config, options)), &secret);
        }
    }
}

#[tokio::test]
async fn the_input_and_output_of_a_plugin_are_never_shown() {
    let secret = "Hunter2Hunter2";
    let pair = rcgen::generate_simple_self_signed(["jane".to_owned()]).unwrap();
    let key = pair.signing_key.serialize_pem();
    let certificate =
        json!({"token": secret, "clientCertificateData": pair.cert.pem(), "clientKeyData": key});
    let scripts = [
        Script::printing(&json!({"token": secret})),
        Script::printing(&certificate),
        Script::printing(&json!({"token": secret, "clientKeyData": secret})),
        Script::printing(&json!({"token": {"is": secret}})),
        Script::printing(&json!({"token": secret, "expirationTimestamp": secret})),
        Script::new("echo \"$SECRET\""),
        Script::new("echo \"refused: $SECRET and $2\" >&2; exit 1"),
        Script::new("echo \"{\\\"apiVersion\\\": \\\"$SECRET\\\", \\\"kind\\\": \\\"$SECRET\\\"}\""),
    ];
    for mut script in scripts {
        script.exec.env.push(ExecEnv { name: "SECRET".to_owned(), value: secret.to_owned() });
        script.exec.args.extend(["--token".to_owned(), secret.to_owned()]);
        let mut config = config();
        config.auth.exec = Some(script.exec.clone());
        let shown = everything_shown(&config, AuthOptions::default()).await;
        assert_hidden(&shown, secret);
        for line in key.lines().filter(|line| !line.starts_with("-----")) {
            assert!(!shown.contains(line), "a line of the key is in {shown}");
        }
        assert!(script.runs() > 0);
    }
}

#[test]
fn a_password_in_the_address_is_not_shown_by_the_error_about_it() {
    let mut config = Config::new("http://jane:Hunter2Hunter2@cluster.example".parse().unwrap());
    config.auth.token = Some("t".into());
    let error: AuthError = Credentials::new(&config, None).unwrap_err();
    assert_hidden(&full_text(&error), "Hunter2Hunter2");
}
