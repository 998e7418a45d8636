//! What can be chosen about a server before it starts.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Serialize;

use super::error::StartError;
use super::objects::Objects;
use crate::auth::Anonymous;
use crate::cluster::{Cluster, Source, User};
use crate::controllers::Controllers;
use crate::http::Settings;
use crate::simulators::Simulators;

/// When time begins for a seeded server, unless it is told: the first of January 2026.
const FIRST_DAY: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// How many requests the log keeps, unless it is told: more than a test looks at.
const LOG: usize = 10_000;

/// What can be chosen about a server. Each method says what happens without it.
#[derive(Debug)]
#[must_use = "nothing runs before `start`"]
pub struct ApiServerBuilder {
    pub(super) plan: Plan,
    pub(super) tls: bool,
    pub(super) anonymous: Option<Anonymous>,
    pub(super) tokens: Vec<(SecretString, User)>,
    seed: Option<u64>,
    clock: Option<Timestamp>,
    first_revision: Option<u64>,
    pub(super) objects: Objects,
}

/// What stays of it while the server runs, for its forks.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Where it listens; nowhere for a server without a socket.
    pub(super) bind: Option<SocketAddr>,
    pub(super) anonymous: Anonymous,
    pub(super) controllers: Controllers,
    pub(super) simulators: Option<Simulators>,
    pub(super) settings: Settings,
    /// How many requests the log keeps.
    pub(super) log: usize,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        let plan = Plan {
            bind: Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)),
            anonymous: Anonymous::Admin,
            controllers: Controllers::default(),
            simulators: None,
            settings: Settings::default(),
            log: LOG,
        };
        Self {
            plan,
            tls: false,
            anonymous: None,
            tokens: Vec::new(),
            seed: None,
            clock: None,
            first_revision: None,
            objects: Objects::default(),
        }
    }
}

impl ApiServerBuilder {
    /// Listens there. A free port of 127.0.0.1 otherwise. Off the loopback it takes TLS and a token too.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.plan.bind = Some(address);
        self
    }

    /// Listens nowhere: only [`connector`](crate::ApiServer::connector) and [`service`](crate::ApiServer::service) lead to the server.
    pub fn in_process(mut self) -> Self {
        self.plan.bind = None;
        self
    }

    /// TLS with certificates made for this run, and client certificates beside tokens; off otherwise. Without a token of
    /// your own, one is made up, and the kubeconfig has it.
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// The name or address by which clients elsewhere reach the server: in its URL, its kubeconfig and its certificate, and accepted as
    /// the host of requests. Defaults to the address it listens on, or to 127.0.0.1 for one that listens on all of them.
    pub fn advertise(mut self, host: impl Into<String>) -> Self {
        self.plan.settings.advertised = Some(host.into());
        self
    }

    /// Lets this bearer token stand for the administrator, and takes no requests without credentials any more.
    pub fn token(self, token: impl Into<SecretString>) -> Self {
        self.token_of(token, User::admin())
    }

    /// Lets this bearer token stand for that user, and takes no requests without credentials any more.
    pub fn token_of(mut self, token: impl Into<SecretString>, user: User) -> Self {
        self.tokens.push((token.into(), user));
        self
    }

    /// What becomes of requests without credentials. Where no token was set and there is no TLS they are the
    /// administrator's; elsewhere they are refused.
    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = Some(anonymous);
        self
    }

    /// Makes uids, generated names, the first version and the clock the same in every run; the clock then goes with tokio's.
    /// Otherwise they are random, and time is the machine's.
    ///
    /// The tokens of service accounts are the same in every run only for a server [in process](Self::in_process): one that
    /// listens signs them with a random key.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets time begin here, and go with tokio's. The first of January 2026 for a seeded server, the time of the machine for
    /// others.
    pub fn clock(mut self, start: Timestamp) -> Self {
        self.clock = Some(start);
        self
    }

    /// Counts the versions of objects from this one on, which should be 1 or more. Defaults to 1 for a server with a seed or a
    /// clock of its own, and else to the microseconds since 1970, so that the versions of a server that is started again are
    /// above all that an earlier one has given out.
    ///
    /// Two servers play one that is restarted: where the second begins higher, a client that goes on at a version of the
    /// first gets 410 and lists again. Where it begins lower, as after etcd was restored from a backup, that version is one of
    /// the future. A list that insists on it gets 504, and a watch 410, once the server has waited 3 s for it.
    ///
    /// ```
    /// # use dogwatch_apiserver::ApiServer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let before = ApiServer::builder().in_process().seed(1).first_revision(5_000).start().await?;
    /// let restored = ApiServer::builder().in_process().seed(2).first_revision(1_000).start().await?;
    /// assert!(restored.cluster().store().revision() < before.cluster().store().revision());
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.first_revision = Some(revision);
        self
    }

    /// Begins with the objects of a YAML text, in this order: as many documents as you like, and lists too. Those that need
    /// a namespace and name none are in `default`. Their status is kept.
    pub fn yaml(mut self, text: &str) -> Self {
        self.objects.yaml(text);
        self
    }

    /// Begins with this object too: a typed one, or a JSON value. As [`Self::yaml`].
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.objects.object(object);
        self
    }

    /// Which controllers run. All of them otherwise.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.plan.controllers = controllers;
        self
    }

    /// Whether workloads come to life although nothing runs them. They do not otherwise.
    pub fn simulators(mut self, on: bool) -> Self {
        self.plan.simulators = on.then(Simulators::default);
        self
    }

    /// Which simulators run, and how what they simulate behaves. None do otherwise.
    pub fn simulate(mut self, simulators: Simulators) -> Self {
        self.plan.simulators = Some(simulators);
        self
    }

    /// How often watches that allow it get a bookmark. Once a minute otherwise.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.plan.settings.bookmark_period = period;
        self
    }

    /// How many requests the log keeps, the newest ones; 0 turns it off. 10,000 otherwise.
    pub fn request_log(mut self, capacity: usize) -> Self {
        self.plan.log = capacity;
        self
    }

    /// Whether the fault lab can be used over HTTP, by whoever may use the server. It cannot otherwise.
    pub fn fault_admin(mut self, on: bool) -> Self {
        self.plan.settings.fault_admin = on;
        self
    }

    /// Whether lists and watches can be of parts of a collection: the parameter `shardSelector`, which is alpha in Kubernetes 1.36
    /// (feature gate `ShardedListAndWatch`). It is ignored otherwise, as in the original.
    pub fn sharding(mut self, on: bool) -> Self {
        self.plan.settings.sharding = on;
        self
    }

    /// Nobody but this machine may do as he likes.
    pub(super) fn check_exposure(&self) -> Result<(), StartError> {
        let guarded = self.tls && !self.tokens.is_empty() && self.plan.anonymous != Anonymous::Admin;
        match self.plan.bind {
            Some(address) if !guarded && !address.ip().to_canonical().is_loopback() => {
                Err(StartError::Exposed { address })
            }
            _ => Ok(()),
        }
    }

    /// An empty cluster, as seed, clock and first revision want it.
    pub(super) fn cluster(&self) -> Cluster {
        let source = self.source();
        Cluster::beginning_at(self.first_revision.unwrap_or_else(|| source.first_revision()), source)
    }

    fn source(&self) -> Source {
        match (self.seed, self.clock) {
            (None, None) => Source::real(),
            (seed, clock) => Source::seeded(seed.unwrap_or_else(rand::random), clock.unwrap_or(FIRST_DAY)),
        }
    }
}
