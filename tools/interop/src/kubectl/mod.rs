//! A real kubectl against our server: `cargo xtask kubectl`.
//!
//! A session is compared with `conformance/kubectl/kubectl.golden`, a recording of it against
//! kube-apiserver. Another one, `simulated.golden`, looks into simulated pods, which kube-apiserver
//! does not have: its expectations are our own. Each step is run by `bash` with the function `k`,
//! which is kubectl in the namespace of the session. Values that differ from run to run are
//! replaced before the comparison: see [`Session::normalized`].
//!
//! The `mod` lines below are in layer order.

mod recording;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use tempfile::TempDir;
use testbed::server::OwnServer;

use recording::{Step, parse, text};

/// The steps whose output depends on controllers or on documentation texts. A difference there is
/// shown and not counted.
const MAY_DIFFER: [&str; 2] = ["explain-text", "namespace-gone"];
/// The exit code of `timeout` for a command it has ended.
const TIMED_OUT: i32 = 124;
/// Commands to run before a step, whose output is not compared.
const PREPARATIONS: [(&str, &str); 2] = [
    ("replace", "k get configmap conf -o yaml | sed 's/k: edited/k: replaced/' > conf.yaml"),
    // `kubectl apply` reads the schema, which kube-apiserver publishes some time after the kind.
    (
        "cr-apply",
        "for _ in $(seq 100); do k get --raw /openapi/v3/apis/ID.example.com/v1 && break; sleep 0.2; done",
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: OwnServer,
    /// The kubectl to use. The recording was made with kubectl 1.36.
    #[arg(long, value_name = "FILE", default_value = "kubectl")]
    kubectl: PathBuf,
    /// Run the session against the cluster of this kubeconfig instead of our server.
    #[arg(long, value_name = "FILE", conflicts_with = "server_binary")]
    kubeconfig: Option<PathBuf>,
    /// Write the recording instead of comparing with it.
    #[arg(long, requires = "kubeconfig")]
    record: bool,
}

/// Runs the sessions, and fails if a step has another outcome than the expected one.
pub(crate) async fn run(options: &Options) -> Result<()> {
    match &options.kubeconfig {
        Some(kubeconfig) if options.record => record(&options.kubectl, kubeconfig),
        Some(kubeconfig) => compare(&options.kubectl, kubeconfig),
        None => {
            let server = options.ours.start(&[]).await?;
            let as_recorded = compare(&options.kubectl, &server.kubeconfig);
            drop(server);
            let server = options.ours.start(&["--simulate"]).await?;
            let simulated = compare_with(&options.kubectl, &server.kubeconfig, &simulated_file());
            as_recorded.and(simulated)
        }
    }
}

/// Runs the session on the server of this kubeconfig, and fails if a step has another outcome than
/// the recorded one.
pub(crate) fn compare(kubectl: &Path, kubeconfig: &Path) -> Result<()> {
    compare_with(kubectl, kubeconfig, &recording_file())
}

fn compare_with(kubectl: &Path, kubeconfig: &Path, expected: &Path) -> Result<()> {
    let recorded = steps_of(expected)?;
    let session = Session::new(kubectl, kubeconfig, &stored().join("files"))?;
    println!("{}", session.version()?);
    let mut failures = 0;
    for step in &recorded {
        let outcome = session.run(step)?;
        if outcome == step.outcome {
            println!("ok {}", step.name);
        } else if MAY_DIFFER.contains(&&*step.name) {
            println!("ok {} (differs, which is allowed)", step.name);
        } else {
            println!("FAILED {}: {}", step.name, step.command);
            show_difference(&step.outcome, &outcome);
            failures += 1;
        }
    }
    println!("{} passed, {failures} failed", recorded.len() - failures);
    ensure!(failures == 0, "kubectl prints something else than in {}", expected.display());
    Ok(())
}

/// Runs the session on the server of this kubeconfig, and writes the recording.
fn record(kubectl: &Path, kubeconfig: &Path) -> Result<()> {
    let recorded = steps_of(&recording_file())?;
    let session = Session::new(kubectl, kubeconfig, &stored().join("files"))?;
    println!("{}", session.version()?);
    let actual: Result<Vec<Step>> =
        recorded.iter().map(|step| Ok(Step { outcome: session.run(step)?, ..step.clone() })).collect();
    let (actual, file) = (actual?, recording_file());
    std::fs::write(&file, text(&actual))?;
    println!("{} steps recorded in {}", actual.len(), file.display());
    Ok(())
}

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/kubectl")
}

fn recording_file() -> PathBuf {
    stored().join("kubectl.golden")
}

/// Returns the file of the session with simulated pods.
fn simulated_file() -> PathBuf {
    stored().join("simulated.golden")
}

fn steps_of(file: &Path) -> Result<Vec<Step>> {
    let recorded = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    parse(&recorded).with_context(|| format!("{}", file.display()))
}

/// A session of kubectl: a namespace, a unique string, and a directory with the files that its
/// commands name.
struct Session {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    id: String,
    namespace: String,
    replacements: Vec<(Regex, &'static str)>,
    folder: TempDir,
}

impl Session {
    fn new(kubectl: &Path, kubeconfig: &Path, files: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a directory for kubectl")?;
        // A name that is no word of any output, so that it can be replaced wherever it stands.
        let id = format!("q{:08x}z", std::process::id());
        for entry in std::fs::read_dir(files).with_context(|| format!("{}", files.display()))? {
            let path = entry?.path();
            let target = folder.path().join(path.file_name().context("a file has a name")?);
            // A copy keeps the permissions: one of the files is the editor of the session.
            std::fs::copy(&path, &target)?;
            if path.extension().is_some_and(|it| it == "yaml") {
                std::fs::write(&target, std::fs::read_to_string(&path)?.replace("ID", &id))?;
            }
        }
        Ok(Self {
            kubectl: kubectl.to_owned(),
            kubeconfig: kubeconfig.canonicalize().with_context(|| format!("{}", kubeconfig.display()))?,
            namespace: format!("orc-{id}"),
            id,
            replacements: replacements()?,
            folder,
        })
    }

    /// Returns the version of kubectl.
    fn version(&self) -> Result<String> {
        let output = Command::new(&self.kubectl).args(["version", "--client"]).output();
        let output = output.with_context(|| {
            format!(
                "cannot start {}: install kubectl 1.36, or name one with --kubectl FILE",
                self.kubectl.display()
            )
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs a step and returns its outcome in the form of the recording.
    fn run(&self, step: &Step) -> Result<Vec<String>> {
        for (name, command) in PREPARATIONS {
            if name == step.name {
                self.bash(command)?;
            }
        }
        let (code, output, error) = self.bash(&step.command)?;
        let mut outcome = vec![format!("rc {code}")];
        outcome.extend(self.normalized(&output));
        // The reason of a failure is compared; notices of a success are not.
        if code != 0 && code != TIMED_OUT {
            outcome.push("--- stderr".to_owned());
            outcome.extend(self.normalized(&error));
        }
        Ok(outcome)
    }

    /// Runs a command with the function `k`, and returns its exit code, output and error output.
    fn bash(&self, command: &str) -> Result<(i32, String, String)> {
        let command = command.replace("NS", &self.namespace).replace("ID", &self.id);
        let script = format!(
            "flags=(-n {}); k() {{ \"$KUBECTL\" \"${{flags[@]}}\" \"$@\"; }}; {command}",
            self.namespace
        );
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(self.folder.path())
            .env("KUBECTL", &self.kubectl)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.folder.path().join("cache"))
            .env("HOME", self.folder.path())
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .context("cannot start bash")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr)))
    }

    /// Returns the lines of an output with everything replaced that differs from run to run: the
    /// names of the session, identifiers, times, versions, addresses and the width of columns.
    fn normalized(&self, output: &str) -> Vec<String> {
        let output = output.replace(&self.namespace, "NS").replace(&self.id, "ID");
        let line = |line: &str| {
            let mut line = line.to_owned();
            for (pattern, replacement) in &self.replacements {
                line = pattern.replace_all(&line, *replacement).into_owned();
            }
            line.trim_end_matches(' ').to_owned()
        };
        output.lines().map(line).collect()
    }
}

fn replacements() -> Result<Vec<(Regex, &'static str)>> {
    let patterns = [
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z", "TIME"),
        (r#"("?resourceVersion"?: *)"[0-9]+""#, r#"${1}"RV""#),
        (r"10\.[0-9]+\.[0-9]+\.[0-9]+", "IP"),
        (r"v1\.36\.[0-9]+[^ ]*", "V1.36"),
        (r"(  +)(?:[0-9]+[smhdy]){1,2}( *$|  +)", "${1}AGE${2}"),
        (r"([^ ])  +", "${1}  "),
    ];
    patterns.into_iter().map(|(pattern, to)| Ok((Regex::new(pattern)?, to))).collect()
}

/// Prints the lines that are only in one of the outcomes.
fn show_difference(expected: &[String], actual: &[String]) {
    for line in expected.iter().filter(|it| !actual.contains(it)) {
        println!("     - {line}");
    }
    for line in actual.iter().filter(|it| !expected.contains(it)) {
        println!("     + {line}");
    }
}
