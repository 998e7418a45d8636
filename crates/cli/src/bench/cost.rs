//! The processor time and memory of this process.

use std::time::Duration;

use cpu_time::ProcessTime;

/// The processor time of all threads since its creation.
#[derive(Debug)]
pub(super) struct Stopwatch(ProcessTime);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(ProcessTime::now())
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The memory of this process, in megabytes.
#[derive(Debug, PartialEq)]
pub(super) struct Memory {
    /// The peak resident set size.
    pub(super) peak: Option<f64>,
    pub(super) now: Option<f64>,
}

impl Memory {
    /// Reads the values from the system; `None` if it does not report them.
    pub(super) fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status)
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
