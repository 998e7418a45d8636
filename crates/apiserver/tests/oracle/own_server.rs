//! Our own server, in this process and without a socket: whenever everything is idle, the paused
//! clock advances to the next timer.

use dogwatch_apiserver::{AdmissionPlugin, ApiServer, AuthorizationMode, User};
use jiff::Timestamp;

use super::http_client::{Client, Dial, Dialing, Stream};

/// The administrator's token.
const TOKEN: &str = "token-of-the-administrator";

/// Starts a server and returns its client, which owns it. With `accounts`, pods get service
/// accounts.
pub(crate) async fn client(mode: AuthorizationMode, accounts: bool) -> Client {
    // The server's clock starts at the current time and follows the paused clock of the test.
    let server = ApiServer::builder()
        .in_process()
        .authorization(mode)
        .admission_plugin(AdmissionPlugin::ServiceAccount, accounts)
        .token(TOKEN)
        .token_of("nobody-token", User::named("nobody", &[]))
        .clock(Timestamp::now());
    Client::new(Box::new(OwnServer(server.start().await.unwrap())), Some(TOKEN.to_owned()))
}

struct OwnServer(ApiServer);

impl Dial for OwnServer {
    fn dial(&self) -> Dialing<'_> {
        Box::pin(async { Ok(Box::new(self.0.connector().connect()?) as Box<dyn Stream>) })
    }
}
