//! One call, from the pick to the answer, on as many endpoints as it takes.
//!
//! A call that no server has processed goes to another endpoint, whatever it is: its connection was gone before a byte left, the stream
//! was refused, or the server said goodbye before it. A call that may have been processed is only repeated where the user asked for it.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body::Body;
use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

use super::body::{Call, ResponseBody, Stream};
use super::core::Core;
use super::outgoing::{BodyError, Outgoing};
use super::snapshot::{Slot, Unready};
use super::status::{Code, Failure, pushback_of, timeout_of};
use crate::chance;
use crate::connection::may_have_left;
use crate::load::InFlight;
use crate::policy::{Policy, hash};

/// How often a call that no server has processed is sent elsewhere.
const TRANSPARENT: u32 = 16;
/// How long to wait when everybody was tried, before everybody is tried again.
const PAUSE: Duration = Duration::from_millis(10);
const AGENT: HeaderValue = HeaderValue::from_static(concat!("dogwatch-grpc/", env!("CARGO_PKG_VERSION")));

/// Sends a request and waits for the head of its answer.
pub(crate) async fn call<B>(core: Arc<Core>, request: Request<B>) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let (mut head, body) = request.into_parts();
    head.extensions.clear();
    head.headers.entry(USER_AGENT).or_insert(AGENT);
    let deadline = timeout_of(&head.headers).map(|it| Instant::now() + it);
    let outgoing = Outgoing::new(body, core.settings.replay_limit);
    let exchange = Exchange {
        alarm: deadline.map(|it| Box::pin(sleep_until(it))),
        core,
        head,
        outgoing,
        deadline,
        tried: SmallVec::new(),
        transparent: 0,
        retries: 0,
        last: None,
    };
    exchange.run().await.unwrap_or_else(Failure::into_response)
}

struct Exchange<B> {
    core: Arc<Core>,
    head: Parts,
    outgoing: Outgoing<B>,
    deadline: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Connections that did not work out, by their addresses in memory.
    tried: SmallVec<[usize; 2]>,
    transparent: u32,
    retries: u32,
    /// Who was tried last.
    last: Option<SocketAddr>,
}

/// What became of one attempt.
enum Fate {
    Answered {
        response: Response<RecvStream>,
        sending: Option<SendStream<Bytes>>,
    },
    /// No server has processed it.
    Unprocessed(h2::Error),
    /// A server may have processed it.
    Lost(h2::Error),
    TooLate,
    /// The caller's own body failed.
    BadBody(BodyError),
    /// The request cannot be sent at all.
    Invalid(h2::Error),
}

impl<B> Exchange<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    async fn run(mut self) -> Result<Response<ResponseBody>, Failure> {
        if let Err(error) = poll_fn(|cx| Poll::Ready(self.outgoing.gather(cx))).await {
            return Err(self.bad_body(&error));
        }
        loop {
            let (slot, in_flight) = self.choose().await?;
            self.last = Some(slot.link.peer());
            let mut call = Call::new(slot, in_flight);
            let failure = match self.attempt(&call).await {
                Fate::Answered { response, sending } => {
                    let foreign = Failure::foreign(&response, self.last);
                    let code = foreign.as_ref().map(|it| it.code).or_else(|| Code::of(response.headers()));
                    code.into_iter().for_each(|it| call.ended(it));
                    if let Some(wait) = self.worth_a_retry(code, pushback_of(response.headers())) {
                        self.tried.push(key(call.slot()));
                        drop((call, response, sending));
                        self.pause(wait).await;
                        continue;
                    }
                    match foreign {
                        Some(failure) => failure,
                        None => return Ok(self.deliver(call, response, sending)),
                    }
                }
                Fate::Unprocessed(error) => {
                    if self.may_go_elsewhere(&call) {
                        continue;
                    }
                    self.failure(Code::Unavailable, &format!("it did not take the call: {error}"))
                }
                Fate::Lost(error) => {
                    let code = Code::of_error(&error);
                    call.ended(code);
                    self.tried.push(key(call.slot()));
                    drop(call);
                    if let Some(wait) = self.worth_a_retry(Some(code), None) {
                        self.pause(wait).await;
                        continue;
                    }
                    self.failure(code, &format!("the call was lost on its way: {error}"))
                }
                Fate::TooLate => {
                    call.ended(Code::DeadlineExceeded);
                    self.failure(Code::DeadlineExceeded, "the deadline has passed")
                }
                Fate::BadBody(error) => self.bad_body(&error),
                Fate::Invalid(error) => {
                    self.failure(Code::Internal, &format!("the request cannot be sent: {error}"))
                }
            };
            return Err(failure);
        }
    }

    fn bad_body(&self, error: &BodyError) -> Failure {
        self.failure(Code::Cancelled, &format!("the body of the request failed: {error}"))
    }

    fn failure(&self, code: Code, message: &str) -> Failure {
        let message = match self.last {
            Some(endpoint) => format!("{endpoint}: {message}"),
            None => message.to_owned(),
        };
        Failure::new(code, message, self.last)
    }

    /// An endpoint for the next attempt, at once if one is ready.
    async fn choose(&mut self) -> Result<(Arc<Slot>, InFlight), Failure> {
        if let Some(picked) = self.pick() {
            return Ok(picked);
        }
        self.core.demand.notify_one();
        let asked = Instant::now();
        let mut revision = self.core.revision.subscribe();
        loop {
            if let Some(picked) = self.pick() {
                return Ok(picked);
            }
            let unready = self.core.snapshot.load().unready.clone();
            let until = match &unready {
                Some(unready) => unready.since.unwrap_or(asked) + self.core.settings.ready_timeout,
                None => Instant::now() + PAUSE * self.transparent.max(1),
            };
            let bound = self.deadline.map_or(until, |it| it.min(until));
            if timeout_at(bound, revision.changed()).await.is_err() {
                match unready {
                    // Everybody was tried: begin again with everybody.
                    None if bound == until => self.tried.clear(),
                    _ => return Err(self.nobody(unready.as_ref(), bound == until)),
                }
            }
        }
    }

    fn nobody(&self, unready: Option<&Unready>, in_time: bool) -> Failure {
        let why = unready.map_or_else(|| "no endpoint took the call".to_owned(), |it| it.why.to_string());
        let name = self.core.settings.authority.as_ref().map_or("the service", |it| it.as_str());
        let code = if in_time { Code::Unavailable } else { Code::DeadlineExceeded };
        Failure::new(code, format!("{name} cannot be called: {why}"), self.last)
    }

    fn pick(&self) -> Option<(Arc<Slot>, InFlight)> {
        let snapshot = self.core.snapshot.load();
        let by = || match &self.core.settings.policy {
            Policy::RingHash(it) => {
                self.head.headers.get(&it.header).map_or_else(chance::bits, |it| hash(it.as_bytes()))
            }
            _ => 0,
        };
        let (slot, in_flight) = if self.tried.is_empty() {
            snapshot.group.pick(by)?
        } else {
            snapshot.group.pick_but(|it| self.tried.contains(&key(it)), by)?
        };
        Some((Arc::clone(slot), in_flight))
    }

    async fn attempt(&mut self, call: &Call) -> Fate {
        let link = &call.slot().link;
        let head = match self.head_for(link.peer()) {
            Ok(head) => head,
            Err(reason) => return Fate::Invalid(reason.into()),
        };
        let mut sender = link.sender();
        let written = link.writes();
        let (response, stream) = match sender.send_request(head, self.outgoing.is_empty()) {
            Ok(sent) => sent,
            // Whatever is wrong with the request itself leaves the connection as it was.
            Err(error) => {
                let closed =
                    poll_fn(|cx| Poll::Ready(matches!(sender.poll_ready(cx), Poll::Ready(Err(_))))).await;
                return if closed { Fate::Unprocessed(error) } else { Fate::Invalid(error) };
            }
        };
        let mut sending = (!self.outgoing.is_empty()).then_some(stream);
        let mut response = response;
        let began = matches!(self.core.settings.policy, Policy::PeakEwma(_)).then(Instant::now);
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut response, &mut sending)).await;
        if let (Policy::PeakEwma(it), Some(began)) = (&self.core.settings.policy, began) {
            call.in_flight().load().observe(began.elapsed(), self.core.memory.now(), it.decay);
        }
        match answer {
            Ok(response) => Fate::Answered { response, sending },
            Err(Fate::Lost(error)) => {
                // A call may also have waited in line on the connection, where the peer takes only so many at a time.
                let left = may_have_left(response.stream_id().as_u32(), written, link.writes());
                let unprocessed = was_not_processed(&error) || !left;
                if unprocessed { Fate::Unprocessed(error) } else { Fate::Lost(error) }
            }
            Err(fate) => fate,
        }
    }

    /// The head with scheme and authority; what the user keeps is a copy, for the next attempt.
    fn head_for(&self, peer: SocketAddr) -> Result<Request<()>, Reason> {
        let settings = &self.core.settings;
        let mut head = self.head.clone();
        let mut uri = std::mem::take(&mut head.uri).into_parts();
        uri.scheme = Some(settings.scheme.clone());
        uri.authority = match &settings.authority {
            Some(authority) => Some(authority.clone()),
            None => Some(peer.to_string().parse().map_err(|_| Reason::INTERNAL_ERROR)?),
        };
        head.uri = Uri::from_parts(uri).map_err(|_| Reason::INTERNAL_ERROR)?;
        head.version = http::Version::HTTP_2;
        Ok(Request::from_parts(head, ()))
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseFuture,
        sending: &mut Option<SendStream<Bytes>>,
    ) -> Poll<Result<Response<RecvStream>, Fate>> {
        if let Some(stream) = sending {
            match self.outgoing.poll_send(cx, stream) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => *sending = None,
                Poll::Ready(Err(error)) => {
                    stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(Fate::BadBody(error)));
                }
            }
        }
        // Before the answer: a server that keeps the deadline too cancels the call at the same moment, and says no more than that.
        if let Some(Poll::Ready(())) = self.alarm.as_mut().map(|it| it.as_mut().poll(cx)) {
            return Poll::Ready(Err(Fate::TooLate));
        }
        Pin::new(response).poll(cx).map_err(Fate::Lost)
    }

    /// After what wait to try again what a server has failed, if it may be; then the body stands at its beginning.
    fn worth_a_retry(&mut self, code: Option<Code>, pushback: Option<Option<Duration>>) -> Option<Duration> {
        let (retry, budget) = (self.core.settings.retry.as_ref()?, self.core.budget.as_ref()?);
        if !code.is_some_and(|it| retry.codes.contains(&it)) {
            budget.succeeded();
            return None;
        }
        let allowed = budget.failed() && self.retries + 1 < retry.attempts.clamp(1, 5);
        let wait = match pushback {
            Some(asked) => asked?,
            None => retry.wait(self.retries + 1, chance::unit()),
        };
        let in_time = self.deadline.is_none_or(|it| Instant::now() + wait < it);
        (allowed && in_time && self.outgoing.rewind()).then_some(wait)
    }

    async fn pause(&mut self, wait: Duration) {
        self.retries += 1;
        self.core.meter.retries.increment(1);
        sleep(wait).await;
    }

    /// Whether a call that nobody has processed can be sent to somebody else; then the body stands at its beginning.
    fn may_go_elsewhere(&mut self, call: &Call) -> bool {
        self.tried.push(key(call.slot()));
        self.transparent += 1;
        let may = self.transparent <= TRANSPARENT && self.outgoing.rewind();
        if may {
            self.core.meter.transparent_retries.increment(1);
        }
        may
    }

    /// Hands the answer over, with whatever is still to be sent in a task of its own.
    fn deliver(
        self,
        call: Call,
        response: Response<RecvStream>,
        sending: Option<SendStream<Bytes>>,
    ) -> Response<ResponseBody> {
        let mut outgoing = self.outgoing;
        let sending = sending.map(|mut stream| {
            outgoing.settle();
            let rest = async move {
                if poll_fn(|cx| outgoing.poll_send(cx, &mut stream)).await.is_err() {
                    stream.send_reset(Reason::CANCEL);
                }
            };
            tokio::spawn(rest).abort_handle()
        });
        let deadline = self.alarm;
        response
            .map(|receive| ResponseBody::new(Stream { receive, call, deadline, sending, data_ended: false }))
    }
}

/// Tells connections apart.
fn key(slot: &Slot) -> usize {
    Arc::as_ptr(&slot.link) as usize
}

/// The server itself says so: it refused the stream, or left before it. An error of the kind "gone away" reaches
/// only streams above the last one that the server promised to process.
fn was_not_processed(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
}
