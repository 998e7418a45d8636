//! Configuration: from a kubeconfig, a pod's environment or a caller to the resolved settings of a
//! client.
//!
//! ```text
//! files --load, merge--> Kubeconfig --select, validate--> Target --resolve--> Config
//!                                      Overrides ^           ^ the files of a pod
//! ```
//!
//! The `mod` lines are in layer order: a file uses only files declared above it.

mod absent;
mod redact;
mod exec;
mod settings;
mod error;
mod environment;
mod any_value;
mod opaque;
mod user;
mod kubeconfig;
mod merge;
mod yaml;
mod load;
mod overrides;
mod server;
mod material;
mod validate;
mod select;
mod plugin;
mod incluster;
mod resolve;
mod infer;

pub use environment::Environment;
pub use error::{ConfigEntry, ConfigError, ConfigProblem, EntryKind, FileError, NoCluster};
pub use exec::{ExecCluster, ExecConfig, ExecEnv, InteractiveMode};
pub use kubeconfig::{Cluster, Context, Kubeconfig, NamedCluster, NamedContext, NamedUser, Preferences};
pub use load::Loaded;
pub use opaque::{NamedExtension, OtherFields};
pub use overrides::Overrides;
pub use settings::{
    AuthProvider, AuthSettings, BasicAuth, Config, HttpVersion, Identity, Impersonation, Pem, PluginPolicy,
    RateLimit, TlsSettings,
};
pub use user::{ExecSection, ExecVariable, ProviderSection, User};
