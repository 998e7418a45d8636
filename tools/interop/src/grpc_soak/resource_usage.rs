//! The resources of a process: tasks, open files and memory.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ResourceUsage {
    /// The live tasks of the runtime.
    pub(super) tasks: usize,
    /// Open files, including sockets.
    pub(super) files: usize,
    /// The resident anonymous memory, in KiB. The program's own pages, which are mapped as they are
    /// used, do not count.
    pub(super) kibibytes: u64,
}

impl ResourceUsage {
    /// Returns the current resources of this process.
    ///
    /// # Errors
    /// If there is no /proc.
    pub(super) fn now() -> Result<Self> {
        let files = std::fs::read_dir("/proc/self/fd").context("cannot count open files")?.count();
        let status = std::fs::read_to_string("/proc/self/status").context("cannot read the memory usage")?;
        let kibibytes = resident(&status).context("there is no RssAnon in /proc/self/status")?;
        Ok(Self { tasks: Handle::current().metrics().num_alive_tasks(), files, kibibytes })
    }

    /// Returns true if the numbers of tasks and files are equal.
    pub(super) fn has_same_counts(self, before: Self) -> bool {
        (self.tasks, self.files) == (before.tasks, before.files)
    }

    /// The maximum of each resource.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            tasks: self.tasks.max(other.tasks),
            files: self.files.max(other.files),
            kibibytes: self.kibibytes.max(other.kibibytes),
        }
    }
}

impl fmt::Display for ResourceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.kibibytes as f64 / 1_024.0;
        write!(f, "{:>6} {:>6} {mebibytes:>7.1} MiB", self.tasks, self.files)
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_resident_anonymous_memory() {
        let status = "Name:\tx\nVmRSS:\t  2000 kB\nRssAnon:\t    1234 kB\nRssFile:\t 766 kB\n";
        assert_eq!(resident(status), Some(1_234));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn usage_differs_with_more_or_fewer_tasks_or_files() {
        let usage = |tasks, files| ResourceUsage { tasks, files, kibibytes: 0 };
        assert!(usage(3, 4).has_same_counts(ResourceUsage { kibibytes: 9, ..usage(3, 4) }));
        assert!(!usage(3, 4).has_same_counts(usage(2, 4)) && !usage(3, 4).has_same_counts(usage(3, 5)));
        assert_eq!(usage(3, 1).max(usage(2, 4)), usage(3, 4));
    }
}
