//! The health of a reflector: its state, and the problem that keeps it from being synced, in words
//! an operator can act on.
//!
//! Written by the reflector; read by informers, by callers that wait for a sync, and by people. A
//! reflector that cannot reach its server, or is not authorized, reports that here. Waiting for
//! changes is in `health_watch.rs`.

use std::fmt;

use dogwatch_core::ResourceVersion;
use dogwatch_wire::UndecodableItem;
use tokio::time::Instant;

/// The health of a reflector or an informer.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// assert!(!maps.health().synced, "it was not started");
/// maps.start();
/// maps.synced().await?;
/// let health = maps.health();
/// assert!(health.synced && health.problem.is_none());
/// println!("{health}"); // a sentence for a status page or a log
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// The current activity.
    pub state: HealthState,
    /// The problem that keeps it from being synced with the server, if there is one.
    pub problem: Option<Problem>,
    /// Set once a complete list was delivered. It stays true: what was learned is kept through
    /// every failure.
    pub synced: bool,
    /// The version up to which all changes have been delivered; unset before the initial list.
    pub last_version: ResourceVersion,
    /// The time at which the server last sent anything of this collection.
    pub last_event_at: Option<Instant>,
    /// The number of times the collection was listed again after the initial list.
    pub relists: u64,
    /// The number of times the server turned out to have an older history than the informer, for
    /// example because its storage was restored from a backup.
    ///
    /// Each time, the collection is listed again. An informer notices when it reaches a server that
    /// has not got to the informer's version yet. If the restored server has already passed that
    /// version when the informer reconnects, the two histories cannot be distinguished and the
    /// informer resumes. Restore etcd with a raised revision
    /// (`etcdutl snapshot restore --bump-revision --mark-compacted`) to make every client list
    /// again, or restart the clients.
    pub rewinds: u64,
    /// The number of times an object could not be decoded.
    pub decode_failures: u64,
    /// The last object that could not be decoded: its key, the path in it, the reason.
    pub last_decode_failure: Option<UndecodableItem>,
    /// The number of existing objects whose newest state could not be decoded. The store shows an
    /// older state of each, or none.
    pub undecodable: u64,
}

/// The current activity of a reflector.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HealthState, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let problem = match maps.health().state {
///     HealthState::Retrying { attempts, .. } => Some(format!("{attempts} requests failed")),
///     HealthState::NotServed => Some("the server does not serve config maps".to_owned()),
///     HealthState::Stopped => Some("the cache is not updated any more".to_owned()),
///     _ => None,
/// };
/// assert_eq!(problem, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum HealthState {
    /// Nothing has been received yet, and nothing has failed.
    #[default]
    Starting,
    /// The collection is being listed.
    Listing {
        /// The number of objects received so far.
        items: u64,
    },
    /// Synced with the server, as far as the server has reported.
    Synced,
    /// The last request failed; the next one is scheduled.
    Retrying {
        /// The time of the first of these consecutive failures.
        since: Instant,
        /// The number of consecutive failures.
        attempts: u32,
        /// The time of the next request.
        next: Instant,
    },
    /// The server does not serve the collection, and the reflector has ended. An informer asks
    /// again from time to time.
    NotServed,
    /// The informer was stopped, and its cache is not updated any more.
    Stopped,
}

/// A problem that keeps a reflector from being synced.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::{Gvk, ResourceType};
/// use dogwatch_informer::SharedInformer;
/// use kube_core::DynamicObject;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// // The definition of this resource is not installed.
/// let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
/// let informer = SharedInformer::new(Api::<DynamicObject>::dynamic(client, widgets));
/// informer.start();
/// let mut watch = informer.health_watch();
/// let health = watch.wait_for(|it| it.problem.is_some()).await.expect("the informer runs");
/// let problem = health.problem.expect("it was waited for");
/// assert!(problem.message.contains("widgets") && problem.count > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The kind of the problem, for programs that react to it.
    pub kind: ProblemKind,
    /// A description of the problem, and of what to check.
    pub message: String,
    /// The time at which it first occurred.
    pub since: Instant,
    /// The number of consecutive failures, whether of this problem or of another one before it.
    pub count: u32,
}

/// The kind of a [`Problem`].
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{ProblemKind, SharedInformer};
/// use k8s_openapi::api::core::v1::Secret;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let reads = dogwatch_apiserver::faults::Rule::on("list").or("watch");
/// # server.faults().rule(reads.refuse(403));
/// let secrets = SharedInformer::new(Api::<Secret>::all(client));
/// secrets.start();
/// let mut watch = secrets.health_watch();
/// let health = watch.wait_for(|it| it.problem.is_some()).await.expect("the informer runs");
/// let advice = match health.problem.map(|it| it.kind) {
///     Some(ProblemKind::Forbidden) => "bind a role that permits `list` and `watch` of secrets",
///     Some(ProblemKind::Unauthorized) => "check the token",
///     _ => "check that the server runs",
/// };
/// assert!(advice.contains("role"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The server does not accept the credentials, or there are none to send.
    Unauthorized,
    /// The user may not list or watch the collection.
    Forbidden,
    /// The server does not serve the collection.
    NotServed,
    /// The server is overloaded and asks clients to slow down.
    Overloaded,
    /// The server cannot be reached, is down, sends nothing, or ends requests early.
    Unreachable,
    /// The server reports an older version than before, so its history was reset.
    HistoryReset,
    /// Any other problem; the message describes it.
    Other,
}

impl Health {
    /// Returns true if it is synced with the server, has no problem, and every object is shown in
    /// its newest state.
    pub fn is_ok(&self) -> bool {
        self.state == HealthState::Synced && self.problem.is_none() && self.undecodable == 0
    }
}

impl fmt::Display for Health {
    /// Writes one line: the state, and the problem if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            HealthState::Starting => f.write_str("starting")?,
            HealthState::Listing { items } => write!(f, "listing, {items} objects so far")?,
            HealthState::Synced => f.write_str("synced")?,
            HealthState::Retrying { attempts: 1, .. } => f.write_str("retrying after a failure")?,
            HealthState::Retrying { attempts, .. } => write!(f, "retrying after {attempts} failures")?,
            HealthState::NotServed => f.write_str("not served")?,
            HealthState::Stopped => f.write_str("stopped")?,
        }
        match (self.undecodable, &self.last_decode_failure) {
            (0, _) => {}
            (1, Some(bad)) => write!(f, ", except for an object that cannot be decoded ({bad})")?,
            (count, Some(bad)) => {
                write!(f, ", except for {count} objects that cannot be decoded (last {bad})")?;
            }
            (count, None) => write!(f, ", except for objects that cannot be decoded ({count})")?,
        }
        match &self.problem {
            Some(problem) => write!(f, ": {}", problem.message),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_reads_as_one_line() {
        let now = Instant::now();
        let mut health = Health::default();
        assert_eq!(health.to_string(), "starting");
        health.state = HealthState::Listing { items: 7 };
        assert_eq!(health.to_string(), "listing, 7 objects so far");
        health.state = HealthState::Retrying { since: now, attempts: 2, next: now };
        health.problem = Some(Problem {
            kind: ProblemKind::Unreachable,
            message: "no route".to_owned(),
            since: now,
            count: 2,
        });
        assert_eq!(health.to_string(), "retrying after 2 failures: no route");
        assert!(!health.is_ok());
        let ok = Health { state: HealthState::Synced, ..Health::default() };
        assert!(ok.is_ok());
    }
}
