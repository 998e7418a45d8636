//! Our own server, in this process, without a socket: where nothing is under way, a paused clock goes to the next timer.

use dogwatch_apiserver::ApiServer;
use jiff::Timestamp;

use super::http_client::{Client, Dial, Dialing, Stream};

/// The token of the administrator.
const TOKEN: &str = "token-of-the-administrator";

/// A client of a server that lives as long as it.
pub(crate) async fn client() -> Client {
    // Its time is the clock's of the test, from now on.
    let server = ApiServer::builder().in_process().token(TOKEN).clock(Timestamp::now());
    Client::new(Box::new(Own(server.start().await.unwrap())), Some(TOKEN.to_owned()))
}

struct Own(ApiServer);

impl Dial for Own {
    fn dial(&self) -> Dialing<'_> {
        Box::pin(async { Ok(Box::new(self.0.connector().connect()?) as Box<dyn Stream>) })
    }
}
