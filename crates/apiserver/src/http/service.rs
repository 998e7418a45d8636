//! The HTTP service: a cluster, and the settings of serving it.

use std::sync::Arc;

use http::HeaderMap;

use super::answer::{self, Answer};
use super::body_meter::BodyMeter;
use super::connection_info::ConnectionInfo;
use super::guard::Panics;
use super::incoming::BodyReader;
use super::metrics::ServingMetrics;
use super::negotiated::Negotiated;
use super::query::Query;
use super::reader::Reader;
use super::settings::Settings;
use crate::ApiError;
use crate::auth::Authenticator;
use crate::cluster::Cluster;
use crate::faults::FaultInjector;
use crate::log::RequestLog;
use crate::upstream::Dialer;
use crate::user::User;

/// Answers requests to a cluster. Clones serve the same cluster and share their counters.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(super) cluster: Arc<Cluster>,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: ServingMetrics,
    /// The request bodies that are in memory.
    pub(super) bodies: BodyMeter,
    pub(super) panics: Panics,
    pub(super) authenticator: Authenticator,
    pub(super) faults: FaultInjector,
    pub(super) log: RequestLog,
    /// Connects to kubelets, pods and services.
    pub(super) dialer: Dialer,
    /// True for the service of a component, whose requests are not of interest to users.
    pub(super) is_component: bool,
}

/// The parts of a request other than its body that its response depends on.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) query: &'a Query,
    pub(super) user: &'a User,
    pub(super) negotiated: Negotiated,
    /// The connection of the request; `None` for a function call in this process.
    pub(super) connection: Option<&'a ConnectionInfo>,
}

impl Service {
    /// Serves a cluster, with default settings, no request log and no fault rules.
    pub(crate) fn new(cluster: Arc<Cluster>, authenticator: Authenticator) -> Self {
        Self {
            cluster,
            settings: Arc::default(),
            metrics: ServingMetrics::default(),
            bodies: BodyMeter::default(),
            panics: Panics::default(),
            authenticator,
            faults: FaultInjector::default(),
            log: RequestLog::default(),
            dialer: Dialer::default(),
            is_component: false,
        }
    }

    /// Sets the fault injector. Defaults to one without rules.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn fault_injector(mut self, lab: FaultInjector) -> Self {
        self.faults = lab;
        self
    }

    /// Sets the request log. Defaults to one that keeps nothing.
    #[must_use]
    pub(crate) fn log(mut self, log: RequestLog) -> Self {
        self.log = log;
        self
    }

    /// Replaces the settings. Defaults to those of [`Settings::default`].
    #[must_use]
    pub(crate) fn settings(mut self, settings: Settings) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Sets the dialer for kubelets, pods and services. Defaults to one for the loopback without a
    /// client certificate.
    #[must_use]
    pub(crate) fn dialer(mut self, dialer: Dialer) -> Self {
        self.dialer = dialer;
        self
    }

    /// Returns a service of the same cluster without fault rules and request log, for controllers.
    ///
    /// They write whole objects back, so a request may be larger than that of a client: an object
    /// grows by the fields that the server adds, and by patches.
    pub(crate) fn for_component(&self) -> Self {
        let body_limit = self.settings.body_limit.saturating_mul(3);
        let settings = Arc::new(Settings { body_limit, ..Settings::clone(&self.settings) });
        let (faults, log) = (FaultInjector::default(), RequestLog::default());
        Self { faults, log, settings, is_component: true, ..self.clone() }
    }

    /// Returns the read path of the cluster.
    pub(super) fn reader(&self) -> Reader {
        let (backend, settings) = (Arc::clone(&self.cluster), Arc::clone(&self.settings));
        Reader { backend, settings, metrics: self.metrics.clone(), panics: self.panics.clone() }
    }

    /// Returns the cluster.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Returns the fault injector.
    pub(crate) fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// Returns the request log.
    pub(crate) fn requests(&self) -> &RequestLog {
        &self.log
    }

    /// Returns the reader of request bodies.
    pub(super) fn bodies(&self) -> BodyReader<'_> {
        BodyReader { bodies: &self.bodies, settings: &self.settings }
    }

    /// Builds an error response in the negotiated representation.
    pub(super) fn refuse(
        &self,
        refusal: &ApiError,
        token: Option<&str>,
        headers: &HeaderMap,
        query: &Query,
    ) -> Answer {
        answer::refusal(refusal, token, &Negotiated::of_refusal(headers, query), &self.settings)
    }
}
