//! The install hint of a plugin, rate-limited.

use parking_lot::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// The number of times the hint is shown per [`WINDOW`], so that a controller does not fill its log
/// with it.
const TIMES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// A hint that is shown at most ten times an hour.
#[derive(Debug)]
pub(super) struct InstallHint {
    text: Option<String>,
    /// The start of the current hour, and the number of times the hint was shown in it.
    shown: Mutex<(Option<Instant>, u32)>,
}

impl InstallHint {
    pub(super) fn new(text: Option<&str>) -> Self {
        let text = text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        Self { text, shown: Mutex::new((None, 0)) }
    }

    /// Returns the hint, unless it was shown too often recently.
    pub(super) fn take(&self) -> Option<String> {
        let text = self.text.as_ref()?;
        let mut shown = self.shown.lock();
        let now = Instant::now();
        if shown.0.is_none_or(|begin| now.duration_since(begin) >= WINDOW) {
            *shown = (Some(now), 0);
        }
        if shown.1 == TIMES {
            return None;
        }
        shown.1 += 1;
        Some(text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn au_3_the_hint_is_shown_ten_times_an_hour() {
        let hint = InstallHint::new(Some(" brew install it\n"));
        for _ in 0..TIMES {
            assert_eq!(hint.take().as_deref(), Some("brew install it"));
        }
        assert_eq!(hint.take(), None);
        tokio::time::advance(WINDOW).await;
        assert!(hint.take().is_some());
    }

    #[test]
    fn an_empty_hint_is_never_shown() {
        assert_eq!(InstallHint::new(None).take(), None);
        assert_eq!(InstallHint::new(Some("  ")).take(), None);
    }
}
