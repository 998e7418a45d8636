//! HTTP/1.1 requests that are answered before their body has arrived, and requests without a Host
//! header.

use crate::ApiServer;

use crate::tests::raw_http::{RawConnection, address, exchange};

#[tokio::test]
async fn a_connection_is_kept_when_an_early_response_leaves_a_small_body_unread() {
    let server = ApiServer::builder().token("hunter2").start().await.unwrap();
    let token = "Authorization: Bearer hunter2\r\n";
    for (line, headers, code) in [
        ("POST /api/v1/namespaces/default/configmaps", "", 401),
        ("POST /nowhere", token, 404),
        ("PUT /api/v1/namespaces/default/configmaps", token, 405),
        (
            "POST /api/v1/namespaces/default/configmaps",
            "Authorization: Bearer hunter2\r\nContent-Type: x/y\r\n",
            415,
        ),
        ("GET /api/v1/namespaces/default/configmaps", token, 200),
    ] {
        let mut connection = RawConnection::open(address(&server)).await;
        // Sent in two packets: the response is known before the second one arrives.
        connection
            .send(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 4\r\n\r\n"))
            .await;
        tokio::task::yield_now().await;
        connection.send("{ }\n").await;
        let response = connection.response().await.expect("a response");
        assert_eq!(response.code, code, "{line}");
        assert!(!response.head.contains("connection: close"), "{}", response.head);
        connection.send("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let next = connection.response().await.unwrap_or_else(|| panic!("{line} closed the connection"));
        assert_eq!(next.code, 200, "{line}");
    }
}

#[tokio::test]
async fn an_early_response_to_a_long_body_closes_the_connection() {
    let server = ApiServer::start().await.unwrap();
    let mut connection = RawConnection::open(address(&server)).await;
    connection.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n").await;
    let response = connection.response().await.expect("a response");
    assert_eq!(response.code, 404);
    assert!(response.head.contains("connection: close"), "{}", response.head);
    assert!(connection.response().await.is_none());
}

#[tokio::test]
async fn a_rejected_request_with_expect_continue_gets_no_100() {
    let server = ApiServer::start().await.unwrap();
    let mut connection = RawConnection::open(address(&server)).await;
    let headers = "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";
    connection.send(&format!("POST /nowhere HTTP/1.1\r\n{headers}\r\n")).await;
    let response = connection.response().await.expect("a response");
    assert_eq!(response.code, 404);
    assert!(response.head.contains("connection: close"), "{}", response.head);
}

#[tokio::test]
async fn http_1_1_without_exactly_one_host_header_gets_400() {
    let server = ApiServer::start().await.unwrap();
    for (headers, code) in [
        ("", 400),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("Host: localhost\r\n", 200),
    ] {
        let response = exchange(address(&server), "GET /version", headers, "").await;
        assert_eq!(response.code, code, "{headers:?}: {}", response.body);
    }
}
