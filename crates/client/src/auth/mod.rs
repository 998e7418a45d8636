//! Credentials and their renewal.
//!
//! ```text
//! Config ──► Credentials ──► AuthLayer ──► transport
//!              │ token, basic      fixed
//!              │ token file        read again about once a minute
//!              │ oidc              refreshed before the id-token expires
//!              └ exec plugin       run again before its credentials expire
//! ```
//!
//! [`Credentials`] chooses one method by rule KC-8 and owns its state; [`AuthLayer`] adds it to
//! requests and answers a 401 with one renewal. [`ImpersonateLayer`] and [`UserAgentLayer`] are the
//! two other layers that write headers; from outside to inside the order is impersonation, user
//! agent, credentials (rule AU-1).
//!
//! Nothing here opens a connection: the `oidc` provider is given an [`HttpFetch`]. Nothing here
//! knows TLS: a certificate from a plugin is published through [`Credentials::identity`].

mod error;
mod plaintext;
mod issued;
mod renew;
mod token;
mod basic;
mod fetch;
mod jwt;
mod oidc;
mod write_back;
mod exec;
mod credentials;
mod layer;
mod impersonate;
mod user_agent;

pub use credentials::{AuthOptions, Credentials, Ticket};
pub use error::{AuthError, OidcError, PluginError};
pub use fetch::{HttpFetch, RefreshedTokens, TokenStore};
pub use impersonate::{ImpersonateLayer, ImpersonateService};
pub use layer::{AuthLayer, AuthService};
pub use plaintext::may_carry_credentials;
pub use user_agent::{UserAgentLayer, UserAgentService, default_user_agent};
