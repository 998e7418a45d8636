//! The processor time and the memory of this process.

use std::time::Duration;

use cpu_time::ProcessTime;

/// The interval for which a process has to do nothing to count as idle.
const REST: Duration = Duration::from_millis(500);
/// The processor time that an idle process may use in that interval.
const IDLE: Duration = Duration::from_millis(5);

/// The processor time of all threads since its creation.
#[derive(Debug)]
pub struct Stopwatch(ProcessTime);

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    pub fn start() -> Self {
        Self(ProcessTime::now())
    }

    /// Returns the processor time since the start, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Waits until this process does nothing any more.
pub async fn idle() {
    loop {
        let used = ProcessTime::now();
        tokio::time::sleep(REST).await;
        if used.elapsed() < IDLE {
            return;
        }
    }
}

/// The resident memory of this process, in megabytes; `None` if the system does not report it.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// The most so far.
    pub peak: Option<f64>,
    /// The current value.
    pub now: Option<f64>,
}

impl Memory {
    /// Reads the values from the system.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parse(status: &str) -> Self {
        let megabytes = |field: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(field))?;
            let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kibibytes * 1024.0 / 1e6)
        };
        Self { peak: megabytes("VmHWM:"), now: megabytes("VmRSS:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_proc_status() {
        let status =
            "Name:\tdogwatch\nVmPeak:\t  999 kB\nVmHWM:\t  15625 kB\nVmRSS:\t    3125 kB\nThreads:\t2\n";
        assert_eq!(Memory::parse(status), Memory { peak: Some(16.0), now: Some(3.2) });
        assert_eq!(Memory::parse(""), Memory { peak: None, now: None });
    }
}
