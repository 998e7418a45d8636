//! The client certificate of a connection, and the user that it names.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use crate::tls::Tls;
use crate::user::User;

/// A client certificate that was verified in a handshake.
pub(crate) struct ClientCertificate {
    user: Arc<User>,
    /// The certificate, and those of intermediate authorities.
    chain: Vec<CertificateDer<'static>>,
    tls: Arc<Tls>,
}

impl ClientCertificate {
    /// Reads the user from the certificates of a handshake. Returns `None` if they name no user.
    pub(crate) fn new(chain: &[CertificateDer<'_>], tls: &Arc<Tls>) -> Option<Self> {
        let user = Arc::new(User::from_certificate(chain.first()?)?);
        let chain = chain.iter().map(|it| it.clone().into_owned()).collect();
        Some(Self { user, chain, tls: Arc::clone(tls) })
    }

    /// Returns the user.
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Returns true if the certificate has not expired, and its authority is still accepted. A
    /// connection may be open for longer.
    pub(crate) fn is_valid(&self) -> bool {
        self.tls.is_valid(&self.chain)
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").field("user", &self.user).finish_non_exhaustive()
    }
}
