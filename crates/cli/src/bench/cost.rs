//! What this process has used so far: processor time and memory.

use std::time::Duration;

use cpu_time::ProcessTime;

/// Processor time, of all threads, since it was made.
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
    /// The most there ever was.
    pub(super) peak: Option<f64>,
    pub(super) now: Option<f64>,
}

impl Memory {
    /// What the system says; nothing where it does not say.
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
    fn memory_is_read_from_what_linux_says() {
        let status =
            "Name:\tdogwatch\nVmPeak:\t  999 kB\nVmHWM:\t  15625 kB\nVmRSS:\t    3125 kB\nThreads:\t2\n";
        assert_eq!(Memory::parse(status), Memory { peak: Some(16.0), now: Some(3.2) });
        assert_eq!(Memory::parse(""), Memory { peak: None, now: None });
    }
}
