//! The state of the view, and the operations on it that keys and changes lead to. Pure.
//!
//! Changed by `update.rs`, drawn by `draw`. Work for the server or the terminal is returned as
//! effects, which the runtime carries out.

use dogwatch::ObjectKey;
use dogwatch::discovery::Discovery;
use tokio::time::Instant;

use super::document::Form;
use super::kinds::{Kinds, Target};
use super::owner_tree;
use super::page::{DocumentPage, LogPage, Page, TreePage};
use super::pane::Pane;
use crate::watch::rows::Columns;

/// Work for the runtime.
#[derive(Debug)]
pub(super) enum Effect {
    /// Start an informer for a kind.
    Start {
        kind: usize,
        columns: Columns,
    },
    /// Stop the informer of a kind.
    Stop {
        kind: usize,
    },
    /// Read an object, instead of the one that is being read.
    Read {
        request: u64,
        form: Form,
        target: Target,
    },
    /// Follow a log, instead of the one that is followed.
    Follow {
        request: u64,
        key: ObjectKey,
        container: Option<String>,
    },
    /// Stop reading a log.
    Unfollow,
    Quit,
}

/// The part that the keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Kinds,
    Table,
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct State {
    pub(super) kinds: Kinds,
    /// The kind whose table is shown.
    pub(super) current: Option<usize>,
    pub(super) focus: Focus,
    /// The position among the kinds that match their filter.
    pub(super) kind_at: usize,
    pub(super) kind_filter: String,
    /// The pages over the table, the last one on top.
    pub(super) pages: Vec<Page>,
    /// The filter before the one that is being typed.
    pub(super) typing: Option<String>,
    /// A remark for the user, until the next key.
    pub(super) message: Option<String>,
    /// The lines of a page and the rows of a table.
    pub(super) page: usize,
    pub(super) rows: usize,
    /// The number of the last request.
    pub(super) requests: u64,
}

impl State {
    /// Creates a view that shows the list of kinds.
    pub(super) fn new(kinds: Kinds, message: Option<String>) -> Self {
        Self {
            kinds,
            current: None,
            focus: Focus::Kinds,
            kind_at: 0,
            kind_filter: String::new(),
            pages: Vec::new(),
            typing: None,
            message,
            page: 1,
            rows: 1,
            requests: 0,
        }
    }

    /// Brings tables and pages up to date before they are drawn. Returns the work that follows.
    pub(super) fn refresh(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.kinds.panes_mut().for_each(|it| it.refresh(now));
        let mut pages = std::mem::take(&mut self.pages);
        for page in &mut pages {
            match page {
                Page::Document(page) => effects.extend(self.read_again(page)),
                Page::Tree(page) if page.is_stale => {
                    effects.extend(self.open_for(&page.root));
                    page.refresh(&self.kinds);
                }
                _ => {}
            }
        }
        self.pages = pages;
        effects
    }

    /// Reads an object again if it has changed.
    fn read_again(&mut self, page: &mut DocumentPage) -> Option<Effect> {
        let request = self.requests + 1;
        if !page.next_request(request) {
            return None;
        }
        self.requests = request;
        Some(Effect::Read { request, form: page.form, target: page.target.clone() })
    }

    /// Opens a kind and shows its table.
    pub(super) fn open(&mut self, kind: usize) -> Vec<Effect> {
        let effects = self.watch(kind);
        if self.kinds.pane(kind).is_some() {
            (self.current, self.focus) = (Some(kind), Focus::Table);
            self.kind_at = self.shown_kinds().iter().position(|it| *it == kind).unwrap_or(self.kind_at);
        }
        effects
    }

    pub(super) fn watch(&mut self, kind: usize) -> Vec<Effect> {
        match self.kinds.open(kind) {
            Ok(Some(columns)) => vec![Effect::Start { kind, columns }],
            Ok(None) => Vec::new(),
            Err(message) => {
                self.message = Some(message);
                Vec::new()
            }
        }
    }

    /// Watches the kinds that the tree of an object needs.
    pub(super) fn open_for(&mut self, root: &Target) -> Vec<Effect> {
        let needed = owner_tree::needed(&self.kinds, root);
        needed.into_iter().flat_map(|kind| self.watch(kind)).collect()
    }

    /// Takes the kinds that the server serves now. The selection stays on its kind.
    pub(super) fn update_kinds(&mut self, discovery: &Discovery) {
        let selected = self.shown_kinds().get(self.kind_at).copied();
        self.kinds.update(discovery);
        let shown = self.shown_kinds();
        let found = shown.iter().position(|it| Some(*it) == selected);
        self.kind_at = found.unwrap_or(self.kind_at).min(shown.len().saturating_sub(1));
    }

    /// Returns the positions of the kinds that match the filter. Kinds that are no longer served
    /// are not shown, unless they are watched.
    pub(super) fn shown_kinds(&self) -> Vec<usize> {
        let filter = self.kind_filter.to_lowercase();
        let words: Vec<_> = filter.split_whitespace().collect();
        let there = self.kinds.iter().enumerate().filter(|(_, it)| it.is_served || it.pane.is_some());
        let names = there.map(|(at, it)| (at, it.served.group_resource().to_lowercase()));
        names.filter(|(_, name)| words.iter().all(|it| name.contains(it))).map(|(at, _)| at).collect()
    }

    pub(super) fn current_pane(&self) -> Option<&Pane> {
        self.kinds.pane(self.current?)
    }

    pub(super) fn current_pane_mut(&mut self) -> Option<&mut Pane> {
        self.kinds.pane_mut(self.current?)
    }

    /// Returns the object that a key such as `y` is about.
    pub(super) fn target(&self) -> Option<Target> {
        match self.pages.last() {
            None if self.focus == Focus::Table => {
                let key = self.current_pane()?.selected()?.clone();
                Some(Target { kind: self.current?, key })
            }
            Some(Page::Tree(page)) => page.selected().cloned(),
            Some(Page::Document(page)) => Some(page.target.clone()),
            Some(Page::Log(page)) => Some(page.target.clone()),
            _ => None,
        }
    }

    /// Shows a page instead of another one of its kind.
    pub(super) fn show(&mut self, page: Page) {
        let kind = std::mem::discriminant(&page);
        self.pages.retain(|it| std::mem::discriminant(it) != kind);
        self.pages.push(page);
    }

    pub(super) fn show_document(&mut self, form: Form, target: Target) -> Vec<Effect> {
        self.requests += 1;
        let request = self.requests;
        self.show(Page::Document(DocumentPage::new(form, target.clone(), request)));
        vec![Effect::Read { request, form, target }]
    }

    pub(super) fn show_tree(&mut self, target: Target) -> Vec<Effect> {
        let effects = self.open_for(&target);
        self.show(Page::Tree(TreePage::new(&self.kinds, target)));
        effects
    }

    pub(super) fn show_log(&mut self, target: Target) -> Vec<Effect> {
        let is_pod = self.kinds.get(target.kind).is_some_and(|it| {
            it.served.resource.gvk.kind == "Pod" && it.served.resource.gvk.group.is_empty()
        });
        if !is_pod {
            self.message = Some("only pods have logs".to_owned());
            return Vec::new();
        }
        self.requests += 1;
        let (request, key) = (self.requests, target.key.clone());
        self.show(Page::Log(LogPage::new(target, request)));
        vec![Effect::Follow { request, key, container: None }]
    }

    pub(super) fn back(&mut self) -> Vec<Effect> {
        match self.pages.pop() {
            Some(Page::Log(_)) => vec![Effect::Unfollow],
            _ => Vec::new(),
        }
    }

    /// Shows the table of the next or the previous kind that is watched.
    pub(super) fn switch(&mut self, forward: bool) {
        let watched: Vec<_> = self.kinds.watched().map(|(at, ..)| at).collect();
        let at = watched.iter().position(|it| Some(*it) == self.current);
        let next = match (at, forward) {
            (Some(at), true) => at + 1,
            (Some(at), false) => at + watched.len() - 1,
            (None, _) => 0,
        };
        if self.pages.is_empty()
            && let Some(kind) = watched.get(next % watched.len().max(1))
        {
            (self.current, self.focus) = (Some(*kind), Focus::Table);
            self.kind_at = self.shown_kinds().iter().position(|it| it == kind).unwrap_or(self.kind_at);
        }
    }

    pub(super) fn close(&mut self, kind: usize) -> Vec<Effect> {
        if !self.kinds.close(kind) {
            return Vec::new();
        }
        if self.current == Some(kind) {
            self.current = self.kinds.watched().map(|(at, ..)| at).next();
            self.focus = Focus::Kinds;
        }
        vec![Effect::Stop { kind }]
    }

    /// Returns the filter of the part that has the focus.
    pub(super) fn filter(&self) -> &str {
        match self.focus {
            Focus::Kinds => &self.kind_filter,
            Focus::Table => self.current_pane().map_or("", |it| &it.filter),
        }
    }

    pub(super) fn set_filter(&mut self, filter: String) {
        match self.focus {
            Focus::Kinds => {
                self.kind_filter = filter;
                self.kind_at = self.kind_at.min(self.shown_kinds().len().saturating_sub(1));
            }
            Focus::Table => {
                if let Some(pane) = self.current_pane_mut() {
                    pane.set_filter(filter);
                }
            }
        }
    }
}
