//! The flags that lead to a server, the same for every command that needs one.
//!
//! They are words of the caller and nothing more: laid over the kubeconfig or the pod's environment by the configuration,
//! which also says what is missing.

use std::convert::Infallible;
use std::path::PathBuf;

use dogwatch::config::{Environment, Overrides};
use dogwatch::{Client, Config};
use secrecy::SecretString;

/// Which server, and as whom. Without any of these: KUBECONFIG, then ~/.kube/config, then the pod this runs in.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
#[group(id = "connection")]
pub(crate) struct Connection {
    /// Read this kubeconfig and no other.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig instead of the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The address of the server, instead of the kubeconfig's.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A bearer token. Others on this machine can see it in the list of processes; a kubeconfig keeps it private.
    #[arg(long, value_parser = secret)]
    token: Option<SecretString>,
    /// Do not check who the server is. Anyone in between can then read and change everything.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

impl Connection {
    /// A client for the server these flags lead to. Nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, dogwatch::Error> {
        let config = Config::infer(&Environment::from_process(), &self.overrides())?;
        Client::new(config)
    }

    /// Whether any of the flags is given.
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

/// A flag whose value is not to be shown.
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
    fn the_token_is_not_shown() {
        assert!(!format!("{:?}", parse(&["--token", "hunter2"])).contains("hunter2"));
    }
}
