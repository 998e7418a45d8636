//! The pages over the table: help, health, the text of an object, its owner tree, and its log.

use dogwatch::ObjectKey;

use super::document::Form;
use super::key::Key;
use super::kinds::{Kinds, Target};
use super::log_buffer::LogBuffer;
use super::owner_tree::{self, OwnerTree};
use super::scroll::{Move, TextScroll};

/// A page that covers the table.
#[derive(Debug)]
pub(super) enum Page {
    Help(TextScroll),
    Health(TextScroll),
    Document(DocumentPage),
    Tree(TreePage),
    Log(LogPage),
}

/// An object as text, read from the server when it is opened and when it has changed.
#[derive(Debug)]
pub(super) struct DocumentPage {
    pub(super) form: Form,
    pub(super) target: Target,
    pub(super) lines: Vec<String>,
    /// The reason why the object cannot be shown, or not in its newest state.
    pub(super) problem: Option<String>,
    pub(super) scroll: TextScroll,
    /// The request that is under way.
    request: Option<u64>,
    /// Set if the object has changed since that request.
    has_changed: bool,
}

/// The owner tree of an object.
#[derive(Debug)]
pub(super) struct TreePage {
    pub(super) root: Target,
    pub(super) tree: OwnerTree,
    pub(super) at: usize,
    pub(super) is_stale: bool,
}

/// The log of a container.
#[derive(Debug)]
pub(super) struct LogPage {
    pub(super) target: Target,
    pub(super) request: u64,
    pub(super) containers: Vec<String>,
    /// The position of the container whose log it is.
    pub(super) container: usize,
    pub(super) buffer: LogBuffer,
    /// The reason why there are no more lines.
    pub(super) end: Option<String>,
    pub(super) scroll: TextScroll,
    /// True while the newest lines are shown.
    pub(super) follows: bool,
}

/// A step of reading a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogStep {
    /// The containers of the pod, and the one whose log is read.
    Containers(Vec<String>, usize),
    Line(String),
    /// The end of the log, with its reason.
    End(String),
}

impl DocumentPage {
    pub(super) fn new(form: Form, target: Target, request: u64) -> Self {
        let (lines, scroll) = (Vec::new(), TextScroll::default());
        Self { form, target, lines, problem: None, scroll, request: Some(request), has_changed: false }
    }

    pub(super) fn is_loading(&self) -> bool {
        self.request.is_some()
    }

    /// Takes the result of a request, unless it is an outdated one.
    pub(super) fn take(&mut self, request: u64, result: Result<Vec<String>, String>) {
        if self.request != Some(request) {
            return;
        }
        self.request = None;
        match result {
            Ok(lines) => (self.lines, self.problem) = (lines, None),
            // The last state stays on the screen.
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Notes that an object has changed.
    pub(super) fn note_change(&mut self, kind: usize, key: &ObjectKey) {
        self.has_changed |= self.target.kind == kind && self.target.key == *key;
    }

    /// Begins a request if the object has changed and none is under way: at most one at a time,
    /// however fast it changes.
    pub(super) fn next_request(&mut self, number: u64) -> bool {
        let wanted = self.has_changed && self.request.is_none();
        if wanted {
            (self.has_changed, self.request) = (false, Some(number));
        }
        wanted
    }
}

impl TreePage {
    pub(super) fn new(kinds: &Kinds, root: Target) -> Self {
        let tree = owner_tree::build(kinds, &root);
        let at = tree.nodes.iter().position(|it| it.is_root).unwrap_or(0);
        Self { root, tree, at, is_stale: false }
    }

    /// Builds the tree again. The selection stays on its object.
    pub(super) fn refresh(&mut self, kinds: &Kinds) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let selected = self.selected().cloned();
        self.tree = owner_tree::build(kinds, &self.root);
        let found = self.tree.nodes.iter().position(|it| selected.is_some() && it.target == selected);
        self.at = found.unwrap_or(self.at).min(self.tree.nodes.len().saturating_sub(1));
    }

    pub(super) fn selected(&self) -> Option<&Target> {
        self.tree.nodes.get(self.at)?.target.as_ref()
    }

    pub(super) fn press(&mut self, key: Key, page: usize) {
        if let Some(moved) = Move::of(key) {
            self.at = moved.from(self.at, page, self.tree.nodes.len().saturating_sub(1));
        }
    }
}

impl LogPage {
    pub(super) fn new(target: Target, request: u64) -> Self {
        Self {
            target,
            request,
            containers: Vec::new(),
            container: 0,
            buffer: LogBuffer::default(),
            end: None,
            scroll: TextScroll::default(),
            follows: true,
        }
    }

    /// Takes a step of reading, unless it belongs to an outdated request.
    pub(super) fn take(&mut self, request: u64, step: LogStep) {
        if self.request != request {
            return;
        }
        match step {
            LogStep::Containers(all, at) => (self.containers, self.container) = (all, at),
            LogStep::Line(line) => self.buffer.push(&line),
            LogStep::End(reason) => self.end = Some(reason),
        }
    }

    /// Begins with the log of the next container. Returns its name, or `None` if there is no other.
    pub(super) fn next_container(&mut self, request: u64) -> Option<String> {
        if self.containers.len() < 2 {
            return None;
        }
        let next = (self.container + 1) % self.containers.len();
        let containers = std::mem::take(&mut self.containers);
        let name = containers[next].clone();
        *self = Self { containers, container: next, ..Self::new(self.target.clone(), request) };
        Some(name)
    }

    pub(super) fn press(&mut self, key: Key, page: usize) {
        let last = self.buffer.len().saturating_sub(page.max(1));
        if self.follows {
            self.scroll.top = last;
        }
        if self.scroll.press(key, page, self.buffer.len()) {
            self.follows = self.scroll.top >= last;
        }
    }

    /// Returns the first line of a window of `page` lines.
    pub(super) fn top(&self, page: usize) -> usize {
        let last = self.buffer.len().saturating_sub(page.max(1));
        if self.follows { last } else { self.scroll.top.min(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { kind: 1, key: ObjectKey::namespaced("web", "a") }
    }

    #[test]
    fn an_object_that_changes_is_read_again_one_request_at_a_time() {
        let mut page = DocumentPage::new(Form::Yaml, target(), 1);
        page.note_change(1, &target().key);
        assert!(!page.next_request(2), "one is under way");
        page.take(1, Ok(vec!["old".to_owned()]));
        assert!(page.next_request(2) && !page.next_request(3));
        page.take(1, Ok(vec!["outdated".to_owned()]));
        assert_eq!(page.lines, ["old"]);
        page.take(2, Err("gone".to_owned()));
        assert_eq!((page.lines.len(), page.problem.as_deref()), (1, Some("gone")));
        page.note_change(0, &target().key);
        assert!(!page.next_request(4), "another kind");
    }

    #[test]
    fn a_log_shows_its_newest_lines_until_it_is_scrolled() {
        let mut page = LogPage::new(target(), 1);
        let line = |at: usize| LogStep::Line(at.to_string());
        (0..20).for_each(|at| page.take(1, line(at)));
        page.take(0, line(99));
        assert_eq!((page.buffer.len(), page.top(5)), (20, 15));
        page.press(Key::Up, 5);
        page.take(1, line(20));
        assert_eq!((page.top(5), page.follows), (14, false));
        page.press(Key::End, 5);
        page.take(1, line(21));
        assert_eq!((page.top(5), page.follows), (17, true));
    }

    #[test]
    fn the_containers_of_a_pod_follow_each_other() {
        let mut page = LogPage::new(target(), 1);
        assert_eq!(page.next_container(2), None);
        page.take(1, LogStep::Containers(vec!["a".to_owned(), "b".to_owned()], 1));
        page.take(1, LogStep::Line("x".to_owned()));
        assert_eq!(page.next_container(2).as_deref(), Some("a"));
        assert_eq!((page.request, page.buffer.len(), page.container), (2, 0, 0));
    }
}
