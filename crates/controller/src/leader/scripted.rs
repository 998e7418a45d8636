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

/// The fate of one request.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    /// The latencies of the request and of its response.
    pub(super) there: Duration,
    pub(super) back: Duration,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
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

/// Decides the fate of each request, by its verb.
pub(super) type Fates = Box<dyn FnMut(&str) -> Fate + Send>;

/// The connection of one client.
pub(super) struct Line {
    pub(super) server: Arc<Server>,
    fates: Mutex<Fates>,
}

#[derive(Clone)]
enum Ask {
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

    fn carry_out(&self, ask: Ask) -> Result<Option<Lease>, Error> {
        let refused = |reason| Err(Status::failure(reason, "no").into());
        let mut stored = self.stored.lock().unwrap();
        let verb = match &ask {
            Ask::Get => "get".to_owned(),
            Ask::Create(lease) => format!("create {}", record::holder(lease).unwrap_or_default()),
            Ask::Update(lease) => format!("update {}", record::holder(lease).unwrap_or_default()),
        };
        self.log.lock().unwrap().push(verb);
        match (ask, &stored.0) {
            (Ask::Get, lease) => return Ok(lease.clone()),
            (Ask::Create(_), Some(_)) => return refused(Reason::AlreadyExists),
            (Ask::Update(_), None) => return refused(Reason::NotFound),
            (Ask::Update(new), Some(old)) if record::version(&new) != record::version(old) => {
                return refused(Reason::Conflict);
            }
            // An update that changes nothing creates no new version.
            (Ask::Update(new), Some(old)) if new == *old => {}
            (Ask::Create(new) | Ask::Update(new), _) => Self::store(&mut stored, Some(new)),
        }
        Ok(stored.0.clone())
    }
}

impl Fate {
    pub(super) fn prompt(end: End) -> Self {
        Self { there: Duration::ZERO, back: Duration::ZERO, end }
    }
}

impl Line {
    pub(super) fn new(server: &Arc<Server>, fates: impl FnMut(&str) -> Fate + Send + 'static) -> Self {
        Self { server: Arc::clone(server), fates: Mutex::new(Box::new(fates)) }
    }

    /// A connection on which every request is answered at once.
    pub(super) fn good(server: &Arc<Server>) -> Self {
        Self::new(server, |_| Fate::prompt(End::Answered))
    }

    /// A connection with these outcomes in turn; later requests are answered.
    pub(super) fn script(server: &Arc<Server>, ends: impl IntoIterator<Item = End>) -> Self {
        let mut ends: VecDeque<_> = ends.into_iter().collect();
        Self::new(server, move |_| Fate::prompt(ends.pop_front().unwrap_or(End::Answered)))
    }

    /// Sends a request. It is carried out even if the caller stops waiting.
    async fn ask(&self, verb: &str, ask: Ask) -> Result<Option<Lease>, Error> {
        let fate = (self.fates.lock().unwrap())(verb);
        let server = Arc::clone(&self.server);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::time::sleep(fate.there).await;
            let outcome = match fate.end {
                End::Silent => std::future::pending().await,
                End::Cut => Err(broken()),
                End::Refused(code) => {
                    Err(Status { code, ..Status::failure(Reason::InternalError, "no") }.into())
                }
                End::Answered => server.carry_out(ask),
                End::AnswerLost => server.carry_out(ask).and(Err(broken())),
                End::AnswerSilent => {
                    let _ = server.carry_out(ask);
                    std::future::pending().await
                }
            };
            tokio::time::sleep(fate.back).await;
            let _ = answer.send(outcome);
        });
        answered.await.expect("the request task sends an outcome")
    }
}

impl LeaseLock for Line {
    fn get<'l>(&'l self, _name: &'l str) -> BoxFuture<'l, Result<Option<Lease>, Error>> {
        Box::pin(self.ask("get", Ask::Get))
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async { Ok(self.ask("create", Ask::Create(lease)).await?.expect("the lease exists")) })
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async { Ok(self.ask("update", Ask::Update(lease)).await?.expect("the lease exists")) })
    }
}

fn broken() -> Error {
    let source = std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
    Error::Unreachable { server: "https://server.test/".to_owned(), source }
}
