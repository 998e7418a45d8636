//! A lease server for tests: one lease, with kube-apiserver's versions and conflicts, and faults on
//! demand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{Reason, Status};
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::oneshot;

use super::lock::LeaseLock;
use super::record;

/// The server side.
#[derive(Debug, Default)]
pub(super) struct Server {
    stored: Mutex<(Option<Lease>, u64)>,
    /// The requests that were carried out, in order: a verb, and the holder for a write.
    log: Mutex<Vec<String>>,
}

/// The delivery of one request.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// The latencies of the request and of its response.
    pub(super) there: Duration,
    pub(super) back: Duration,
    pub(super) end: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The request is carried out and answered.
    Answered,
    /// The request is carried out, and the connection breaks instead of a response.
    AnswerLost,
    /// The request is carried out, and no response ever arrives.
    AnswerSilent,
    /// The connection breaks before the request arrives.
    Cut,
    /// The request never arrives, and neither does a response.
    Silent,
    /// The server rejects it with this code.
    Refused(u16),
}

/// Decides the delivery of each request, by its verb.
pub(super) type Deliveries = Box<dyn FnMut(&str) -> Delivery + Send>;

/// The connection of one client.
pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    deliveries: Mutex<Deliveries>,
}

#[derive(Clone)]
enum Request {
    Get,
    Create(Lease),
    Update(Lease),
}

impl Server {
    pub(super) fn lease(&self) -> Option<Lease> {
        self.stored.lock().unwrap().0.clone()
    }

    pub(super) fn holder(&self) -> Option<String> {
        self.lease().as_ref().and_then(record::holder).map(str::to_owned)
    }

    /// Replaces or removes the lease, whatever was stored.
    pub(super) fn edit(&self, change: impl FnOnce(Option<Lease>) -> Option<Lease>) {
        let mut stored = self.stored.lock().unwrap();
        let lease = change(stored.0.take());
        Self::store(&mut stored, lease);
    }

    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn store(stored: &mut (Option<Lease>, u64), lease: Option<Lease>) {
        stored.1 += 1;
        stored.0 = lease.map(|mut lease| {
            lease.metadata.resource_version = Some(stored.1.to_string());
            lease
        });
    }

    fn carry_out(&self, request: Request) -> Result<Option<Lease>, Error> {
        let refused = |reason| Err(Status::failure(reason, "no").into());
        let mut stored = self.stored.lock().unwrap();
        let verb = match &request {
            Request::Get => "get".to_owned(),
            Request::Create(lease) => format!("create {}", record::holder(lease).unwrap_or_default()),
            Request::Update(lease) => format!("update {}", record::holder(lease).unwrap_or_default()),
        };
        self.log.lock().unwrap().push(verb);
        match (request, &stored.0) {
            (Request::Get, lease) => return Ok(lease.clone()),
            (Request::Create(_), Some(_)) => return refused(Reason::AlreadyExists),
            (Request::Update(_), None) => return refused(Reason::NotFound),
            (Request::Update(new), Some(old)) if record::version(&new) != record::version(old) => {
                return refused(Reason::Conflict);
            }
            // An update that changes nothing creates no new version.
            (Request::Update(new), Some(old)) if new == *old => {}
            (Request::Create(new) | Request::Update(new), _) => Self::store(&mut stored, Some(new)),
        }
        Ok(stored.0.clone())
    }
}

impl Delivery {
    pub(super) fn prompt(end: Outcome) -> Self {
        Self { there: Duration::ZERO, back: Duration::ZERO, end }
    }
}

impl Connection {
    pub(super) fn new(
        server: &Arc<Server>,
        deliveries: impl FnMut(&str) -> Delivery + Send + 'static,
    ) -> Self {
        Self { server: Arc::clone(server), deliveries: Mutex::new(Box::new(deliveries)) }
    }

    /// A connection on which every request is answered at once.
    pub(super) fn good(server: &Arc<Server>) -> Self {
        Self::new(server, |_| Delivery::prompt(Outcome::Answered))
    }

    /// A connection with these outcomes in turn; later requests are answered.
    pub(super) fn script(server: &Arc<Server>, ends: impl IntoIterator<Item = Outcome>) -> Self {
        let mut ends: VecDeque<_> = ends.into_iter().collect();
        Self::new(server, move |_| Delivery::prompt(ends.pop_front().unwrap_or(Outcome::Answered)))
    }

    /// Sends a request. It is carried out even if the caller stops waiting.
    async fn request(&self, verb: &str, request: Request) -> Result<Option<Lease>, Error> {
        let delivery = (self.deliveries.lock().unwrap())(verb);
        let server = Arc::clone(&self.server);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::time::sleep(delivery.there).await;
            let outcome = match delivery.end {
                Outcome::Silent => std::future::pending().await,
                Outcome::Cut => Err(broken()),
                Outcome::Refused(code) => {
                    Err(Status { code, ..Status::failure(Reason::InternalError, "no") }.into())
                }
                Outcome::Answered => server.carry_out(request),
                Outcome::AnswerLost => server.carry_out(request).and(Err(broken())),
                Outcome::AnswerSilent => {
                    let _ = server.carry_out(request);
                    std::future::pending().await
                }
            };
            tokio::time::sleep(delivery.back).await;
            let _ = answer.send(outcome);
        });
        answered.await.expect("the request task sends an outcome")
    }
}

impl LeaseLock for Connection {
    fn get<'l>(&'l self, _name: &'l str) -> BoxFuture<'l, Result<Option<Lease>, Error>> {
        Box::pin(self.request("get", Request::Get))
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async {
            Ok(self.request("create", Request::Create(lease)).await?.expect("the lease exists"))
        })
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async {
            Ok(self.request("update", Request::Update(lease)).await?.expect("the lease exists"))
        })
    }
}

fn broken() -> Error {
    let source = std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
    Error::Unreachable { server: "https://server.test/".to_owned(), source }
}
