//! Paths that are not resources: discovery, OpenAPI, health, version, unknown paths.

use serde_json::{Value, json};

use super::Server;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn unknown_paths_get_plain_text_and_unknown_resources_a_status() {
    let server = Server::start().await;
    for path in [
        "/nope",
        "/apis/nope.example.com",
        "/apis/nope.example.com/v1",
        "/apis/nope.example.com/v1/things",
        "/logs",
    ] {
        let response = server.get(path).await;
        assert_eq!((response.code.as_u16(), response.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(response.header("x-content-type-options"), "nosniff");
        assert_eq!(response.header("cache-control"), "no-cache, private");
    }
    let message = "the server could not find the requested resource".to_owned();
    for path in
        ["/apis/apps/v9/deployments", "/api/v1/nothings", "/api/v2", "/apis/apps/v9", "/api/v1/configmaps/x"]
    {
        let response = server.get(path).await;
        assert_eq!(response.error(), (404, message.clone()), "{path}");
        assert_eq!(response.json()["details"], json!({}));
    }
}

#[tokio::test]
async fn unsupported_methods_get_405() {
    let server = Server::start().await;
    for (method, path) in [
        ("PUT", "/api/v1"),
        ("POST", "/version"),
        ("HEAD", "/api"),
        ("POST", "/api/v1/configmaps"),
        ("OPTIONS", "/api/v1/pods"),
    ] {
        assert_eq!(server.send(method, path, &[], "").await.code, 405, "{method} {path}");
    }
}

#[tokio::test]
async fn the_audit_id_of_a_client_is_kept() {
    let server = Server::start().await;
    let response = server.send("GET", "/version", &[("audit-id", "my-own")], "").await;
    assert_eq!(response.header("audit-id"), "my-own");
}

#[tokio::test]
async fn aggregated_discovery_has_an_etag_and_supports_304() {
    let server = Server::start().await;
    for path in ["/api", "/apis"] {
        let response = server.get_as(path, AGGREGATED).await;
        assert_eq!(response.header("content-type"), AGGREGATED);
        assert_eq!(
            (response.header("vary"), &response.json()["kind"]),
            ("Accept", &json!("APIGroupDiscoveryList"))
        );
        let known = [("accept", AGGREGATED), ("if-none-match", response.header("etag"))];
        let again = server.send("GET", path, &known, "").await;
        assert_eq!(
            (again.code.as_u16(), again.bytes.len(), again.header("etag")),
            (304, 0, response.header("etag"))
        );
    }
    let either = format!("{AGGREGATED},application/json");
    assert_eq!(server.get_as("/apis/apps/v1", &either).await.json()["kind"], "APIResourceList");
    assert_eq!(server.get_as("/apis/apps/v1", AGGREGATED).await.code, 406);
}

#[tokio::test]
async fn legacy_discovery_is_served() {
    let server = Server::start().await;
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        assert_eq!(server.get(path).await.json()["kind"], kind, "{path}");
    }
    let host = server.send("GET", "/api", &[("host", "here:1234")], "").await.json();
    assert_eq!(host["serverAddressByClientCIDRs"][0]["serverAddress"], "here:1234");
}

#[tokio::test(start_paused = true)]
async fn openapi_documents_are_addressed_by_their_hash() {
    let server = Server::start().await;
    let index = server.get("/openapi/v3").await;
    assert_eq!(index.header("content-type"), "text/plain; charset=utf-8");
    let address = index.json()["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = server.get(&address).await;
    assert_eq!((document.header("cache-control"), document.header("vary")), ("public, immutable", "Accept"));
    assert_eq!(
        (document.header("expires"), &document.json()["openapi"]),
        ("Sat, 02 Jan 2027 03:04:05 UTC", &json!("3.0.0"))
    );
    let wrong = server.get("/openapi/v3/apis/coordination.k8s.io/v1?hash=AAAA").await;
    assert_eq!((wrong.code.as_u16(), wrong.header("location")), (301, address.as_str()));
    let again = server.send("GET", &address, &[("if-none-match", document.header("etag"))], "").await;
    assert_eq!((again.code.as_u16(), again.bytes.len()), (304, 0));
    assert_eq!(server.get("/openapi/v3/apis/nope/v1").await.code, 404);
}

#[tokio::test]
async fn openapi_version_2_is_served_in_the_preferred_format() {
    let server = Server::start().await;
    let before = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let now = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    for (accept, given) in [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        (before, now),
        (now, now),
        (&*format!("application/json;q=0.5, {before}"), now),
    ] {
        let response = server.get_as("/openapi/v2", accept).await;
        let headers = (response.header("content-type"), response.header("vary"));
        assert_eq!((response.code.as_u16(), headers), (200, (given, "Accept")), "{accept}");
    }
    for accept in ["text/plain", "application/yaml"] {
        assert_eq!(server.get_as("/openapi/v2", accept).await.code, 406, "{accept}");
    }
    let document = server.get("/openapi/v2").await;
    assert_eq!(document.json()["swagger"], "2.0");
    let again = server.send("GET", "/openapi/v2", &[("if-none-match", document.header("etag"))], "").await;
    assert_eq!((again.code.as_u16(), again.bytes.len()), (304, 0));
}

#[tokio::test]
async fn health_endpoints_are_text_and_list_their_checks_on_request() {
    let server = Server::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/etcd", "/readyz?exclude=ping"] {
        assert_eq!(server.get(path).await.text(), "ok", "{path}");
    }
    let verbose = server.get("/livez?verbose&exclude=etcd&exclude=nope").await;
    let expected = "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
                    \"nope\"\nlivez check passed\n";
    assert_eq!(verbose.text(), expected);
    assert_eq!(server.get("/readyz/nope").await.code, 404);
}

#[tokio::test]
async fn the_issuer_and_the_signing_keys_of_tokens_are_published() {
    let server = Server::start().await;
    let headers = [("host", "here:1234")];
    let configuration = server.send("GET", "/.well-known/openid-configuration", &headers, "").await;
    assert_eq!(configuration.header("content-type"), "application/json");
    assert_eq!(configuration.header("cache-control"), "public, max-age=3600");
    assert_eq!(
        configuration.json(),
        json!({
            "issuer": "https://kubernetes.default.svc",
            "jwks_uri": "https://here:1234/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        })
    );
    // A host is not JSON.
    let headers = [("host", "a\",\"issuer\":\"b")];
    let configuration = server.send("GET", "/.well-known/openid-configuration", &headers, "").await;
    assert_eq!(configuration.json()["issuer"], "https://kubernetes.default.svc");
    let keys = server.get("/openid/v1/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    let key = &keys.json()["keys"][0];
    assert_eq!((&key["kty"], &key["use"]), (&json!("OKP"), &json!("sig")));
    assert_eq!(server.send("POST", "/openid/v1/jwks", &[], "").await.code, 405);
}

#[tokio::test]
async fn the_version_is_that_of_kube_apiserver() {
    let server = Server::start().await;
    let version = server.get("/version").await.json();
    let expected = json!(["1", "36", "v1.36.4", "1", "35"]);
    let fields = ["major", "minor", "gitVersion", "minCompatibilityMajor", "minCompatibilityMinor"];
    assert_eq!(fields.map(|it| version[it].clone()).into_iter().collect::<Value>(), expected);
    let rejected = server.get_as("/version", "application/yaml").await;
    assert!(rejected.code == 406 && rejected.text().contains("Available representations: application/json"));
}

#[tokio::test]
async fn the_root_lists_paths_and_requests_are_counted() {
    let server = Server::start().await;
    let paths = server.get("/").await.json();
    for path in ["/api/v1", "/apis/apps/v1", "/readyz/ping", "/version"] {
        assert!(paths["paths"].as_array().unwrap().contains(&json!(path)), "{path}");
    }
    server.get("/api/v1/pods").await;
    let watch = server.watch("/api/v1/pods?watch=1").await;
    let text = server.get("/metrics").await.text().to_owned();
    for line in [
        r#"apiserver_request_total{code="200",group="",resource="pods",verb="LIST"} 1"#,
        r#"apiserver_longrunning_requests{group="",resource="pods",verb="WATCH"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
    drop(watch);
    assert!(server.get("/metrics").await.text().contains(r#"resource="pods",verb="WATCH"} 0"#));
}
