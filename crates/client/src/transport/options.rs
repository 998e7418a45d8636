//! Timeouts and limits of a transport, with client-go's defaults (rules TR-1 and TR-2; client-go
//! v0.36.4 `transport/cache.go`).

use std::time::Duration;

use super::proxy::ProxyEnvironment;
use crate::tls::ReloadIntervals;

/// Timeouts and limits of a transport. Start from [`Default`] or [`TransportOptions::from_env`].
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::transport::TransportOptions;
/// use dogwatch_client::{Client, Config};
///
/// let mut options = TransportOptions::from_env(|name| std::env::var(name).ok());
/// options.dial_timeout = Duration::from_secs(5);
/// let config = Config::new("https://10.0.0.1:6443".parse()?);
/// let client = Client::builder(config).transport_options(options).build()?;
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportOptions {
    /// The time limit of name resolution and TCP connect together. Defaults to 30 s.
    pub dial_timeout: Duration,
    /// The time limits of the TLS handshake and of a proxy's response, each. Defaults to 10 s.
    pub handshake_timeout: Duration,
    /// The idle time after which TCP probes the peer. Defaults to 30 s.
    pub tcp_keepalive: Duration,
    /// The idle time of an HTTP/2 connection after which a PING is sent. `None` sends none.
    /// Defaults to 30 s.
    pub ping_interval: Option<Duration>,
    /// The time limit of the answer to a PING; then the connection is lost. Defaults to 15 s.
    pub ping_timeout: Duration,
    /// The time after which an unused connection is closed. Zero never closes one, as in Go.
    /// Defaults to 90 s.
    pub idle_timeout: Duration,
    /// The number of unused HTTP/1.1 connections kept per host. Defaults to 25.
    pub max_idle_per_host: usize,
    /// The number of requests that share an HTTP/2 connection, including bodies that are being
    /// read; the next one opens another connection. A lower limit of the server takes precedence.
    /// The default of 90 is below the minimum of 100 that RFC 9113 (6.5.2) recommends to servers;
    /// values above 255 are reduced to 255, because with more, stalled readers could use up the
    /// connection window.
    pub max_streams_per_connection: usize,
    /// The minimum interval between reads of certificate files by requests. Defaults to 5 minutes.
    pub reload_interval: Duration,
    /// The minimum interval between reads of the client certificate's files by handshakes. Defaults
    /// to 1 s.
    pub handshake_reload_interval: Duration,
    /// True to never use HTTP/2.
    pub disable_http2: bool,
    /// The proxies of the environment; used if the settings name none.
    pub proxy: ProxyEnvironment,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            dial_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            tcp_keepalive: Duration::from_secs(30),
            ping_interval: Some(Duration::from_secs(30)),
            ping_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(90),
            max_idle_per_host: 25,
            max_streams_per_connection: 90,
            reload_interval: Duration::from_secs(5 * 60),
            handshake_reload_interval: Duration::from_secs(1),
            disable_http2: false,
            proxy: ProxyEnvironment::default(),
        }
    }
}

impl TransportOptions {
    /// Returns the defaults, changed by the variables that client-go reads:
    /// `HTTP2_READ_IDLE_TIMEOUT_SECONDS` (0 disables), `HTTP2_PING_TIMEOUT_SECONDS`,
    /// `DISABLE_HTTP2` (any value) and the proxy variables (see [`ProxyEnvironment`]).
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut options = Self::default();
        match seconds(&lookup, "HTTP2_READ_IDLE_TIMEOUT_SECONDS") {
            Some(Duration::ZERO) => options.ping_interval = None,
            Some(interval) => options.ping_interval = Some(interval),
            None => {}
        }
        match seconds(&lookup, "HTTP2_PING_TIMEOUT_SECONDS") {
            Some(Duration::ZERO) | None => {}
            Some(timeout) => options.ping_timeout = timeout,
        }
        options.disable_http2 = lookup("DISABLE_HTTP2").is_some_and(|value| !value.is_empty());
        options.proxy = ProxyEnvironment::from_env(lookup);
        options
    }

    /// Returns the time an unused connection is kept; `None` means for ever.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        Some(self.idle_timeout).filter(|it| !it.is_zero())
    }

    pub(super) fn reload_intervals(&self) -> ReloadIntervals {
        ReloadIntervals { on_request: self.reload_interval, on_handshake: self.handshake_reload_interval }
    }
}

fn seconds(lookup: &impl Fn(&str) -> Option<String>, name: &str) -> Option<Duration> {
    let value = lookup(name).filter(|value| !value.is_empty())?;
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            tracing::warn!(name, value, "not a number of seconds, using the default");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> TransportOptions {
        TransportOptions::from_env(move |asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn tr_2_the_environment_sets_ping_times_and_turns_http2_off() {
        let idle = |value| with("HTTP2_READ_IDLE_TIMEOUT_SECONDS", value).ping_interval;
        assert_eq!(idle("5"), Some(Duration::from_secs(5)));
        assert_eq!(idle("0"), None);
        assert_eq!(idle(""), Some(Duration::from_secs(30)));
        assert_eq!(idle("soon"), Some(Duration::from_secs(30)));

        let timeout = |value| with("HTTP2_PING_TIMEOUT_SECONDS", value).ping_timeout;
        assert_eq!(timeout("7"), Duration::from_secs(7));
        assert_eq!(timeout("0"), Duration::from_secs(15));

        assert!(with("DISABLE_HTTP2", "false").disable_http2, "any value counts");
        assert!(!with("DISABLE_HTTP2", "").disable_http2);
        assert!(!TransportOptions::from_env(|_| None).disable_http2);
    }
}
