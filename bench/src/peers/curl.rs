//! curl as the floor: the cost of only receiving the list, and then the changes, over the same TLS
//! and HTTP/2.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use dogwatch::Config;
use dogwatch::config::Pem;
use secrecy::ExposeSecret;
use tokio::time::Instant;
use wait4::Wait4;

use super::report::Report;

/// The name by which curl introduces itself. For its own one, servers indent JSON
/// (k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/negotiation/negotiate.go, `isPrettyPrint`).
const USER_AGENT: &str = "dogwatch-bench";

/// A request that curl sends.
#[derive(Clone, Debug)]
pub(super) struct Curl {
    url: String,
    /// The file with the options that must not be seen in the process list.
    options: PathBuf,
}

impl Curl {
    /// Prepares a request for the pods of a namespace. Credentials are written to files in
    /// `folder`. Returns `None` if curl is not installed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn find(config: &Config, namespace: &str, folder: &Path) -> Result<Option<Self>> {
        if !Command::new("curl").arg("--version").output().is_ok_and(|it| it.status.success()) {
            return Ok(None);
        }
        let options = folder.join("curl.options");
        std::fs::write(&options, options_of(config, folder)?)?;
        let server = config.server.as_str().trim_end_matches('/');
        Ok(Some(Self { url: format!("{server}/api/v1/namespaces/{namespace}/pods"), options }))
    }

    /// Reads the list in this media type. The processor time is that of curl minus that of a curl
    /// which sends no request, since other contenders do not count the start of their process.
    ///
    /// # Errors
    /// If curl fails.
    pub(super) fn measure(&self, media_type: &str, objects: usize) -> Result<Report> {
        let (start, _) = run(Command::new("curl").arg("--version"))?;
        let (cpu, wall) = run(&mut self.command(media_type, ""))?;
        let cpu_s = Some((cpu - start).max(0.0));
        Ok(Report { objects, sync_s: Some(wall), cpu_s, ..Report::default() })
    }

    /// Starts to watch the changes after a version, in this media type.
    ///
    /// # Errors
    /// If curl fails.
    pub(super) fn watch(&self, media_type: &str, version: &str) -> Result<CurlWatch> {
        // The start of the process and the handshake, which other contenders do not count.
        let (start, _) = run(&mut self.command(media_type, "?limit=1"))?;
        let query = format!("?watch=true&resourceVersion={version}");
        let mut watch = self.command(media_type, &query);
        let child = watch.arg("--no-buffer").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(CurlWatch { child: Some(child.context("cannot start curl")?), start })
    }

    fn command(&self, media_type: &str, query: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--http2", "--user-agent", USER_AGENT]);
        command.arg("--config").arg(&self.options);
        command.args(["--header", &format!("Accept: {media_type}"), "--output", "/dev/null"]);
        command.arg(format!("{}{query}", self.url));
        command
    }
}

/// A curl that watches.
#[derive(Debug)]
pub(super) struct CurlWatch {
    /// Absent once it was ended.
    child: Option<Child>,
    /// The seconds of processor time before the watch.
    start: f64,
}

impl CurlWatch {
    /// Ends the watch, and returns the microseconds of processor time for each of this many
    /// changes.
    ///
    /// # Errors
    /// If curl had ended before.
    pub(super) fn end(mut self, changes: u64) -> Result<f64> {
        let mut child = self.child.take().context("curl was ended before")?;
        ensure!(child.try_wait()?.is_none(), "curl has ended in the middle of its watch");
        child.kill()?;
        let ended = child.wait4().context("cannot wait for curl")?;
        let cpu = ended.rusage.utime.saturating_add(ended.rusage.stime).as_secs_f64();
        Ok((cpu - self.start).max(0.0) * 1e6 / changes as f64)
    }
}

impl Drop for CurlWatch {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It fails if curl has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a command to its end. Returns the seconds of processor time and of wall-clock time.
fn run(command: &mut Command) -> Result<(f64, f64)> {
    let began = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start curl")?;
    let ended = child.wait4().context("cannot wait for curl")?;
    ensure!(ended.status.success(), "curl failed ({})", ended.status);
    let cpu = ended.rusage.utime.saturating_add(ended.rusage.stime);
    Ok((cpu.as_secs_f64(), began.elapsed().as_secs_f64()))
}

/// Returns the content of curl's file of options for a server.
fn options_of(config: &Config, folder: &Path) -> Result<String> {
    let mut lines = String::new();
    let mut add = |name: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(lines, "{name} = \"{value}\"");
    };
    if let Some(ca) = &config.tls.ca {
        add("cacert", &file_of(ca, &folder.join("curl-ca.pem"))?);
    }
    if let Some(identity) = &config.tls.identity {
        add("cert", &file_of(&identity.certificate, &folder.join("curl-cert.pem"))?);
        add("key", &file_of(&identity.key, &folder.join("curl-key.pem"))?);
    }
    let file = config.auth.token_file.as_ref().map(std::fs::read_to_string).transpose()?;
    let token = file.or_else(|| config.auth.token.as_ref().map(|it| it.expose_secret().to_owned()));
    if let Some(token) = token {
        add("header", &format!("Authorization: Bearer {}", token.trim()));
    }
    if config.tls.insecure_skip_verify {
        lines.push_str("insecure\n");
    }
    Ok(lines)
}

/// Returns the file with this material; if it has none, `file` is written.
fn file_of(pem: &Pem, file: &Path) -> Result<String> {
    let path = match pem {
        Pem::File(path) => path,
        Pem::Data(data) => {
            std::fs::write(file, data.expose_secret())?;
            file
        }
        _ => anyhow::bail!("a certificate or key is neither a file nor data"),
    };
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_options_with_their_quotes_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.auth.token = Some("a\"b\\c".into());
        config.tls.ca = Some(Pem::Data("pem".into()));
        let ca = folder.path().join("curl-ca.pem");
        let expected =
            format!("cacert = \"{}\"\nheader = \"Authorization: Bearer a\\\"b\\\\c\"\n", ca.display());
        assert_eq!(options_of(&config, folder.path()).unwrap(), expected);
        assert_eq!(std::fs::read_to_string(ca).unwrap(), "pem");
    }
}
