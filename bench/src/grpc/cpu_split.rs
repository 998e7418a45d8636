//! Separate processors for callers and pods, so that neither side takes CPU time from the other.
//!
//! In a cluster they run on different machines. Here each side gets half of the processors. With a
//! single processor, or on a system without thread affinity, both sides use all of them.

use anyhow::Result;

/// The processors of each side. Dropping this lets the thread run on all processors again.
#[derive(Debug, Default)]
pub(super) struct CpuSplit {
    all: Vec<usize>,
    callers: Vec<usize>,
    pods: Vec<usize>,
}

impl CpuSplit {
    /// Splits the processors of this thread, and pins it to the pods' half, with every thread that
    /// it starts from now on.
    ///
    /// # Errors
    /// If the system does not report or does not accept the affinity.
    pub(super) fn divide() -> Result<Self> {
        let all = threads::allowed()?;
        let (pods, callers) = split(&all);
        threads::pin_to(&pods)?;
        Ok(Self { all, callers, pods })
    }

    /// Runs a closure on the callers' half. A process that it starts stays there.
    ///
    /// # Errors
    /// If the system does not accept the affinity.
    pub(super) fn on_caller_cpus<T>(&self, start: impl FnOnce() -> T) -> Result<T> {
        threads::pin_to(&self.callers)?;
        let started = start();
        threads::pin_to(&self.pods)?;
        Ok(started)
    }
}

impl Drop for CpuSplit {
    fn drop(&mut self) {
        // If this fails, the process keeps running on fewer processors than it could.
        let _ = threads::pin_to(&self.all);
    }
}

/// Splits the processors in two; the first half gets the odd one. A single processor is shared.
fn split(all: &[usize]) -> (Vec<usize>, Vec<usize>) {
    match all {
        [] | [_] => (all.to_vec(), all.to_vec()),
        _ => {
            let (first, second) = all.split_at(all.len().div_ceil(2));
            (first.to_vec(), second.to_vec())
        }
    }
}

#[cfg(target_os = "linux")]
mod threads {
    use anyhow::{Context, Result};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Returns the processors that this thread may run on.
    pub(super) fn allowed() -> Result<Vec<usize>> {
        let set = sched_getaffinity(None).context("cannot read the CPU affinity of this thread")?;
        Ok((0..CpuSet::MAX_CPU).filter(|it| set.is_set(*it)).collect())
    }

    /// Pins this thread to these processors. Does nothing if there are none.
    pub(super) fn pin_to(on: &[usize]) -> Result<()> {
        if on.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        on.iter().for_each(|it| set.set(*it));
        sched_setaffinity(None, &set)
            .with_context(|| format!("cannot pin this thread to the processors {on:?}"))
    }
}

#[cfg(not(target_os = "linux"))]
mod threads {
    use anyhow::Result;

    pub(super) fn allowed() -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    pub(super) fn pin_to(_: &[usize]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_half_and_a_single_processor_is_shared() {
        assert_eq!(split(&[0, 1, 2, 3, 8]), (vec![0, 1, 2], vec![3, 8]));
        assert_eq!(split(&[4, 5]), (vec![4], vec![5]));
        assert_eq!(split(&[3]), (vec![3], vec![3]));
        assert_eq!(split(&[]), (vec![], vec![]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_started_for_callers_stays_on_their_half_and_this_thread_returns_to_its_own() {
        let before = threads::allowed().unwrap();
        let cpu_split = CpuSplit::divide().unwrap();
        let there = cpu_split.on_caller_cpus(|| std::thread::spawn(|| threads::allowed().unwrap())).unwrap();
        assert_eq!(there.join().unwrap(), cpu_split.callers);
        assert_eq!(threads::allowed().unwrap(), cpu_split.pods);
        drop(cpu_split);
        assert_eq!(threads::allowed().unwrap(), before);
    }
}
