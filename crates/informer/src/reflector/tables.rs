//! Table tests of the state machine: inputs on the left, the expected commands on the right. No
//! clock, no task, no random numbers.

use std::time::Duration;

use dogwatch_client::{Error, ListEvent};
use dogwatch_core::{Gvk, Header, Meta, Object, Reason, ResourceType, Scope, Status};
use dogwatch_wire::{Bookmark, WatchEvent};
use proptest::prelude::*;
use tokio::time::Instant;

use super::machine::Machine;
use super::options::ReflectorOptions;
use super::signals::{Command, Input, Measure, Moment, ReflectorEnded};
use crate::backoff::{BackoffOptions, instant_after};
use crate::delta::Delta;
use crate::history::RelistReason;

struct Thing(Meta);

impl Object for Thing {
    fn header(&self) -> Header<'_> {
        self.0.header()
    }
}

fn thing(text: &str) -> Thing {
    let (name, version) = text.split_once('@').expect("name@version");
    let mut meta = Meta::default();
    (meta.name, meta.resource_version) = (name.into(), version.into());
    Thing(meta)
}

fn machine(watch_list: bool) -> Machine {
    let resource =
        ResourceType { gvk: Gvk::new("", "v1", "Thing"), plural: "things".into(), scope: Scope::Cluster };
    let options = ReflectorOptions::<Thing>::default().backoff(BackoffOptions::default().jitter(0.0));
    Machine::new(resource, &options, watch_list)
}

fn refused(reason: Reason) -> Error {
    Status::failure(reason, "no").into()
}

/// Parses an input: `added a@1`, `bookmark 7`, `not opened Expired`, `silence 240`.
fn input(text: &str) -> Input<Thing> {
    let (what, of) = text.rsplit_once(' ').unwrap_or((text, ""));
    let mark = |end: bool| {
        let annotations = end.then(|| ("k8s.io/initial-events-end".to_owned(), "true".to_owned()));
        Bookmark { version: of.into(), annotations: annotations.into_iter().collect() }
    };
    match what {
        "start" => Input::Start,
        "item" => Input::Listed(ListEvent::Item(thing(of))),
        "restarted" => Input::Listed(ListEvent::Restarted),
        "list ended" => Input::Listed(ListEvent::End { version: of.into(), paginated: false }),
        "list failed" => Input::ListFailed(refused(of.into())),
        "opened" => Input::Opened,
        "not opened" => Input::NotOpened(refused(of.into())),
        "added" => Input::Event(WatchEvent::Added(thing(of))),
        "modified" => Input::Event(WatchEvent::Modified(thing(of))),
        "deleted" => Input::Event(WatchEvent::Deleted(thing(of))),
        "bookmark" => Input::Event(WatchEvent::Bookmark(mark(false))),
        "initial events end" => Input::Event(WatchEvent::Bookmark(mark(true))),
        "error" => Input::Event(WatchEvent::Error(Status::failure(of.into(), "no"))),
        "lost" => Input::Lost(Error::TimedOut(Duration::from_secs(1))),
        "closed" => Input::Closed,
        "waited" => Input::Waited,
        "newest" => Input::Newest(Ok((of != "unknown").then(|| of.into()))),
        "newest failed" => Input::Newest(Err(match of {
            "connection" => Error::Unreachable {
                server: "https://server.test/".to_owned(),
                source: std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into(),
            },
            "slow" => Error::TimedOut(Duration::from_secs(1)),
            reason => refused(reason.into()),
        })),
        "served" => Input::Served(match of {
            "yes" => Ok(Some(true)),
            "no" => Ok(Some(false)),
            "unknown" => Ok(None),
            _ => Err(Error::TimedOut(Duration::from_secs(1))),
        }),
        "silence" => Input::Silence(Duration::from_secs(of.parse().expect("seconds"))),
        "resync" => Input::ResyncDue,
        other => panic!("no such input: {other}"),
    }
}

fn shown(command: &Command<Thing>) -> Option<String> {
    let text = |it: &Thing| format!("{}@{}", it.0.name, it.0.resource_version);
    Some(match command {
        Command::Emit(Delta::Item(it)) => format!("item {}", text(it)),
        Command::Emit(Delta::Applied(it)) => format!("applied {}", text(it)),
        Command::Emit(Delta::Deleted(it)) => format!("deleted {}", text(it)),
        Command::Emit(Delta::End { version, .. }) => format!("end {version}"),
        Command::Emit(Delta::Bookmark(version)) => format!("bookmark {version}"),
        Command::Emit(Delta::Begin) => "begin".to_owned(),
        Command::Emit(Delta::Dropped(key)) => format!("dropped {key}"),
        Command::Emit(Delta::Abort) => "abort".to_owned(),
        Command::Emit(Delta::Rewound) => "rewound".to_owned(),
        Command::Emit(Delta::Resync) => "resync".to_owned(),
        Command::Emit(Delta::Undecodable { key, .. }) => format!("undecodable {key}"),
        Command::Emit(Delta::Nameless) => "nameless".to_owned(),
        Command::Newest(_) => "newest".to_owned(),
        Command::Discover => "discover".to_owned(),
        Command::List(params) => format!("list {:?}", params.version),
        Command::Watch(params) if params.send_initial_events == Some(true) => {
            format!("initial {:?}", params.version)
        }
        Command::Watch(params) => format!("watch {:?}", params.version),
        Command::Wait(wait) => format!("wait {}", wait.as_millis()),
        Command::End(ReflectorEnded::Gone(_)) => "gone".to_owned(),
        Command::End(ReflectorEnded::QueueClosed) => "closed".to_owned(),
        Command::Measure(_) => return None,
    })
}

/// Feeds one input per second, and compares the commands of each with the expected ones.
fn plays(watch_list: bool, rows: &[(&str, &str)]) {
    let mut machine = machine(watch_list);
    let start = Instant::now();
    for (second, (happened, expected)) in rows.iter().enumerate() {
        let at = Moment { now: instant_after(start, Duration::from_secs(second as u64)), chance: 0.5 };
        let mut out = Vec::new();
        machine.step(at, input(happened), &mut out);
        let said: Vec<_> = out.iter().filter_map(shown).collect();
        assert_eq!(said.join(", "), *expected, "series {second}: {happened}");
    }
}

#[test]
fn ref_10_initial_events_and_later_requests() {
    plays(
        true,
        &[
            ("start", "initial \"\""),
            ("opened", ""),
            ("added a@1", "begin, item a@1"),
            ("bookmark 1", ""),
            ("deleted a@2", "dropped a"),
            ("initial events end 3", "end 3"),
            ("added b@4", "applied b@4"),
            ("deleted b@5", "deleted b@5"),
            ("resync", "resync"),
            ("closed", "newest"),
            ("newest 7", "watch \"5\""),
            ("opened", ""),
            ("bookmark 9", "bookmark 9"),
            ("lost", "newest"),
            ("newest unknown", "watch \"9\""),
            ("not opened TooManyRequests", "wait 800"),
            ("waited", "watch \"9\""),
            ("opened", ""),
            ("error Expired", "wait 1600"),
            ("waited", "initial \"9\""),
            ("not opened Expired", "initial \"\""),
            ("not opened Invalid", "list \"\""),
            ("item b@8", "begin, item b@8"),
            ("list failed InternalError", "abort, wait 3200"),
            ("waited", "initial \"\""),
            ("opened", ""),
            ("initial events end 12", "begin, end 12"),
            ("modified b@11", "rewound, wait 6400"),
            ("waited", "initial \"\""),
            ("opened", ""),
            ("initial events end 2", "begin, end 2"),
        ],
    );
}

#[test]
fn ref_3_lists_and_later_requests() {
    plays(
        false,
        &[
            ("start", "list \"0\""),
            ("item a@1", "begin, item a@1"),
            ("resync", ""),
            ("restarted", "begin"),
            ("item a@2", "item a@2"),
            ("list ended 5", "end 5, watch \"5\", resync"),
            ("not opened Expired", "wait 800"),
            ("waited", "list \"5\""),
            ("list failed Expired", "list \"\""),
            ("list ended 4", "rewound, wait 1600"),
            ("waited", "list \"\""),
            ("list failed NotFound", "wait 3200"),
            ("waited", "list \"\""),
            ("list failed NotFound", "wait 6400"),
        ],
    );
}

/// A server without support for initial events treats the watch as an ordinary one: it sends
/// existing objects, and a bookmark each minute.
#[test]
fn a_server_that_never_ends_its_initial_events_and_sends_bookmarks_is_listed() {
    plays(
        true,
        &[
            ("start", "initial \"\""),
            ("opened", ""),
            ("added a@1", "begin, item a@1"),
            ("bookmark 7", ""),
            ("modified a@8", "item a@8"),
            ("bookmark 9", "abort, list \"0\""),
            ("item a@8", "begin, item a@8"),
            ("list ended 9", "end 9, watch \"9\""),
            ("opened", ""),
            ("error Expired", "wait 800"),
            // Initial events are not requested again.
            ("waited", "list \"9\""),
        ],
    );
}

/// One input per minute, so that two minutes of 404 take few inputs.
#[test]
fn a_collection_is_gone_when_it_was_not_found_for_minutes_and_discovery_says_so() {
    let rows = [
        ("start", "list \"0\""),
        ("list ended 5", "end 5"),
        ("not opened NotFound", "wait 800"),
        ("waited", "list \"5\""),
        ("list failed NotFound", "wait 800"),
        ("waited", "list \"5\""),
        // Another answer in between restarts the period.
        ("list failed InternalError", "wait 800"),
        ("waited", "list \"5\""),
        ("list failed NotFound", "wait 800"),
        ("waited", "list \"5\""),
        ("list failed NotFound", "discover"),
        ("served yes", "wait 800"),
        ("waited", "list \"5\""),
        ("list failed NotFound", "discover"),
        ("served failed", "wait 800"),
        ("waited", "list \"5\""),
        ("list failed NotFound", "discover"),
        ("served no", "gone"),
        ("waited", ""),
    ];
    let mut machine = machine(false);
    let start = Instant::now();
    for (minute, (happened, expected)) in rows.iter().enumerate() {
        let now = instant_after(start, Duration::from_secs(minute as u64 * 61));
        let mut out = Vec::new();
        machine.step(Moment { now, chance: 0.5 }, input(happened), &mut out);
        let said = out.iter().filter_map(shown).filter(|it| it != "begin" && !it.starts_with("watch"));
        let said: Vec<_> = said.collect();
        assert_eq!(said.join(", "), *expected, "series {minute}: {happened}");
    }
}

#[test]
fn a_server_restarted_with_an_older_state_is_detected_before_the_watch_is_resumed() {
    plays(
        false,
        &[
            ("start", "list \"0\""),
            ("list ended 50", "begin, end 50, watch \"50\""),
            ("opened", ""),
            ("lost", "newest"),
            ("newest failed connection", "wait 800"),
            ("waited", "newest"),
            // It is not read again when a watch cannot be opened for other reasons.
            ("newest 50", "watch \"50\""),
            ("not opened TooManyRequests", "wait 1600"),
            ("waited", "watch \"50\""),
            ("not opened ServiceUnavailable", "wait 3200"),
            ("waited", "newest"),
            ("newest 7", "rewound, wait 6400"),
            ("waited", "list \"\""),
            ("list ended 7", "begin, end 7, watch \"7\""),
            ("opened", ""),
            ("lost", "newest"),
            ("newest failed InternalError", "wait 12800"),
            ("waited", "newest"),
            // If it cannot be read, the watch is resumed without it.
            ("newest failed Forbidden", "watch \"7\""),
            ("opened", ""),
            ("lost", "newest"),
            // A list has no timeout, and needs no comparison.
            ("newest failed slow", "wait 25600"),
            ("waited", "list \"7\""),
        ],
    );
}

#[test]
fn a_watch_that_timed_out_is_resumed_without_another_request() {
    let mut machine = machine(false);
    let start = Instant::now();
    let mut step = |seconds: u64, text: &str| {
        let mut out = Vec::new();
        let now = instant_after(start, Duration::from_secs(seconds));
        machine.step(Moment { now, chance: 0.0 }, input(text), &mut out);
        out.iter().filter_map(shown).collect::<Vec<_>>().join(", ")
    };
    step(0, "start");
    assert_eq!(step(0, "list ended 5"), "begin, end 5, watch \"5\"");
    step(0, "opened");
    assert_eq!(step(300, "closed"), "watch \"5\"", "the timeout of five minutes is up");
    step(300, "opened");
    assert_eq!(step(400, "closed"), "newest");
}

#[test]
fn a_silence_leads_to_a_new_connection_and_repeated_ones_to_a_list() {
    plays(
        true,
        &[
            ("start", "initial \"\""),
            ("silence 239", ""),
            ("silence 240", "wait 800"),
            ("silence 999", ""),
            ("waited", "initial \"\""),
            ("opened", ""),
            ("silence 10", ""),
            ("initial events end 3", "begin, end 3"),
            ("silence 240", "newest"),
            ("newest 3", "watch \"3\""),
            ("opened", ""),
            ("bookmark 3", "bookmark 3"),
            ("silence 240", "newest"),
            ("newest 9", "watch \"3\""),
            ("opened", ""),
            ("silence 240", "wait 1600"),
            ("waited", "initial \"3\""),
        ],
    );
}

/// Some servers send no bookmarks but the one that ends the initial events, and some send one only
/// when something happened.
#[test]
fn a_quiet_collection_without_bookmarks_is_listed_ever_less_often() {
    let mut machine = machine(false);
    let (mut now, mut out) = (Instant::now(), Vec::new());
    for text in ["start", "list ended 5", "opened"] {
        machine.step(Moment { now, chance: 0.0 }, input(text), &mut out);
    }
    let (mut silences, mut between) = (0, Vec::new());
    while between.len() < 9 {
        let mut out = Vec::new();
        now += Duration::from_secs(240);
        machine.step(Moment { now, chance: 0.0 }, input("silence 240"), &mut out);
        silences += 1;
        let read_anew = matches!(out.last(), Some(Command::Wait(_)));
        let answers: &[_] =
            if read_anew { &["waited", "list ended 5", "opened"] } else { &["newest 5", "opened"] };
        for text in answers {
            machine.step(Moment { now, chance: 0.0 }, input(text), &mut out);
        }
        assert!(machine.tracker.health().is_ok(), "{}", machine.tracker.health());
        if read_anew {
            between.push(std::mem::take(&mut silences));
        }
    }
    assert_eq!(between, [5, 10, 20, 40, 80, 160, 320, 320, 320]);
}

#[test]
fn an_input_that_comes_too_late_has_no_effect() {
    let late = ["item a@1", "list ended 9", "opened", "closed", "added a@1", "list failed Expired"];
    let mut rows = vec![("start", "initial \"\""), ("not opened TooManyRequests", "wait 800")];
    rows.extend(late.map(|it| (it, "")));
    rows.push(("waited", "initial \"\""));
    plays(true, &rows);
}

#[test]
fn a_watch_that_brought_nothing_within_a_second_is_short() {
    let mut machine = machine(false);
    let start = Instant::now();
    let mut short = |texts: &[&str], milliseconds: u64| {
        let mut out = Vec::new();
        for text in texts {
            machine.step(Moment { now: start, chance: 0.0 }, input(text), &mut out);
        }
        out.clear();
        let now = instant_after(start, Duration::from_millis(milliseconds));
        machine.step(Moment { now, chance: 0.0 }, input("closed"), &mut out);
        out.iter().any(|it| matches!(it, Command::Measure(Measure::Watched { short: true, .. })))
    };
    assert!(short(&["start", "list ended 1", "opened"], 999));
    assert!(!short(&["waited", "newest 1", "opened"], 1000));
    assert!(!short(&["newest 1", "opened", "modified a@2"], 0));
    assert!(short(&["newest 2", "opened", "bookmark 2"], 0), "the bookmark brings nothing new");
}

#[test]
fn a_list_has_the_reason_for_which_the_last_watch_ended() {
    use RelistReason::{Connection, Expired, HistoryReset, NotServed, ServerError, Silence, Start};
    let fruitless = ["opened", "lost", "waited", "newest 5"];
    let mut thrice = fruitless.repeat(3);
    thrice.truncate(11);
    thrice.push("list ended 6");
    let mut silent = vec!["opened"];
    silent.extend(["silence 300", "newest 5", "opened"].repeat(5));
    silent.extend(["waited", "list ended 6"]);
    for (texts, reasons) in [
        (&[][..], &[Start][..]),
        (&["opened", "error Expired", "waited", "list ended 6"], &[Start, Expired]),
        (&["not opened Expired", "waited", "list ended 6"], &[Start, Expired]),
        (&["not opened NotFound", "waited", "list ended 6"], &[Start, NotServed]),
        (&["opened", "error Invalid", "waited", "list ended 6"], &[Start, ServerError]),
        (&["opened", "modified a@3", "waited", "list ended 3"], &[Start, HistoryReset]),
        (
            &["opened", "error Expired", "waited", "list ended 3", "waited", "list ended 3"],
            &[Start, HistoryReset],
        ),
        (
            &["opened", "error Expired", "waited", "list failed InternalError", "waited", "list ended 6"],
            &[Start, Expired],
        ),
        (&thrice[..], &[Start, Connection]),
        (&silent[..], &[Start, Silence]),
    ] {
        let (mut machine, mut out) = (machine(false), Vec::new());
        for text in ["start", "list ended 5"].iter().chain(texts) {
            machine.step(Moment { now: Instant::now(), chance: 0.0 }, input(text), &mut out);
        }
        let listed = out.iter().filter_map(|it| match it {
            Command::Measure(Measure::Listed(list)) => Some(list.reason),
            _ => None,
        });
        assert_eq!(listed.collect::<Vec<_>>(), reasons, "{texts:?}");
    }
}

/// Checks any sequence of inputs: deltas follow their grammar, and there is always a current
/// activity.
fn obeys(inputs: Vec<&'static str>) -> Result<(), TestCaseError> {
    let mut machine = machine(true);
    let mut now = Instant::now();
    let (mut within, mut ended) = (false, false);
    for (index, text) in ["start"].into_iter().chain(inputs).enumerate() {
        now += Duration::from_millis(300);
        let mut out = Vec::new();
        machine.step(Moment { now, chance: 0.5 }, input(text), &mut out);
        for command in &out {
            prop_assert!(!ended, "{text}: {:?}", shown(command));
            match command {
                Command::Emit(Delta::Begin) => within = true,
                Command::Emit(Delta::Item(_)) => prop_assert!(within, "{text}"),
                Command::Emit(Delta::End { .. } | Delta::Abort) => {
                    prop_assert!(within, "{text}");
                    within = false;
                }
                Command::Emit(Delta::Dropped(_)) | Command::Measure(_) => {}
                Command::Emit(_) => prop_assert!(!within, "{text}: {:?}", shown(command)),
                Command::End(_) => ended = true,
                Command::List(_)
                | Command::Watch(_)
                | Command::Newest(_)
                | Command::Discover
                | Command::Wait(_) => prop_assert!(!within, "{text}"),
            }
        }
        let moves = out.iter().filter(|it| !matches!(it, Command::Emit(_) | Command::Measure(_))).count();
        prop_assert!(moves <= 1, "{text} leads to {moves} requests");
        prop_assert!(index > 0 || moves == 1);
    }
    Ok(())
}

proptest! {
    #[test]
    fn deltas_follow_their_grammar_whatever_happens(
        inputs in proptest::collection::vec(
            proptest::sample::select(vec![
                "item a@1", "restarted", "list ended 5", "list ended 2", "list failed Expired",
                "list failed NotFound", "list failed InternalError", "opened", "opened", "opened",
                "not opened Expired", "not opened TooManyRequests", "not opened Invalid", "added a@3",
                "modified a@6", "deleted a@7", "bookmark 8", "initial events end 4", "initial events end 9",
                "error Expired", "error InternalError", "lost", "closed", "waited", "waited", "silence 10",
                "silence 300", "resync", "newest 4", "newest 90", "newest unknown", "newest failed connection",
                "newest failed Forbidden", "served yes", "served no", "served unknown", "served failed",
            ]),
            0..200,
        ),
    ) {
        obeys(inputs)?;
    }
}
