//! The commands of a simulated container: a few that need no files and no network, and a small
//! shell to combine them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::tz::TimeZone;

use super::console::{Console, Line};
use super::container_view::ContainerView;
use super::log_lines::Output;
use super::shell_syntax::{self, Command, When, Word, is_variable_name};
use crate::environment::Environment;

/// The commands, as the message about an unknown one lists them.
const COMMANDS: &str = "cat date echo env exit export false hostname printenv pwd sh sleep true";

/// The directories that the path of a command may name.
const DIRECTORIES: [&str; 5] = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];

/// The number of commands that one session runs. A script can repeat itself through variables.
const MOST_COMMANDS: u32 = 100_000;
/// The depth to which `sh -c` may be nested.
const DEEPEST: u32 = 8;
/// The size of all variables together.
const VARIABLES_LIMIT: usize = 1024 * 1024;

/// The exit codes of a shell for wrong syntax, an unknown command, and an interrupt.
const WRONG_USE: u8 = 2;
const NOT_FOUND: u8 = 127;
const INTERRUPTED: u8 = 128 + 2;

/// A process in a simulated container, with the shells that it starts.
#[derive(Debug)]
pub(super) struct Process {
    view: ContainerView,
    console: Console,
    environment: Arc<Environment>,
    /// Variables that `env` does not show.
    local: BTreeMap<String, String>,
    /// The exit code of the last command.
    last: u8,
    commands: u32,
    depth: u32,
    /// The client has been informed that the container is simulated.
    is_explained: bool,
}

/// The progress of a shell after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next(u8),
    /// The shell ends.
    Exit(u8),
}

impl Process {
    pub(super) fn new(view: ContainerView, console: Console, environment: Arc<Environment>) -> Self {
        Self {
            view,
            console,
            environment,
            local: BTreeMap::new(),
            last: 0,
            commands: 0,
            depth: 0,
            is_explained: false,
        }
    }

    /// Runs a command to its end, and returns its exit code.
    pub(super) async fn run(mut self, command: &[String]) -> u8 {
        match self.command(command).await {
            Flow::Next(code) | Flow::Exit(code) => code,
        }
    }

    /// Runs one command. Boxed, because a shell is a command, too.
    fn command<'a>(&'a mut self, fields: &'a [String]) -> BoxFuture<'a, Flow> {
        async move {
            let Some((program, arguments)) = fields.split_first() else { return Flow::Next(0) };
            self.commands = self.commands.saturating_add(1);
            if self.commands > MOST_COMMANDS {
                self.complain("sh: too many commands for a simulated container").await;
                return Flow::Exit(WRONG_USE);
            }
            // Commands that never wait share the thread with all other sessions.
            tokio::task::yield_now().await;
            let name = DIRECTORIES.iter().find_map(|it| program.strip_prefix(it)).unwrap_or(program);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let code = match name {
                "true" | ":" => 0,
                "false" => 1,
                "exit" => return Flow::Exit(self.exit_code(&arguments)),
                "echo" => self.echo(&arguments).await,
                "cat" => self.cat(&arguments).await,
                "env" => self.env(&arguments).await,
                "printenv" => self.printenv(&arguments).await,
                "export" => self.export(&arguments).await,
                "hostname" => self.say(&format!("{}\n", self.view.hostname)).await,
                "pwd" => self.say(&format!("{}\n", self.view.directory)).await,
                "date" => self.date(&arguments).await,
                "sleep" => self.sleep(&arguments).await,
                "sh" | "bash" | "ash" | "dash" => self.shell(&arguments).await,
                _ => self.unknown(program).await,
            };
            Flow::Next(code)
        }
        .boxed()
    }

    /// Runs a shell, and returns its exit code.
    async fn shell(&mut self, arguments: &[&str]) -> u8 {
        if self.depth >= DEEPEST {
            self.complain("sh: nested too deeply for a simulated container").await;
            return WRONG_USE;
        }
        let flags = arguments.iter().take_while(|it| it.starts_with('-') && it.len() > 1);
        let flags: Vec<_> = flags.map(|it| it.trim_start_matches('-')).collect();
        let script = arguments.get(flags.len()).copied();
        let outer = std::mem::take(&mut self.local);
        self.depth = self.depth.saturating_add(1);
        let has_script = flags.iter().any(|it| it.contains('c') && it.len() <= 4);
        let code = match (has_script, script) {
            (true, Some(script)) => match self.script(script).await {
                Flow::Next(code) | Flow::Exit(code) => code,
            },
            (true, None) => {
                self.complain("sh: -c requires an argument").await;
                WRONG_USE
            }
            (false, Some(file)) => {
                self.complain(&format!("sh: can't open '{file}': a simulated container runs no files")).await;
                NOT_FOUND
            }
            (false, None) => self.interactive().await,
        };
        self.depth = self.depth.saturating_sub(1);
        self.local = outer;
        code
    }

    /// Runs the lines of the input until it ends.
    async fn interactive(&mut self) -> u8 {
        loop {
            if self.console.has_terminal() {
                self.say(&format!("{} # ", self.view.directory)).await;
            }
            match self.console.read_line().await {
                Line::Text(line) => {
                    if let Flow::Exit(code) = self.script(&line).await {
                        return code;
                    }
                }
                Line::Interrupted => self.last = INTERRUPTED,
                Line::End => return self.last,
                Line::TooLong => {
                    self.complain("sh: the line is too long").await;
                    return WRONG_USE;
                }
            }
        }
    }

    async fn script(&mut self, script: &str) -> Flow {
        let commands = match shell_syntax::parse(script) {
            Ok(commands) => commands,
            Err(error) => {
                self.complain(&format!("sh: {error}")).await;
                self.last = WRONG_USE;
                return Flow::Next(WRONG_USE);
            }
        };
        for Command { when, words } in &commands {
            let runs = match when {
                When::Always => true,
                When::Succeeded => self.last == 0,
                When::Failed => self.last != 0,
            };
            if !runs {
                continue;
            }
            match self.expanded(words).await {
                Flow::Next(code) => self.last = code,
                Flow::Exit(code) => return Flow::Exit(code),
            }
        }
        Flow::Next(self.last)
    }

    /// Expands and runs a command of a script: an assignment, or a program.
    async fn expanded(&mut self, words: &[Word]) -> Flow {
        let assigned: Option<Vec<_>> = words.iter().map(Word::assignment).collect();
        for (name, value) in assigned.iter().flatten() {
            let value = shell_syntax::expand(std::slice::from_ref(value), |it| self.variable(it));
            match value {
                Ok(value) => {
                    if !self.assign(name, value.into_iter().next().unwrap_or_default()) {
                        self.complain("sh: the variables are too large").await;
                        return Flow::Exit(WRONG_USE);
                    }
                }
                Err(error) => return self.failed(&error).await,
            }
        }
        if assigned.is_some() {
            return Flow::Next(0);
        }
        match shell_syntax::expand(words, |it| self.variable(it)) {
            Ok(fields) => self.command(&fields).await,
            Err(error) => self.failed(&error).await,
        }
    }

    async fn failed(&mut self, error: &str) -> Flow {
        self.complain(&format!("sh: {error}")).await;
        Flow::Next(WRONG_USE)
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.last.to_string(),
            "$" => "1".to_owned(),
            "#" => "0".to_owned(),
            "PWD" => self.view.directory.clone(),
            _ => {
                self.local.get(name).or_else(|| self.view.environment.get(name)).cloned().unwrap_or_default()
            }
        }
    }

    /// Sets a variable, in the environment if it is there already. Returns false if the variables
    /// would be too large.
    fn assign(&mut self, name: &str, value: String) -> bool {
        let all = self.local.iter().chain(&self.view.environment);
        let size: usize = all.map(|(name, value)| name.len() + value.len()).sum();
        if size + name.len() + value.len() > VARIABLES_LIMIT {
            return false;
        }
        match self.view.environment.get_mut(name) {
            Some(known) => *known = value,
            None => drop(self.local.insert(name.to_owned(), value)),
        }
        true
    }

    fn exit_code(&self, arguments: &[&str]) -> u8 {
        match arguments.first() {
            None => self.last,
            // A code is taken modulo 256.
            Some(code) => code.parse::<i64>().map_or(WRONG_USE, |it| it.to_le_bytes()[0]),
        }
    }

    /// Reports a command that the container does not have, once with those that it has.
    async fn unknown(&mut self, program: &str) -> u8 {
        let shown: String = program.chars().take(100).collect();
        if std::mem::replace(&mut self.is_explained, true) {
            self.complain(&format!("sh: {shown}: not found")).await;
            return NOT_FOUND;
        }
        let (container, pod) = (&self.view.container, &self.view.pod);
        let message = format!(
            "{shown}: not found: container {container} of pod {pod} is simulated, and has only these \
             commands: {COMMANDS}"
        );
        self.complain(&message).await;
        NOT_FOUND
    }

    async fn say(&self, text: &str) -> u8 {
        self.console.print(Output::Stdout, text).await;
        0
    }

    async fn complain(&self, text: &str) {
        self.console.print(Output::Stderr, &format!("{text}\n")).await;
    }
}

/// The commands.
impl Process {
    async fn echo(&mut self, arguments: &[&str]) -> u8 {
        match arguments.split_first() {
            Some((&"-n", rest)) => self.say(&rest.join(" ")).await,
            _ => self.say(&format!("{}\n", arguments.join(" "))).await,
        }
    }

    async fn cat(&mut self, arguments: &[&str]) -> u8 {
        let arguments = if arguments.is_empty() { &["-"] } else { arguments };
        let mut code = 0;
        for path in arguments {
            if *path == "-" {
                loop {
                    match self.console.read().await {
                        Some(Ok(bytes)) if self.console.has_terminal() => {
                            self.say(&String::from_utf8_lossy(&bytes)).await;
                        }
                        Some(Ok(bytes)) => self.console.write(Output::Stdout, bytes).await,
                        Some(Err(())) => return INTERRUPTED,
                        None => break,
                    }
                }
            } else if let Some(text) = self.view.file(path) {
                self.say(text).await;
            } else {
                let shown: String = path.chars().take(1000).collect();
                self.complain(&format!("cat: can't open '{shown}': No such file or directory")).await;
                code = 1;
            }
        }
        code
    }

    async fn env(&mut self, arguments: &[&str]) -> u8 {
        if !arguments.is_empty() {
            self.complain("env: a simulated container has no options and commands for env").await;
            return 125;
        }
        self.printenv(&[]).await
    }

    async fn printenv(&mut self, names: &[&str]) -> u8 {
        let all = &self.view.environment;
        if names.is_empty() {
            let lines: String = all.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            return self.say(&lines).await;
        }
        let mut code = 0;
        for name in names {
            match all.get(*name) {
                Some(value) => drop(self.say(&format!("{value}\n")).await),
                None => code = 1,
            }
        }
        code
    }

    async fn export(&mut self, arguments: &[&str]) -> u8 {
        for argument in arguments {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (*argument, None),
            };
            if !is_variable_name(name) {
                self.complain("sh: export: bad variable name").await;
                return WRONG_USE;
            }
            let Some(value) = value.or_else(|| self.local.remove(name)) else { continue };
            self.local.remove(name);
            if !self.assign(name, value) {
                self.complain("sh: the variables are too large").await;
                return WRONG_USE;
            }
            if let Some(value) = self.local.remove(name) {
                self.view.environment.insert(name.to_owned(), value);
            }
        }
        0
    }

    async fn date(&mut self, arguments: &[&str]) -> u8 {
        let now = self.environment.now().to_zoned(TimeZone::UTC);
        let wanted = arguments.iter().find(|it| **it != "-u").copied();
        let format = match wanted {
            None => "%a %b %e %H:%M:%S UTC %Y",
            Some(format) => match format.strip_prefix('+') {
                Some(format) => format,
                None => {
                    self.complain("date: a simulated container has no options for date but +FORMAT").await;
                    return 1;
                }
            },
        };
        match jiff::fmt::strtime::format(format, &now) {
            Ok(text) => self.say(&format!("{text}\n")).await,
            Err(_) => {
                self.complain("date: the format is not valid").await;
                1
            }
        }
    }

    async fn sleep(&mut self, arguments: &[&str]) -> u8 {
        let durations: Option<Vec<_>> = arguments.iter().map(|it| seconds(it)).collect();
        let Some(durations) = durations.filter(|it| !it.is_empty()) else {
            self.complain("sleep: usage: sleep NUMBER[smhd]...").await;
            return 1;
        };
        let total = durations.into_iter().fold(Duration::ZERO, Duration::saturating_add);
        tokio::select! {
            biased;
            () = self.console.interrupted() => INTERRUPTED,
            () = tokio::time::sleep(total) => 0,
        }
    }
}

/// Reads a duration of the command `sleep`.
fn seconds(text: &str) -> Option<Duration> {
    if text == "infinity" {
        return Some(Duration::MAX);
    }
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        (at, 'd') => (&text[..at], 86_400.0),
        _ => (text, 1.0),
    };
    let number = number.parse::<f64>().ok().filter(|it| *it >= 0.0)?;
    Some(Duration::try_from_secs_f64(number * unit).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jiff::Timestamp;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::kubelet_server::container::Container;

    struct Ended {
        code: u8,
        stdout: String,
        stderr: String,
    }

    /// Runs a command with input, with or without a terminal.
    async fn run_with(command: &[&str], input: &str, has_terminal: bool) -> Ended {
        let pod = json!({ "metadata": { "name": "web-0", "namespace": "shop" }, "spec": { "nodeName": "node-1",
            "containers": [{ "name": "web", "env": [{ "name": "MODE", "value": "fast  one" }] }] } });
        let view = ContainerView::of(&Container::find(&pod, "web").unwrap());
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let environment = Arc::new(Environment::new(Box::new(move || start), Some(1)));
        let (sender, receiver) = mpsc::channel(4);
        sender.try_send(Bytes::copy_from_slice(input.as_bytes())).unwrap();
        drop(sender);
        let (output, mut outputs) = mpsc::channel(16);
        let process = Process::new(view, Console::new(Some(receiver), output, has_terminal), environment);
        let command: Vec<_> = command.iter().map(|it| (*it).to_owned()).collect();
        let reading = async {
            let (mut stdout, mut stderr) = (String::new(), String::new());
            while let Some((of, bytes)) = outputs.recv().await {
                let text = std::str::from_utf8(&bytes).unwrap();
                if of == Output::Stdout { &mut stdout } else { &mut stderr }.push_str(text);
            }
            (stdout, stderr)
        };
        let (code, (stdout, stderr)) = tokio::join!(process.run(&command), reading);
        Ended { code, stdout, stderr }
    }

    async fn script(script: &str) -> Ended {
        run_with(&["sh", "-c", script], "", false).await
    }

    #[tokio::test(start_paused = true)]
    async fn commands_work_from_the_specification_of_the_container() {
        for (command, code, stdout) in [
            (vec!["echo", "a", "b"], 0, "a b\n"),
            (vec!["/bin/echo", "-n", "a"], 0, "a"),
            (vec!["hostname"], 0, "web-0\n"),
            (vec!["pwd"], 0, "/\n"),
            (vec!["cat", "/etc/hostname"], 0, "web-0\n"),
            (vec!["cat"], 0, "typed\n"),
            (vec!["printenv", "MODE", "NONE"], 1, "fast  one\n"),
            (vec!["date"], 0, "Fri Jan  2 03:04:05 UTC 2026\n"),
            (vec!["date", "-u", "+%Y/%m"], 0, "2026/01\n"),
            (vec!["false"], 1, ""),
            (vec!["sleep", "1.5", "2h"], 0, ""),
            (vec!["exit", "300"], 44, ""),
            (vec!["sh"], 127, ""),
        ] {
            let ended = run_with(&command, "typed\n", false).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (code, stdout), "{command:?}");
        }
        let env = run_with(&["env"], "", false).await.stdout;
        assert!(env.starts_with("HOSTNAME=web-0\nMODE=fast  one\nPATH=/usr"), "{env}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_joins_commands_and_expands_variables() {
        for (text, code, stdout) in [
            ("echo a; echo b", 0, "a\nb\n"),
            ("false || echo no && echo yes", 0, "no\nyes\n"),
            ("false && echo no; echo $?", 0, "1\n"),
            ("echo $MODE \"$MODE\" $HOSTNAME", 0, "fast one fast  one web-0\n"),
            ("A=1; export B=$A; echo $A$B; sh -c 'echo $A$B'", 0, "11\n1\n"),
            ("exit 3; echo no", 3, ""),
            ("sh -c 'exit 4'; echo $?", 0, "4\n"),
            ("cd /", 127, ""),
        ] {
            let ended = script(text).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (code, stdout), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_command_is_explained_once() {
        let ended = script("curl x; wget y").await;
        let lines: Vec<_> = ended.stderr.lines().collect();
        assert_eq!((ended.code, lines.len()), (127, 2));
        assert!(lines[0].starts_with("curl: not found: container web of pod web-0 is simulated"));
        assert!(lines[0].ends_with(COMMANDS));
        assert_eq!(lines[1], "sh: wget: not found");
        let ended = script("echo a | cat").await;
        assert_eq!(ended.code, 2);
        assert_eq!(ended.stderr, "sh: the simulated shell does not support `|`\n");
    }

    #[tokio::test(start_paused = true)]
    async fn scripts_that_repeat_or_grow_are_ended() {
        let nested = script("export S='sh -c \"$S\"; echo deep'; sh -c \"$S\"").await;
        assert!(nested.stderr.contains("nested too deeply"), "{}", nested.stderr);
        let double = "A=$A$A;".repeat(40);
        let grown = script(&format!("A=xxxxxxxxxx;{double}echo $?")).await;
        assert_eq!((grown.code, grown.stdout.as_str()), (0, "2\n"), "the last assignment has failed");
        assert!(grown.stderr.contains("argument list too long"), "{}", grown.stderr);
        let many = "X=':;:;:;:;:;:;:;:;:;:;';".to_owned() + "X=$X$X$X$X$X$X$X$X$X$X;".repeat(4).as_str();
        let many = script(&format!("export X;{many} sh -c \"$X\"; sh -c \"$X\"; echo no")).await;
        assert!(many.stderr.contains("too many commands"), "{}", many.stderr);
        assert!(!many.stdout.contains("no"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_interactive_shell_reads_lines_from_a_terminal() {
        let ended = run_with(&["sh", "-i"], "echo hi\rsleep 60\r\x03echo $?\rexit 5\r", true).await;
        assert_eq!(ended.code, 5);
        assert_eq!(
            ended.stdout,
            "/ # echo hi\r\nhi\r\n/ # sleep 60\r\n^C\r\n/ # echo $?\r\n130\r\n/ # exit 5\r\n"
        );
        let lines = run_with(&["sh"], "echo one\nfalse\n", false).await;
        assert_eq!((lines.code, lines.stdout.as_str()), (1, "one\n"), "without a prompt");
    }
}
