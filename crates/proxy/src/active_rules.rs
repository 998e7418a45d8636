//! The rules in use: read at the start, and again when their file changes. An invalid file changes
//! nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dogwatch_apiserver::mirror::{MirrorObject, View};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::error::StartError;
use crate::rules::{Rule, RuleSet, seen};

/// The interval at which the file is read again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// The rules in use.
pub(crate) struct ActiveRules {
    file: Option<PathBuf>,
    /// The resources that are cached, with their groups.
    cached: Vec<(String, String)>,
    current: ArcSwap<Generation>,
    /// The text that was read last, valid or not, so that an error is reported once.
    last: Mutex<String>,
}

/// One state of the rules.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    number: u64,
    set: RuleSet,
}

impl ActiveRules {
    /// Reads the file, if there is one. `cached` are the resources that are cached, with their groups.
    pub(crate) fn new(file: Option<PathBuf>, cached: Vec<(String, String)>) -> Result<Self, StartError> {
        let rules = Self { file, cached, current: ArcSwap::default(), last: Mutex::default() };
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
        if *self.last.lock() == text {
            return Ok(None);
        }
        self.last.lock().clone_from(&text);
        let invalid = |reason: String| StartError::Rules(format!("{}: {reason}", path.display()));
        let set = RuleSet::parse(&text).map_err(invalid)?;
        let resources = self.cached.iter().map(|(group, name)| (group.as_str(), name.as_str()));
        if let Some(resource) = set.stray_resource(resources) {
            let reason = format!("{resource:?} is not a cached resource; it is named by its plural, such as \"services\"");
            return Err(invalid(reason));
        }
        let number = self.current.load().number + 1;
        Ok(Some(self.current.swap(Arc::new(Generation { number, set }))))
    }

    /// Reads the file again from time to time, and calls `changed` with the previous rules when they
    /// have changed.
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

    /// Returns the rules for a resource, whoever the caller is.
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
            seen(&rules, &value).map(|it| if it == value { object.clone() } else { MirrorObject::from_value(&it) })
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
        let error = rules.reload().unwrap_err().to_string();
        assert!(error.contains("rules.yaml: line 3") && error.contains("hdie"), "{error}");
        assert!(rules.reload().unwrap().is_none(), "it was reported");
        assert_eq!(rules.current().of("", "services").len(), 1);

        write("rules: []\nstale: [services]\n");
        let previous = rules.reload().unwrap().unwrap();
        assert_eq!(previous.of("", "services").len(), 1);
        let current = rules.current();
        assert!(current.of("", "services").is_empty() && !current.is_current(&previous));
        assert!(current.allows_stale("", "services") && !current.allows_stale("", "pods"));
    }

    #[test]
    fn rules_for_a_resource_that_is_not_cached_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        for text in ["rules:\n- match: {resource: pods}\n  hide: true\n", "stale: [pods]\n"] {
            std::fs::write(&path, text).unwrap();
            let error = ActiveRules::new(Some(path.clone()), cached()).err().unwrap().to_string();
            assert!(error.contains("\"pods\" is not a cached resource"), "{error}");
        }
        let missing = ActiveRules::new(Some(folder.path().join("none.yaml")), cached()).err().unwrap();
        assert!(missing.to_string().contains("none.yaml"), "{missing}");
    }

    #[test]
    fn views_are_the_same_for_the_same_rules_of_one_generation() {
        let set = RuleSet::parse(
            "rules:\n- match: {resource: services}\n  hide: true\n- match: {resource: services}\n  keepZone: a\n",
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
