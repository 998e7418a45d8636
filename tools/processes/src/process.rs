//! A program of somebody's that runs beside a task: started with a log of its own, measured, and ended when dropped.
//!
//! It knows nothing about what the programs do. Measuring reads `/proc`, so it works on Linux only.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What `/proc` counts in: Linux tells every program that a second has a hundred ticks.
const TICKS: f64 = 100.0;

/// A program that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it prints goes into a log in `folder`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Fails if the program has ended, with the last it said.
    pub fn ensure_alive(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let text = self.said()?;
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        bail!("{} ended ({status}):\n{last}", self.name)
    }

    /// Waits until it ends by itself; fails if it does so badly.
    pub fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} failed ({status}):\n{}", self.name, self.said()?);
        Ok(())
    }

    /// All that it has printed so far.
    pub fn said(&self) -> Result<String> {
        let text =
            std::fs::read(&self.log).with_context(|| format!("cannot read the log of {}", self.name))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The seconds of CPU it has used, in all its threads.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        cpu_ticks(&stat)
            .map(|ticks| ticks as f64 / TICKS)
            .with_context(|| format!("{path} is not as expected"))
    }

    /// The memory it holds now, in MB.
    pub fn resident_mb(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.map(|it| it * 1024.0 / 1e6).with_context(|| format!("{path} does not tell its memory"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before us; either way it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The ticks in user and kernel mode, from a line of `/proc/PID/stat`. The name in its second field may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some(175));
        assert_eq!(cpu_ticks("42 (x) S 1"), None);
    }

    #[test]
    fn a_process_is_measured_and_its_words_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cat = &mut Command::new("sh");
        let mut process = Process::start("sh", cat.args(["-c", "echo word; exit 3"]), folder.path()).unwrap();
        assert!(process.wait().unwrap_err().to_string().contains("word"));
        assert!(process.ensure_alive().unwrap_err().to_string().contains("word"));
    }
}
