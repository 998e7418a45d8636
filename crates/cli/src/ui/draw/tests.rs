//! Pictures of the view on ratatui's test backend.

use std::sync::Arc;
use std::time::Duration;

use dogwatch::informer::{Change, HealthState};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use serde_json::json;
use tokio::time::Instant;

use super::super::key::Key;
use super::super::kinds::tests::kinds;
use super::super::page::LogStep;
use super::super::pane::CacheReport;
use super::super::state::State;
use super::super::theme::Theme;
use super::super::update::Event;
use super::{Now, draw, page_sizes};
use crate::watch::rows::Row;

fn now() -> Now {
    Now { instant: Instant::now(), time: Timestamp::UNIX_EPOCH }
}

fn view() -> State {
    let mut state = State::new(kinds(Some("web")), None);
    state.open(1);
    let pane = state.kinds.pane(1).expect("open");
    pane.columns.set(json!([{ "name": "Name" }, { "name": "Ready" }, { "name": "Status" }]));
    for (name, initial) in [("db-0", true), ("web-1", false)] {
        let metadata = json!({ "name": name, "namespace": "web", "uid": name });
        let row = json!({ "cells": [name, "1/1", "Running\u{1b}[2J"], "object": { "metadata": metadata } });
        let object = Arc::new(Row::of_table(row));
        state.apply(Event::Change(1, Change::Added { object, initial }), now().instant);
    }
    report(&mut state, HealthState::Synced);
    state
}

fn report(state: &mut State, to: HealthState) {
    let mut report = CacheReport { objects: 2, ..CacheReport::default() };
    report.health.state = to;
    state.apply(Event::Report(1, Box::new(report)), now().instant);
}

fn press(state: &mut State, keys: &[Key]) {
    for key in keys {
        state.apply(Event::Key(*key), now().instant);
    }
}

/// Draws the view, and returns the terminal.
fn drawn(state: &mut State, width: u16, height: u16, coloured: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer");
    state.refresh(now().instant);
    let (page, rows) = page_sizes(ratatui::layout::Rect::new(0, 0, width, height), state, now());
    state.apply(Event::Resize { page, rows }, now().instant);
    terminal.draw(|frame| draw(frame, state, Theme { coloured }, now())).expect("a buffer never fails");
    terminal
}

/// Returns the lines of the picture, without trailing spaces.
fn lines(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let buffer = terminal.backend().buffer();
    let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn a_wide_screen_shows_the_kinds_and_the_table() {
    let mut state = view();
    assert_eq!(
        lines(&drawn(&mut state, 80, 8, false)),
        [
            " pods",
            "pods in web: 2 objects, synced",
            "KINDS (4)                 │ NAME    READY   STATUS",
            "nodes                     │ db-0    1/1     Running\u{fffd}[2J",
            "pods                     2│+web-1   1/1     Running\u{fffd}[2J",
            "deployments.apps          │",
            "replicasets.apps          │",
            "q quit  ? help  / filter  d describe  y YAML  s sort  t tree  l log  h health",
        ]
    );
}

#[test]
fn a_narrow_screen_shows_the_table_or_the_kinds() {
    let mut state = view();
    let table = lines(&drawn(&mut state, 40, 10, false));
    assert_eq!(table[2], " NAME    READY   STATUS");
    assert_eq!(table[4], "+web-1   1/1     Running\u{fffd}[2J");
    press(&mut state, &[Key::Left]);
    let kinds = lines(&drawn(&mut state, 40, 10, false));
    assert_eq!((kinds[2].as_str(), kinds[3].as_str()), ("KINDS (4)", "nodes"));
    assert!(kinds[4].starts_with("pods ") && kinds[4].ends_with(" 2"), "{kinds:?}");
}

#[test]
fn every_size_of_every_page_can_be_drawn() {
    for keys in [
        &[][..],
        &[Key::Char('y')],
        &[Key::Char('d')],
        &[Key::Char('t')],
        &[Key::Char('l')],
        &[Key::Char('h')],
        &[Key::Char('?')],
        &[Key::Left],
        &[Key::Char('/'), Key::Char('日')],
        &[Key::Char('x')],
    ] {
        for (width, height) in [(1, 1), (2, 3), (10, 4), (40, 10), (59, 24), (60, 24), (200, 60)] {
            let mut state = view();
            press(&mut state, keys);
            press(&mut state, &[Key::Right, Key::End, Key::PageUp]);
            drawn(&mut state, width, height, true);
        }
    }
}

#[test]
fn changes_are_marked_and_coloured_unless_colours_are_off() {
    let cell = |terminal: &Terminal<TestBackend>| terminal.backend().buffer()[(1, 4)].clone();
    let mut state = view();
    assert_eq!(cell(&drawn(&mut state, 40, 10, true)).fg, Color::Green);
    assert_eq!(cell(&drawn(&mut state, 40, 10, false)).fg, Color::Reset);
    let terminal = drawn(&mut state, 40, 10, false);
    let selected = &terminal.backend().buffer()[(1, 3)];
    assert!(selected.modifier.contains(Modifier::REVERSED));
    // After a few seconds the mark is gone.
    let instant = Instant::now().checked_add(Duration::from_secs(60)).expect("a minute from now");
    let later = Now { instant, ..now() };
    let mut terminal = Terminal::new(TestBackend::new(40, 10)).expect("a buffer");
    terminal.draw(|frame| draw(frame, &mut state, Theme { coloured: true }, later)).expect("a buffer");
    assert_eq!(lines(&terminal)[4].chars().next(), Some(' '));
}

#[test]
fn a_table_that_is_not_synced_says_so_and_why() {
    let mut state = view();
    let next = Instant::now();
    report(&mut state, HealthState::Retrying { since: next, attempts: 3, next });
    let shown = lines(&drawn(&mut state, 80, 10, false));
    assert_eq!(shown[0], " pods!");
    assert_eq!(shown[1], "pods in web: NOT SYNCED for 0s, 2 objects as of then (retrying after 3 failures)");
    let narrow = lines(&drawn(&mut state, 40, 10, false));
    assert_eq!(narrow[1], "pods in web: NOT SYNCED for 0s, 2");
    assert_eq!(narrow[3], "failures)");
}

/// The title has at most three lines, which are short on a narrow screen.
#[test]
fn reasons_are_shown_in_full_where_there_is_nothing_else() {
    let reason = "error dialing backend: node \"node-1\" has no kubelet, so log is not available";
    let mut state = view();
    press(&mut state, &[Key::Char('l')]);
    state.apply(Event::Log(1, LogStep::End(reason.to_owned())), now().instant);
    let joined = |state: &mut State| lines(&drawn(state, 40, 10, false))[2..].join(" ");
    assert!(joined(&mut state).contains(reason), "{}", joined(&mut state));
    press(&mut state, &[Key::Char('q'), Key::Char('y')]);
    state.apply(Event::Document(2, Err(reason.to_owned())), now().instant);
    assert!(joined(&mut state).contains(reason), "{}", joined(&mut state));
}

#[test]
fn the_filter_and_the_order_are_shown() {
    let mut state = view();
    press(&mut state, &[Key::Char('s'), Key::Char('S'), Key::Char('/'), Key::Char('w')]);
    let mut terminal = drawn(&mut state, 80, 8, false);
    let shown = lines(&terminal);
    assert_eq!(shown[1], "pods in web: 2 objects, synced; 1 match \"w\"");
    assert!(shown[2].contains("NAME▼"), "{shown:?}");
    assert_eq!(shown[7], "/w");
    terminal.backend_mut().assert_cursor_position((2, 7));
}

#[test]
fn pages_show_their_text_and_what_they_cover() {
    let mut state = view();
    press(&mut state, &[Key::Char('y')]);
    state.apply(Event::Document(1, Ok(vec!["kind: Pod".to_owned(), "spec: {}".to_owned()])), now().instant);
    let shown = lines(&drawn(&mut state, 80, 6, false));
    assert_eq!(shown[1..4], ["Pod web/db-0: YAML", "kind: Pod", "spec: {}"]);
    press(&mut state, &[Key::Char('q'), Key::Char('t')]);
    let shown = lines(&drawn(&mut state, 80, 6, false));
    assert_eq!(shown[1], "Owners and dependents of Pod web/db-0");
    assert_eq!(shown[2], "Dependents are searched in the watched kinds: pods.");
    assert_eq!(shown[3], "* Pod db-0  (ready: 1/1, status: Running\u{fffd}[2J)");
    press(&mut state, &[Key::Char('l')]);
    for step in [LogStep::Line("started".to_owned()), LogStep::End("no logs here".to_owned())] {
        state.apply(Event::Log(2, step), now().instant);
    }
    let shown = lines(&drawn(&mut state, 80, 6, false));
    assert_eq!(shown[1..3], ["Log of Pod web/db-0: 1 line; no logs here", "started"]);
}

/// Returns the least time that a change and a picture took, with this many rows.
fn cost_of_a_picture(rows: usize) -> Duration {
    let mut state = State::new(kinds(Some("web")), None);
    state.open(1);
    let columns = json!([{ "name": "Name" }, { "name": "Ready" }, { "name": "Status" }]);
    state.kinds.pane(1).expect("open").columns.set(columns);
    let row =
        |at: usize, status: &str| Arc::new(Row::of_cells("web", &[&format!("web-{at:06}"), "1/1", status]));
    for at in 0..rows {
        let object = row(at, "Running");
        state.apply(Event::Change(1, Change::Added { object, initial: true }), now().instant);
    }
    report(&mut state, HealthState::Synced);
    // Sorted by a column and filtered, and in the middle of the rows.
    press(&mut state, &[Key::Char('s'), Key::Char('/'), Key::Char('w'), Key::Enter, Key::PageDown]);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a buffer");
    let mut picture = |at: usize| {
        let begin = Instant::now();
        let change = Change::Updated { old: row(at, "Running"), new: row(at, "Failed") };
        state.apply(Event::Change(1, change), begin);
        state.refresh(begin);
        let time = Now { instant: begin, time: Timestamp::UNIX_EPOCH };
        let (page, rows) = page_sizes(ratatui::layout::Rect::new(0, 0, 80, 24), &state, time);
        state.apply(Event::Resize { page, rows }, begin);
        let drawn = terminal.draw(|frame| draw(frame, &mut state, Theme { coloured: true }, time));
        drawn.expect("a buffer never fails");
        begin.elapsed()
    };
    // The least of many: other programs may use the processor for some of them.
    (0..50).map(|at| picture(at * rows / 50)).min().unwrap_or_default()
}

/// The view is drawn five times a second, with the changes since. The figures are those of a debug
/// build; the test is about their ratio, which was 100 when all rows were filtered for each change.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are for people who run it with --nocapture")]
fn a_picture_of_a_hundred_thousand_rows_costs_about_as_much_as_one_of_a_thousand() {
    let (few, many) = (cost_of_a_picture(1_000), cost_of_a_picture(100_000));
    println!("a change and a picture: {few:?} with 1,000 rows, {many:?} with 100,000 rows");
    assert!(many < few * 10, "{few:?} with 1,000 rows, {many:?} with 100,000 rows");
}

#[test]
fn what_is_cut_at_a_side_is_marked() {
    let mut state = view();
    let shown = lines(&drawn(&mut state, 20, 10, false));
    assert_eq!(shown[3..6], [" NAME    READY   ST…", " db-0    1/1     Ru…", "+web-1   1/1     Ru…"]);
    assert_eq!(shown[9], "q quit  ? help");
    press(&mut state, &[Key::Right]);
    let shown = lines(&drawn(&mut state, 20, 10, false));
    assert_eq!(
        shown[3..6],
        ["…READY   STATUS", " 1/1     Running\u{fffd}[2J", "+1/1     Running\u{fffd}[2J"]
    );
}
