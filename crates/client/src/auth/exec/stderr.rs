//! The standard error of a plugin: copied to this process's standard error, with its end kept for
//! the error message. Both are without the secrets of the plugin's configuration.

use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use crate::config::ExecConfig;

/// The number of bytes kept of the end. The last line is kept whole.
const KEPT: usize = 2048;

/// The longest line that is shown: cutting a line could cut a secret and leave half of it.
const LONGEST_LINE: u64 = 4096;

/// The shortest value that is hidden: a shorter one would hide ordinary words.
const SHORTEST_SECRET: usize = 6;

/// The last lines that a plugin wrote, without secrets and control characters.
#[derive(Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

/// The values in a plugin's configuration that must not appear in a log.
pub(super) struct Secrets(Vec<String>);

impl Tail {
    /// Copies `from` to `to` line by line until it ends, and keeps its end.
    pub(super) async fn follow(
        &mut self,
        from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        secrets: &Secrets,
    ) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        let mut inside_long_line = false;
        // A plugin whose messages cannot be read or shown may still succeed.
        while let Ok(1..) = (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
            let whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST_LINE;
            let shown = match (inside_long_line, whole) {
                (false, true) => Some(secrets.hide(&String::from_utf8_lossy(&line))),
                (false, false) => Some("[a line too long to show]\n".to_owned()),
                (true, _) => None,
            };
            if let Some(shown) = shown {
                let _ = to.write_all(shown.as_bytes()).await;
                self.keep(&shown);
            }
            inside_long_line = !whole;
            line.clear();
        }
        let _ = to.flush().await;
    }

    fn keep(&mut self, line: &str) {
        let line: String = line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line.is_empty() {
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > KEPT && self.lines.len() > 1 {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len());
        }
    }

    /// Returns the end as one line.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

impl Secrets {
    /// Collects the values of all variables, and of the arguments whose flag looks like a secret's.
    pub(super) fn of(config: &ExecConfig) -> Self {
        let mut secrets: Vec<String> = config.env.iter().map(|variable| variable.value.clone()).collect();
        let mut previous_flag_is_secret = false;
        for argument in &config.args {
            let (flag, value) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (argument.as_str(), None),
            };
            let is_flag = flag.starts_with('-');
            if previous_flag_is_secret && !is_flag {
                secrets.push(argument.clone());
            }
            let sounds_secret = is_flag && sounds_secret(flag);
            if let (true, Some(value)) = (sounds_secret, value) {
                secrets.push(value.to_owned());
            }
            previous_flag_is_secret = sounds_secret && value.is_none();
        }
        // Secrets are split into lines, because output is searched by line; longest first, because
        // one may contain another.
        let mut secrets: Vec<String> =
            secrets.iter().flat_map(|secret| secret.lines().map(|line| line.trim().to_owned())).collect();
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    fn hide(&self, line: &str) -> String {
        self.0.iter().fold(line.to_owned(), |line, secret| line.replace(secret, "[REDACTED]"))
    }
}

fn sounds_secret(flag: &str) -> bool {
    let flag = flag.to_ascii_lowercase();
    ["secret", "token", "password", "key", "credential"].iter().any(|word| flag.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ExecEnv;

    fn config(args: &[&str], env: &[(&str, &str)]) -> ExecConfig {
        ExecConfig {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: env
                .iter()
                .map(|(name, value)| ExecEnv { name: (*name).to_owned(), value: (*value).to_owned() })
                .collect(),
            ..ExecConfig::default()
        }
    }

    /// Returns the text that is copied, and the text that is kept.
    async fn follow(text: &str, config: &ExecConfig) -> (String, String) {
        let (mut tail, mut through) = (Tail::default(), Vec::new());
        tail.follow(text.as_bytes(), &mut through, &Secrets::of(config)).await;
        (String::from_utf8(through).unwrap(), tail.text())
    }

    #[tokio::test]
    async fn secrets_of_the_configuration_are_redacted_in_both() {
        let config = config(
            &["login", "--client-secret", "hunter2222", "--password=pass=word", "--region", "eu-north-1"],
            &[("API_KEY", "hunter2222-long"), ("SHORT", "on"), ("PEM", "-----BEGIN\nabcdefgh\n")],
        );
        let text = "ran hunter2222-long\nwith hunter2222 and pass=word in eu-north-1: on\nabcdefgh";
        let hidden = "ran [REDACTED]\nwith [REDACTED] and [REDACTED] in eu-north-1: on\n[REDACTED]";
        let (through, kept) = follow(text, &config).await;
        assert_eq!(through, hidden);
        assert_eq!(kept, hidden.replace('\n', "; "));
    }

    #[tokio::test]
    async fn only_the_last_whole_lines_are_kept() {
        let config = ExecConfig::default();
        let line = "x".repeat(KEPT / 2);
        let (_, kept) = follow(&format!("{line}1\n{line}2\n\nthe reason\n"), &config).await;
        assert_eq!(kept, format!("{line}2; the reason"));

        let long = "x".repeat(3 * LONGEST_LINE as usize);
        let (through, kept) = follow(&format!("before\n{long}\nafter"), &config).await;
        assert_eq!(through, "before\n[a line too long to show]\nafter");
        assert_eq!(kept, "before; [a line too long to show]; after");

        assert_eq!(follow("a\u{1b}[31mred\u{7}\r\n", &config).await.1, "a [31mred ");
        assert_eq!(follow("", &config).await.1, "");
    }
}
