//! How many files this process may have open. A shell gives 1,024 as a rule, and nearly always allows more to who asks.

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Makes sure that so many files can be open at once.
///
/// # Errors
/// When this process may not have that many.
pub(super) fn at_least(files: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(raised) = raise(&limit, files)? {
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(())
}

/// What the limit has to be; `None` when it is fine as it is. Where there is no limit, nothing is said.
fn raise(limit: &Rlimit, files: u64) -> Result<Option<Rlimit>> {
    if limit.current.is_none_or(|it| it >= files) {
        return Ok(None);
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(most >= files, "this takes {files} open files, and the limit is {most} (ulimit -H -n)");
    Ok(Some(Rlimit { current: Some(files), maximum: limit.maximum }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_only_when_it_is_too_low_and_as_far_as_it_may_be() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let raised = |it: &Rlimit| raise(it, 2_000).map(|it| it.map(|it| (it.current, it.maximum)));
        assert_eq!(raised(&limit(None, None)).unwrap(), None);
        assert_eq!(raised(&limit(Some(2_000), Some(2_000))).unwrap(), None);
        assert_eq!(raised(&limit(Some(1_024), Some(4_096))).unwrap(), Some((Some(2_000), Some(4_096))));
        assert_eq!(raised(&limit(Some(1_024), None)).unwrap(), Some((Some(2_000), None)));
        let refused = raised(&limit(Some(1_024), Some(1_999))).unwrap_err().to_string();
        assert!(refused.contains("2000") && refused.contains("1999"), "{refused}");
    }
}
