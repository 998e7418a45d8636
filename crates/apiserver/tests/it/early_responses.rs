//! HTTP/1.1 requests that are answered before their body has come, and those without a host.

use dogwatch_apiserver::ApiServer;

use crate::raw_http::{RawConnection, address, exchange};

#[tokio::test]
async fn a_connection_is_kept_when_an_early_answer_left_a_small_body_unread() {
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
        // Two packets: the answer is known before the second one comes.
        connection
            .send(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 4\r\n\r\n"))
            .await;
        tokio::task::yield_now().await;
        connection.send("{ }\n").await;
        let answer = connection.answer().await.expect("an answer");
        assert_eq!(answer.code, code, "{line}");
        assert!(!answer.head.contains("connection: close"), "{}", answer.head);
        connection.send("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let next = connection.answer().await.unwrap_or_else(|| panic!("{line} has ended the connection"));
        assert_eq!(next.code, 200, "{line}");
    }
}

#[tokio::test]
async fn an_early_answer_to_a_long_body_says_that_the_connection_ends() {
    let server = ApiServer::start().await.unwrap();
    let mut connection = RawConnection::open(address(&server)).await;
    connection.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n").await;
    let answer = connection.answer().await.expect("an answer");
    assert_eq!(answer.code, 404);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    assert!(connection.answer().await.is_none());
}

#[tokio::test]
async fn a_client_that_waits_before_it_sends_its_body_is_not_asked_for_it_in_vain() {
    let server = ApiServer::start().await.unwrap();
    let mut connection = RawConnection::open(address(&server)).await;
    let headers = "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";
    connection.send(&format!("POST /nowhere HTTP/1.1\r\n{headers}\r\n")).await;
    let answer = connection.answer().await.expect("an answer");
    assert_eq!(answer.code, 404);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}

#[tokio::test]
async fn http_1_1_without_exactly_one_host_gets_400() {
    let server = ApiServer::start().await.unwrap();
    for (headers, code) in [
        ("", 400),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("Host: localhost\r\n", 200),
    ] {
        let answer = exchange(address(&server), "GET /version", headers, "").await;
        assert_eq!(answer.code, code, "{headers:?}: {}", answer.body);
    }
}
