//! The error of an invalid setting of a channel.

/// An invalid setting of a channel.
///
/// ```
/// use dogwatch_grpc::{ChannelConfigError, KubeChannel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = KubeChannel::to(["127.0.0.1:50051"])?;
/// match builder.authority("not an authority").build() {
///     Ok(channel) => println!("{channel:?}"),
///     Err(ChannelConfigError::Authority(text, _)) => assert_eq!(text, "not an authority"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelConfigError {
    /// The text cannot be the `:authority` of a request.
    #[error("{0:?} is not a valid authority")]
    Authority(String, #[source] http::uri::InvalidUri),
    /// The text cannot be the name in a certificate.
    #[error("{0:?} is not a valid TLS server name")]
    ServerName(String, #[source] rustls::pki_types::InvalidDnsNameError),
    /// TLS needs a name to verify the certificate against.
    #[error("TLS needs an authority or a server name")]
    Nameless,
    /// A setting for a method has the name of neither a method nor a service.
    #[error("{0:?} is neither `package.Service` nor `package.Service/Method`")]
    Method(String),
}
