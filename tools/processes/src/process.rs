//! A child process: started with a log file, measured, and killed on drop.
//!
//! It knows nothing about the programs. Measuring reads `/proc`, so it works on Linux only.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The ticks per second in `/proc`: `USER_HZ` is 100 on Linux.
const TICKS: f64 = 100.0;

/// The state of an established connection in `/proc/PID/net/tcp`: `TCP_ESTABLISHED`.
const ESTABLISHED: &str = "01";

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. Its output goes to a log file in `folder`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Fails if the program has exited, with the last lines of its output.
    pub fn ensure_alive(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let text = self.output()?;
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        bail!("{} exited ({status}):\n{last}", self.name)
    }

    /// Waits until it exits, and fails if it does not succeed.
    pub fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} failed ({status}):\n{}", self.name, self.output()?);
        Ok(())
    }

    /// Returns its output so far.
    pub fn output(&self) -> Result<String> {
        let text =
            std::fs::read(&self.log).with_context(|| format!("cannot read the log of {}", self.name))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the CPU seconds of all its threads.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        cpu_ticks(&stat)
            .map(|ticks| ticks as f64 / TICKS)
            .with_context(|| format!("unexpected content of {path}"))
    }

    /// Returns its resident memory, in MB.
    pub fn resident_mb(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.map(|it| it * 1024.0 / 1e6).with_context(|| format!("there is no VmRSS in {path}"))
    }

    /// Returns the number of its TCP connections to a port, on any host.
    pub fn connections_to(&self, port: u16) -> Result<usize> {
        let process = format!("/proc/{}", self.child.id());
        let mut sockets = HashSet::new();
        let files = std::fs::read_dir(format!("{process}/fd"))
            .with_context(|| format!("cannot list the files of {}", self.name))?;
        for file in files {
            // One that was closed in the meantime cannot be read.
            let Ok(target) = std::fs::read_link(file?.path()) else { continue };
            sockets.extend(inode(&target.to_string_lossy()));
        }
        let mut count = 0;
        for table in ["tcp", "tcp6"] {
            // Without IPv6, there is no `tcp6`.
            let table = std::fs::read_to_string(format!("{process}/net/{table}")).unwrap_or_default();
            count += connections(&table, port).filter(|it| sockets.contains(it)).count();
        }
        Ok(count)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already; both calls then fail or return immediately.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses the ticks in user and kernel mode from a line of `/proc/PID/stat`. The program name in
/// its second field may contain any character.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Parses the number of a socket from a link in `/proc/PID/fd`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the sockets in a table of `/proc/PID/net/tcp` that are connected to this port.
fn connections(table: &str, port: u16) -> impl Iterator<Item = u64> {
    let established = move |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (_, remote) = fields.get(2)?.rsplit_once(':')?;
        let is_wanted = u16::from_str_radix(remote, 16) == Ok(port) && fields.get(3) == Some(&ESTABLISHED);
        fields.get(9).filter(|_| is_wanted)?.parse().ok()
    };
    table.lines().skip(1).filter_map(established)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ticks_are_found_after_any_program_name() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some(175));
        assert_eq!(cpu_ticks("42 (x) S 1"), None);
    }

    #[test]
    fn an_error_contains_the_output_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let cat = &mut Command::new("sh");
        let mut process = Process::start("sh", cat.args(["-c", "echo word; exit 3"]), folder.path()).unwrap();
        assert!(process.wait().unwrap_err().to_string().contains("word"));
        assert!(process.ensure_alive().unwrap_err().to_string().contains("word"));
    }

    #[test]
    fn connections_are_those_that_are_established_to_the_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:9C40 0100007F:192B 01 00000000:00000000 02:00000000 00000000     0        0 71 2 0 20\n   \
                     1: 0100007F:192B 0100007F:9C40 01 00000000:00000000 02:00000000 00000000     0        0 72 2 0 20\n   \
                     2: 0100007F:9C41 0100007F:192B 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        assert_eq!(connections(table, 6443).collect::<Vec<_>>(), [71]);
        assert_eq!(connections(table, 40_000).collect::<Vec<_>>(), [72]);
        assert_eq!((inode("socket:[71]"), inode("/dev/null")), (Some(71), None));
    }

    #[test]
    fn a_process_without_connections_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Process::start("sleep", Command::new("sleep").arg("60"), folder.path()).unwrap();
        assert_eq!(process.connections_to(port).unwrap(), 0);
    }
}
