//! In which form a client wants its answer.

use dogwatch_core::{Details, Reason, Status};
use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

use super::query::Query;
use crate::print::IncludeObject;
use crate::refusal::Refusal;
use crate::request::{AnswerForm, Encoding, negotiate};

const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// What is listed for a client that takes nothing but protobuf, which this server reads but does not write.
const WRITTEN: &str = "application/json, application/yaml";
/// What only the roots of discovery have.
const ABSENT: &[&str] = &["APIGroupDiscoveryList"];

/// In which form a client wants its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// How it is written down.
    pub(super) encoding: Encoding,
    /// What it shows of its objects.
    pub(super) form: AnswerForm,
    /// Whether it is for people.
    pub(super) pretty: bool,
    /// What the rows of a table hold besides their cells.
    pub(super) include: IncludeObject,
    /// Whether it may be compressed.
    pub(super) gzip: bool,
}

/// What is asked, as far as the choice of a form goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A collection of a built-in kind, which can also be watched.
    Collection,
    /// An object of a built-in kind.
    Object,
    /// What is only ever asked, such as a review or a token, and of which there are no tables.
    Question,
    /// Anything of a custom kind.
    Custom,
    /// A discovery document that also has an aggregated form.
    DiscoveryRoot,
    /// Any other discovery document.
    Discovery,
}

impl Wish {
    /// Plain JSON, pretty where the client says so.
    pub(super) fn plain(headers: &HeaderMap, query: &Query) -> Self {
        Self {
            encoding: Encoding::Json,
            form: AnswerForm::Whole,
            pretty: is_pretty(headers, query),
            include: IncludeObject::default(),
            gzip: takes_gzip(headers),
        }
    }

    /// The form in which a client wants objects.
    ///
    /// # Errors
    /// 406 where it wants none that there is, 400 for a table of an unknown sort.
    pub(super) fn of(headers: &HeaderMap, query: &Query, endpoint: Endpoint) -> Result<Self, Refusal> {
        let accept = accept(headers);
        let transforms = !matches!(endpoint, Endpoint::Discovery | Endpoint::DiscoveryRoot);
        let chosen = if endpoint == Endpoint::DiscoveryRoot {
            negotiate(accept.as_deref(), transforms)
        } else {
            let absent = if endpoint == Endpoint::Question {
                &["APIGroupDiscoveryList", "as=Table"][..]
            } else {
                ABSENT
            };
            negotiate_objects(accept.as_deref(), transforms, absent)
        };
        let wants_protobuf =
            || accept.as_deref().is_some_and(|it| it.contains("application/vnd.kubernetes.protobuf"));
        let (encoding, form) = chosen.map_err(|refusal| match wants_protobuf() {
            true => accepted_only(WRITTEN),
            false => not_acceptable(refusal, endpoint),
        })?;
        let include = match form {
            AnswerForm::Table => IncludeObject::parse(query.get("includeObject").unwrap_or_default())?,
            _ => IncludeObject::default(),
        };
        Ok(Self { encoding, form, include, ..Self::plain(headers, query) })
    }

    /// The form of a refusal: that of objects without any transformation; where there is none, JSON for people.
    pub(super) fn of_refusal(headers: &HeaderMap, query: &Query) -> Self {
        let plain = Self { gzip: false, ..Self::plain(headers, query) };
        match negotiate_objects(accept(headers).as_deref(), false, ABSENT) {
            Ok((encoding, _)) => Self { encoding, ..plain },
            Err(_) => Self { pretty: true, ..plain },
        }
    }

    /// Events come in JSON only.
    ///
    /// # Errors
    /// 406 where they are wanted in YAML.
    pub(super) fn check_stream(&self) -> Result<(), Refusal> {
        match self.encoding {
            Encoding::Json => Ok(()),
            _ => Err(accepted_only(STREAMS)),
        }
    }
}

fn accept(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// As [`negotiate`], where forms with these words are not to be had.
fn negotiate_objects(
    accept: Option<&str>,
    transforms: bool,
    absent: &[&str],
) -> Result<(Encoding, AnswerForm), Refusal> {
    let is_absent = |form: &str| absent.iter().any(|it| form.contains(it));
    let Some(accept) = accept.filter(|it| is_absent(it)) else {
        return negotiate(accept, transforms);
    };
    let others: Vec<&str> = accept.split(',').filter(|it| !is_absent(it)).collect();
    if others.is_empty() {
        Err(accepted_only(OBJECTS))
    } else {
        negotiate(Some(&others.join(",")), transforms)
    }
}

fn accepted_only(types: &str) -> Refusal {
    let message = format!("only the following media types are accepted: {types}");
    Refusal(Box::new(Status::failure(Reason::NotAcceptable, message)))
}

/// Two layers of the original refuse in two ways; custom kinds know only the second.
fn not_acceptable(refusal: Refusal, endpoint: Endpoint) -> Refusal {
    let first_layer = refusal.0.message.starts_with("406: ");
    if !first_layer || matches!(endpoint, Endpoint::Custom | Endpoint::Discovery) {
        return accepted_only(OBJECTS);
    }
    let types =
        if endpoint == Endpoint::Collection { format!("{OBJECTS}, {STREAMS}") } else { OBJECTS.to_owned() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    let mut status = Status::failure(Reason::NotAcceptable, message);
    status.details = Some(Details::default());
    Refusal(Box::new(status))
}

fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(wanted) = query.get("pretty") {
        return matches!(wanted, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let asked = text(ACCEPT).split(';').any(|it| matches!(it.trim(), "pretty=1" | "pretty=true"));
    // People who look at answers by hand.
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

    fn wish(accept: &'static str, endpoint: Endpoint) -> Result<(Encoding, AnswerForm), String> {
        let wish = Wish::of(&headers(&[("accept", accept)]), &Query::parse(None), endpoint);
        wish.map(|it| (it.encoding, it.form)).map_err(|it| it.0.message.clone())
    }

    #[test]
    fn each_endpoint_refuses_in_its_own_words() {
        use Endpoint::{Collection, Custom, Discovery, DiscoveryRoot, Object};
        let html = |endpoint| wish("text/html", endpoint).expect_err("nobody has it");
        let first = "406: Not Acceptable\n\nAvailable representations: ";
        let second = "only the following media types are accepted: ";
        assert_eq!(html(Object), format!("{first}{OBJECTS}"));
        assert_eq!(html(Collection), format!("{first}{OBJECTS}, {STREAMS}"));
        assert_eq!(html(Custom), format!("{second}{OBJECTS}"));
        assert_eq!(html(Discovery), format!("{second}{OBJECTS}"));
        assert_eq!(html(DiscoveryRoot), format!("{first}{OBJECTS}"));
        let unknown = wish("application/json;as=Nothing;v=v1;g=meta.k8s.io", Object);
        assert_eq!(unknown.expect_err("no such form"), format!("{second}{OBJECTS}"));
    }

    #[test]
    fn a_client_that_takes_only_protobuf_is_not_told_that_it_could_have_it() {
        for endpoint in [Endpoint::Object, Endpoint::Collection, Endpoint::Custom] {
            let refused =
                wish("application/vnd.kubernetes.protobuf", endpoint).expect_err("it is not written");
            assert_eq!(refused, format!("only the following media types are accepted: {WRITTEN}"));
        }
    }

    #[test]
    fn there_are_no_tables_of_questions() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = wish(table, Endpoint::Question).expect_err("nobody has it");
        assert_eq!(refused, format!("only the following media types are accepted: {OBJECTS}"));
        let either = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
        assert_eq!(wish(either, Endpoint::Question), Ok((Encoding::Json, AnswerForm::Whole)));
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(wish(metadata, Endpoint::Question), Ok((Encoding::Json, AnswerForm::Metadata)));
    }

    #[test]
    fn aggregated_discovery_is_for_the_roots_only() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(wish(aggregated, Endpoint::DiscoveryRoot), Ok((Encoding::Json, AnswerForm::Discovery)));
        assert!(wish(aggregated, Endpoint::Discovery).is_err());
        let either = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(wish(either, Endpoint::Discovery), Ok((Encoding::Json, AnswerForm::Whole)));
    }

    #[test]
    fn people_get_indented_answers_unless_they_say_otherwise() {
        for (agent, query, expected) in [
            ("curl/8.5", None, true),
            ("Wget/1", None, true),
            ("Mozilla/5.0 (X11)", None, true),
            ("Mozilla/4", None, false),
            ("kubectl/v1.36", None, false),
            ("kubectl/v1.36", Some("pretty=true"), true),
            ("curl/8.5", Some("pretty=false"), false),
        ] {
            let wish = Wish::plain(&headers(&[("user-agent", agent)]), &Query::parse(query));
            assert_eq!(wish.pretty, expected, "{agent} {query:?}");
        }
    }

    #[test]
    fn a_refusal_comes_in_the_form_of_an_object_or_else_as_json_for_people() {
        let of =
            |accept: &'static str| Wish::of_refusal(&headers(&[("accept", accept)]), &Query::parse(None));
        assert_eq!((of("application/yaml").encoding, of("application/yaml").pretty), (Encoding::Yaml, false));
        assert!(of("text/html").pretty && of("application/json;as=Table;v=v1;g=meta.k8s.io").pretty);
        assert!(!of("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").pretty);
    }
}
