//! The transitions of the view: events in, state and effects out. Pure.
//!
//! Keys go to the filter that is being typed, to the page on top, or to the part with the focus.

use std::sync::Arc;

use dogwatch::Object;
use dogwatch::discovery::Discovery;
use dogwatch::informer::Change;
use tokio::time::Instant;

use super::document::Form;
use super::health;
use super::help;
use super::key::Key;
use super::page::{LogStep, Page};
use super::pane::CacheReport;
use super::scroll::{Move, TextScroll};
use super::state::{Effect, Focus, State};
use crate::sanitize::without_controls;
use crate::watch::rows::Row;

/// The longest filter, in characters.
const MAX_FILTER: usize = 200;

/// An input of the view.
#[derive(Debug)]
pub(super) enum Event {
    Key(Key),
    /// The number of lines of a page, and of the rows of a table.
    Resize {
        page: usize,
        rows: usize,
    },
    /// A change of a kind.
    Change(usize, Change<Row>),
    /// The resources that the server serves now.
    Discovered(Arc<Discovery>),
    /// The state of the cache of a kind.
    Report(usize, Box<CacheReport>),
    /// The result of a request for the text of an object.
    Document(u64, Result<Vec<String>, String>),
    /// A step of reading a log.
    Log(u64, LogStep),
}

impl State {
    /// Applies an event. Returns the work that follows from it.
    pub(super) fn apply(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        match event {
            Event::Key(key) => return self.press(key, now),
            Event::Resize { page, rows } => (self.page, self.rows) = (page, rows),
            Event::Change(kind, change) => self.change(kind, &change, now),
            Event::Discovered(discovery) => self.update_kinds(&discovery),
            Event::Report(kind, report) => {
                if let Some(pane) = self.kinds.pane_mut(kind) {
                    let was_synced = pane.is_synced();
                    pane.report(*report, now);
                    // A tree says which owners may only be missing because of that.
                    if pane.is_synced() != was_synced {
                        self.mark_trees();
                    }
                }
            }
            Event::Document(request, result) => {
                let result = result.map_err(|it| without_controls(&it));
                for page in &mut self.pages {
                    if let Page::Document(page) = page {
                        page.take(request, result.clone());
                    }
                }
            }
            Event::Log(request, step) => {
                for page in &mut self.pages {
                    if let Page::Log(page) = page {
                        page.take(request, step.clone());
                    }
                }
            }
        }
        Vec::new()
    }

    fn change(&mut self, kind: usize, change: &Change<Row>, now: Instant) {
        let Some(pane) = self.kinds.pane_mut(kind) else { return };
        pane.change(change, now);
        let key = change.object().key();
        for page in &mut self.pages {
            if let (Page::Document(page), Some(key)) = (page, &key) {
                page.note_change(kind, key);
            }
        }
        self.mark_trees();
    }

    fn mark_trees(&mut self) {
        for page in &mut self.pages {
            if let Page::Tree(page) = page {
                page.is_stale = true;
            }
        }
    }

    fn press(&mut self, key: Key, now: Instant) -> Vec<Effect> {
        self.message = None;
        // The position of the selected row is that of the rows as they are now.
        let mut effects = self.refresh(now);
        if key == Key::Interrupt {
            return vec![Effect::Quit];
        }
        effects.extend(if self.typing.is_some() {
            self.press_in_filter(key);
            Vec::new()
        } else if let Some(done) = self.press_anywhere(key) {
            done
        } else if !self.pages.is_empty() {
            self.press_on_page(key, now)
        } else if self.focus == Focus::Kinds {
            self.press_in_kinds(key)
        } else {
            self.press_in_table(key)
        });
        effects
    }

    /// Handles the keys that mean the same everywhere.
    fn press_anywhere(&mut self, key: Key) -> Option<Vec<Effect>> {
        match key {
            Key::Char('?') => self.show(Page::Help(TextScroll::default())),
            Key::Char('h') => self.show(Page::Health(TextScroll::default())),
            Key::Char('y') => return self.target().map(|it| self.show_document(Form::Yaml, it)),
            Key::Char('d') => return self.target().map(|it| self.show_document(Form::Description, it)),
            Key::Char('t') => return self.target().map(|it| self.show_tree(it)),
            Key::Char('l') => return self.target().map(|it| self.show_log(it)),
            Key::Char('q') | Key::Esc if !self.pages.is_empty() => return Some(self.back()),
            Key::Char('q') => return Some(vec![Effect::Quit]),
            Key::Tab => self.switch(true),
            Key::BackTab => self.switch(false),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn press_on_page(&mut self, key: Key, now: Instant) -> Vec<Effect> {
        let (size, next) = (self.page, self.requests + 1);
        match self.pages.last_mut() {
            Some(Page::Help(scroll)) => {
                scroll.press(key, size, help::LINES.len());
            }
            Some(Page::Health(scroll)) => {
                scroll.press(key, size, health::lines(&self.kinds, now).len());
            }
            Some(Page::Document(page)) => {
                let lines = page.lines.len();
                page.scroll.press(key, size, lines);
            }
            Some(Page::Tree(page)) => match (key, page.selected().cloned()) {
                (Key::Enter, Some(target)) => {
                    self.pages.clear();
                    let mut effects = self.open(target.kind);
                    effects.push(Effect::Unfollow);
                    if let Some(pane) = self.current_pane_mut() {
                        pane.set_filter(String::new());
                        pane.select_key(&target.key);
                    }
                    return effects;
                }
                _ => page.press(key, size),
            },
            Some(Page::Log(page)) => match key {
                Key::Char('c') => {
                    if let Some(name) = page.next_container(next) {
                        self.requests = next;
                        let key = page.target.key.clone();
                        return vec![Effect::Follow { request: next, key, container: Some(name) }];
                    }
                    self.message = Some("the pod has no other container".to_owned());
                }
                key => page.press(key, size),
            },
            None => {}
        }
        Vec::new()
    }

    fn press_in_kinds(&mut self, key: Key) -> Vec<Effect> {
        let shown = self.shown_kinds();
        match key {
            Key::Enter | Key::Right => {
                return shown.get(self.kind_at).map(|kind| self.open(*kind)).unwrap_or_default();
            }
            Key::Char('/') => self.typing = Some(self.kind_filter.clone()),
            Key::Char('x') => {
                return shown.get(self.kind_at).map(|kind| self.close(*kind)).unwrap_or_default();
            }
            Key::Esc if !self.kind_filter.is_empty() => self.set_filter(String::new()),
            Key::Esc => return vec![Effect::Quit],
            key => {
                if let Some(moved) = Move::of(key) {
                    self.kind_at = moved.from(self.kind_at, self.rows, shown.len().saturating_sub(1));
                }
            }
        }
        Vec::new()
    }

    fn press_in_table(&mut self, key: Key) -> Vec<Effect> {
        let (rows, current) = (self.rows, self.current);
        let Some(pane) = self.current_pane_mut() else {
            self.focus = Focus::Kinds;
            return Vec::new();
        };
        match key {
            Key::Char('/') => self.typing = Some(pane.filter.clone()),
            Key::Char('s') => pane.sort_by_next(),
            Key::Char('S' | 'r') => pane.reverse(),
            Key::Char('w') => {
                pane.shape.wide = !pane.shape.wide;
                pane.sort = None;
                pane.set_filter(pane.filter.clone());
            }
            Key::Char('x') => return current.map(|kind| self.close(kind)).unwrap_or_default(),
            Key::Enter => {
                let target = self.target();
                return target.map(|it| self.show_document(Form::Description, it)).unwrap_or_default();
            }
            Key::Esc if !pane.filter.is_empty() => pane.set_filter(String::new()),
            Key::Esc => self.focus = Focus::Kinds,
            Key::Left => {
                if !pane.go_left() {
                    self.focus = Focus::Kinds;
                }
            }
            Key::Right => pane.go_right(),
            key => {
                if let Some(moved) = Move::of(key) {
                    pane.go(moved, rows);
                }
            }
        }
        Vec::new()
    }

    /// Edits the filter, which applies while it is typed.
    fn press_in_filter(&mut self, key: Key) {
        let mut filter = self.filter().to_owned();
        match key {
            Key::Char(letter) if filter.chars().count() < MAX_FILTER => filter.push(letter),
            Key::Backspace => {
                filter.pop();
            }
            Key::Clear => filter.clear(),
            Key::Enter => self.typing = None,
            Key::Esc => filter = self.typing.take().unwrap_or_default(),
            _ => {}
        }
        self.set_filter(filter);
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::ObjectKey;
    use dogwatch::informer::{Deleted, HealthState};
    use serde_json::json;

    use super::super::kinds::tests::kinds;
    use super::*;

    fn row(name: &str, owner: Option<&str>) -> Arc<Row> {
        let owners: Vec<_> = owner
            .map(|it| json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": it, "uid": it }))
            .into_iter()
            .collect();
        let metadata = json!({ "name": name, "namespace": "web", "uid": name, "ownerReferences": owners });
        Arc::new(Row::of_table(json!({ "cells": [name, "1"], "object": { "metadata": metadata } })))
    }

    fn add(state: &mut State, kind: usize, row: Arc<Row>) {
        state.apply(Event::Change(kind, Change::Added { object: row, initial: true }), Instant::now());
    }

    /// Returns a view of the pods `db`, `web-1` and `web-2`; the other kinds are not watched.
    fn view() -> State {
        let mut state = State::new(kinds(Some("web")), None);
        state.open(1);
        for (name, owner) in [("db", None), ("web-1", Some("web")), ("web-2", Some("web"))] {
            add(&mut state, 1, row(name, owner));
        }
        let columns = json!([{ "name": "Name" }, { "name": "Ready" }]);
        state.kinds.pane(1).expect("open").columns.set(columns);
        state.apply(Event::Resize { page: 20, rows: 20 }, Instant::now());
        state.refresh(Instant::now());
        state
    }

    /// Presses keys: letters are themselves, and arrows and other keys have a symbol.
    fn press(state: &mut State, keys: &str) -> Vec<String> {
        let key = |it| match it {
            '⏎' => Key::Enter,
            '⎋' => Key::Esc,
            '⌫' => Key::Backspace,
            '⇥' => Key::Tab,
            '⇤' => Key::BackTab,
            '←' => Key::Left,
            '→' => Key::Right,
            '↑' => Key::Up,
            '↓' => Key::Down,
            '⇲' => Key::End,
            '⎚' => Key::Interrupt,
            letter => Key::Char(letter),
        };
        let effects = keys.chars().flat_map(|it| state.apply(Event::Key(key(it)), Instant::now()));
        effects.map(|it| effect(&it)).collect()
    }

    fn effect(effect: &Effect) -> String {
        match effect {
            Effect::Start { kind, .. } => format!("start {kind}"),
            Effect::Stop { kind } => format!("stop {kind}"),
            Effect::Read { request, form, target } => format!("read {request} {form:?} {}", target.key),
            Effect::Follow { request, key, container } => format!("follow {request} {key} {container:?}"),
            Effect::Unfollow => "unfollow".to_owned(),
            Effect::Quit => "quit".to_owned(),
        }
    }

    /// Describes the state: the focus, the kind, the selected row, the filter, and the pages.
    fn shown(state: &State) -> String {
        let pane = state.current_pane();
        let selected = pane.and_then(|it| it.selected()).map_or("none", ObjectKey::name);
        let pages = state.pages.iter().map(|it| match it {
            Page::Help(_) => " help".to_owned(),
            Page::Health(_) => " health".to_owned(),
            Page::Document(page) => format!(" {:?}", page.form),
            Page::Tree(page) => format!(" tree@{}", page.at),
            Page::Log(_) => " log".to_owned(),
        });
        let filter = if state.filter().is_empty() { String::new() } else { format!(" /{}", state.filter()) };
        let kind = state.current.map_or("-".to_owned(), |it| it.to_string());
        format!("{:?} {kind} {selected}{filter}{}", state.focus, pages.collect::<String>())
    }

    #[test]
    fn keys_lead_from_one_state_to_the_next() {
        for (keys, expected, effects) in [
            ("", "Table 1 db", &[][..]),
            ("j", "Table 1 web-1", &[]),
            ("↓↓↓↓", "Table 1 web-2", &[]),
            ("⇲k", "Table 1 web-1", &[]),
            // The filter applies while it is typed; Esc restores the one before, then removes it.
            ("/web", "Table 1 web-1 /web", &[]),
            ("/webx⌫⏎j", "Table 1 web-2 /web", &[]),
            ("/web⏎/2⎋", "Table 1 web-1 /web", &[]),
            ("/web⏎⎋", "Table 1 web-1", &[]),
            ("/q", "Table 1 none /q", &[]),
            // Pages lie over each other, one of each kind.
            ("y", "Table 1 db Yaml", &["read 1 Yaml web/db"]),
            ("yd", "Table 1 db Description", &["read 1 Yaml web/db", "read 2 Description web/db"]),
            ("⏎q", "Table 1 db", &["read 1 Description web/db"]),
            ("h?", "Table 1 db health help", &[]),
            ("h?⎋", "Table 1 db health", &[]),
            ("l", "Table 1 db log", &["follow 1 web/db None"]),
            ("lq", "Table 1 db", &["follow 1 web/db None", "unfollow"]),
            // The tree of a pod needs its owner's kind, and that of a Deployment its dependents'.
            ("jt", "Table 1 web-1 tree@1", &["start 3"]),
            ("jty", "Table 1 web-1 tree@1 Yaml", &["start 3", "read 1 Yaml web/web-1"]),
            ("jt⏎", "Table 1 web-1", &["start 3", "unfollow"]),
            // Kinds at the left.
            ("←", "Kinds 1 db", &[]),
            ("⎋", "Kinds 1 db", &[]),
            ("←↑⏎", "Table 0 none", &["start 0"]),
            ("←/dep⏎⏎", "Table 2 none", &["start 2"]),
            ("←y", "Kinds 1 db", &[]),
            ("←⎋", "Kinds 1 db", &["quit"]),
            ("←↑⏎⇥", "Table 1 db", &["start 0"]),
            ("←↑⏎⇥⇥", "Table 0 none", &["start 0"]),
            ("←↑⏎⇤", "Table 1 db", &["start 0"]),
            ("x", "Kinds - none", &["stop 1"]),
            ("xx⏎", "Table 1 none", &["stop 1", "start 1"]),
            ("q", "Table 1 db", &["quit"]),
            ("/⎚", "Table 1 db", &["quit"]),
        ] {
            let mut state = view();
            assert_eq!(press(&mut state, keys), effects, "{keys}");
            state.refresh(Instant::now());
            assert_eq!(shown(&state), expected, "{keys}");
        }
    }

    #[test]
    fn only_pods_have_logs() {
        let mut state = view();
        press(&mut state, "←↓⏎");
        add(&mut state, 2, row("web", None));
        assert_eq!(press(&mut state, "l"), [] as [&str; 0]);
        assert_eq!(state.message.as_deref(), Some("only pods have logs"));
        press(&mut state, "j");
        assert_eq!(state.message, None, "until the next key");
    }

    #[test]
    fn an_open_object_is_read_again_when_it_changes() {
        let mut state = view();
        press(&mut state, "y");
        let now = Instant::now();
        let changed = || Change::Updated { old: row("db", None), new: row("db", None) };
        state.apply(Event::Change(1, changed()), now);
        assert_eq!(state.refresh(now).len(), 0, "it is being read");
        state.apply(Event::Document(1, Ok(vec!["a".to_owned()])), now);
        let effects: Vec<_> = state.refresh(now).iter().map(effect).collect();
        assert_eq!(effects, ["read 2 Yaml web/db"]);
        state.apply(Event::Document(2, Err("gone\u{1b}".to_owned())), now);
        let Some(Page::Document(page)) = state.pages.last() else { panic!("a document") };
        assert_eq!((page.problem.as_deref(), page.lines.len()), (Some("gone\u{fffd}"), 1));
    }

    #[test]
    fn a_tree_follows_the_owners_as_they_become_known() {
        let mut state = view();
        press(&mut state, "jt");
        let owner = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "site", "uid": "site" });
        let metadata = json!({ "name": "web", "namespace": "web", "uid": "web", "ownerReferences": [owner] });
        let set = Row::of_table(json!({ "cells": ["web"], "object": { "metadata": metadata } }));
        add(&mut state, 3, Arc::new(set));
        let effects: Vec<_> = state.refresh(Instant::now()).iter().map(effect).collect();
        assert_eq!(effects, ["start 2"]);
        let Some(Page::Tree(page)) = state.pages.last() else { panic!("a tree") };
        let names: Vec<_> = page.tree.nodes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["Deployment site", "ReplicaSet web", "Pod web-1"]);
        assert_eq!(page.selected().map(|it| it.key.name()), Some("web-1"));
    }

    #[test]
    fn changes_of_a_kind_that_was_closed_are_ignored() {
        let mut state = view();
        press(&mut state, "x");
        let deleted = Change::Deleted(Deleted::Seen(row("db", None)));
        assert!(state.apply(Event::Change(1, deleted), Instant::now()).is_empty());
        let mut report = CacheReport::default();
        report.health.state = HealthState::Synced;
        state.apply(Event::Report(1, Box::new(report)), Instant::now());
        assert_eq!(state.kinds.watched().count(), 0);
    }
}
