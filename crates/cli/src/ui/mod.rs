//! `dogwatch ui`: the resources of a server on a terminal, over informers.
//!
//! ```text
//! terminal ─► key ─┐                        ┌─► draw ─► terminal
//! informers ─► rows ├─► update ─► state ────┤
//! requests ─► text ─┘   (pure)   (pure)     └─► effects ─► runtime: informers, requests
//! ```
//!
//! A kind is listed and watched as the rows that the server prints, as in `dogwatch watch`. Whole
//! objects are read one at a time, when they are opened. The kinds are those of discovery, which is
//! repeated, so that a new definition appears.

mod options;
mod key;
mod scroll;
mod pane;
mod kinds;
mod owner_tree;
mod log_buffer;
mod document;
mod page;
mod help;
mod health;
mod state;
mod update;
mod areas;
mod theme;
mod draw;
mod screen;
mod requests;
mod runtime;

use std::process::ExitCode;

use anyhow::Context;
use dogwatch::discovery::{CachedDiscovery, RestMapper};

use crate::{signals, target};
use kinds::Kinds;
use runtime::Runtime;
use state::State;

pub(crate) use options::Options;

/// The resource to begin with.
const DEFAULT_RESOURCE: &str = "pods";

/// Shows the view until it is quit, or until a shutdown signal arrives.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    screen::check()?;
    let mut end = std::pin::pin!(signals::shutdown().context("cannot listen for signals")?);
    let client = options.connection.client()?;
    let discovery = CachedDiscovery::new(client);
    let (state, kinds) = tokio::select! {
        biased;
        () = &mut end => return Ok(ExitCode::SUCCESS),
        found = find(&discovery, &options) => found?,
    };
    Runtime::new(state, discovery).run(&kinds, end).await?;
    Ok(ExitCode::SUCCESS)
}

/// Discovers the kinds. Returns the view of them, and the kinds to begin with.
async fn find(discovery: &CachedDiscovery, options: &Options) -> anyhow::Result<(State, Vec<usize>)> {
    let client = discovery.client();
    let found = discovery.get().await.map_err(dogwatch::discovery::MapError::Discovery)?;
    // An empty one, as from a variable that is not set, counts as none, as in kubectl.
    let namespace = options.namespace.clone().filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let mut kinds = Kinds::new(&found, (!options.all_namespaces).then_some(namespace));
    let requested = match &options.resources {
        Some(words) => target::resolve_all(&RestMapper::new(discovery.clone()), words).await?,
        None => {
            let pods = kinds.iter().map(|it| &it.served).find(|it| it.group_resource() == DEFAULT_RESOURCE);
            pods.cloned().into_iter().collect()
        }
    };
    let first: Vec<_> = requested.iter().map(|it| kinds.position_of(it)).collect();
    let unknown = (!found.is_complete()).then(|| {
        let groups: Vec<_> = found.failures.iter().map(|it| it.group_version()).collect();
        format!("the resources of {} are not known", groups.join(", "))
    });
    Ok((State::new(kinds, unknown), first))
}
