//! The rules in use: read at the start, and again when their file changes. An invalid file changes
//! nothing, and neither does one that is being written: without rules, everything is shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dogwatch_apiserver::mirror::{MirrorObject, View};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::error::StartError;
use crate::rules::{Rule, RuleSet, is_same, seen};

/// The interval at which the file is read again. A changed text is used when two reads find it.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The rules in use.
pub(crate) struct ActiveRules {
    file: Option<PathBuf>,
    /// The resources that are cached, with their groups.
    cached: Vec<(String, String)>,
    current: ArcSwap<Generation>,
    texts: Mutex<Texts>,
    /// Notified when the rules have changed.
    changed: watch::Sender<()>,
}

/// The texts of the file that were read.
#[derive(Debug, Default)]
struct Texts {
    /// The text that was parsed last, valid or not, so that an error is reported once.
    parsed: Option<String>,
    /// A newer text, which the next read has to find too.
    newer: Option<String>,
}

impl Texts {
    /// Takes what was read; returns true if it has to be parsed.
    fn take(&mut self, text: &str) -> bool {
        if self.parsed.as_deref() == Some(text) {
            self.newer = None;
            return false;
        }
        // The first text has no rules before it that could be lost.
        if self.parsed.is_none() || self.newer.as_deref() == Some(text) {
            *self = Self { parsed: Some(text.to_owned()), newer: None };
            return true;
        }
        self.newer = Some(text.to_owned());
        false
    }
}

/// One state of the rules.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    number: u64,
    set: RuleSet,
}

impl ActiveRules {
    /// Reads the file, if there is one. `cached` are the resources that are cached, with their
    /// groups.
    pub(crate) fn new(file: Option<PathBuf>, cached: Vec<(String, String)>) -> Result<Self, StartError> {
        let (current, texts) = (ArcSwap::default(), Mutex::default());
        let rules = Self { file, cached, current, texts, changed: watch::Sender::default() };
        rules.reload()?;
        Ok(rules)
    }

    /// Returns the rules of now.
    pub(crate) fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Reads the file again; returns the previous rules if they have changed.
    pub(crate) fn reload(&self) -> Result<Option<Arc<Generation>>, StartError> {
        let Some(path) = &self.file else { return Ok(None) };
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|source| StartError::File { path: path.clone(), source })?;
        if !self.texts.lock().take(&text) {
            return Ok(None);
        }
        let invalid = |reason: String| StartError::Rules(format!("{}: {reason}", path.display()));
        let set = RuleSet::parse(&text, &self.cached).map_err(invalid)?;
        let number = self.current.load().number + 1;
        let previous = self.current.swap(Arc::new(Generation { number, set }));
        self.changed.send_replace(());
        Ok(Some(previous))
    }

    /// Returns true if there may be rules for a resource: it is cached, or has the same objects.
    pub(crate) fn may_be_for(&self, group: &str, resource: &str) -> bool {
        self.cached.iter().any(|it| is_same(it, group, resource))
    }

    /// Returns true if a resource has, or had, rules, and they are no longer those of `since`.
    pub(crate) fn have_changed(&self, since: &Generation, group: &str, resource: &str) -> bool {
        let current = self.current();
        !current.is_current(since) && [since, &*current].iter().any(|it| !it.of(group, resource).is_empty())
    }

    /// Resolves when the rules for a resource are no longer those of `since`.
    pub(crate) async fn until_changed(
        self: Arc<Self>,
        since: Arc<Generation>,
        group: String,
        resource: String,
    ) {
        let mut changed = self.changed.subscribe();
        while !self.have_changed(&since, &group, &resource) {
            // The sender lives as long as this.
            let _ = changed.changed().await;
        }
    }

    /// Reads the file again from time to time, and calls `changed` with the previous rules when
    /// they have changed.
    pub(crate) async fn follow_file(self: &Arc<Self>, changed: impl Fn(&Generation) + Send) {
        while self.file.is_some() {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let this = Arc::clone(self);
            match tokio::task::spawn_blocking(move || this.reload()).await {
                Ok(Ok(Some(previous))) => {
                    tracing::info!("the rules were read again");
                    changed(&previous);
                }
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => {
                    let cause: &dyn std::error::Error = &error;
                    tracing::warn!(error = cause, "the previous rules stay in use");
                }
            }
        }
    }
}

impl Generation {
    /// Returns true if the other generation has the same number.
    pub(crate) fn is_current(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Returns true if the resource is answered from memory while upstream cannot be reached.
    pub(crate) fn allows_stale(&self, group: &str, resource: &str) -> bool {
        self.set.allows_stale(group, resource)
    }

    /// Returns the rules for a resource, for any caller.
    pub(crate) fn of(&self, group: &str, resource: &str) -> Vec<Arc<Rule>> {
        self.set.of(group, resource)
    }

    /// Returns the view of a caller for whom these rules are.
    pub(crate) fn view(&self, rules: Vec<Arc<Rule>>) -> View {
        if rules.is_empty() {
            return View::unchanged();
        }
        let mut hash = Sha256::new_with_prefix(self.number.to_le_bytes());
        for rule in &rules {
            // Rules live as long as their generation, so their places are their names in it.
            hash.update((Arc::as_ptr(rule) as usize).to_le_bytes());
        }
        let digest = hash.finalize();
        let identity = digest.iter().take(8).fold(0_u64, |sum, it| (sum << 8) | u64::from(*it));
        View::new(identity, move |object| {
            let Ok(value) = object.to_value() else { return None };
            seen(&rules, &value)
                .map(|it| if it == value { object.clone() } else { MirrorObject::from_value(&it) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached() -> Vec<(String, String)> {
        vec![(String::new(), "services".to_owned())]
    }

    #[test]
    fn an_invalid_file_is_reported_once_and_the_previous_rules_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("rules:\n- match: {resource: services}\n  hide: true\n");
        let rules = ActiveRules::new(Some(path.clone()), cached()).unwrap();
        assert_eq!(rules.current().of("", "services").len(), 1);
        assert!(rules.reload().unwrap().is_none(), "nothing has changed");

        write("rules:\n- match: {resource: services}\n  hdie: true\n");
        assert!(rules.reload().unwrap().is_none(), "it may be being written");
        let error = rules.reload().unwrap_err().to_string();
        assert!(error.contains("rules.yaml: line 3") && error.contains("hdie"), "{error}");
        assert!(rules.reload().unwrap().is_none(), "it was reported");
        assert_eq!(rules.current().of("", "services").len(), 1);

        write("rules: []\nstale: [services]\n");
        assert!(rules.reload().unwrap().is_none());
        let previous = rules.reload().unwrap().unwrap();
        assert_eq!(previous.of("", "services").len(), 1);
        let current = rules.current();
        assert!(current.of("", "services").is_empty() && !current.is_current(&previous));
        assert!(current.allows_stale("", "services") && !current.allows_stale("", "pods"));
    }

    #[test]
    fn a_file_that_is_being_written_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        let hide = "rules:\n- match: {resource: services}\n  hide: true\n";
        let two = format!("{hide}- match: {{resource: services}}\n  keepZone: a\n");
        std::fs::write(&path, hide).unwrap();
        let rules = ActiveRules::new(Some(path.clone()), cached()).unwrap();
        for text in ["", "rules: []\n", &two[..two.len() - 10], "rules:\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(rules.reload().unwrap().is_none(), "{text}");
        }
        std::fs::write(&path, &two).unwrap();
        assert!(rules.reload().unwrap().is_none());
        assert_eq!(rules.current().of("", "services").len(), 1);
        assert!(rules.reload().unwrap().is_some());
        assert_eq!(rules.current().of("", "services").len(), 2);
        // A file that stays empty is an error.
        std::fs::write(&path, "").unwrap();
        assert!(rules.reload().unwrap().is_none());
        assert!(rules.reload().unwrap_err().to_string().contains("`rules`"));
        assert_eq!(rules.current().of("", "services").len(), 2);
    }

    #[tokio::test]
    async fn a_change_of_the_rules_of_a_resource_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, "rules: []\n").unwrap();
        let rules = Arc::new(ActiveRules::new(Some(path.clone()), cached()).unwrap());
        let since = rules.current();
        let until = |resource: &str| {
            Arc::clone(&rules).until_changed(Arc::clone(&since), String::new(), resource.to_owned())
        };
        let (mut services, mut pods) = (Box::pin(until("services")), Box::pin(until("pods")));
        assert!(futures_util::future::poll_immediate(services.as_mut()).await.is_none());
        std::fs::write(&path, "rules:\n- match: {resource: services}\n  hide: true\n").unwrap();
        assert!(rules.reload().unwrap().is_none() && rules.reload().unwrap().is_some());
        services.await;
        assert!(futures_util::future::poll_immediate(pods.as_mut()).await.is_none(), "they have no rules");
    }

    #[test]
    fn rules_for_a_resource_that_is_not_cached_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        for (text, line) in [
            ("rules:\n- match: {resource: pods}\n  hide: true\n", "line 2"),
            ("rules: []\nstale: [pods]\n", "stale"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = ActiveRules::new(Some(path.clone()), cached()).err().unwrap().to_string();
            assert!(error.contains("\"pods\" is not a cached resource") && error.contains(line), "{error}");
        }
        let missing = ActiveRules::new(Some(folder.path().join("none.yaml")), cached()).err().unwrap();
        assert!(missing.to_string().contains("none.yaml"), "{missing}");
    }

    #[test]
    fn views_are_the_same_for_the_same_rules_of_one_generation() {
        let set = RuleSet::parse(
            "rules:\n- match: {resource: services}\n  hide: true\n- match: {resource: services}\n  keepZone: a\n",
            &cached(),
        );
        let (set, number) = (set.unwrap(), 1);
        let (first, next) = (Generation { number, set: set.clone() }, Generation { number: 2, set });
        let all = first.of("", "services");
        let identity = |it: &Generation, rules: &[Arc<Rule>]| it.view(rules.to_vec()).identity();
        assert_eq!(identity(&first, &all), identity(&first, &all));
        assert_ne!(identity(&first, &all), identity(&first, &all[..1]));
        assert_ne!(identity(&first, &all), identity(&next, &all));
        assert_eq!(identity(&first, &[]), None);
    }
}
