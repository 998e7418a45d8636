//! Certificate rotation: reloading of the CA file, the client certificate's files, and a credential
//! plugin's certificate.
//!
//! There are no change notifications: the transport calls [`CertificateReloader::before_request`]
//! and [`CertificateReloader::before_handshake`], and compares [`CertificateReloader::version`]
//! with the version of its connections. So no background task is needed, and an idle program reads
//! nothing.

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use metrics::counter;
use rustls::ClientConfig;
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{ConfigBuilder, RootCertStore};
use tokio::sync::watch;
use tokio::time::Instant;

use super::TlsError;
use super::identity::{CurrentCertificate, IdentityFiles, LoadedIdentity};
use super::pem::PemText;
use super::roots::{Trust, ca_file};
use super::verifier::AcceptAnyCertificate;
use crate::config::{Identity, TlsSettings};

/// The protocols that a handshake offers by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alpn {
    /// HTTP/2, or HTTP/1.1 if the server prefers it.
    Http2OrHttp1,
    /// HTTP/1.1 only.
    Http1,
}

/// The intervals at which files are read again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReloadIntervals {
    /// The minimum interval between reads by requests (rules TR-4 and TR-5: five minutes).
    /// `CertCallbackRefreshDuration` in client-go v0.36.4 `transport/cert_rotation.go` and
    /// `caRefreshDuration` in `transport/ca_rotation.go`.
    pub(crate) on_request: Duration,
    /// The minimum interval between reads by handshakes (rule TR-4: one second). Only for the
    /// client certificate.
    pub(crate) on_handshake: Duration,
}

/// The TLS configuration of a transport, updated from its files and its plugin.
#[derive(Debug)]
pub(crate) struct CertificateReloader {
    provider: Arc<CryptoProvider>,
    server_name: Option<String>,
    intervals: ReloadIntervals,
    trust: ArcSwap<Trust>,
    certificate: Arc<CurrentCertificate>,
    ca_file: Option<PathBuf>,
    files: Option<IdentityFiles>,
    /// Incremented with every change of trust or certificate.
    version: AtomicU64,
    /// A std mutex: it is never held across an await.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ca_read: Instant,
    files_read: Instant,
    /// `None` if the settings have a client certificate, which takes precedence over a plugin's, as
    /// in client-go.
    plugin: Option<watch::Receiver<Option<Identity>>>,
}

impl CertificateReloader {
    /// Reads everything once. Anything unusable is an error here; later, the last good state is
    /// kept instead.
    pub(crate) fn new(
        settings: &TlsSettings,
        plugin: watch::Receiver<Option<Identity>>,
        intervals: ReloadIntervals,
    ) -> Result<Self, TlsError> {
        let provider = provider();
        let trust = Trust::load(settings)?;
        if let Some(name) = &settings.server_name {
            parse_name(name)?;
        }
        let certificate = Arc::new(CurrentCertificate::default());
        if let Some(identity) = &settings.identity {
            certificate.set(Some(LoadedIdentity::read(identity, &provider)?));
        }
        let now = Instant::now();
        let plugin = settings.identity.is_none().then_some(plugin);
        let reloader = Self {
            provider,
            server_name: settings.server_name.clone(),
            intervals,
            trust: ArcSwap::from_pointee(trust),
            certificate,
            ca_file: ca_file(settings).cloned(),
            files: settings.identity.as_ref().and_then(IdentityFiles::of),
            version: AtomicU64::new(0),
            state: Mutex::new(State { ca_read: now, files_read: now, plugin }),
        };
        reloader.take_plugin_identity(true);
        Ok(reloader)
    }

    /// Returns the number of changes so far. Connections made at another version should be
    /// replaced.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns true if a certificate is in a file, or comes from a plugin.
    pub(crate) fn may_rotate(&self) -> bool {
        let of_plugin = || self.state().plugin.as_ref().is_some_and(|it| it.borrow().is_some());
        self.ca_file.is_some() || self.files.is_some() || of_plugin()
    }

    /// Takes a plugin's new certificate at once, and reads files again if the interval has passed.
    pub(crate) async fn before_request(&self) {
        self.take_plugin_identity(false);
        if self.ca_file.is_some() && self.is_due(|state| &mut state.ca_read, self.intervals.on_request) {
            self.reload_ca().await;
        }
        if self.files.is_some() && self.is_due(|state| &mut state.files_read, self.intervals.on_request) {
            self.reload_files().await;
        }
    }

    /// Ensures that the certificate about to be presented was read at most a second ago.
    pub(crate) async fn before_handshake(&self) {
        self.take_plugin_identity(false);
        if self.files.is_some() && self.is_due(|state| &mut state.files_read, self.intervals.on_handshake) {
            self.reload_files().await;
        }
    }

    /// Returns the current trust, for error messages.
    pub(crate) fn trust(&self) -> Arc<Trust> {
        self.trust.load_full()
    }

    /// Returns the name expected in the certificate: the override, or the host of the URL.
    pub(crate) fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        parse_name(self.server_name.as_deref().unwrap_or(host))
    }

    /// Returns a configuration with the current roots. It looks up the client certificate at every
    /// handshake.
    pub(crate) fn client_config(&self, offer: Alpn) -> Result<ClientConfig, TlsError> {
        let trust = self.trust.load_full();
        let builder = match &*trust {
            Trust::Unverified => self
                .base()?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(Arc::clone(&self.provider)))),
            Trust::System(roots) | Trust::Custom { roots, .. } => {
                self.base()?.with_root_certificates(Arc::clone(roots))
            }
        };
        let resolver: Arc<CurrentCertificate> = Arc::clone(&self.certificate);
        Ok(finish(builder.with_client_cert_resolver(resolver), offer))
    }

    /// Returns the configuration for an HTTPS proxy: verified, without the client certificate.
    pub(crate) fn proxy_config(&self) -> Result<ClientConfig, TlsError> {
        let roots: RootCertStore = self.trust.load().for_proxy();
        let builder: ConfigBuilder<ClientConfig, WantsClientCert> =
            self.base()?.with_root_certificates(roots);
        Ok(finish(builder.with_no_client_auth(), Alpn::Http1))
    }

    fn base(&self) -> Result<ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
        ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(TlsError::Setup)
    }

    fn take_plugin_identity(&self, first: bool) {
        // The lock is held until the certificate and the version are set. Otherwise, of the
        // requests that waited for the same plugin, one would take the certificate, and another
        // would see no change and use a connection without it.
        let mut state = self.state();
        let Some(plugin) = &mut state.plugin else { return };
        let identity = match plugin.has_changed() {
            Ok(changed) if !changed && !first => return,
            Ok(_) => plugin.borrow_and_update().clone(),
            // The plugin was dropped, perhaps after a last update, which is kept.
            Err(_) => {
                let last = plugin.borrow_and_update().clone();
                state.plugin = None;
                last
            }
        };
        match identity.map(|it| LoadedIdentity::read(&it, &self.provider)).transpose() {
            Ok(loaded) => self.record_change(self.certificate.set(loaded)),
            Err(error) => tracing::warn!(%error, "the credential plugin's certificate is invalid"),
        }
    }

    async fn reload_files(&self) {
        let Some(files) = &self.files else { return };
        match LoadedIdentity::reload(files, &self.provider).await {
            Ok(loaded) => {
                let changed = self.certificate.set(Some(loaded));
                if changed {
                    tracing::info!("the client certificate changed");
                }
                self.record_change(changed);
            }
            // During a rotation the pair may not match; a later read finds it complete.
            Err(error) => {
                tracing::warn!(%error, "cannot reload the client certificate, keeping the current one")
            }
        }
    }

    async fn reload_ca(&self) {
        let Some(path) = &self.ca_file else { return };
        let (reason, result) = match PemText::reload(path).await {
            Ok(text) if text.is_blank() => ("empty", Err(text.malformed("it is empty"))),
            Ok(text) if self.trust.load().is_from(&text) => ("unchanged", Ok(None)),
            Ok(text) => match Trust::custom(&text) {
                Ok(trust) => ("updated", Ok(Some(trust))),
                Err(error) => ("ca_parse_error", Err(error)),
            },
            Err(error) => ("read_error", Err(error)),
        };
        let outcome = if result.is_ok() { "success" } else { "failure" };
        counter!("rest_client_transport_ca_reload_total", "result" => outcome, "reason" => reason)
            .increment(1);
        match result {
            Ok(None) => {}
            Ok(Some(trust)) => {
                self.trust.store(Arc::new(trust));
                self.record_change(true);
                tracing::info!(ca = %path.display(), "the certificate authority changed");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot reload the certificate authority, keeping the current one")
            }
        }
    }

    /// Returns true if `interval` has passed since the chosen time; if so, that time becomes now,
    /// so that of many requests only one reads.
    fn is_due(&self, choose: impl FnOnce(&mut State) -> &mut Instant, interval: Duration) -> bool {
        let mut state = self.state();
        let last = choose(&mut state);
        let now = Instant::now();
        let due = now.duration_since(*last) >= interval;
        if due {
            *last = now;
        }
        due
    }

    fn record_change(&self, changed: bool) {
        if changed {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is fine: the state is plain values that are consistent after every
        // statement.
        self.state.lock()
    }
}

/// Returns the cryptography provider: the one installed for the process, such as a certified one,
/// or else ring.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

fn finish(mut config: ClientConfig, offer: Alpn) -> ClientConfig {
    config.alpn_protocols = match offer {
        Alpn::Http2OrHttp1 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Alpn::Http1 => vec![b"http/1.1".to_vec()],
    };
    // A resumed session keeps the certificate of the first handshake, even after a rotation.
    // client-go does not resume sessions either.
    config.resumption = Resumption::disabled();
    config
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::ServerName { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Pem;

    const INTERVALS: ReloadIntervals =
        ReloadIntervals { on_request: Duration::from_secs(300), on_handshake: Duration::from_secs(1) };

    fn ca(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.self_signed(&key).unwrap().pem()
    }

    fn follow(ca: &Path) -> CertificateReloader {
        let settings = TlsSettings { ca: Some(Pem::File(ca.to_owned())), ..TlsSettings::default() };
        CertificateReloader::new(&settings, watch::channel(None).1, INTERVALS).unwrap()
    }

    /// A mount that is being replaced may be missing, empty or incomplete for a moment.
    #[tokio::test(start_paused = true)]
    async fn tr_5_a_ca_file_that_cannot_be_used_keeps_the_old_trust() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, ca("one")).unwrap();
        let reloader = follow(&path);

        for content in [None, Some(""), Some("garbage"), Some("-----BEGIN CERTIFICATE-----\nAAAA")] {
            match content {
                Some(content) => std::fs::write(&path, content).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            tokio::time::advance(INTERVALS.on_request).await;
            reloader.before_request().await;
            assert_eq!(reloader.version(), 0, "{content:?}");
        }
        std::fs::write(&path, ca("two")).unwrap();
        tokio::time::advance(INTERVALS.on_request).await;
        reloader.before_request().await;
        assert_eq!(reloader.version(), 1);
    }

    /// The upstream test `TestEmptyCAFileRotationLifecycle`: an empty file may be filled later, and
    /// an emptied one is ignored.
    #[tokio::test(start_paused = true)]
    async fn tr_5_an_empty_ca_file_may_be_filled_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, "").unwrap();
        let reloader = follow(&path);
        for (content, version) in [("", 0), (ca("one").as_str(), 1), ("", 1)] {
            std::fs::write(&path, content).unwrap();
            tokio::time::advance(INTERVALS.on_request).await;
            reloader.before_request().await;
            assert_eq!(reloader.version(), version);
        }
    }

    /// The upstream test `TestCARotationMetricsEmitted`.
    #[tokio::test(start_paused = true)]
    async fn tr_5_every_read_of_a_ca_file_is_counted_by_its_result_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let one = ca("one");
        for (content, expected) in [
            (Some(one.as_str()), ["success", "unchanged"]),
            (Some(ca("two").as_str()), ["success", "updated"]),
            (Some(""), ["failure", "empty"]),
            (Some("garbage"), ["failure", "ca_parse_error"]),
            (None, ["failure", "read_error"]),
        ] {
            std::fs::write(&path, &one).unwrap();
            let reloader = follow(&path);
            match content {
                Some(content) => std::fs::write(&path, content).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            tokio::time::advance(INTERVALS.on_request).await;
            let recorder = metrics_util::debugging::DebuggingRecorder::new();
            let guard = metrics::set_default_local_recorder(&recorder);
            reloader.before_request().await;
            drop(guard);
            let counted = recorder.snapshotter().snapshot().into_vec();
            let [(key, ..)] = counted.as_slice() else { panic!("one read: {counted:?}") };
            let labels: Vec<_> = key.key().labels().map(|it| it.value()).collect();
            assert_eq!(labels, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tr_5_a_ca_file_is_read_at_most_every_five_minutes_and_the_same_text_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let (one, two) = (ca("one"), ca("two"));
        std::fs::write(&path, &one).unwrap();
        let reloader = follow(&path);

        std::fs::write(&path, &two).unwrap();
        tokio::time::advance(INTERVALS.on_request - Duration::from_secs(1)).await;
        reloader.before_request().await;
        assert_eq!(reloader.version(), 0, "too early to read");
        tokio::time::advance(Duration::from_secs(1)).await;
        reloader.before_request().await;
        assert_eq!(reloader.version(), 1);
        tokio::time::advance(INTERVALS.on_request).await;
        reloader.before_request().await;
        assert_eq!(reloader.version(), 1, "unchanged since");
    }

    #[test]
    fn an_invalid_server_name_is_rejected_at_once() {
        let settings = TlsSettings {
            insecure_skip_verify: true,
            server_name: Some("not a name".to_owned()),
            ..TlsSettings::default()
        };
        let error = CertificateReloader::new(&settings, watch::channel(None).1, INTERVALS).unwrap_err();
        assert!(error.to_string().contains("not a name"), "{error}");
    }

    #[test]
    fn ipv6_hosts_lose_the_brackets_of_the_url() {
        assert!(matches!(parse_name("[::1]"), Ok(ServerName::IpAddress(_))));
    }

    /// Requests that waited for one plugin continue together. The first takes the certificate; the
    /// others must not overtake it and use a connection without the certificate.
    #[test]
    fn no_request_overtakes_the_one_that_takes_a_plugins_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap().pem();
        let identity = Identity {
            certificate: Pem::Data(certificate.into()),
            key: Pem::Data(key.serialize_pem().into()),
        };
        let settings = TlsSettings { insecure_skip_verify: true, ..TlsSettings::default() };
        for _ in 0..200 {
            let (sender, plugin) = watch::channel(None);
            let reloader = CertificateReloader::new(&settings, plugin, INTERVALS).unwrap();
            sender.send(Some(identity.clone())).unwrap();
            let barrier = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        barrier.wait();
                        reloader.take_plugin_identity(false);
                        assert_eq!(reloader.version(), 1);
                    });
                }
            });
        }
    }

    #[test]
    fn the_installed_cryptography_provider_is_used() {
        let mut installed = ring::default_provider();
        // Recognisable, and harmless to the other tests of this process.
        installed.cipher_suites.pop();
        let suites = installed.cipher_suites.len();
        installed.install_default().expect("no other test installs a provider");
        let settings = TlsSettings { insecure_skip_verify: true, ..TlsSettings::default() };
        let reloader = CertificateReloader::new(&settings, watch::channel(None).1, INTERVALS).unwrap();
        assert_eq!(reloader.provider.cipher_suites.len(), suites);
    }
}
