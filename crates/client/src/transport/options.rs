//! The times and limits of a transport, with the defaults of client-go (rules TR-1 and TR-2).

use std::time::Duration;

use super::proxy::ProxyEnvironment;
use crate::tls::Pace;

/// The times and limits of a transport. Start from [`Default`] or [`TransportOptions::from_env`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportOptions {
    /// Longest wait for name resolution and TCP together.
    pub dial_timeout: Duration,
    /// Longest wait for TLS, and for a proxy's answer, each.
    pub handshake_timeout: Duration,
    /// Idle time after which TCP asks whether the peer is still there.
    pub tcp_keepalive: Duration,
    /// Silence on an HTTP/2 connection after which a PING is sent. `None` never asks.
    pub ping_interval: Option<Duration>,
    /// Longest wait for the answer to a PING; then the connection is lost.
    pub ping_timeout: Duration,
    /// An unused connection is closed after this time. Zero never closes one, as in Go.
    pub idle_timeout: Duration,
    /// Unused HTTP/1.1 connections kept per host.
    pub max_idle_per_host: usize,
    /// Requests that share an HTTP/2 connection, bodies being read included; the next one opens another connection.
    /// Where a server allows fewer, its limit counts. The default of 90 stays below the 100 that servers grant at least;
    /// more than 255 are not taken, for then stalled readers could stall their neighbours.
    pub max_streams_per_connection: usize,
    /// Certificate files are read again at most this often on requests.
    pub reload_interval: Duration,
    /// The client certificate's files are read again at most this often on handshakes.
    pub handshake_reload_interval: Duration,
    /// Never speak HTTP/2.
    pub disable_http2: bool,
    /// The proxies of the environment; used where the settings name none.
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
    /// The defaults, changed by the variables that client-go reads: `HTTP2_READ_IDLE_TIMEOUT_SECONDS` (0 disables),
    /// `HTTP2_PING_TIMEOUT_SECONDS`, `DISABLE_HTTP2` (any value) and the proxy variables (see [`ProxyEnvironment`]).
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

    /// How long an unused connection is kept; `None` for ever.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        Some(self.idle_timeout).filter(|it| !it.is_zero())
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { on_request: self.reload_interval, on_handshake: self.handshake_reload_interval }
    }
}

fn seconds(lookup: &impl Fn(&str) -> Option<String>, name: &str) -> Option<Duration> {
    let value = lookup(name).filter(|value| !value.is_empty())?;
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            tracing::warn!(name, value, "not a number of seconds; the default is used");
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
