//! What a process holds: tasks, open files and memory.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Held {
    /// Those of the runtime that are alive.
    pub(super) tasks: usize,
    /// Sockets among them.
    pub(super) files: usize,
    /// What is resident of the process's own memory, in KiB; the program itself, which is read in as it is used, is not counted.
    pub(super) kibibytes: u64,
}

impl Held {
    /// What this process holds now.
    ///
    /// # Errors
    /// Where there is no /proc.
    pub(super) fn now() -> Result<Self> {
        let files = std::fs::read_dir("/proc/self/fd").context("cannot count open files")?.count();
        let status = std::fs::read_to_string("/proc/self/status").context("cannot read the memory")?;
        let kibibytes = resident(&status).context("the memory is not told")?;
        Ok(Self { tasks: Handle::current().metrics().num_alive_tasks(), files, kibibytes })
    }

    /// Whether no task and no file is more than there was, or less.
    pub(super) fn counts_are(self, before: Self) -> bool {
        (self.tasks, self.files) == (before.tasks, before.files)
    }

    /// The most of each.
    pub(super) fn most(self, other: Self) -> Self {
        Self {
            tasks: self.tasks.max(other.tasks),
            files: self.files.max(other.files),
            kibibytes: self.kibibytes.max(other.kibibytes),
        }
    }
}

impl fmt::Display for Held {
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
    fn the_memory_is_the_anonymous_part_of_what_is_resident() {
        let status = "Name:\tx\nVmRSS:\t  2000 kB\nRssAnon:\t    1234 kB\nRssFile:\t 766 kB\n";
        assert_eq!(resident(status), Some(1_234));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn counts_differ_in_either_direction() {
        let held = |tasks, files| Held { tasks, files, kibibytes: 0 };
        assert!(held(3, 4).counts_are(Held { kibibytes: 9, ..held(3, 4) }));
        assert!(!held(3, 4).counts_are(held(2, 4)) && !held(3, 4).counts_are(held(3, 5)));
        assert_eq!(held(3, 1).most(held(2, 4)), held(3, 4));
    }
}
