//! Content negotiation: the representation that a client accepts.

use dogwatch_core::{Details, Reason, Status};
use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

use super::query::Query;
use crate::ApiError;
use crate::print::IncludeObject;
use crate::request::{Encoding, ObjectForm, negotiate};

const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// The negotiated representation of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Negotiated {
    /// The encoding.
    pub(super) encoding: Encoding,
    /// The transformation of the objects.
    pub(super) form: ObjectForm,
    /// True if the output is indented.
    pub(super) pretty: bool,
    /// The objects included in the rows of a table.
    pub(super) include: IncludeObject,
    /// True if the response may be compressed.
    pub(super) gzip: bool,
}

/// The class of an endpoint, which decides the representations that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A collection of a built-in kind, which can also be watched.
    Collection,
    /// An object of a built-in kind.
    Object,
    /// A create-only resource, such as a review or a token, which has no table form.
    Question,
    /// Anything of a custom kind.
    Custom,
    /// A discovery document that also has an aggregated form.
    DiscoveryRoot,
    /// Any other discovery document.
    Discovery,
}

impl Negotiated {
    /// Returns JSON, indented if the client asks for it.
    pub(super) fn plain(headers: &HeaderMap, query: &Query) -> Self {
        Self {
            encoding: Encoding::Json,
            form: ObjectForm::Whole,
            pretty: is_pretty(headers, query),
            include: IncludeObject::default(),
            gzip: takes_gzip(headers),
        }
    }

    /// Negotiates the representation of objects. Unknown parameters of a media type are ignored
    /// (`Unrecognized` in k8s.io/apiserver v0.36.4
    /// pkg/endpoints/handlers/negotiation/negotiate.go); `drop=metadata.managedFields` is one of
    /// them, because the bytes of stored objects are sent as they are.
    ///
    /// # Errors
    ///
    /// Returns 406 if the client accepts none that exists, and 400 for an unknown `includeObject`
    /// of a table.
    pub(super) fn of(headers: &HeaderMap, query: &Query, endpoint: Endpoint) -> Result<Self, ApiError> {
        let accept = accept(headers);
        let choose = |serves: &dyn Fn(Encoding, ObjectForm) -> bool| negotiate(accept.as_deref(), serves);
        let chosen = match endpoint {
            // A client that accepts the aggregated form at all gets it: `WrappedHandler` in
            // k8s.io/apiserver v0.36.4 pkg/endpoints/discovery/aggregated/wrapper.go.
            Endpoint::DiscoveryRoot => choose(&|_, form| form == ObjectForm::Discovery)
                .ok()
                .filter(|(_, form)| *form == ObjectForm::Discovery),
            _ => None,
        };
        let chosen = chosen.map_or_else(|| choose(&|encoding, form| endpoint.serves(encoding, form)), Ok);
        let (encoding, form) = chosen.map_err(|refusal| not_acceptable(&refusal, endpoint))?;
        let include = match form {
            ObjectForm::Table => IncludeObject::parse(query.get("includeObject").unwrap_or_default())?,
            _ => IncludeObject::default(),
        };
        Ok(Self { encoding, form, include, ..Self::plain(headers, query) })
    }

    /// Negotiates the representation of an error: that of objects without any transformation, or
    /// else indented JSON.
    pub(super) fn of_refusal(headers: &HeaderMap, query: &Query) -> Self {
        let plain = Self { gzip: false, ..Self::plain(headers, query) };
        match negotiate(accept(headers).as_deref(), |_, form| form == ObjectForm::Whole) {
            Ok((encoding, _)) => Self { encoding, ..plain },
            Err(_) => Self { pretty: true, ..plain },
        }
    }

    /// Checks that events are requested in an encoding that they have.
    ///
    /// # Errors
    ///
    /// Returns 406 if they are requested as YAML.
    pub(super) fn check_stream(&self) -> Result<(), ApiError> {
        match self.encoding {
            Encoding::Json | Encoding::Protobuf => Ok(()),
            Encoding::Yaml => Err(accepted_only(STREAMS)),
        }
    }
}

impl Endpoint {
    /// Returns true if the endpoint has a representation: `AllowsMediaTypeTransform` in
    /// k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/rest.go.
    fn serves(self, encoding: Encoding, form: ObjectForm) -> bool {
        let is_discovery = matches!(self, Self::Discovery | Self::DiscoveryRoot);
        let is_protobuf = encoding == Encoding::Protobuf;
        match form {
            // A custom kind has no messages of its own, but its metadata are those of all kinds.
            ObjectForm::Whole => !(is_protobuf && self == Self::Custom),
            ObjectForm::Table => !is_discovery && !is_protobuf && self != Self::Question,
            ObjectForm::Metadata | ObjectForm::MetadataList => !is_discovery,
            ObjectForm::Discovery => self == Self::DiscoveryRoot,
        }
    }
}

fn accept(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn accepted_only(types: &str) -> ApiError {
    let message = format!("only the following media types are accepted: {types}");
    ApiError(Box::new(Status::failure(Reason::NotAcceptable, message)))
}

/// Returns the error of one of two layers: go-restful's, or that of k8s.io/apiserver's negotiation,
/// which is the only one for custom kinds.
fn not_acceptable(refusal: &ApiError, endpoint: Endpoint) -> ApiError {
    let first_layer = refusal.0.message.starts_with("406: ");
    if !first_layer || matches!(endpoint, Endpoint::Custom | Endpoint::Discovery) {
        return accepted_only(OBJECTS);
    }
    let types =
        if endpoint == Endpoint::Collection { format!("{OBJECTS}, {STREAMS}") } else { OBJECTS.to_owned() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    let mut status = Status::failure(Reason::NotAcceptable, message);
    status.details = Some(Details::default());
    ApiError(Box::new(status))
}

fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(wanted) = query.get("pretty") {
        return matches!(wanted, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let asked = text(ACCEPT).split(';').any(|it| matches!(it.trim(), "pretty=1" | "pretty=true"));
    // Users who look at responses by hand: `isPrettyPrint` in k8s.io/apiserver v0.36.4
    // pkg/endpoints/handlers/negotiation/negotiate.go.
    asked || ["curl", "Wget", "Mozilla/5.0"].iter().any(|it| text(USER_AGENT).starts_with(it))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|it| it.trim().split(';').next() == Some("gzip"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    fn negotiated(accept: &'static str, endpoint: Endpoint) -> Result<(Encoding, ObjectForm), String> {
        let negotiated = Negotiated::of(&headers(&[("accept", accept)]), &Query::parse(None), endpoint);
        negotiated.map(|it| (it.encoding, it.form)).map_err(|it| it.0.message.clone())
    }

    #[test]
    fn each_class_of_endpoint_has_its_own_406_message() {
        use Endpoint::{Collection, Custom, Discovery, DiscoveryRoot, Object};
        let html = |endpoint| negotiated("text/html", endpoint).expect_err("HTML is not served");
        let first = "406: Not Acceptable\n\nAvailable representations: ";
        let second = "only the following media types are accepted: ";
        assert_eq!(html(Object), format!("{first}{OBJECTS}"));
        assert_eq!(html(Collection), format!("{first}{OBJECTS}, {STREAMS}"));
        assert_eq!(html(Custom), format!("{second}{OBJECTS}"));
        assert_eq!(html(Discovery), format!("{second}{OBJECTS}"));
        assert_eq!(html(DiscoveryRoot), format!("{first}{OBJECTS}"));
        let unknown = negotiated("application/json;as=Nothing;v=v1;g=meta.k8s.io", Object);
        assert_eq!(unknown.expect_err("no such form"), format!("{second}{OBJECTS}"));
    }

    #[test]
    fn protobuf_has_every_form_but_tables_and_custom_kinds_only_their_metadata() {
        use Encoding::{Json, Protobuf};
        use Endpoint::{Collection, Custom, Discovery, DiscoveryRoot, Object, Question};
        use ObjectForm::{Metadata, MetadataList, Whole};
        const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
        const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";
        const ONE: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        const MANY: &str =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        const TABLE: &str = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        let none = || Err(format!("only the following media types are accepted: {OBJECTS}"));
        for (accept, endpoint, expected) in [
            (PROTOBUF, Object, Ok((Protobuf, Whole))),
            (PROTOBUF, Collection, Ok((Protobuf, Whole))),
            (PROTOBUF, Question, Ok((Protobuf, Whole))),
            (PROTOBUF, Discovery, Ok((Protobuf, Whole))),
            (PROTOBUF, DiscoveryRoot, Ok((Protobuf, Whole))),
            (PROTOBUF, Custom, none()),
            (EITHER, Object, Ok((Protobuf, Whole))),
            (EITHER, Custom, Ok((Json, Whole))),
            (ONE, Object, Ok((Protobuf, Metadata))),
            (ONE, Custom, Ok((Protobuf, Metadata))),
            (MANY, Collection, Ok((Protobuf, MetadataList))),
            (MANY, Custom, Ok((Protobuf, MetadataList))),
            (ONE, Discovery, none()),
            (TABLE, Object, none()),
            (TABLE, Collection, none()),
            (TABLE, Custom, none()),
        ] {
            assert_eq!(negotiated(accept, endpoint), expected, "{accept} {endpoint:?}");
        }
    }

    #[test]
    fn parameters_that_are_not_known_are_ignored() {
        use Encoding::{Json, Protobuf};
        use Endpoint::{Collection, Custom, Object};
        use ObjectForm::{Metadata, MetadataList, Whole};
        const WHOLE: &str = "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,\
                             application/json;drop=metadata.managedFields,application/json";
        const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;\
                                drop=metadata.managedFields,application/json";
        const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;\
                                     drop=metadata.managedFields,application/json";
        for (accept, endpoint, expected) in [
            (WHOLE, Object, (Protobuf, Whole)),
            (WHOLE, Collection, (Protobuf, Whole)),
            (WHOLE, Custom, (Json, Whole)),
            ("application/json;drop=metadata.managedFields", Object, (Json, Whole)),
            ("application/json;drop=metadata.managedFields", Custom, (Json, Whole)),
            (METADATA, Object, (Protobuf, Metadata)),
            (METADATA_LIST, Collection, (Json, MetadataList)),
        ] {
            assert_eq!(negotiated(accept, endpoint), Ok(expected), "{accept} {endpoint:?}");
        }
    }

    #[test]
    fn create_only_resources_have_no_table_form() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = negotiated(table, Endpoint::Question).expect_err("there is no table");
        assert_eq!(refused, format!("only the following media types are accepted: {OBJECTS}"));
        let either = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
        assert_eq!(negotiated(either, Endpoint::Question), Ok((Encoding::Json, ObjectForm::Whole)));
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(negotiated(metadata, Endpoint::Question), Ok((Encoding::Json, ObjectForm::Metadata)));
    }

    #[test]
    fn aggregated_discovery_is_for_the_roots_only() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(
            negotiated(aggregated, Endpoint::DiscoveryRoot),
            Ok((Encoding::Json, ObjectForm::Discovery))
        );
        let later = "application/vnd.kubernetes.protobuf,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(negotiated(later, Endpoint::DiscoveryRoot), Ok((Encoding::Json, ObjectForm::Discovery)));
        assert!(negotiated(aggregated, Endpoint::Discovery).is_err());
        let either = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(negotiated(either, Endpoint::Discovery), Ok((Encoding::Json, ObjectForm::Whole)));
    }

    #[test]
    fn browsers_and_curl_get_indented_json_unless_they_ask_otherwise() {
        for (agent, query, expected) in [
            ("curl/8.5", None, true),
            ("Wget/1", None, true),
            ("Mozilla/5.0 (X11)", None, true),
            ("Mozilla/4", None, false),
            ("kubectl/v1.36", None, false),
            ("kubectl/v1.36", Some("pretty=true"), true),
            ("curl/8.5", Some("pretty=false"), false),
        ] {
            let negotiated = Negotiated::plain(&headers(&[("user-agent", agent)]), &Query::parse(query));
            assert_eq!(negotiated.pretty, expected, "{agent} {query:?}");
        }
    }

    #[test]
    fn an_error_is_represented_like_an_object_or_else_as_indented_json() {
        let of = |accept: &'static str| {
            Negotiated::of_refusal(&headers(&[("accept", accept)]), &Query::parse(None))
        };
        assert_eq!((of("application/yaml").encoding, of("application/yaml").pretty), (Encoding::Yaml, false));
        assert!(of("text/html").pretty && of("application/json;as=Table;v=v1;g=meta.k8s.io").pretty);
        assert!(!of("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").pretty);
        assert_eq!(of("application/vnd.kubernetes.protobuf").encoding, Encoding::Protobuf);
        let metadata = of("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        assert_eq!((metadata.encoding, metadata.pretty), (Encoding::Json, true));
    }
}
