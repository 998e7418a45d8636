//! The trace of a run, line by line, and the comparison of two processes that play the same seeds.
//! The controllers' soak uses it too.
//!
//! A run has a single thread, so its lines are thread-local. They are kept only if they are
//! compared: a long soak does not need them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use tokio::time::Instant;

/// The variable that passes the seeds to a child process: the first one, their number, and whether
/// it plays them backwards.
const SEEDS: &str = "DOGWATCH_SOAK_TRACE";
/// The number of seeds that a pair of processes plays. Their lines are held in memory.
const PORTION: u64 = 20;
/// The number of lines that are shown before the first difference.
const BEFORE: usize = 12;
/// The maximal number of differing seeds that are shown.
const SHOWN: usize = 5;

#[derive(Default)]
struct Lines {
    start: Option<Instant>,
    text: String,
}

thread_local! {
    static LINES: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Adds a line with the time since the first one, if lines are kept.
pub(crate) fn record(line: impl FnOnce() -> String) {
    LINES.with_borrow_mut(|lines| {
        if let Some(Lines { start, text }) = lines {
            let elapsed = start.get_or_insert_with(Instant::now).elapsed();
            text.push_str(&format!("{elapsed:?} {}\n", line()));
        }
    });
}

/// Plays, and returns the lines that were recorded meanwhile.
fn traced(play: impl FnOnce()) -> String {
    LINES.set(Some(Lines::default()));
    play();
    LINES.take().map(|it| it.text).unwrap_or_default()
}

/// Plays the seeds in two processes, and describes those that differ, with the first differing
/// line.
///
/// The processes play in opposite orders, so that state which one run leaves behind in its process
/// for the next one shows as well. `test` is the calling test: a child is the same program with
/// that test alone.
pub(crate) fn differences(test: &str, first: u64, count: u64, play: impl Fn(u64)) -> Vec<String> {
    if let Ok(seeds) = std::env::var(SEEDS) {
        act(&seeds, play);
        return Vec::new();
    }
    let mut found = Vec::new();
    let end = first + count;
    for first in (first..end).step_by(PORTION as usize) {
        let count = PORTION.min(end - first);
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| child(test, &format!("{first} {count} backwards")));
            (
                child(test, &format!("{first} {count} forwards")),
                other.join().expect("the child thread does not panic"),
            )
        });
        assert_eq!(one.len() as u64, count, "some seeds from {first} on have no lines");
        assert!(one.keys().eq(other.keys()), "the processes played different seeds");
        for (seed, lines) in &one {
            if let Some(difference) = difference(lines, &other[seed]) {
                eprintln!("seed {seed} differs");
                found.push(format!("seed {seed} differs between two processes:\n{difference}"));
            }
        }
    }
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    found.extend((more > 0).then(|| format!("and {more} more")));
    found
}

/// Plays the seeds that this process was started for.
fn act(seeds: &str, play: impl Fn(u64)) {
    let words: Vec<_> = seeds.split(' ').collect();
    let [first, count, order] = words[..] else { panic!("{SEEDS} is {seeds:?}") };
    let first: u64 = first.parse().expect("a number");
    let mut seeds: Vec<_> = (first..first + count.parse::<u64>().expect("a number")).collect();
    if order == "backwards" {
        seeds.reverse();
    }
    for seed in seeds {
        let lines = traced(|| play(seed));
        let lines: String = lines.lines().map(|it| format!("trace {seed} {it}\n")).collect();
        eprint!("{lines}");
    }
}

/// Starts this program again for some seeds, and returns the lines of each.
fn child(test: &str, seeds: &str) -> BTreeMap<u64, Vec<String>> {
    let program = std::env::current_exe().expect("this program is a file");
    let mut child = Command::new(program);
    child.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(SEEDS, seeds);
    let output = child.stdin(Stdio::null()).output().expect("this program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let last = || text.lines().rev().take(20).collect::<Vec<_>>();
    assert!(output.status.success(), "{seeds}: {:#?}", last());
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines().filter_map(|it| it.strip_prefix("trace ")) {
        let (seed, line) = line.split_once(' ').expect("a seed and a line");
        lines.entry(seed.parse().expect("a number")).or_default().push(line.to_owned());
    }
    lines
}

#[test]
fn the_first_line_that_differs_is_shown_with_its_step() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let one = lines("0ns step 0 Look\n0ns GET /a\n1s step 1 Put\n1s GET /b\n2s GET /c");
    let other = lines("0ns step 0 Look\n0ns GET /a\n1s step 1 Put\n1s GET /b\n2s GET /d");
    assert_eq!(difference(&one, &one), None);
    let shown = difference(&one, &other).expect("they differ");
    assert!(shown.contains("in 1s step 1 Put") && shown.contains("one     2s GET /c"), "{shown}");
    assert!(difference(&one, &other[..4]).expect("one is longer").contains("other   (the end)"));
}

/// Returns the first line that differs, in both processes, and those before it.
fn difference(one: &[String], other: &[String]) -> Option<String> {
    if one == other {
        return None;
    }
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let step = one[..same].iter().rev().find(|it| it.contains(" step "));
    let line = |lines: &[String]| lines.get(same).cloned().unwrap_or_else(|| "(the end)".to_owned());
    Some(format!(
        "  in {}\n  both    {}\n  one     {}\n  other   {}",
        step.map_or("the beginning", |it| it.as_str()),
        one[same.saturating_sub(BEFORE)..same].join("\n  both    "),
        line(one),
        line(other)
    ))
}
