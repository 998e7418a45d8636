//! The acts of the story. Each is a function that changes the cluster, waits for what follows, and
//! prints what it measured; its result is the line of the act in the summary.
//!
//! To add an act: write a file with a title, a sentence about it and `play`, and add it to [`ACTS`]
//! and [`play`].

mod list_watch;
mod cut_connection;
mod expired_history;
mod killed_leader;
mod rolling_pods;
mod slow_handler;

use super::scene::Scene;
use super::stage::Stage;

/// The title of each act, and a sentence about it.
pub(super) const ACTS: [(&str, &str); 6] = [
    (list_watch::TITLE, list_watch::ABOUT),
    (cut_connection::TITLE, cut_connection::ABOUT),
    (expired_history::TITLE, expired_history::ABOUT),
    (killed_leader::TITLE, killed_leader::ABOUT),
    (rolling_pods::TITLE, rolling_pods::ABOUT),
    (slow_handler::TITLE, slow_handler::ABOUT),
];

/// Plays an act by its index. Returns its outcome, for the summary.
///
/// # Errors
/// Returns an error if a request fails, or if something does not happen in time. The next act can
/// be played all the same.
pub(super) async fn play(index: usize, scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    let (title, about) = ACTS[index];
    stage.headline(index + 1, title, about).await;
    match index {
        0 => list_watch::play(scene, stage).await,
        1 => cut_connection::play(scene, stage).await,
        2 => expired_history::play(scene, stage).await,
        3 => killed_leader::play(scene, stage).await,
        4 => rolling_pods::play(scene, stage).await,
        _ => slow_handler::play(scene, stage).await,
    }
}
