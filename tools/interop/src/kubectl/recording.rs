//! The recording: steps of a session, each a shell command with its exit code and output.

use anyhow::{Context, Result};

/// One step of the session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Step {
    /// The name, unique in the file.
    pub(super) name: String,
    /// The command, for `bash`.
    pub(super) command: String,
    /// The exit code, and the lines of the output.
    pub(super) outcome: Vec<String>,
}

/// Parses a recording: `### name`, `$ command`, and the lines of the outcome.
pub(super) fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("### ") {
            let command = lines.next().and_then(|it| it.strip_prefix("$ "));
            let command = command.with_context(|| format!("step {name} has no command"))?.to_owned();
            steps.push(Step { name: name.to_owned(), command, outcome: Vec::new() });
        } else {
            let step = steps.last_mut().context("the recording does not begin with a step")?;
            step.outcome.push(line.to_owned());
        }
    }
    Ok(steps)
}

/// Returns the text that [`parse`] reads.
pub(super) fn text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        text += &format!("### {}\n$ {}\n", step.name, step.command);
        for line in &step.outcome {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_recording_is_parsed_without_loss() {
        let stored = include_str!("../../../../conformance/kubectl/kubectl.golden");
        let steps = parse(stored).expect("the recording is well formed");
        assert!(steps.len() > 70, "only {} steps", steps.len());
        assert!(steps.iter().all(|it| it.outcome[0].starts_with("rc ")));
        assert_eq!(text(&steps), stored);

        let simulated = include_str!("../../../../conformance/kubectl/simulated.golden");
        let steps = parse(simulated).expect("the session is well formed");
        assert!(steps.len() > 20, "only {} steps", steps.len());
        assert_eq!(text(&steps), simulated);
    }

    #[test]
    fn a_step_without_a_command_is_an_error() {
        let error = parse("### lonely\nrc 0\n").expect_err("the command is missing");
        assert_eq!(error.to_string(), "step lonely has no command");
    }
}
