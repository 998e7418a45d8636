//! `dogwatch demo`: the facts of each act as they are printed on a pipe, and the ways to end it.
//!
//! Each wait of the demo has a limit, after which the story goes on. So these tests read its output
//! without timers of their own.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use crate::{dogwatch, text};

/// The line after which the story is over, and the cluster keeps running.
const OVER: &str = "The cluster keeps running";

/// A running demo and the lines of its output so far. It is killed when this is dropped.
struct Demo {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    printed: String,
    _home: tempfile::TempDir,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let arguments = [&["demo", "--seconds", "300"], arguments].concat();
        let mut command = dogwatch(home.path(), &arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let out = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, out, printed: String::new(), _home: home }
    }

    /// Reads until a line contains this text.
    fn read_until(&mut self, part: &str) {
        loop {
            let start = self.printed.len();
            if self.out.read_line(&mut self.printed).expect("the output is UTF-8") == 0 {
                let mut errors = String::new();
                std::io::Read::read_to_string(
                    &mut self.child.stderr.take().expect("stderr is piped"),
                    &mut errors,
                )
                .expect("the output is UTF-8");
                panic!("no {part:?} in {}{errors}", self.printed);
            }
            if self.printed[start..].contains(part) {
                return;
            }
        }
    }

    /// Interrupts it like Ctrl-C, and returns everything that it printed.
    fn interrupt(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().expect("`kill` exists").success());
        std::io::Read::read_to_string(&mut self.out, &mut self.printed).expect("the output is UTF-8");
        let mut errors = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().expect("stderr is piped"), &mut errors)
            .expect("the output is UTF-8");
        assert_eq!(
            (self.child.wait().expect("it exits").code(), errors.as_str()),
            (Some(0), ""),
            "{}",
            self.printed
        );
        std::mem::take(&mut self.printed)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a whole story.
struct Story(String);

impl Story {
    /// Returns the lines of an act, without the times before them.
    fn act(&self, number: usize) -> Vec<&str> {
        let lines = self.0.lines().skip_while(|it| !it.starts_with(&format!("ACT {number}: ")));
        let facts = lines.skip(1).take_while(|it| !it.starts_with("ACT ") && !it.starts_with("SUMMARY"));
        facts.map(|it| it.split_once("s ").map_or(it, |(_, fact)| fact).trim()).collect()
    }

    /// Returns the numbers in the line of an act that contains this text.
    fn numbers(&self, act: usize, part: &str) -> Vec<u64> {
        let lines = self.act(act);
        let found = lines.iter().find(|it| it.contains(part));
        let line = found.unwrap_or_else(|| panic!("no {part:?} in act {act}: {lines:#?}"));
        numbers(line)
    }

    /// Returns the names of pods in the line of an act that contains this text.
    fn pods(&self, act: usize, part: &str) -> Vec<&str> {
        let line = self.act(act).into_iter().find(|it| it.contains(part));
        let words = line.unwrap_or_else(|| panic!("no {part:?} in act {act}")).split([' ', ',', '.']);
        words.filter(|it| it.starts_with("web-")).collect()
    }

    /// Returns the cells of a row of the closing table.
    fn row(&self, label: &str) -> [u64; 3] {
        let row = self.0.lines().find(|it| it.trim_start().starts_with(label)).expect(label);
        numbers(row).try_into().expect("three clients")
    }
}

/// Returns the numbers in a text that stand alone, with or without commas.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split_whitespace().map(|it| it.trim_matches(['.', ',', ';', ':', '(', ')']));
    words.filter_map(|it| it.replace(',', "").parse().ok()).collect()
}

/// One run, since it takes a while; a test for each act would take as many.
#[cfg(unix)]
#[test]
fn the_whole_story_is_played_and_each_act_states_its_facts() {
    let mut demo = Demo::start(&[]);
    demo.read_until(OVER);
    demo.read_until(" ui --server");
    let printed = demo.interrupt();
    assert!(printed.lines().last().is_some_and(|it| it.starts_with("Stopped after ")), "{printed}");
    assert!(!printed.contains('\u{1b}'), "a pipe gets no colours: {printed}");
    // The command's own path is as long as it is.
    let too_long: Vec<&str> =
        printed.lines().filter(|it| it.chars().count() > 100 && !it.contains(" ui --server")).collect();
    assert!(too_long.is_empty(), "{too_long:#?}");
    check_the_suggestions(&printed);
    let headlines: Vec<&str> = printed.lines().filter(|it| it.starts_with("ACT ")).collect();
    let expected = [
        "ACT 1: List, then watch",
        "ACT 2: The connection is cut",
        "ACT 3: The history expires",
        "ACT 4: The leader is killed",
        "ACT 5: Pods are replaced in use",
        "ACT 6: A handler is slow",
    ];
    assert_eq!(headlines, expected);
    let story = Story(printed);
    check_the_watch(&story);
    check_the_outages(&story);
    check_the_leaders(&story);
    check_the_calls_and_the_slow_handler(&story);
    check_the_closing_table(&story);
}

/// The suggestions are what a user can paste: the command of this run, and a kubectl that changes
/// what the story is about.
fn check_the_suggestions(printed: &str) {
    let suggested: Vec<&str> =
        printed.lines().map(str::trim).filter(|it| it.contains(" --server ")).collect();
    let ui = format!("{} ui --server http", env!("CARGO_BIN_EXE_dogwatch"));
    assert!(suggested.iter().any(|it| it.starts_with(&ui)), "{suggested:#?}");
    assert!(
        suggested.iter().any(|it| it.contains("scale deployment web -n demo --replicas 4")),
        "{suggested:#?}"
    );
}

fn check_the_watch(story: &Story) {
    assert_eq!(story.numbers(1, "The informer listed")[0], 0);
    let [events, ready] = story.numbers(1, "The watch sent")[..] else { panic!("{:?}", story.act(1)) };
    // Each pod is created, scheduled and becomes ready.
    assert!(events >= 9 && ready == 3, "{:?}", story.act(1));
}

fn check_the_outages(story: &Story) {
    let last = story.numbers(2, "The last version that it received")[0];
    let resumed = story.numbers(2, "The informer resumed after version");
    let [resumed, now] = resumed[..] else { panic!("{resumed:?}") };
    assert!(resumed == last && now > last, "{:?}", story.act(2));
    assert!(story.numbers(2, "to reconnect failed")[0] > 0, "{:?}", story.act(2));
    let [changes, lost] = story.numbers(2, "happened meanwhile")[..] else { panic!("{:?}", story.act(2)) };
    assert!(changes >= 6 && lost == 0, "{:?}", story.act(2));
    assert!(story.act(2).iter().any(|it| it.contains("needed no new list")), "{:?}", story.act(2));

    let last = story.numbers(3, "The last version that the informer received")[0];
    let oldest = story.numbers(3, "drops its history")[0];
    let expired = story.numbers(3, "The informer tried to resume after version");
    assert!(expired == [last, 410] && oldest > last, "{:?}", story.act(3));
    assert_eq!(story.numbers(3, "It listed again")[0], 3);
    assert_eq!(story.numbers(3, "that no event reported"), [2]);
    assert_eq!(story.pods(3, "web-").len(), 2, "{:?}", story.act(3));
    assert_eq!(story.numbers(3, "\"Watch again\" shows"), [5, 2]);
}

fn check_the_leaders(story: &Story) {
    let lines = story.act(4);
    for part in [
        "The lease still names manager-a. manager-b has to wait.",
        "The lease has expired: manager-b leads, ",
        "Ingresses on the server: 6. manager-a created 3, and then manager-b 3.",
        "Ingresses created twice: 0. Writes of manager-a after the first of manager-b: 0.",
    ] {
        assert!(lines.iter().any(|it| it.contains(part)), "no {part:?} in {lines:#?}");
    }
}

fn check_the_calls_and_the_slow_handler(story: &Story) {
    let [came, went] = ["New endpoints:", "Gone endpoints:"].map(|it| story.pods(5, it));
    assert!(came.len() == 3 && went.len() == 3, "{:?}", story.act(5));
    assert!(came.iter().all(|it| !went.contains(it)), "{:?}", story.act(5));
    let [calls, failed] = story.numbers(5, "Meanwhile the clients made")[..] else {
        panic!("{:?}", story.act(5))
    };
    assert!(calls > 6 && failed == 0, "{:?}", story.act(5));

    // One creation and 200 updates, and two objects that are created and deleted.
    assert_eq!(story.numbers(6, "A fast handler received all")[0], 205);
    let [few, all] = story.numbers(6, "instead of")[..] else { panic!("{:?}", story.act(6)) };
    assert!(few < 20 && all == 205, "{:?}", story.act(6));
    assert!(story.act(6).iter().any(|it| it.contains("equals the cache")), "{:?}", story.act(6));
    assert_eq!(story.numbers(6, "never merged"), [2, 2]);
}

fn check_the_closing_table(story: &Story) {
    let [informer, once, again] = story.row("events that never arrived");
    let note = |part| story.0.lines().find(|it| it.contains(part)).expect("it is below the table");
    let (counts, expired) = (note("Events about pods: "), numbers(note(" expired in act 3: "))[0]);
    let [events, deletions] = numbers(counts)[..] else { panic!("{counts}") };
    // Two pods are marked as terminating and deleted.
    assert!(expired >= 4 && deletions == 5 && events > deletions + expired, "{}", story.0);
    // The watch that was cut resumed, so that the informer lacks only what had expired.
    assert!(informer == expired && informer < again && again < once, "{}", story.0);
    // Act 3 deletes two pods during an outage, and act 5 replaces three.
    assert_eq!(story.row("deletions that went unnoticed"), [0, 5, 2]);
    // The first knows three pods that are gone instead of three others, the second two too many.
    assert_eq!(story.row("pods missing, outdated or gone"), [0, 6, 2]);
}

#[cfg(unix)]
#[test]
fn a_quiet_demo_prints_headlines_the_summary_and_the_table() {
    let mut demo = Demo::start(&["--quiet"]);
    demo.read_until(OVER);
    let printed = demo.interrupt();
    assert_eq!(printed.lines().filter(|it| it.starts_with("ACT ")).count(), 6, "{printed}");
    assert!(!printed.lines().any(|it| it.contains("s > ")), "{printed}");
    let summary = printed.lines().skip_while(|it| !it.starts_with("SUMMARY after "));
    let outcomes: Vec<&str> = summary.skip(1).take(6).collect();
    for (outcome, part) in outcomes.iter().zip([
        "3 ready pods in the cache",
        " 0 lost",
        "2 deletions that no event reported",
        " 0 created twice",
        " 0 failed; 3 new endpoints, 3 gone",
        "2 of 2 deletions delivered",
    ]) {
        assert!(outcome.contains(part), "no {part:?} in {outcome:?}");
    }
    assert!(printed.contains("\nWHAT EACH CLIENT KNOWS AT THE END\n"), "{printed}");
}

#[test]
fn a_demo_that_is_shorter_than_the_story_ends_with_what_happened_so_far() {
    let home = tempfile::tempdir().unwrap();
    let output = crate::run(home.path(), &["demo", "--seconds", "3"]);
    let printed = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{printed}");
    let summary: Vec<&str> = printed.lines().skip_while(|it| !it.starts_with("SUMMARY after ")).collect();
    // The lease of act 4 alone takes longer. On a loaded machine not even the first act has begun.
    assert!(summary.len() >= 7 && summary[6].ends_with("not reached"), "{printed}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_in_the_middle_ends_the_story_with_what_happened_so_far() {
    let mut demo = Demo::start(&[]);
    demo.read_until("ACT 2: ");
    let printed = demo.interrupt();
    let summary: Vec<&str> = printed.lines().skip_while(|it| !it.starts_with("SUMMARY after ")).collect();
    assert!(summary[1].contains("List, then watch") && summary[1].contains("3 ready pods"), "{printed}");
    assert!(summary[6].ends_with("not reached"), "{printed}");
    assert!(!printed.contains(OVER), "{printed}");
}

/// A user who presses the buttons of the page, and changes the cluster, while the story runs.
struct User {
    server: String,
    page: String,
}

impl User {
    /// The buttons of the page: cut the watches, expire the history, kill a gRPC server, delete a
    /// pod.
    const BUTTONS: usize = 4;

    /// Reads the addresses that the demo prints before its first act.
    fn of(demo: &mut Demo) -> Self {
        demo.read_until("in a browser");
        let address = |part: &str| {
            let line = demo.printed.lines().find(|it| it.contains(part)).expect(part);
            let url = line.split_whitespace().find_map(|it| it.strip_prefix("http://")).expect("a URL");
            url.trim_end_matches('/').to_owned()
        };
        Self { server: address("API server http"), page: address("in a browser") }
    }

    fn press_all_buttons(&self) {
        let origin = format!("Origin: http://{}", self.page);
        for number in 0..Self::BUTTONS {
            let answer = request(&self.page, &format!("POST /actions/{number}"), &origin, "");
            assert!(!answer.starts_with("HTTP/1.1 4"), "button {number}: {answer}");
        }
    }

    fn scale(&self, replicas: usize) {
        let scale = "PATCH /apis/apps/v1/namespaces/demo/deployments/web/scale";
        let body = format!("{{\"spec\":{{\"replicas\":{replicas}}}}}");
        let answer = request(&self.server, scale, "Content-Type: application/merge-patch+json", &body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn delete_deployment(&self) {
        let web = "DELETE /apis/apps/v1/namespaces/demo/deployments/web";
        let answer = request(&self.server, web, "Accept: application/json", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Sends a request, and returns the response with its head.
fn request(address: &str, line: &str, header: &str, body: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("connected");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the response is UTF-8");
    answer
}

#[cfg(unix)]
#[test]
fn users_may_scale_the_deployment_and_press_every_button_in_each_act() {
    let mut demo = Demo::start(&[]);
    let user = User::of(&mut demo);
    for act in 1..=6 {
        demo.read_until(&format!("ACT {act}: "));
        // In act 1 the Deployment may not exist yet.
        if act > 1 {
            user.scale(2 + act % 3);
        }
        user.press_all_buttons();
    }
    demo.read_until(OVER);
    let printed = demo.interrupt();
    assert!(!printed.contains("This act ends here"), "{printed}");
}

#[cfg(unix)]
#[test]
fn an_act_that_cannot_finish_says_why_and_the_story_goes_on() {
    let mut demo = Demo::start(&[]);
    let user = User::of(&mut demo);
    demo.read_until("ACT 2: ");
    user.delete_deployment();
    demo.read_until(OVER);
    let printed = demo.interrupt();
    let ended = "This act ends here: the Deployment web does not exist: it was deleted. ";
    assert!(printed.contains(ended), "{printed}");
    assert!(printed.contains("not finished: the Deployment web does not exist"), "{printed}");
    assert!(printed.contains("ACT 6: ") && printed.contains("2 of 2 deletions delivered"), "{printed}");
}
