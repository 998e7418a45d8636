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
use super::channel_state::ChannelState;
use super::head::Head;
use super::methods::RetryState;
use super::request_body::{BodyError, RequestBody};
use super::snapshot::{Slot, Unready};
use super::status::{Code, Failure, pushback_of, timeout_of};
use crate::connection::may_have_been_sent;
use crate::load::InFlight;
use crate::policy::{PeakEwma, Policy, PolicyState, hash};
use crate::random;
use crate::time::{CENTURY, after, from_now};

/// The pause after every endpoint was tried, before all are tried again. Multiplied by the number
/// of attempts, up to a hundred.
const PAUSE: Duration = Duration::from_millis(10);

/// One call: `C` holds the channel.
pub(crate) struct Exchange<C, B> {
    channel: C,
    head: Head,
    body: RequestBody<B>,
    deadline: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Connections that failed, identified by their addresses in memory.
    tried: SmallVec<[usize; 2]>,
    /// The retry policy of the method, if it has one.
    retrying: Option<Arc<RetryState>>,
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
enum AttemptOutcome {
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
    C: Deref<Target = ChannelState>,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    pub(crate) fn new(channel: C, request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        let (asked, own) = (timeout_of(&head.headers), channel.settings.methods.timeout_of(head.uri.path()));
        let timeout = match (asked, own) {
            (Some(asked), Some(own)) => Some(asked.min(own)),
            (asked, own) => asked.or(own),
        };
        let deadline = timeout.map(from_now);
        let retrying = channel.settings.methods.retrying(head.uri.path()).map(Arc::clone);
        Self {
            alarm: deadline.map(|it| Box::pin(sleep_until(it))),
            body: RequestBody::new(body, channel.settings.replay_limit),
            channel,
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
        if let Err(error) = poll_fn(|cx| Poll::Ready(self.body.collect_available(cx))).await {
            return Err(self.bad_body(&error));
        }
        loop {
            let (slot, in_flight) = self.choose().await?;
            self.last = Some(slot.link.peer());
            let mut call = Call::new(slot, in_flight);
            let failure = match self.attempt(&call).await {
                AttemptOutcome::Answered { response, sending } => {
                    let non_grpc = Failure::non_grpc(&response, self.last);
                    let code = non_grpc.as_ref().map(|it| it.code).or_else(|| Code::of(response.headers()));
                    code.into_iter().for_each(|it| call.ended(it));
                    if let Some(wait) = self.retry_delay(code, Some(response.headers())) {
                        self.tried.push(key(call.slot()));
                        drop((call, response, sending));
                        self.pause(wait).await;
                        continue;
                    }
                    match non_grpc {
                        Some(failure) => failure,
                        None => return Ok(self.deliver(call, response, sending)),
                    }
                }
                AttemptOutcome::NotSent(error) => {
                    call.was_not_processed();
                    if self.rewind_for_another(&call) {
                        continue;
                    }
                    self.failure(Code::Unavailable, &format!("the endpoint did not accept the call: {error}"))
                }
                AttemptOutcome::Refused(error) => {
                    call.was_not_processed();
                    let first = !std::mem::replace(&mut self.refused, true);
                    if first && self.rewind_for_another(&call) {
                        continue;
                    }
                    self.tried.push(key(call.slot()));
                    drop(call);
                    if let Some(wait) = self.retry_delay(Some(Code::Unavailable), None) {
                        self.pause(wait).await;
                        continue;
                    }
                    self.failure(Code::Unavailable, &format!("the endpoint refused the call: {error}"))
                }
                AttemptOutcome::Lost(error) => {
                    let code = Code::of_error(&error);
                    call.ended(code);
                    self.tried.push(key(call.slot()));
                    drop(call);
                    if let Some(wait) = self.retry_delay(Some(code), None) {
                        self.pause(wait).await;
                        continue;
                    }
                    self.failure(code, &format!("the call was lost in transit: {error}"))
                }
                AttemptOutcome::TooLate => {
                    call.ended(Code::DeadlineExceeded);
                    self.failure(Code::DeadlineExceeded, "the deadline has passed")
                }
                AttemptOutcome::BadBody(error) => self.bad_body(&error),
                AttemptOutcome::Invalid(error) => {
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
            None => Box::pin(self.wait_for_endpoint()).await,
        }
    }

    async fn wait_for_endpoint(&mut self) -> Result<(Arc<Slot>, InFlight), Failure> {
        self.channel.demand.notify_one();
        self.late = true;
        let asked = Instant::now();
        let again = after(asked, PAUSE.saturating_mul(self.unprocessed.clamp(1, 100)));
        let limit = if self.head.waits_for_ready() { CENTURY } else { self.channel.settings.ready_timeout };
        let mut revision = self.channel.revision.subscribe();
        loop {
            if let Some(picked) = self.pick() {
                self.channel.metrics.waits.record(asked.elapsed());
                return Ok(picked);
            }
            let unready = self.channel.snapshot.load().unready.clone();
            let until = match &unready {
                Some(unready) => unready.until(asked, limit),
                // The owner of the key is connecting; a later snapshot decides.
                None if self.tried.is_empty() => after(asked, limit),
                None => again,
            };
            let bound = self.deadline.map_or(until, |it| it.min(until));
            if timeout_at(bound, revision.changed()).await.is_err() {
                match unready {
                    // Every endpoint was tried: start over with all of them.
                    None if bound == until && !self.tried.is_empty() => self.tried.clear(),
                    _ => return Err(self.unavailable(unready.as_ref(), bound == until)),
                }
            }
        }
    }

    fn unavailable(&self, unready: Option<&Unready>, in_time: bool) -> Failure {
        let why = unready.map_or_else(|| "no endpoint accepted the call".to_owned(), |it| it.why.to_string());
        let name = self.channel.settings.authority.as_ref().map_or("the service", |it| it.as_str());
        let code = if in_time { Code::Unavailable } else { Code::DeadlineExceeded };
        Failure::new(code, format!("{name} cannot be called: {why}"), self.last)
    }

    fn pick(&self) -> Option<(Arc<Slot>, InFlight)> {
        let snapshot = self.channel.snapshot.load();
        let by = || match &self.channel.settings.policy {
            Policy::RingHash(it) => ring_key(self.head.values(&it.header)),
            _ => None,
        };
        let tried = |it: &Arc<Slot>| self.tried.contains(&key(it));
        let (mut slot, mut in_flight) = match self.tried.is_empty() {
            true => snapshot.group.pick(by)?,
            false => snapshot.group.pick_except(tried, by)?,
        };
        // This call is already counted. With a ring, only the key decides.
        let would_queue = in_flight.load().in_flight() as usize > slot.link.max_calls();
        if would_queue && !matches!(self.channel.settings.policy, Policy::RingHash(_)) {
            let with_room = snapshot.group.pick_except(|it| it.is_full() || tried(it), by);
            (slot, in_flight) = with_room.unwrap_or((slot, in_flight));
        }
        Some((Arc::clone(slot), in_flight))
    }

    async fn attempt(&mut self, call: &Call) -> AttemptOutcome {
        let link = &call.slot().link;
        let head = match self.head_for(link.peer()) {
            Ok(head) => head,
            Err(reason) => return AttemptOutcome::Invalid(reason.into()),
        };
        let mut sender = link.sender();
        let written = link.write_mark();
        let (response, stream) = match sender.send_request(head, self.body.is_empty()) {
            Ok(sent) => sent,
            // If the request itself is invalid, the connection stays as it was.
            Err(error) => {
                let closed =
                    poll_fn(|cx| Poll::Ready(matches!(sender.poll_ready(cx), Poll::Ready(Err(_))))).await;
                return if closed { AttemptOutcome::NotSent(error) } else { AttemptOutcome::Invalid(error) };
            }
        };
        let mut sending = (!self.body.is_empty()).then_some(stream);
        let mut response = response;
        let mut wait = LatencyTimer::begin(&self.channel, call);
        let answer = poll_fn(|cx| self.poll_answer(cx, &mut response, &mut sending)).await;
        match answer {
            Ok(response) => AttemptOutcome::Answered { response, sending },
            Err(AttemptOutcome::Lost(error)) => {
                // The call may also have been queued on the connection, because the peer limits
                // concurrent streams. If our own side closes the connection, it still sends its
                // buffer after calls have got the error.
                let closing = error.is_go_away() && error.is_library();
                let left =
                    closing || may_have_been_sent(response.stream_id().as_u32(), written, link.write_mark());
                let refused = was_not_processed(&error);
                if left && !refused {
                    return AttemptOutcome::Lost(error);
                }
                // The time until a refusal says nothing about the latency.
                wait.iter_mut().for_each(|it| it.counts = false);
                if left { AttemptOutcome::Refused(error) } else { AttemptOutcome::NotSent(error) }
            }
            Err(outcome) => outcome,
        }
    }

    fn head_for(&mut self, peer: SocketAddr) -> Result<Request<()>, Reason> {
        let settings = &self.channel.settings;
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
    ) -> Poll<Result<Response<RecvStream>, AttemptOutcome>> {
        if let Some(stream) = sending {
            match self.body.poll_send(cx, stream) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => *sending = None,
                Poll::Ready(Err(error)) => {
                    stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(AttemptOutcome::BadBody(error)));
                }
            }
        }
        // Checked before the response: a server that also enforces the deadline cancels the call at
        // the same moment, with a less specific status.
        if let Some(Poll::Ready(())) = self.alarm.as_mut().map(|it| it.as_mut().poll(cx)) {
            return Poll::Ready(Err(AttemptOutcome::TooLate));
        }
        let answer = ready!(Pin::new(response).poll(cx));
        if self.deadline.is_some() {
            let code = match &answer {
                Ok(answer) => Code::of(answer.headers()),
                Err(error) => Some(Code::of_error(error)),
            };
            if code.is_some_and(|it| it.at(self.deadline) != it) {
                return Poll::Ready(Err(AttemptOutcome::TooLate));
            }
        }
        Poll::Ready(answer.map_err(AttemptOutcome::Lost))
    }

    /// Returns the delay after which to retry a call that a server failed, if it may be retried;
    /// then the body is rewound.
    fn retry_delay(&mut self, code: Option<Code>, headers: Option<&HeaderMap>) -> Option<Duration> {
        let RetryState { policy: retry, budget } = &**self.retrying.as_ref()?;
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
        (allowed && in_time && self.body.rewind()).then_some(wait)
    }

    async fn pause(&mut self, wait: Duration) {
        self.retries += 1;
        self.late = true;
        self.channel.metrics.retries.increment(1);
        Box::pin(sleep(wait)).await;
    }

    /// Returns true if a call that no server has processed can be sent to another endpoint; then
    /// the body is rewound.
    fn rewind_for_another(&mut self, call: &Call) -> bool {
        self.tried.push(key(call.slot()));
        self.late = true;
        self.unprocessed = self.unprocessed.saturating_add(1);
        let may = self.body.rewind();
        if may {
            self.channel.metrics.transparent_retries.increment(1);
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
            let (mut body, deadline) = (self.body.take_rest(), self.deadline);
            let rest = async move {
                let sending = poll_fn(|cx| body.poll_send(cx, &mut stream));
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
struct LatencyTimer<'e> {
    call: &'e Call,
    policy_state: Arc<PolicyState>,
    decay: Duration,
    began: Instant,
    counts: bool,
}

impl<'e> LatencyTimer<'e> {
    fn begin(channel: &ChannelState, call: &'e Call) -> Option<Self> {
        let Policy::PeakEwma(PeakEwma { decay }) = channel.settings.policy else {
            return None;
        };
        Some(Self {
            call,
            policy_state: Arc::clone(&channel.policy_state),
            decay,
            began: Instant::now(),
            counts: true,
        })
    }
}

impl Drop for LatencyTimer<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.call.in_flight().load().observe(self.began.elapsed(), self.policy_state.now(), self.decay);
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
