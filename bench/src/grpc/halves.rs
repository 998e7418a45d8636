//! Processors for those who call and others for the pods, so that neither takes from the other what is measured of it.
//!
//! On a cluster they are on different machines. Here each side has half of the processors; with a single one, or where threads cannot be
//! told where to run, both have all.

use anyhow::Result;

/// Which processors each side has. Dropping it lets this thread run everywhere again.
#[derive(Debug, Default)]
pub(super) struct Halves {
    all: Vec<usize>,
    callers: Vec<usize>,
    pods: Vec<usize>,
}

impl Halves {
    /// Divides what this thread may run on, and moves it to the pods' half, with every thread that it starts from here on.
    ///
    /// # Errors
    /// When the system does not say where we may run, or does not let us.
    pub(super) fn divide() -> Result<Self> {
        let all = threads::here()?;
        let (pods, callers) = split(&all);
        threads::stay(&pods)?;
        Ok(Self { all, callers, pods })
    }

    /// Does something on the callers' half: a process that it starts stays there.
    ///
    /// # Errors
    /// When the system does not let us go there.
    pub(super) fn at_callers<T>(&self, start: impl FnOnce() -> T) -> Result<T> {
        threads::stay(&self.callers)?;
        let started = start();
        threads::stay(&self.pods)?;
        Ok(started)
    }
}

impl Drop for Halves {
    fn drop(&mut self) {
        // Where this fails, the process only has fewer processors than it could have.
        let _ = threads::stay(&self.all);
    }
}

/// The one that is left over goes to the first half. A single one is not divided.
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

    /// The processors that this thread may run on.
    pub(super) fn here() -> Result<Vec<usize>> {
        let set = sched_getaffinity(None).context("cannot tell on which processors we may run")?;
        Ok((0..CpuSet::MAX_CPU).filter(|it| set.is_set(*it)).collect())
    }

    /// Lets this thread run on these only; on whatever it could run on before, if there are none.
    pub(super) fn stay(on: &[usize]) -> Result<()> {
        if on.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        on.iter().for_each(|it| set.set(*it));
        sched_setaffinity(None, &set).with_context(|| format!("cannot run on the processors {on:?}"))
    }
}

#[cfg(not(target_os = "linux"))]
mod threads {
    use anyhow::Result;

    pub(super) fn here() -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    pub(super) fn stay(_: &[usize]) -> Result<()> {
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
    fn whoever_is_started_for_the_callers_stays_on_their_half_and_we_come_back() {
        let before = threads::here().unwrap();
        let halves = Halves::divide().unwrap();
        let there = halves.at_callers(|| std::thread::spawn(|| threads::here().unwrap())).unwrap();
        assert_eq!(there.join().unwrap(), halves.callers);
        assert_eq!(threads::here().unwrap(), halves.pods);
        drop(halves);
        assert_eq!(threads::here().unwrap(), before);
    }
}
