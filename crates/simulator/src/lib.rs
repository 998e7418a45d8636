//! The parts of a cluster around its API server, for any Kubernetes API server: a controller
//! manager, and a simulation of the workload controllers, the scheduler and the kubelets of a
//! cluster without machines.
//!
//! A [`ControllerManager`] deletes namespaces, collects garbage, and protects claims and volumes in
//! use, as kube-controller-manager does. A [`Simulator`] makes pods run:
//!
//! ```text
//! Deployment ─► ReplicaSet ─┬─► Pod ─► (scheduler) ─► (kubelet) ─► Ready ─► EndpointSlice, Endpoints ◄─ Service
//! StatefulSet, DaemonSet ───┤    ▲
//! ReplicationController ────┤    │
//! CronJob ─► Job ───────────┘    └── PersistentVolumeClaim ◄─► PersistentVolume
//! HorizontalPodAutoscaler ─► replicas of any of them; Node ─► taints ─► evictions
//! ```
//!
//! ```
//! use dogwatch_client::{Api, Client};
//! use dogwatch_core::WriteParams;
//! use dogwatch_simulator::Simulator;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = dogwatch_apiserver::ApiServer::in_process().await?;
//! # let client = Client::from_service(server.url().parse()?, "default", server.service());
//! let simulator = Simulator::builder(client.clone()).nodes(2).start(); // a client of any API server
//! let pod = serde_json::json!({
//!     "metadata": { "name": "web" },
//!     "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
//! });
//! let pods = Api::<Pod>::default_namespaced(client);
//! pods.create(&WriteParams::default(), &serde_json::from_value(pod)?).await?;
//! let phase = |pod: Option<&Pod>| pod.and_then(|it| it.status.as_ref()?.phase.clone());
//! pods.wait_for("web", |pod| phase(pod).as_deref() == Some("Running")).await?;
//! simulator.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Each component is an ordinary controller: it reads informers, and writes through a client. A
//! pure function decides, and a reconciler acts. They behave like the components of Kubernetes in
//! everything that clients see: names, conditions, counts, events. No container runs; a pod becomes
//! ready after the time that [`Settings`] configure.
//!
//! The components share their caches, and indexes keep the cost of a change independent of the
//! number of objects. A component that panics is restarted with a back-off; the others continue.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

#![cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, reason = "times and sizes come from objects of other clients")
)]

mod json_access;
mod int_or_percent;
mod quantity;
mod settings;
mod environment;
mod condition;
mod owner;
mod selector;
mod node_fit;
mod template_hash;
mod pod_template;
mod object;
mod index;
mod pod_terms;
mod collection;
mod ownership;
mod revisions;
mod caches;
mod recorder;
mod health;
mod supervise;
mod component;
mod pauses;
mod backoff;
mod finalizers;
mod pod_disruption;
mod accounts;
mod nodes;
mod node_lifecycle;
mod volumes;
mod scheduler;
mod kubelet;
mod kubelet_server;
mod replicasets;
mod deployments;
mod statefulsets;
mod daemonsets;
mod jobs;
mod cronjobs;
mod disruptions;
mod autoscalers;
mod endpoints;
mod simulator;
mod manager;

pub use health::{ComponentHealth, Health};
pub use manager::{ControllerManager, ControllerManagerBuilder};
pub use settings::Settings;
pub use simulator::{Simulator, SimulatorBuilder};

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
