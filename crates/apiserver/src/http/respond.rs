//! The entry point: one request, one response.

use http::header::{HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::time::Instant;

use super::access::Access;
use super::answer::{self, Answer};
use super::body::{Cut, ResponseBody};
use super::discovery::Discovery;
use super::fault_admin::FaultAdmin;
use super::incoming::ArrivingBody;
use super::list::ListError;
use super::negotiated::Negotiated;
use super::non_resource::NonResource;
use super::parsed_request::{ParsedRequest, RoutingError, not_found};
use super::query::Query;
use super::service::{Exchange, Service};
use super::web_guard;
use super::write::PatchForm;
use super::write_options::manager_of_agent;
use crate::ApiError;
use crate::auth::PeerIdentity;
use crate::authorization::{AccessRequest, Decision};
use crate::cluster::KubeletRequest;
use crate::faults::{self, Act, Call};
use crate::log::Record;
use crate::panics::{caught, caught_in};
use crate::request::{Route, Verb, decode_path};
use crate::user::User;

/// The log target of requests, one event each, so that they can be enabled separately.
const REQUESTS: &str = "dogwatch_apiserver::requests";

/// A request that is parsed as far as fault rules and logs need it.
struct RoutedRequest {
    route: Route,
    verb: String,
    /// The verb and resource, or the reason that there is none. `None` for paths that are not about
    /// resources.
    parsed: Option<Result<ParsedRequest, RoutingError>>,
}

/// A request as the log shows it.
struct LoggedRequest<'a> {
    routed: &'a RoutedRequest,
    /// The name of the user; empty if there is none.
    user: &'a str,
    /// The decision of the authorizer; `None` if there is no user.
    decision: Option<&'a Decision>,
    started: Instant,
}

impl Service {
    /// Answers a request; `peer` is the identity in a verified client certificate.
    ///
    /// The body of the response is pulled. Dropping this future before it completes leaves either
    /// all of a write or nothing of it.
    ///
    /// # Errors
    ///
    /// Returns [`Cut`] if the connection is to be cut without a response, which only fault rules
    /// demand.
    pub(crate) async fn respond<B: ArrivingBody>(
        &self,
        request: Request<B>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<ResponseBody>, Cut> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query());
        let panicked = |panic| self.panics.answer(&panic, parts.method.as_str(), parts.uri.path());
        let routed = caught_in(|| self.route(&parts, &query)).unwrap_or_else(|panic| RoutedRequest {
            route: Route::Other(String::new()),
            verb: parts.method.as_str().to_ascii_lowercase(),
            parsed: Some(Err(RoutingError::Refused(panicked(panic)))),
        });
        let attributes = Access::of(parts.uri.path(), &parts.method, &query);
        let access = attributes.request();
        let authenticate = || {
            let authorization = self.cluster.authorization();
            let trusts = || self.authenticator.trusts_connection(&parts.headers, peer, authorization);
            web_guard::check(&parts, peer.is_some(), self.settings.advertised.as_deref(), trusts)?;
            let is_authorized_verb = |it: &ParsedRequest| access.verb == it.verb.to_string();
            let has_verb = match &routed.parsed {
                Some(Ok(parsed)) => is_authorized_verb(parsed),
                _ => true,
            };
            if !has_verb || !attributes.is_of(&routed.route) {
                // Tests do not find such a request. It would be authorized as another than is
                // served.
                return Err(not_found());
            }
            let path = decode_path(parts.uri.path());
            self.authenticator.authenticate(&path, &access, &parts.headers, peer, &self.cluster)
        };
        let user = caught_in(authenticate).unwrap_or_else(|panic| Err(panicked(panic)));
        let decision = user.as_ref().ok().map(|it| self.cluster.authorize(it, &access));
        let allowed = user.as_ref().map_err(ApiError::clone).and_then(|user| {
            allowed(user, &access, decision.as_ref())?;
            Ok(user)
        });
        let answered = match allowed {
            Ok(user) => match caught(self.inject_faults(&routed, &parts, &query, user, body)).await {
                Ok(answered) => answered,
                Err(panic) => Ok(self.refuse(&panicked(panic), None, &parts.headers, &query)),
            },
            Err(refusal) => Ok(self.refuse_access(&refusal, &parts.headers, &query)),
        };
        let logged = LoggedRequest {
            routed: &routed,
            user: user.as_ref().map(|it| it.name.as_str()).unwrap_or_default(),
            decision: decision.as_ref(),
            started,
        };
        let code = answered.as_ref().map_or(0, |it| it.status().as_u16());
        self.record(&logged, &parts, &query, code);
        answered.map(|answer| answer::finish(answer, &parts, self.cluster.source()))
    }

    fn route(&self, parts: &Parts, query: &Query) -> RoutedRequest {
        let route = Route::parse(parts.uri.path());
        let parsed = match &route {
            Route::Resource(target) => {
                Some(ParsedRequest::find(&self.cluster.catalog(), target, &parts.method, query))
            }
            _ => None,
        };
        let verb = match &parsed {
            Some(Ok(parsed)) => parsed.verb.to_string(),
            _ => parts.method.as_str().to_ascii_lowercase(),
        };
        RoutedRequest { route, verb, parsed }
    }

    /// Applies the fault rules to a request, and serves it if they let it through.
    async fn inject_faults<B: ArrivingBody>(
        &self,
        routed: &RoutedRequest,
        parts: &Parts,
        query: &Query,
        user: &User,
        body: B,
    ) -> Result<Answer, Cut> {
        if decode_path(parts.uri.path()).starts_with(faults::PREFIX) {
            let admin = FaultAdmin { faults: &self.faults, cluster: &self.cluster, settings: &self.settings };
            return Ok(admin.serve(parts, query, body, self.bodies()).await);
        }
        let (delay, act) = self.faults.decide(&routed.call(&user.name));
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        match act {
            Act::ResetBefore => Err(Cut),
            Act::Refuse { refusal, retry_after } => {
                let mut answer = self.refuse(&refusal, None, &parts.headers, query);
                if let Some(seconds) = retry_after {
                    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
                }
                Ok(answer)
            }
            Act::ResetAfter => {
                self.dispatch(routed, parts, query, user, body).await;
                Err(Cut)
            }
            _ => Ok(self.dispatch(routed, parts, query, user, body).await),
        }
    }

    async fn dispatch<B: ArrivingBody>(
        &self,
        routed: &RoutedRequest,
        parts: &Parts,
        query: &Query,
        user: &User,
        body: B,
    ) -> Answer {
        let headers = &parts.headers;
        let discovery = || Discovery::of(self.cluster.catalog(), &self.settings);
        let answered = match (&routed.route, &routed.parsed) {
            (_, Some(Ok(parsed))) => return self.serve(parsed, parts, query, user, body).await,
            (_, Some(Err(error))) => Err(error.clone()),
            (Route::CoreVersions, _) => {
                let authority = parts.uri.authority().map(http::uri::Authority::as_str);
                let document = discovery().core_versions(&parts.method, headers, query, authority);
                document.map_err(RoutingError::Refused)
            }
            (Route::Groups, _) => discovery().groups(headers, query).map_err(RoutingError::Refused),
            (Route::Group(name), _) => discovery().group(name, headers, query),
            (Route::GroupVersion { group, version }, _) => {
                discovery().group_version((group, version), &parts.method, headers, query)
            }
            _ => {
                let (cluster, settings) = (&*self.cluster, &*self.settings);
                let endpoints =
                    NonResource { cluster, settings, metrics: &self.metrics, panics: &self.panics };
                endpoints.serve(parts, query)
            }
        };
        answered.unwrap_or_else(|error| match error {
            RoutingError::PlainNotFound => answer::page_not_found(),
            RoutingError::Refused(refusal) => self.refuse(&refusal, None, headers, query),
        })
    }

    /// Serves a verb on a resource.
    async fn serve<B: ArrivingBody>(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        query: &Query,
        user: &User,
        body: B,
    ) -> Answer {
        let answered = self.serve_verb(parsed, parts, query, user, body).await;
        let mut answer = answered
            .unwrap_or_else(|it| self.refuse(&it.refusal, it.token.as_deref(), &parts.headers, query));
        answer::warn(&mut answer, parsed.deprecation());
        answer
    }

    async fn serve_verb<B: ArrivingBody>(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        query: &Query,
        user: &User,
        body: B,
    ) -> Result<Answer, ListError> {
        let headers = &parts.headers;
        if parsed.connects() {
            let place = parsed.place();
            KubeletRequest::of(&self.cluster, &place).check_permission(user)?;
            return Ok(self.connect(parsed, parts, query, body).await?);
        }
        // kube-apiserver checks the content type of a patch before anything else (k8s.io/apiserver
        // v0.36.4 pkg/endpoints/handlers/patch.go).
        let patch = if parsed.verb == Verb::Patch { Some(PatchForm::of(parsed, headers)?) } else { None };
        let negotiated = Negotiated::of(headers, query, parsed.endpoint())?;
        let exchange = Exchange { headers, query, user, negotiated, connection: parts.extensions.get() };
        Ok(match (parsed.verb, patch) {
            (Verb::Get, _) if !parsed.part().is_empty() => self.get_part(parsed, query, &negotiated).await?,
            (Verb::Get, _) => self.reader().get(parsed, query, &negotiated, &*self.cluster).await?,
            (Verb::List, _) => self.reader().list(parsed, query, &negotiated, &*self.cluster).await?,
            (Verb::Watch, _) => {
                let faults = self.faults.watch(&call(parsed, "watch", &user.name));
                self.reader().watch(parsed, query, &negotiated, &*self.cluster, faults).await?
            }
            (Verb::Create, _) => self.create(parsed, &exchange, body).await?,
            (Verb::Patch, Some(form)) => self.patch(parsed, &exchange, form, body).await?,
            (Verb::Delete, _) => self.delete(parsed, &exchange, body).await?,
            (Verb::DeleteCollection, _) => self.delete_collection(parsed, &exchange, body).await?,
            _ => self.update(parsed, &exchange, body).await?,
        })
    }

    /// Connects a client to a pod, a node or a service.
    async fn connect<B: ArrivingBody>(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        query: &Query,
        body: B,
    ) -> Result<Answer, ApiError> {
        if query.first("dryRun").is_some() {
            return Err(ApiError::bad_request("dryRun is not supported"));
        }
        match parsed.part() {
            "proxy" => self.proxy(parsed, parts, body).await,
            _ => self.stream_to_pod(parsed, parts, query).await,
        }
    }

    /// Builds the response to a user who is unknown or may not do what is requested.
    fn refuse_access(&self, refusal: &ApiError, headers: &HeaderMap, query: &Query) -> Answer {
        let mut answer = self.refuse(refusal, None, headers, query);
        if answer.status() != StatusCode::UNAUTHORIZED {
            let nosniff = HeaderValue::from_static("nosniff");
            answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        }
        answer
    }

    fn record(&self, logged: &LoggedRequest<'_>, parts: &Parts, query: &Query, code: u16) {
        let LoggedRequest { user, decision, .. } = *logged;
        let call = logged.routed.call(user);
        self.metrics.request(call.verb, call.group, call.resource, code);
        let (method, path, duration) = (parts.method.as_str(), parts.uri.path(), logged.started.elapsed());
        let outcome = decision.map(Decision::outcome).unwrap_or_default();
        let reason = decision.map(|it| &*it.reason).unwrap_or_default();
        if !self.is_component {
            tracing::debug!(
                target: REQUESTS, method, path, status = code, ?duration, user, decision = outcome, reason, "request"
            );
        }
        self.log.record(|| {
            let writes = matches!(call.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
            let manager = || match query.get("fieldManager") {
                Some(given) => given.to_owned(),
                None => manager_of_agent(&parts.headers),
            };
            Record {
                verb: call.verb.to_owned(),
                group: call.group.to_owned(),
                resource: call.resource.to_owned(),
                namespace: call.namespace.map(str::to_owned),
                name: call.name.map(str::to_owned),
                part: call.part.to_owned(),
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                user: user.to_owned(),
                decision: outcome.to_owned(),
                reason: reason.to_owned(),
                manager: if writes { manager() } else { String::new() },
                status: code,
                duration,
            }
        });
    }
}

/// Rejects a request that the authorizer does not allow.
fn allowed(user: &User, access: &AccessRequest<'_>, decision: Option<&Decision>) -> Result<(), ApiError> {
    match decision {
        Some(Decision { allowed: false, reason }) => Err(access.forbidden(&user.name, reason)),
        _ => Ok(()),
    }
}

impl RoutedRequest {
    /// Describes the request for fault rules and logs.
    fn call<'a>(&'a self, user: &'a str) -> Call<'a> {
        match &self.parsed {
            Some(Ok(parsed)) => call(parsed, &self.verb, user),
            _ => Call {
                verb: &self.verb,
                group: "",
                resource: "",
                namespace: None,
                name: None,
                part: "",
                user,
            },
        }
    }
}

fn call<'a>(parsed: &'a ParsedRequest, verb: &'a str, user: &'a str) -> Call<'a> {
    Call {
        verb,
        group: &parsed.target.group,
        resource: &parsed.target.resource,
        namespace: parsed.target.namespace.as_deref(),
        name: parsed.target.name.as_deref(),
        part: parsed.part(),
        user,
    }
}
