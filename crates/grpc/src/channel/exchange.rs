//! One call, from the pick to the response, on as many endpoints as it takes.
//!
//! A call of which nothing was sent goes to another endpoint as often as necessary. A call that a
//! server has seen but not processed, because it refused the stream or sent GOAWAY before it, goes
//! to another endpoint once (A6): servers refuse when they are overloaded. After that, and for a
//! call that may have been processed, the retry policy of its method decides.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body::Body;
use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

use super::body::{Call, ResponseBody, Stream};
use super::channel_state::Core;
use super::head::Head;
use super::methods::Retrying;
use super::request_body::{BodyError, Outgoing};
use super::snapshot::{Slot, Unready};
use super::status::{Code, Failure, pushback_of, timeout_of};
use crate::connection::may_have_left;
use crate::load::InFlight;
use crate::policy::{Memory, PeakEwma, Policy, hash};
use crate::random;
use crate::time::{CENTURY, after, from_now};

/// The pause after every endpoint was tried, before all are tried again. Multiplied by the number
/// of attempts, up to a hundred.
const PAUSE: Duration = Duration::from_millis(10);

/// One call: `C` holds the channel.
pub(crate) struct Exchange<C, B> {
    core: C,
    head: Head,
    outgoing: Outgoing<B>,
    deadline: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Connections that failed, identified by their addresses in memory.
    tried: SmallVec<[usize; 2]>,
    /// The retry policy of the method, if it has one.
    retrying: Option<Arc<Retrying>>,
    /// Attempts that no server has processed.
    unprocessed: u32,
    /// True if a server has refused an attempt.
    refused: bool,
    /// Attempts by the retry policy.
    retries: u32,
    /// Backoffs since a server last sent a pushback, which resets them.
    backoffs: u32,
    /// The endpoint of the last attempt.
    last: Option<SocketAddr>,
    /// True if the caller's `grpc-timeout` header must be recomputed: time has passed, or the
    /// channel allows less.
    late: bool,
}

/// The outcome of one attempt.
enum Fate {
    Answered {
        response: Response<RecvStream>,
        sending: Option<SendStream<Bytes>>,
    },
    /// Nothing of it was sent.
    NotSent(h2::Error),
    /// The server has not processed it, and says so.
    Refused(h2::Error),
    /// The server may have processed it.
    Lost(h2::Error),
    TooLate,
    /// The caller's request body failed.
    BadBody(BodyError),
    /// The request cannot be sent at all.
    Invalid(h2::Error),
}

impl<C, B> Exchange<C, B>
where
    C: Deref<Target = Core>,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    pub(crate) fn new(core: C, request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        let (asked, own) = (timeout_of(&head.headers), core.settings.methods.timeout_of(head.uri.path()));
        let timeout = match (asked, own) {
            (Some(asked), Some(own)) => Some(asked.min(own)),
            (asked, own) => asked.or(own),
        };
        let deadline = timeout.map(from_now);
        let retrying = core.settings.methods.retrying(head.uri.path()).map(Arc::clone);
        Self {
            alarm: deadline.map(|it| Box::pin(sleep_until(it))),
            outgoing: Outgoing::new(body, core.settings.replay_limit),
            core,
            head: Head::new(head),
            deadline,
            tried: SmallVec::new(),
            retrying,
            unprocessed: 0,
            refused: false,
            retries: 0,
            backoffs: 0,
            last: None,
            late: timeout != asked,
        }
    }

    /// Sends the request and waits for the head of its response. May be called only once.
    pub(crate) async fn answer(&mut self) -> Response<ResponseBody> {
        self.run().await.unwrap_or_else(Failure::into_response)
    }

    async fn run(&mut self) -> Result<Response<ResponseBody>, Failure> {
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
                    if let Some(wait) = self.worth_a_retry(code, Some(response.headers())) {
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
                Fate::NotSent(error) => {
                    call.was_not_processed();
                    if self.may_go_elsewhere(&call) {
                        continue;
                    }
                    self.failure(Code::Unavailable, &format!("the endpoint did not accept the call: {error}"))
                }
                Fate::Refused(error) => {
                    call.was_not_processed();
                    let first = !std::mem::replace(&mut self.refused, true);
                    if first && self.may_go_elsewhere(&call) {
                        continue;
                    }
                    self.tried.push(key(call.slot()));
                    drop(call);
                    if let Some(wait) = self.worth_a_retry(Some(Code::Unavailable), None) {
                        self.pause(wait).await;
                        continue;
                    }
                    self.failure(Code::Unavailable, &format!("the endpoint refused the call: {error}"))
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
                    self.failure(code, &format!("the call was lost in transit: {error}"))
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

    /// Returns an endpoint for the next attempt, at once if one is ready.
    async fn choose(&mut self) -> Result<(Arc<Slot>, InFlight), Failure> {
        match self.pick() {
            Some(picked) => Ok(picked),
            // Boxed, because hardly any call waits.
            None => Box::pin(self.wait_for_somebody()).await,
        }
    }

    async fn wait_for_somebody(&mut self) -> Result<(Arc<Slot>, InFlight), Failure> {
        self.core.demand.notify_one();
        self.late = true;
        let asked = Instant::now();
        let again = after(asked, PAUSE.saturating_mul(self.unprocessed.clamp(1, 100)));
        let patience = if self.head.waits_for_ready() { CENTURY } else { self.core.settings.ready_timeout };
        let mut revision = self.core.revision.subscribe();
        loop {
            if let Some(picked) = self.pick() {
                self.core.meter.waits.record(asked.elapsed());
                return Ok(picked);
            }
            let unready = self.core.snapshot.load().unready.clone();
            let until = match &unready {
                Some(unready) => unready.until(asked, patience),
                // The owner of the key is connecting; a later snapshot decides.
                None if self.tried.is_empty() => after(asked, patience),
                None => again,
            };
            let bound = self.deadline.map_or(until, |it| it.min(until));
            if timeout_at(bound, revision.changed()).await.is_err() {
                match unready {
                    // Every endpoint was tried: start over with all of them.
                    None if bound == until && !self.tried.is_empty() => self.tried.clear(),
                    _ => return Err(self.nobody(unready.as_ref(), bound == until)),
                }
            }
        }
    }

    fn nobody(&self, unready: Option<&Unready>, in_time: bool) -> Failure {
        let why = unready.map_or_else(|| "no endpoint accepted the call".to_owned(), |it| it.why.to_string());
        let name = self.core.settings.authority.as_ref().map_or("the service", |it| it.as_str());
        let code = if in_time { Code::Unavailable } else { Code::DeadlineExceeded };
        Failure::new(code, format!("{name} cannot be called: {why}"), self.last)
    }

    fn pick(&self) -> Option<(Arc<Slot>, InFlight)> {
        let snapshot = self.core.snapshot.load();
        let by = || match &self.core.settings.policy {
            Policy::RingHash(it) => ring_key(self.head.values(&it.header)),
            _ => None,
        };
        let tried = |it: &Arc<Slot>| self.tried.contains(&key(it));
        let (mut slot, mut in_flight) = match self.tried.is_empty() {
            true => snapshot.group.pick(by)?,
            false => snapshot.group.pick_but(tried, by)?,
        };
        // This call is already counted. With a ring, only the key decides.
        let in_line = in_flight.load().in_flight() as usize > slot.link.room();
        if in_line && !matches!(self.core.settings.policy, Policy::RingHash(_)) {
            let roomy = snapshot.group.pick_but(|it| it.is_full() || tried(it), by);
            (slot, in_flight) = roomy.unwrap_or((slot, in_flight));
        }
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
            // If the request itself is invalid, the connection stays as it was.
            Err(error) => {
                let closed =
                    poll_fn(|cx| Poll::Ready(matches!(sender.poll_ready(cx), Poll::Ready(Err(_))))).await;
                return if closed { Fate::NotSent(error) } else { Fate::Invalid(error) };
            }
        };
        let mut sending = (!self.outgoing.is_empty()).then_some(stream);
        let mut response = response;
        let mut wait = Wait::begin(&self.core, call);
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut response, &mut sending)).await;
        match answer {
            Ok(response) => Fate::Answered { response, sending },
            Err(Fate::Lost(error)) => {
                // The call may also have been queued on the connection, because the peer limits
                // concurrent streams. If our own side closes the connection, it still sends its
                // buffer after calls have got the error.
                let closing = error.is_go_away() && error.is_library();
                let left = closing || may_have_left(response.stream_id().as_u32(), written, link.writes());
                let refused = was_not_processed(&error);
                if left && !refused {
                    return Fate::Lost(error);
                }
                // The time until a refusal says nothing about the latency.
                wait.iter_mut().for_each(|it| it.counts = false);
                if left { Fate::Refused(error) } else { Fate::NotSent(error) }
            }
            Err(fate) => fate,
        }
    }

    fn head_for(&mut self, peer: SocketAddr) -> Result<Request<()>, Reason> {
        let settings = &self.core.settings;
        let authority = match &settings.authority {
            Some(authority) => authority.clone(),
            None => peer.to_string().parse().map_err(|_| Reason::INTERNAL_ERROR)?,
        };
        let left = self.deadline.filter(|_| self.late);
        let left = left.map(|it| it.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let head = self.head.attempt(settings.scheme.clone(), authority, left, self.retries);
        head.map_err(|_| Reason::INTERNAL_ERROR)
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
        // Checked before the response: a server that also enforces the deadline cancels the call at
        // the same moment, with a less specific status.
        if let Some(Poll::Ready(())) = self.alarm.as_mut().map(|it| it.as_mut().poll(cx)) {
            return Poll::Ready(Err(Fate::TooLate));
        }
        let answer = ready!(Pin::new(response).poll(cx));
        if self.deadline.is_some() {
            let code = match &answer {
                Ok(answer) => Code::of(answer.headers()),
                Err(error) => Some(Code::of_error(error)),
            };
            if code.is_some_and(|it| it.at(self.deadline) != it) {
                return Poll::Ready(Err(Fate::TooLate));
            }
        }
        Poll::Ready(answer.map_err(Fate::Lost))
    }

    /// Returns the delay after which to retry a call that a server failed, if it may be retried;
    /// then the body is rewound.
    fn worth_a_retry(&mut self, code: Option<Code>, headers: Option<&HeaderMap>) -> Option<Duration> {
        let Retrying { policy: retry, budget } = &**self.retrying.as_ref()?;
        // If the head has no status, the end of the response has it.
        let code = code?;
        if !retry.codes.contains(&code) {
            budget.ended(code);
            return None;
        }
        let allowed = budget.failed() && self.retries + 1 < retry.attempts.clamp(1, 5);
        let wait = match headers.and_then(pushback_of) {
            Some(asked) => {
                let asked = asked?;
                self.backoffs = 0;
                asked
            }
            None => {
                self.backoffs += 1;
                retry.wait(self.backoffs, random::unit())
            }
        };
        // A delay that exceeds the clock's range is longer than any deadline.
        let then = Instant::now().checked_add(wait);
        let in_time = self.deadline.is_none_or(|it| then.is_some_and(|then| then < it));
        (allowed && in_time && self.outgoing.rewind()).then_some(wait)
    }

    async fn pause(&mut self, wait: Duration) {
        self.retries += 1;
        self.late = true;
        self.core.meter.retries.increment(1);
        Box::pin(sleep(wait)).await;
    }

    /// Returns true if a call that no server has processed can be sent to another endpoint; then
    /// the body is rewound.
    fn may_go_elsewhere(&mut self, call: &Call) -> bool {
        self.tried.push(key(call.slot()));
        self.late = true;
        self.unprocessed = self.unprocessed.saturating_add(1);
        let may = self.outgoing.rewind();
        if may {
            self.core.meter.transparent_retries.increment(1);
        }
        may
    }

    /// Returns the response, and sends the rest of the request in its own task. That task enforces
    /// the deadline too: a caller that only sends does not poll the response, where it would be
    /// enforced.
    fn deliver(
        &mut self,
        call: Call,
        response: Response<RecvStream>,
        sending: Option<SendStream<Bytes>>,
    ) -> Response<ResponseBody> {
        let sending = sending.map(|mut stream| {
            let (mut outgoing, deadline) = (self.outgoing.hand_over(), self.deadline);
            let rest = async move {
                let sending = poll_fn(|cx| outgoing.poll_send(cx, &mut stream));
                let sent = match deadline {
                    Some(deadline) => timeout_at(deadline, sending).await,
                    None => Ok(sending.await),
                };
                if !matches!(sent, Ok(Ok(()))) {
                    stream.send_reset(Reason::CANCEL);
                }
            };
            tokio::spawn(rest).abort_handle()
        });
        let deadline = self.alarm.take();
        let retrying = self.retrying.take().filter(|_| !call.has_ended());
        response.map(|receive| {
            ResponseBody::new(Stream { receive, call, deadline, sending, retrying, data_ended: false })
        })
    }
}

/// Measures the time until the head of a response, if the policy needs it. Recorded when the wait
/// ends, and also when it is abandoned: an endpoint that makes callers give up is slow.
struct Wait<'e> {
    call: &'e Call,
    memory: Arc<Memory>,
    decay: Duration,
    began: Instant,
    counts: bool,
}

impl<'e> Wait<'e> {
    fn begin(core: &Core, call: &'e Call) -> Option<Self> {
        let Policy::PeakEwma(PeakEwma { decay }) = core.settings.policy else {
            return None;
        };
        Some(Self { call, memory: Arc::clone(&core.memory), decay, began: Instant::now(), counts: true })
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.call.in_flight().load().observe(self.began.elapsed(), self.memory.now(), self.decay);
        }
    }
}

/// Returns the identity of a connection.
fn key(slot: &Slot) -> usize {
    Arc::as_ptr(&slot.link) as usize
}

/// Returns the ring key of a call: the hash of the header's value, or of its values joined with
/// commas (A42); `None` without the header.
fn ring_key<'h>(mut values: impl Iterator<Item = &'h [u8]>) -> Option<u64> {
    match (values.next(), values.next()) {
        (None, _) => None,
        (Some(only), None) => Some(hash(only)),
        (Some(first), Some(second)) => {
            let all: Vec<_> = [first, second].into_iter().chain(values).collect();
            Some(hash(&all.join(&b',')))
        }
    }
}

/// Returns true if the server itself says so: it refused the stream, or sent GOAWAY before it. A
/// GOAWAY error reaches only streams above the last one that the server promised to process.
fn was_not_processed(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_values_of_a_header_are_one_key() {
        let key = |values: &[&'static str]| ring_key(values.iter().map(|it| it.as_bytes()));
        assert_eq!(key(&["ann"]), Some(hash(b"ann")));
        assert_eq!(key(&["ann", "bob", ""]), Some(hash(b"ann,bob,")));
        assert_eq!(key(&[]), None, "without a value there is no key");
    }
}
