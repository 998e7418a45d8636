//! Clients for the official `grpc` crate: one as its generator writes it, and one that has nothing between the test and the trait.
//!
//! The generator (protoc-gen-rust-grpc 0.9) is a plugin of protoc in C++, so its output is written here by hand, method by method. What it
//! calls is not: the call builders are grpc-protobuf's, and the message is code that Google's generator made and a crate ships. That message,
//! `google.protobuf.EnumValue`, has a string and a number under the tags of our own [`Message`](crate::echo::Message).

use bytes::{Buf, Bytes};
use dogwatch_grpc::invoke::KubeInvoke;
use grpc::client::{CallOptions, Invoke, RecvStream, ResponseStreamItem, SendOptions, SendStream};
use grpc::core::{RecvMessage, RequestHeaders, ResponseHeaders, SendMessage, Trailers};
use grpc::metadata::MetadataMap;
use grpc_protobuf::{
    BidiCallBuilder, ClientStreamingCallBuilder, ServerStreamingCallBuilder, UnaryCallBuilder,
};
use protobuf_well_known_types::EnumValue;

/// The client that the generator would make.
#[derive(Debug, Clone)]
pub(crate) struct EchoClient<T> {
    channel: T,
}

impl<T> EchoClient<T>
where
    T: Invoke,
{
    pub(crate) fn new(channel: T) -> Self {
        Self { channel }
    }

    pub(crate) fn one<ReqMsgView>(
        &self,
        request: ReqMsgView,
    ) -> UnaryCallBuilder<'_, &T, ReqMsgView, EnumValue>
    where
        ReqMsgView: protobuf::AsView<Proxied = EnumValue> + Send + Sync,
    {
        UnaryCallBuilder::new(&self.channel, "/test.Echo/One", request)
    }

    pub(crate) fn many<ReqMsgView>(
        &self,
        request: ReqMsgView,
    ) -> ServerStreamingCallBuilder<'_, &T, ReqMsgView, EnumValue>
    where
        ReqMsgView: protobuf::AsView<Proxied = EnumValue> + Send + Sync,
    {
        ServerStreamingCallBuilder::new(&self.channel, "/test.Echo/Many", request)
    }

    pub(crate) fn gather(&self) -> ClientStreamingCallBuilder<'_, &T, EnumValue, EnumValue> {
        ClientStreamingCallBuilder::new(&self.channel, "/test.Echo/Gather")
    }

    pub(crate) fn both(&self) -> BidiCallBuilder<'_, &T, EnumValue, EnumValue> {
        BidiCallBuilder::new(&self.channel, "/test.Echo/Both")
    }
}

pub(crate) fn said(text: &str, count: i32) -> EnumValue {
    let mut message = EnumValue::new();
    message.set_name(text);
    message.set_number(count);
    message
}

pub(crate) fn heard(message: &EnumValue) -> (String, i32) {
    (message.name().to_string(), message.number())
}

/// A message that is its bytes, or that cannot be made.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    Bytes(Bytes),
    Broken,
}

impl Raw {
    pub(crate) fn text(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

impl SendMessage for Raw {
    fn encode(&self) -> Result<Box<dyn Buf + Send + Sync>, String> {
        match self {
            Self::Bytes(bytes) => Ok(Box::new(bytes.clone())),
            Self::Broken => Err("it is broken".to_owned()),
        }
    }
}

impl RecvMessage for Raw {
    fn decode(&mut self, data: &mut dyn Buf) -> Result<(), String> {
        match self {
            Self::Bytes(bytes) => *bytes = data.copy_to_bytes(data.remaining()),
            Self::Broken => return Err("it is broken".to_owned()),
        }
        Ok(())
    }
}

/// All that came back.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) headers: Option<ResponseHeaders>,
    pub(crate) messages: Vec<Bytes>,
    pub(crate) trailers: Trailers,
}

impl Heard {
    /// The number of the status, and its message.
    pub(crate) fn status(&self) -> (i32, &str) {
        let status = self.trailers.status();
        status.as_ref().map_or_else(|it| (it.code() as i32, it.message()), |()| (0, ""))
    }
}

pub(crate) fn request(method: &str, metadata: MetadataMap) -> RequestHeaders {
    RequestHeaders::new().with_method_name(method).with_metadata(metadata)
}

/// A call with one message, and all that comes back.
pub(crate) async fn ask(invoke: &KubeInvoke, headers: RequestHeaders, message: Raw) -> Heard {
    let (mut sending, receiving) = invoke.invoke(headers, CallOptions::new()).await;
    let _ = sending.send(&message, SendOptions::new().with_final_msg(true)).await;
    all(receiving).await
}

/// Reads to the end, by the order that the trait promises.
pub(crate) async fn all(mut receiving: impl RecvStream) -> Heard {
    let (mut headers, mut messages, mut message) = (None, Vec::new(), Raw::text(""));
    loop {
        match receiving.recv(&mut message).await {
            ResponseStreamItem::Headers(it) => {
                assert!(headers.is_none() && messages.is_empty(), "headers come first, and once");
                headers = Some(it);
            }
            ResponseStreamItem::Message => {
                assert!(headers.is_some(), "headers come before messages");
                let Raw::Bytes(bytes) = &message else { unreachable!("it was decoded") };
                messages.push(bytes.clone());
            }
            ResponseStreamItem::Trailers(trailers) => {
                let after = receiving.recv(&mut message).await;
                assert!(matches!(after, ResponseStreamItem::StreamClosed), "nothing comes after trailers");
                return Heard { headers, messages, trailers };
            }
            ResponseStreamItem::StreamClosed => panic!("there were no trailers"),
        }
    }
}
