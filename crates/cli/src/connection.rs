//! The connection flags, the same for every command that needs a server.
//!
//! They are only the caller's input: the configuration merges them over the kubeconfig or the pod's
//! environment, and reports what is missing.

use std::convert::Infallible;
use std::path::PathBuf;

use dogwatch::config::{Environment, Overrides};
use dogwatch::{Client, Config};
use secrecy::SecretString;

/// The server and the credentials. Without any of these flags: KUBECONFIG, then ~/.kube/config,
/// then the service account of the pod.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
#[group(id = "connection")]
pub(crate) struct Connection {
    /// Use only this kubeconfig file.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig instead of the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The address of the server, instead of the kubeconfig's.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A bearer token. Other users of this machine can see it in the process list; a kubeconfig
    /// keeps it private.
    #[arg(long, value_parser = secret)]
    token: Option<SecretString>,
    /// Do not verify the server's certificate. Anyone on the network path can then read and change
    /// all traffic.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

impl Connection {
    /// Creates a client for the server of these flags. It sends no request yet.
    pub(crate) fn client(&self) -> Result<Client, dogwatch::Error> {
        Client::new(self.config()?)
    }

    /// Returns the settings for the server of these flags.
    pub(crate) fn config(&self) -> Result<Config, dogwatch::Error> {
        Ok(Config::infer(&Environment::from_process(), &self.overrides())?)
    }

    /// Returns true if any of the flags is given.
    pub(crate) fn is_given(&self) -> bool {
        let Self { kubeconfig, context, server, token, insecure_skip_tls_verify } = self;
        kubeconfig.is_some()
            || context.is_some()
            || server.is_some()
            || token.is_some()
            || *insecure_skip_tls_verify
    }

    fn overrides(&self) -> Overrides {
        let mut overrides = Overrides::default();
        overrides.kubeconfig.clone_from(&self.kubeconfig);
        overrides.context.clone_from(&self.context);
        overrides.cluster_info.server.clone_from(&self.server);
        overrides.cluster_info.insecure_skip_tls_verify = self.insecure_skip_tls_verify;
        overrides.user_info.token.clone_from(&self.token);
        overrides
    }
}

/// Parses a flag whose value must not be printed.
pub(crate) fn secret(text: &str) -> Result<SecretString, Infallible> {
    Ok(SecretString::from(text))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use secrecy::ExposeSecret;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        connection: Connection,
    }

    fn parse(flags: &[&str]) -> Connection {
        Flags::try_parse_from([&["dogwatch"], flags].concat()).unwrap().connection
    }

    #[test]
    fn no_flag_overrides_nothing() {
        let overrides = parse(&[]).overrides();
        assert_eq!(
            (overrides.kubeconfig, overrides.context, overrides.cluster_info.server),
            (None, None, None)
        );
        assert!(!overrides.cluster_info.insecure_skip_tls_verify && overrides.user_info.token.is_none());
    }

    #[test]
    fn every_flag_reaches_the_configuration() {
        let flags = ["--kubeconfig", "f", "--context", "c", "--server", "https://s", "--token", "t"];
        let overrides = parse(&[&flags[..], &["--insecure-skip-tls-verify"]].concat()).overrides();
        assert_eq!(overrides.kubeconfig, Some(PathBuf::from("f")));
        assert_eq!(overrides.context.as_deref(), Some("c"));
        assert_eq!(overrides.cluster_info.server.as_deref(), Some("https://s"));
        assert!(overrides.cluster_info.insecure_skip_tls_verify);
        assert_eq!(overrides.user_info.token.unwrap().expose_secret(), "t");
    }

    #[test]
    fn debug_output_hides_the_token() {
        assert!(!format!("{:?}", parse(&["--token", "hunter2"])).contains("hunter2"));
    }
}
