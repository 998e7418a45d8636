//! Connections into pods: `exec`, `attach` and `portforward` are tunnels to the kubelet of the pod.

use std::time::Duration;

use form_urlencoded::Serializer;
use http::request::Parts;

use super::answer::Answer;
use super::backend_reply::{ProtocolSwitch, undialled};
use super::parsed_request::ParsedRequest;
use super::query::Query;
use super::service::Service;
use crate::ApiError;
use crate::cluster::KubeletRequest;
use crate::upstream::{BackendRequest, Peer};

/// The time in which a kubelet has to answer, as a request to kube-apiserver has
/// (`RequestTimeout` in k8s.io/apiserver v0.36.4 pkg/server/config.go).
const ANSWER: Duration = Duration::from_secs(60);

impl Service {
    /// Connects a client to the kubelet of a pod. SPDY and WebSockets are passed on byte for byte.
    ///
    /// kube-apiserver translates a WebSocket of version 5 to SPDY
    /// (`NewStreamTranslatorHandler` in k8s.io/apiserver v0.36.4
    /// pkg/util/proxy/streamtranslator.go), for kubelets that only know that. Here the kubelet gets
    /// the WebSocket itself, and has to answer 101 to it.
    pub(super) async fn stream_to_pod(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        query: &Query,
    ) -> Result<Answer, ApiError> {
        let place = parsed.place();
        let request = KubeletRequest::of(&self.cluster, &place);
        let options = stream_options(place.part, query)?;
        let location = request.stream_location(query.get("container"), options, self.dialer.reach())?;
        let switch = ProtocolSwitch::of(parts)?;
        let switch = switch.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
        let request = BackendRequest { request: switch.request(parts, &location)?, limit: ANSWER };
        let reply = self.dialer.send(&location.origin, Peer::Kubelet, request).await;
        switch.answer(reply.map_err(|failure| undialled(&failure))?)
    }
}

/// Returns the query of a request to the kubelet, in the order of the keys as Go's `Values.Encode`
/// writes them (`streamParams` in k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/strategy.go).
///
/// # Errors
/// 400 if a port is not a number.
fn stream_options(part: &str, query: &Query) -> Result<String, ApiError> {
    let mut encoded = Serializer::new(String::new());
    if part == "portforward" {
        let ports = query.all("ports").filter(|it| !it.is_empty());
        let port = |it: &str| {
            let invalid = |why| ApiError::bad_request(crate::strconv::error("ParseInt", it, &why));
            it.parse::<i32>().map(|it| it.to_string()).map_err(invalid)
        };
        let ports = ports.map(port).collect::<Result<Vec<_>, _>>()?;
        if !ports.is_empty() {
            encoded.append_pair("port", &ports.join(","));
        }
        return Ok(encoded.finish());
    }
    if part == "exec" {
        encoded.extend_pairs(query.all("command").map(|it| ("command", it)));
    }
    for (flag, name) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if query.flag(flag) == Some(true) {
            encoded.append_pair(name, "1");
        }
    }
    Ok(encoded.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_has_the_names_of_the_kubelet() {
        for (part, given, expected) in [
            (
                "exec",
                "command=ls&command=-l+a&container=c&stdin=true&stdout=true&stderr=false&tty=1",
                "command=ls&command=-l+a&input=1&output=1&tty=1",
            ),
            ("attach", "stdout=true&stderr=true&command=x", "error=1&output=1"),
            ("portforward", "ports=80&ports=443&stdin=1", "port=80%2C443"),
            ("portforward", "", ""),
        ] {
            assert_eq!(stream_options(part, &Query::parse(Some(given))), Ok(expected.to_owned()), "{given}");
        }
        let refusal = stream_options("portforward", &Query::parse(Some("ports=web"))).unwrap_err();
        assert_eq!(
            (refusal.0.code, refusal.0.message.as_str()),
            (400, "strconv.ParseInt: parsing \"web\": invalid syntax")
        );
    }
}
