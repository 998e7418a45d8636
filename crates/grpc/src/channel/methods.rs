//! Settings by method: retries and timeouts, by the name of a method or of its service.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use hashbrown::HashMap;

use super::retry::{Retry, RetryBudget};

/// A setting for every method.
#[derive(Debug, Clone)]
struct ByMethod<T> {
    /// For methods without a setting of their own.
    default: Option<T>,
    /// By `service/method`, or `service` for all of its methods. `None` turns the default off.
    named: HashMap<CompactString, Option<T>>,
}

impl<T> Default for ByMethod<T> {
    fn default() -> Self {
        Self { default: None, named: HashMap::new() }
    }
}

impl<T> ByMethod<T> {
    /// Returns the setting for the method with this path: its own, that of its service, or the
    /// default.
    fn of(&self, path: &str) -> Option<&T> {
        if self.named.is_empty() {
            return self.default.as_ref();
        }
        let method = path.trim_start_matches('/');
        let service = method.split_once('/').map_or(method, |it| it.0);
        match self.named.get(method).or_else(|| self.named.get(service)) {
            Some(own) => own.as_ref(),
            None => self.default.as_ref(),
        }
    }
}

/// A retry policy with the budget that its calls share.
#[derive(Debug)]
pub(crate) struct RetryState {
    pub(crate) policy: Retry,
    pub(crate) budget: RetryBudget,
}

impl RetryState {
    fn new(policy: Retry) -> Arc<Self> {
        let budget = RetryBudget::new(&policy);
        Arc::new(Self { policy, budget })
    }
}

/// The retries and timeouts of all methods of a channel.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    retries: ByMethod<Arc<RetryState>>,
    timeouts: ByMethod<Duration>,
}

impl Methods {
    pub(crate) fn retry(&mut self, retry: Retry) {
        self.retries.default = Some(RetryState::new(retry));
    }

    pub(crate) fn retry_for(&mut self, name: &str, retry: Option<Retry>) {
        self.retries.named.insert(trim_slashes(name), retry.map(RetryState::new));
    }

    pub(crate) fn timeout(&mut self, timeout: Duration) {
        self.timeouts.default = Some(timeout);
    }

    pub(crate) fn timeout_for(&mut self, name: &str, timeout: Option<Duration>) {
        self.timeouts.named.insert(trim_slashes(name), timeout);
    }

    /// Returns the retry policy of the method with this path, if it has one.
    pub(crate) fn retrying(&self, path: &str) -> Option<&Arc<RetryState>> {
        self.retries.of(path)
    }

    /// Returns the timeout of the method with this path.
    pub(crate) fn timeout_of(&self, path: &str) -> Option<Duration> {
        self.timeouts.of(path).copied()
    }

    /// Returns the first name that is neither `service` nor `service/method`, if there is one.
    pub(crate) fn invalid_name(&self) -> Option<&str> {
        let mut names = self.retries.named.keys().chain(self.timeouts.named.keys());
        let wrong = |it: &&CompactString| it.is_empty() || it.split('/').count() > 2 || it.starts_with('/');
        names.find(wrong).map(CompactString::as_str)
    }
}

/// Strips the slashes around a name.
fn trim_slashes(name: &str) -> CompactString {
    name.strip_prefix('/').unwrap_or(name).trim_end_matches('/').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_takes_precedence_over_its_service_and_that_over_the_default() {
        let mut methods = Methods::default();
        assert_eq!(methods.timeout_of("/shop.Cart/Add"), None);
        let second = Duration::from_secs(1);
        methods.timeout(second);
        methods.timeout_for("shop.Cart", Some(2 * second));
        methods.timeout_for("/shop.Cart/Watch", None);
        methods.timeout_for("/shop.Stock/", Some(4 * second));
        let table = [
            ("/shop.Cart/Watch", None),
            ("/shop.Cart/Add", Some(2)),
            ("/shop.Stock/Count", Some(4)),
            ("/shop.Carts/Add", Some(1)),
            ("/", Some(1)),
            ("", Some(1)),
        ];
        for (path, seconds) in table {
            assert_eq!(methods.timeout_of(path).map(|it| it.as_secs()), seconds, "{path:?}");
        }
    }

    #[test]
    fn invalid_method_names_are_found() {
        for (name, wrong) in [
            ("a.B", false),
            ("/a.B/C", false),
            ("a.B/", false),
            ("", true),
            ("/", true),
            ("a/b/c", true),
            ("//b", true),
        ] {
            let mut methods = Methods::default();
            methods.retry_for(name, None);
            assert_eq!(methods.invalid_name().is_some(), wrong, "{name:?}");
        }
    }
}
