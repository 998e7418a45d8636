//! The limit of open files of this process. A shell's default is often 1,024, and the hard limit is
//! nearly always higher.

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit so that this many files can be open at once.
///
/// # Errors
/// If the hard limit is lower.
pub(super) fn at_least(files: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(raised) = raise(&limit, files)? {
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(())
}

/// Returns the limit to set, or `None` if the current one is sufficient.
fn raise(limit: &Rlimit, files: u64) -> Result<Option<Rlimit>> {
    if limit.current.is_none_or(|it| it >= files) {
        return Ok(None);
    }
    let max = limit.maximum.unwrap_or(u64::MAX);
    ensure!(max >= files, "this needs {files} open files, but the hard limit is {max} (ulimit -H -n)");
    Ok(Some(Rlimit { current: Some(files), maximum: limit.maximum }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_only_when_it_is_too_low_and_up_to_the_hard_limit() {
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
