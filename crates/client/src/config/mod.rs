//! From a kubeconfig, a pod's environment or a caller to the resolved settings of a client.

mod null;
mod exec;
mod settings;

pub use exec::{ExecCluster, ExecConfig, ExecEnv, InteractiveMode};
pub use settings::{
    AuthProvider, AuthSettings, BasicAuth, Config, HttpVersion, Identity, Impersonation, Pem, PluginPolicy,
    RateLimit, TlsSettings,
};
