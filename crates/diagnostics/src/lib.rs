//! A live page of the informers, work queues, controllers and gRPC channels of a program, for a
//! browser on the same machine.
//!
//! ```text
//! informers, controllers, queues, channels ─► Sources ─ snapshot ─► Broadcast ─► /events ─► browsers
//!        (held weakly)                            ▲                (newest only)
//!                                    actions ◄────┴──────── POST /actions/N ◄──────┘
//! ```
//!
//! ```
//! use dogwatch_client::Api;
//! use dogwatch_diagnostics::Diagnostics;
//! use dogwatch_informer::SharedInformer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = dogwatch_apiserver::ApiServer::in_process().await?;
//! # let url = server.url().parse()?;
//! # let client = dogwatch_client::Client::from_service(url, "default", server.service());
//! let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
//! maps.start();
//!
//! let page = Diagnostics::new();
//! page.add_informer(&maps);
//! let served = page.serve("127.0.0.1:0").await?;
//! println!("open {}", served.url());
//! # Ok(())
//! # }
//! ```
//!
//! # Security
//!
//! Nothing is served before [`Diagnostics::serve`] is called. The page has no login: every browser
//! that can connect can look. So it listens on loopback only, unless [`Diagnostics::allow_remote`]
//! is set, and rejects requests that a web page of another site could send: those with a foreign
//! `Host`, `Origin` or `Sec-Fetch-Site`. It shows names, keys, kinds, counts, versions and error
//! messages, and never the contents of objects. Actions run only if the program added them, and
//! only for a request from the page itself.
//!
//! # Cost
//!
//! A snapshot is taken twice a second while a browser looks, and never otherwise. All browsers get
//! the same one; a slow browser gets the newest and misses others. Sources are held weakly, and
//! disappear from the page when they end.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod document;
mod manager_label;
mod action;
mod sources;
mod assets;
mod web_guard;
mod activity;
mod broadcast;
mod service;
mod server;
mod diagnostics;

pub use action::ActionResult;
pub use diagnostics::{Diagnostics, ServeError, Served};

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
