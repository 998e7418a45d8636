//! The clients that the informer is compared with: they list once, watch from there, and keep what
//! they are sent. They run on connections of their own, on the same server.

use std::time::Duration;

use dogwatch::api::{ListParams, WatchParams};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Error};
use futures_util::StreamExt;
use tokio::task::JoinSet;

use super::tap::Tap;

/// The pause before a watch is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

/// The reaction of a client to the end of its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtTheEnd {
    /// Does nothing any more, like `kubectl get --watch`.
    Stop,
    /// Opens another watch without a version: the server sends all existing objects, and then
    /// changes.
    WatchAgain,
}

/// A client without an informer. Its task ends when it is dropped.
pub(super) struct NaiveClient {
    pub(super) tap: Tap,
    _task: JoinSet<()>,
}

impl NaiveClient {
    /// Lists, and starts to watch.
    ///
    /// # Errors
    /// Returns an error if the list fails.
    pub(super) async fn start(api: Api<Pod>, at_the_end: AtTheEnd) -> Result<Self, Error> {
        let tap = Tap::default();
        let list = api.list_all(&ListParams::default()).await?;
        list.items.iter().for_each(|it| tap.listed(it));
        let params = WatchParams::after(list.metadata.version);
        let mut task = JoinSet::new();
        task.spawn(follow(api, params, at_the_end, tap.clone()));
        Ok(Self { tap, _task: task })
    }
}

async fn follow(api: Api<Pod>, mut params: WatchParams, at_the_end: AtTheEnd, tap: Tap) {
    loop {
        if let Ok(mut events) = api.watch(&params).await {
            tap.opened(params.version.as_str());
            while let Some(Ok(event)) = events.next().await {
                tap.received(&event);
            }
        }
        tap.disconnected();
        if at_the_end == AtTheEnd::Stop {
            return;
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
        params = WatchParams::default();
    }
}
