//! Headers and trailers on the wire, and responses that violate the protocol.

use bytes::Bytes;
use dogwatch_grpc::invoke::KubeInvoke;
use grpc::StatusCodeError;
use grpc::client::{CallOptions, Invoke};
use grpc::metadata::{MetadataMap, MetadataValue};

use crate::invoke_client::{Raw, ask, request};
use crate::invoke_test_server::raw_pod;
use crate::pods::Service;

async fn odd() -> (crate::pods::Pod, KubeInvoke) {
    let pods = [raw_pod().await];
    let invoke = KubeInvoke::new(Service::of(&pods).channel());
    let [pod] = pods;
    (pod, invoke)
}

fn metadata() -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("x-word", "one, two".parse().unwrap());
    metadata.append("x-list", "first".parse().unwrap());
    metadata.append("x-list", "second".parse().unwrap());
    metadata.append_bin("x-blob-bin", MetadataValue::from_bytes(&[0, 1, 254, 255]));
    metadata.append_bin("x-blob-bin", MetadataValue::from_bytes(b"more"));
    metadata
}

fn assert_mirrored(metadata: &MetadataMap) {
    assert_eq!(metadata.get("x-word").unwrap(), "one, two");
    let list: Vec<_> = metadata.get_all("x-list").iter().map(|it| it.to_str().to_owned()).collect();
    assert_eq!(list, ["first", "second"]);
    let blobs: Vec<_> = metadata.get_all_bin("x-blob-bin").iter().map(|it| Bytes::from(it.clone())).collect();
    assert_eq!(blobs, [&[0, 1, 254, 255][..], b"more"]);
}

#[tokio::test]
async fn text_and_binary_metadata_are_sent_in_both_directions() {
    let (_pod, invoke) = odd().await;
    let received = ask(&invoke, request("/test.Odd/Mirror", metadata()), Raw::text("")).await;
    assert_eq!(
        (received.status(), received.messages.as_slice()),
        ((0, ""), [Bytes::from_static(b"hello")].as_slice())
    );
    assert_mirrored(received.headers.unwrap().metadata());
    assert_mirrored(received.trailers.metadata());
    assert!(received.trailers.metadata().iter().count() == 5, "protocol headers should not be shown");
}

/// A server that sends only a status sends it in the headers.
#[tokio::test]
async fn a_trailers_only_response_has_no_headers() {
    let (_pod, invoke) = odd().await;
    let received = ask(&invoke, request("/test.Odd/Refuse", metadata()), Raw::text("")).await;
    assert!(received.headers.is_none() && received.messages.is_empty());
    assert_eq!(received.status(), (StatusCodeError::PermissionDenied as i32, "not yôu, 100 %"));
    assert_mirrored(received.trailers.metadata());
}

#[tokio::test]
async fn responses_that_violate_the_protocol_end_with_the_status_that_grpc_defines() {
    use StatusCodeError::{Aborted, Internal, ResourceExhausted, Unavailable, Unimplemented, Unknown};
    let (_pod, invoke) = odd().await;
    let table = [
        ("/test.Odd/Http503", Unavailable, 0),
        ("/test.Odd/Html", Unknown, 0),
        ("/test.Odd/Untold", Internal, 1),
        ("/test.Odd/Statusless", Unknown, 1),
        ("/test.Odd/Half", Internal, 1),
        ("/test.Odd/HalfAndFailed", Aborted, 0),
        ("/test.Odd/Compressed", Internal, 0),
        ("/test.Odd/Large", ResourceExhausted, 0),
        ("/test.Odd/Spoilt", Internal, 0),
        ("/test.None/Such", Unimplemented, 0),
    ];
    for (method, code, messages) in table {
        let received = ask(&invoke, request(method, MetadataMap::new()), Raw::text("hi")).await;
        assert_eq!(
            (received.status().0, received.messages.len()),
            (code as i32, messages),
            "{method} {received:?}"
        );
    }
    let cut = ask(&invoke, request("/test.Odd/Cut", MetadataMap::new()), Raw::text("hi")).await;
    assert_eq!((cut.status().0, cut.messages), (0, vec![Bytes::from_static(b"hello"); 2]));
    assert!(invoke.channel().endpoints().iter().all(|it| it.in_flight == 0));
}

#[tokio::test]
async fn tokens_are_not_shown_in_debug_output() {
    let (_pod, invoke) = odd().await;
    let mut metadata = MetadataMap::new();
    metadata.insert("authorization", "Bearer s3cret".parse().unwrap());
    let streams = invoke.invoke(request("/test.Odd/Mirror", metadata), CallOptions::new()).await;
    let shown = format!("{streams:?} {invoke:?}");
    assert!(shown.contains("KubeSendStream") && !shown.contains("s3cret"), "{shown}");
}
