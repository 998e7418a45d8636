//! The closing table: what the informer and the naive clients missed, compared with the reference
//! client, which received every event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::scene::Scene;
use super::stage::{Ink, Look};
use super::tap::{PodEvent, Tap};
use super::waiting::until;
use super::workload;

/// The time for events that are on their way to arrive.
const SETTLE_TIME: Duration = Duration::from_secs(90);
/// The same if the story was cut short.
const SHORT_SETTLE_TIME: Duration = Duration::from_secs(1);

/// The results of all clients.
#[derive(Debug)]
pub(super) struct Comparison {
    events: usize,
    deletions: usize,
    /// The number of the events that expired before any client could receive them.
    expired: usize,
    informer: Missed,
    watch_once: Missed,
    watch_again: Missed,
}

/// The knowledge of one client at the end.
struct Knowledge {
    events: BTreeSet<PodEvent>,
    /// The uids of the pods of whose deletion it knows.
    deletions: BTreeSet<String>,
    /// The versions of the pods that exist according to it, by name.
    pods: BTreeMap<String, u64>,
}

/// The difference between one client and the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    events: usize,
    deletions: usize,
    wrong_pods: usize,
}

impl Comparison {
    /// Waits until all events have arrived that can, and compares the clients.
    ///
    /// # Errors
    /// Returns an error if the clients do not settle, or if there are too many events to compare.
    pub(super) async fn measure(scene: &Scene, is_cut_short: bool) -> anyhow::Result<Self> {
        let limit = if is_cut_short { SHORT_SETTLE_TIME } else { SETTLE_TIME };
        tokio::time::timeout(limit, settle(scene))
            .await
            .map_err(|_| anyhow::anyhow!("the pods still change"))??;
        let reference = &scene.reference.tap;
        anyhow::ensure!(reference.is_connected(), "the reference client has lost its watch");
        anyhow::ensure!(reference.is_complete(), "there were too many events");
        let truth = Knowledge::of(reference);
        let informer = Knowledge {
            deletions: scene.deletions.all().into_keys().collect(),
            pods: workload::in_cache(scene),
            ..Knowledge::of(&scene.tap)
        };
        Ok(Self {
            events: truth.events.len(),
            deletions: truth.deletions.len(),
            expired: scene.expired.len(),
            informer: informer.missed(&truth),
            watch_once: Knowledge::of(&scene.watch_once.tap).missed(&truth),
            watch_again: Knowledge::of(&scene.watch_again.tap).missed(&truth),
        })
    }

    /// Formats the table.
    pub(super) fn text(&self, look: Look) -> String {
        let title = look.paint(Ink::Headline, "WHAT EACH CLIENT KNOWS AT THE END");
        let mut text = format!("\n{title}\n");
        let mut row = |label: &str, cells: [String; 3], ink| {
            let [informer, once, again] = cells;
            let row = format!("  {label:33}{informer:>12}{once:>14}{again:>14}");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", look.paint(ink, &row));
        };
        row("", ["informer", "watch once", "watch again"].map(str::to_owned), Ink::Faint);
        let clients = [self.informer, self.watch_once, self.watch_again];
        row("pods missing, outdated or gone", clients.map(|it| it.wrong_pods.to_string()), Ink::Plain);
        row("deletions that went unnoticed", clients.map(|it| it.deletions.to_string()), Ink::Plain);
        row("events that never arrived", clients.map(|it| it.events.to_string()), Ink::Plain);
        let counts = format!("Events about pods: {}, {} of them deletions.", self.events, self.deletions);
        let expired = format!(
            "{} expired in act 3: no client received them, but the informer listed again.",
            self.expired
        );
        for line in [
            "informer:    resumes its watch; if it cannot, it lists and reports differences",
            "watch once:  lists, watches, and ends with its watch, like kubectl get -w",
            "watch again: lists once, and opens each further watch without a version",
            counts.as_str(),
            expired.as_str(),
        ] {
            let _ = writeln!(text, "  {}", look.paint(Ink::Faint, line));
        }
        text
    }
}

impl Knowledge {
    fn of(tap: &Tap) -> Self {
        let events = tap.events();
        let deletions = events.iter().filter(|it| it.is_deletion).map(|it| it.uid.clone()).collect();
        Self { events, deletions, pods: tap.pods() }
    }

    /// Returns the difference to the reference.
    fn missed(&self, truth: &Self) -> Missed {
        let names: BTreeSet<&String> = self.pods.keys().chain(truth.pods.keys()).collect();
        Missed {
            events: truth.events.difference(&self.events).count(),
            deletions: truth.deletions.difference(&self.deletions).count(),
            wrong_pods: names.iter().filter(|it| self.pods.get(**it) != truth.pods.get(**it)).count(),
        }
    }
}

/// Waits until the connected clients have received what the server sent.
async fn settle(scene: &Scene) -> anyhow::Result<()> {
    workload::newest_event(scene).await?;
    workload::cached(scene).await?;
    let again = &scene.watch_again.tap;
    let is_done = || !again.is_connected() || workload::are_known(scene, &again.pods());
    until("the client that watches again has received all events", is_done).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knowledge(events: &[(u64, &str, bool)], pods: &[(&str, u64)]) -> Knowledge {
        let event =
            |it: &(u64, &str, bool)| PodEvent { version: it.0, uid: it.1.to_owned(), is_deletion: it.2 };
        let events: BTreeSet<PodEvent> = events.iter().map(event).collect();
        let deletions = events.iter().filter(|it| it.is_deletion).map(|it| it.uid.clone()).collect();
        Knowledge { events, deletions, pods: pods.iter().map(|it| (it.0.to_owned(), it.1)).collect() }
    }

    #[test]
    fn pods_that_are_missing_outdated_or_gone_are_wrong() {
        let truth = knowledge(
            &[(1, "a", false), (2, "b", false), (3, "a", false), (4, "c", true)],
            &[("a", 3), ("b", 2)],
        );
        let client = knowledge(&[(1, "a", false)], &[("a", 1), ("c", 1)]);
        assert_eq!(client.missed(&truth), Missed { events: 3, deletions: 1, wrong_pods: 3 });
        assert_eq!(truth.missed(&truth), Missed { events: 0, deletions: 0, wrong_pods: 0 });
    }

    #[test]
    fn the_table_is_aligned_and_fits_80_columns() {
        let missed = |events| Missed { events, deletions: 0, wrong_pods: 0 };
        let comparison = Comparison {
            events: 120,
            deletions: 8,
            expired: 10,
            informer: missed(4),
            watch_once: missed(100),
            watch_again: missed(20),
        };
        let text = comparison.text(Look::default());
        assert!(
            text.contains("  events that never arrived                   4           100            20\n")
        );
        assert!(text.lines().all(|it| it.len() <= 80), "{text}");
    }
}
