//! One term of a leader: its deadline, and how it ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use tokio::sync::watch;

use super::clock::Clock;

/// The reason why an election ended before the work was done.
///
/// ```
/// use dogwatch_controller::LeaderElector;
/// use dogwatch_controller::leader::ElectionEnded;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let elector = LeaderElector::builder(client, "my-controller").build()?;
/// let stop = std::future::ready(()); // for example a signal
/// match elector.run_until(stop, |_| std::future::pending::<()>()).await {
///     Ok(()) => println!("the work is done"),
///     Err(ElectionEnded::Stopped) => println!("stopped; the lease is free"),
///     Err(ElectionEnded::NotRenewed { source }) => eprintln!("the server is not reachable: {source:?}"),
///     Err(lost) => return Err(lost.into()), // another process may lead: exit and start again
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionEnded {
    /// The lease could not be renewed in time. Another candidate may hold it soon; the same elector
    /// may try again.
    #[error("the lease could not be renewed before the renew deadline")]
    NotRenewed {
        /// The error of the last attempt; `None` if it was in flight at the deadline.
        source: Option<Arc<Error>>,
    },
    /// The lease has another holder or none, although it was renewed in time: another client edited
    /// it.
    #[error("the lease was {}", .by.as_deref().map_or("cleared".to_owned(), |it| format!("taken by {it}")))]
    Taken {
        /// The current holder.
        by: Option<Arc<str>>,
    },
    /// A coordinator prefers another leader.
    #[error("the coordinator gives the lease to {to}")]
    HandedOver {
        /// The preferred leader.
        to: Arc<str>,
    },
    /// The caller stopped the election.
    #[error("the election was stopped")]
    Stopped,
}

/// The state of a term.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The time at which the last successful renewal was sent. Other candidates count from a later
    /// time.
    pub(super) renewed: Duration,
    /// The time at which the leader stops unless it renews before: `renewed` plus the renew
    /// deadline.
    pub(super) until: Duration,
    /// Set when the term is over before that.
    pub(super) over: Option<ElectionEnded>,
    /// The error of the last attempt to renew, if it failed.
    pub(super) failure: Option<Arc<Error>>,
}

/// A handle to the leadership of this process, for the future that it leads with and for anything
/// that the future passes it to.
///
/// The future itself is dropped when the lease is lost. Tasks that it spawned are not: end them
/// with [`Self::lost`], or hold them in a `JoinSet`, which aborts them when it is dropped with the
/// future.
///
/// ```
/// use dogwatch_controller::LeaderElector;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let elector = LeaderElector::builder(client, "my-controller").identity("replica-1").build()?;
/// elector
///     .run_while_leading(|led| async move {
///         assert!(led.is_leading());
///         let background = tokio::spawn({
///             let led = led.clone();
///             async move { led.lost().await } // a spawned task has to end itself
///         });
///         println!("fencing token {}", led.transitions());
///         drop(background);
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Leadership {
    term: watch::Receiver<Term>,
    clock: Clock,
    identity: Arc<str>,
    transitions: i32,
}

impl Leadership {
    pub(super) fn new(
        term: watch::Receiver<Term>,
        clock: Clock,
        identity: Arc<str>,
        transitions: i32,
    ) -> Self {
        Self { term, clock, identity, transitions }
    }

    /// Returns true if this term still lasts, by the clock: false from the renew deadline on, even
    /// if no timer has fired yet.
    pub fn is_leading(&self) -> bool {
        let term = self.term.borrow();
        term.over.is_none() && self.clock.now() < term.until
    }

    /// Waits until this term is over: the lease is lost, the election is stopped, or the work is
    /// done.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn lost(&self) {
        over(self.term.clone(), &self.clock).await;
    }

    /// Returns the number of times that the lease has changed hands. It grows with every change, so
    /// it can serve as a fencing token against writes of an earlier leader.
    pub fn transitions(&self) -> i32 {
        self.transitions
    }

    /// Returns the identity of the leader, which is this elector.
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("identity", &self.identity)
            .field("transitions", &self.transitions)
            .field("is_leading", &self.is_leading())
            .finish_non_exhaustive()
    }
}

/// Waits for the end of a term, and returns how it ended.
pub(super) async fn over(mut term: watch::Receiver<Term>, clock: &Clock) -> ElectionEnded {
    loop {
        let now = term.borrow_and_update().clone();
        if let Some(ended) = now.over {
            return ended;
        }
        let renewal = async {
            if term.changed().await.is_err() {
                // The renewals have stopped; the term lasts until its deadline.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = renewal => {}
            () = clock.sleep_until(now.until) => return ElectionEnded::NotRenewed { source: now.failure },
        }
    }
}
