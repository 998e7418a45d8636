//! What answers requests: a cluster, and everything that can be set about answering.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;

use super::answer::{self, Answer};
use super::body_meter::{BodyMeter, Reservation};
use super::connection_info::ConnectionInfo;
use super::counters::Counters;
use super::guard::Panics;
use super::incoming;
use super::query::Query;
use super::settings::Settings;
use super::wish::Wish;
use crate::auth::Authenticator;
use crate::cluster::{Cluster, User};
use crate::faults::Lab;
use crate::log::RequestLog;
use crate::refusal::Refusal;

/// Answers requests to a cluster. Clones answer for the same one and count together.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) cluster: Arc<Cluster>,
    pub(super) settings: Arc<Settings>,
    pub(super) counters: Counters,
    /// The request bodies that are in memory.
    pub(super) bodies: BodyMeter,
    pub(super) panics: Panics,
    pub(super) authenticator: Authenticator,
    pub(super) lab: Lab,
    pub(super) log: RequestLog,
}

/// What a request brings besides its body, and what its answer needs.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) query: &'a Query,
    pub(super) user: &'a User,
    pub(super) wish: Wish,
    /// The connection it came over, if it came over one.
    pub(super) connection: Option<&'a ConnectionInfo>,
}

impl Service {
    /// Answers for a cluster; everybody is let in as the authenticator says, and nothing goes wrong on purpose unless the lab
    /// says so.
    pub fn new(cluster: Arc<Cluster>, authenticator: Authenticator) -> Self {
        Self {
            cluster,
            settings: Arc::default(),
            counters: Counters::default(),
            bodies: BodyMeter::default(),
            panics: Panics::default(),
            authenticator,
            lab: Lab::default(),
            log: RequestLog::default(),
        }
    }

    /// With the rules of this lab; without any unless called.
    #[must_use]
    pub fn lab(mut self, lab: Lab) -> Self {
        self.lab = lab;
        self
    }

    /// Writes down what it was asked; nowhere unless called.
    #[must_use]
    pub fn log(mut self, log: RequestLog) -> Self {
        self.log = log;
        self
    }

    /// With these settings; those of the original unless called.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// The cluster it answers for.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> &Lab {
        &self.lab
    }

    /// What it was asked.
    pub fn requests(&self) -> &RequestLog {
        &self.log
    }

    /// Reads the body of a request within all limits.
    ///
    /// # Errors
    /// As [`incoming::read`].
    pub(super) async fn read_body<B: Body<Data = Bytes>>(
        &self,
        body: B,
        headers: &HeaderMap,
        connection: Option<&ConnectionInfo>,
    ) -> Result<Bytes, Refusal> {
        let all = (self.bodies.clone(), self.settings.bodies_limit);
        let of_connection = connection.map(|it| (it.bodies.clone(), self.settings.connection_bodies_limit));
        let reservation = Reservation::new([all].into_iter().chain(of_connection));
        incoming::read(body, headers, &self.settings, reservation).await
    }

    /// A refusal in the form the client wants.
    pub(super) fn refuse(
        &self,
        refusal: &Refusal,
        token: Option<&str>,
        headers: &HeaderMap,
        query: &Query,
    ) -> Answer {
        answer::refusal(refusal, token, &Wish::of_refusal(headers, query), &self.settings)
    }
}
