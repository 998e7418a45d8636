//! One run of a plugin process: start, output, end.
//!
//! Does not interpret the output. Dropping a run kills its process and, if the plugin has no
//! terminal, every process that it started: plugins are often shell scripts around the program that
//! does the work.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::hint::InstallHint;
use super::lookup::{clean, look_path};
use super::stderr::{Secrets, Tail};
use super::{metrics, policy};
use crate::auth::error::PluginError;
use crate::config::{ExecConfig, InteractiveMode, PluginPolicy};

/// The maximum size of a plugin's output; a credential with a certificate chain takes a few
/// kilobytes.
const STDOUT_LIMIT: u64 = 1 << 20;

/// The time to wait for output once the process has ended. Its own output is in the pipe already,
/// but the end of the pipe may never come if a helper process that it left behind has inherited it.
const AFTER_EXIT: Duration = Duration::from_millis(500);

/// A plugin that can be run.
pub(super) struct Runner {
    config: ExecConfig,
    policy: PluginPolicy,
    mode: InteractiveMode,
    /// The time limit of a non-interactive run.
    limit: Duration,
    /// Set when the program reads standard input itself.
    stdin_unavailable: bool,
    hint: InstallHint,
    secrets: Secrets,
}

impl Runner {
    pub(super) fn new(
        config: ExecConfig,
        policy: PluginPolicy,
        mode: InteractiveMode,
        limit: Duration,
        stdin_unavailable: bool,
    ) -> Self {
        let hint = InstallHint::new(config.install_hint.as_deref());
        let secrets = Secrets::of(&config);
        Self { config, policy, mode, limit, stdin_unavailable, hint, secrets }
    }

    pub(super) fn config(&self) -> &ExecConfig {
        &self.config
    }

    pub(super) fn policy(&self) -> &PluginPolicy {
        &self.policy
    }

    pub(super) fn command(&self) -> String {
        self.config.command.clone()
    }

    /// Returns true if the plugin may use the terminal of this process.
    pub(super) fn interactive(&self) -> Result<bool, PluginError> {
        decide(self.mode, io::stdin().is_terminal(), self.stdin_unavailable)
            .map_err(|reason| PluginError::NeedsTerminal { command: self.command(), reason })
    }

    /// Runs the plugin with `KUBERNETES_EXEC_INFO` set to `info` and returns its standard output.
    pub(super) async fn run(&self, info: &str, interactive: bool) -> Result<Vec<u8>, PluginError> {
        let program = self.permitted_program().await?;
        let result = match program {
            Some(program) => self.run_program(program, info, interactive).await,
            None => Err(PluginError::NotFound { command: self.command(), hint: self.hint.take() }),
        };
        metrics::record_call(&result);
        result
    }

    /// Returns the program to start if the policy permits it, and `None` if it does not exist.
    async fn permitted_program(&self) -> Result<Option<PathBuf>, PluginError> {
        let denied = |reason| PluginError::Denied { command: self.command(), reason };
        // Cleaned once, before lookup and check, so that the program that was checked is the one
        // that runs. `newAuthenticator` in client-go v0.36.4 `plugin/pkg/client/auth/exec/exec.go`
        // cleans it whatever the policy.
        let (rules, command) = (self.policy.clone(), clean(&self.config.command));
        let decision = match policy::forbids_all(&rules) {
            Some(reason) => Err(denied(reason)),
            None => tokio::task::spawn_blocking(move || {
                let search = env::var_os("PATH");
                let program = look_path(&command.to_string_lossy(), search.as_deref());
                let Some(program) = program else { return Ok(None) };
                policy::permits(&rules, &command, &program, search.as_deref()).map(|()| Some(program))
            })
            .await
            .map_err(|source| self.start_error(io::Error::other(source)))?
            .map_err(denied),
        };
        metrics::record_policy(decision.is_ok());
        decision
    }

    async fn run_program(
        &self,
        program: PathBuf,
        info: &str,
        interactive: bool,
    ) -> Result<Vec<u8>, PluginError> {
        let mut child = self.spawn(program, info, interactive).map_err(|source| match source.kind() {
            // The file disappeared since the lookup, or its interpreter does not exist.
            io::ErrorKind::NotFound => {
                PluginError::NotFound { command: self.command(), hint: self.hint.take() }
            }
            _ => self.start_error(source),
        })?;
        // An interactive plugin stays in this process's group: a background group may not read from
        // the terminal.
        let mut group = ProcessGroup::of(&child, !interactive);
        let mut tail = Tail::default();
        let listening = self.listen(&mut child, &mut tail);
        let (status, stdout) = if interactive {
            listening.await
        } else {
            match tokio::time::timeout(self.limit, listening).await {
                Ok(heard) => heard,
                Err(_) => {
                    let stderr = tail.text();
                    return Err(PluginError::TimedOut { command: self.command(), limit: self.limit, stderr });
                }
            }
        }
        .map_err(|source| self.start_error(source))?;
        // The plugin ended by itself. Processes that it left behind, such as an agent that keeps a
        // session, stay on purpose.
        group.release();
        if stdout.len() as u64 > STDOUT_LIMIT {
            let problem = "it printed more than a megabyte".to_owned();
            return Err(PluginError::Malformed { command: self.command(), problem });
        }
        if !status.success() {
            return Err(PluginError::Failed {
                command: self.command(),
                status: status.to_string(),
                code: status.code(),
                stderr: tail.text(),
            });
        }
        Ok(stdout)
    }

    fn spawn(&self, program: PathBuf, info: &str, interactive: bool) -> io::Result<Child> {
        let (stdin, stderr) =
            if interactive { (Stdio::inherit(), Stdio::inherit()) } else { (Stdio::null(), Stdio::piped()) };
        let mut command = Command::new(program);
        #[cfg(unix)]
        if !interactive {
            command.process_group(0);
        }
        command
            .args(&self.config.args)
            .envs(self.config.env.iter().map(|variable| (&variable.name, &variable.value)))
            .env("KUBERNETES_EXEC_INFO", OsString::from(info))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
    }

    /// Reads both outputs until the process has ended. Standard output is closed once the limit is
    /// exceeded.
    async fn listen(&self, child: &mut Child, tail: &mut Tail) -> io::Result<(ExitStatus, Vec<u8>)> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut bytes = Vec::new();
        let status = {
            let reading = async {
                if let Some(stdout) = stdout {
                    stdout.take(STDOUT_LIMIT + 1).read_to_end(&mut bytes).await?;
                }
                Ok(())
            };
            let following = async {
                if let Some(stderr) = stderr {
                    tail.follow(stderr, tokio::io::stderr(), &self.secrets).await;
                }
                Ok::<_, io::Error>(())
            };
            let mut output = pin!(async { tokio::try_join!(reading, following) });
            tokio::select! {
                biased;
                read = &mut output => {
                    read?;
                    child.wait().await?
                }
                status = child.wait() => {
                    let status = status?;
                    if let Ok(read) = tokio::time::timeout(AFTER_EXIT, &mut output).await {
                        read?;
                    }
                    status
                }
            }
        };
        Ok((status, bytes))
    }

    fn start_error(&self, source: io::Error) -> PluginError {
        PluginError::Start { command: self.command(), source: Arc::new(source) }
    }
}

/// The process group of one run, killed when dropped before the plugin ended.
struct ProcessGroup {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &Child, has_own_group: bool) -> Self {
        let id = child.id().filter(|_| has_own_group).and_then(|id| i32::try_from(id).ok());
        Self { leader: id.and_then(rustix::process::Pid::from_raw) }
    }

    fn release(&mut self) {
        self.leader = None;
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // The group may have ended at this moment, which is fine too.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    fn of(_: &Child, _: bool) -> Self {
        Self {}
    }

    fn release(&mut self) {}
}

/// Returns true if a plugin may use the terminal; an error if it must and cannot.
fn decide(mode: InteractiveMode, terminal: bool, stdin_unavailable: bool) -> Result<bool, &'static str> {
    match mode {
        InteractiveMode::Never => Ok(false),
        InteractiveMode::IfAvailable => Ok(terminal && !stdin_unavailable),
        InteractiveMode::Always if !terminal => Err("standard input is not a terminal"),
        InteractiveMode::Always if stdin_unavailable => Err("standard input is in use by the program"),
        InteractiveMode::Always => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn au_3_a_plugin_is_interactive_only_with_a_terminal() {
        use InteractiveMode::{Always, IfAvailable, Never};
        let cases = [
            (Never, true, false, Ok(false)),
            (Never, false, false, Ok(false)),
            (IfAvailable, true, false, Ok(true)),
            (IfAvailable, true, true, Ok(false)),
            (IfAvailable, false, false, Ok(false)),
            (Always, true, false, Ok(true)),
            (Always, false, false, Err("standard input is not a terminal")),
            (Always, true, true, Err("standard input is in use by the program")),
        ];
        for (mode, terminal, unavailable, expected) in cases {
            assert_eq!(decide(mode, terminal, unavailable), expected, "{mode:?} {terminal} {unavailable}");
        }
    }
}
