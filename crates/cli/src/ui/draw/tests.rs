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
            "q quit  ? help  / filter  s sort  y YAML  d describe  t tree  l log  h health  T",
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
    assert_eq!(shown[1..3], ["Log of Pod web/db-0: 1 lines; no logs here", "started"]);
}
