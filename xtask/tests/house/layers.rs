//! The order of `mod` lines is the layer order: a module uses only modules declared above it.
//!
//! The rule applies at every level: in `lib.rs` or `main.rs`, and inside a directory in its
//! `mod.rs`. Two modules are compared where their paths diverge. The names a parent re-exports
//! count as the child's own. The parent's own items have a layer too: below every child they use
//! and above every child that uses them; if there is no such layer, that is a violation. So a crate
//! has no import cycle. The input comes from [`crate::tokens`], and the caller reads the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tokens::{self, Import, Source};

/// The path of a module from its crate's root. The root itself is empty.
type ModulePath = Vec<String>;

/// One crate, as a tree of modules.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    modules: BTreeMap<ModulePath, Module>,
    /// The errors while reading.
    problems: Vec<String>,
}

#[derive(Debug)]
struct Module {
    file: PathBuf,
    source: Source,
    /// The names of the child modules, in the order of their `mod` lines.
    children: Vec<String>,
}

/// The target of a path: a module, or an item that this module defines.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    module: ModulePath,
    item: Option<String>,
}

/// A use of an item or module by the code of one module.
struct Reference {
    target: Target,
    line: usize,
}

impl Tree {
    /// Reads the crate whose root is `root`. `read` returns the text of a file, or `None` if there
    /// is no such file.
    pub(crate) fn load(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut tree = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        match read(root) {
            Some(text) => tree.add_text(Vec::new(), root.to_owned(), &folder, &text, read),
            None => tree.problems.push(format!("{}: cannot read the file", root.display())),
        }
        tree
    }

    fn add_text(
        &mut self,
        path: ModulePath,
        file: PathBuf,
        folder: &Path,
        text: &str,
        read: &dyn Fn(&Path) -> Option<String>,
    ) {
        match tokens::read(text) {
            Ok(source) => self.add(path, file, folder, source, read),
            Err(problem) => self.problems.push(format!("{}: {problem}", file.display())),
        }
    }

    /// Adds a module and its children. `folder` is the directory of its children's files.
    fn add(
        &mut self,
        path: ModulePath,
        file: PathBuf,
        folder: &Path,
        mut source: Source,
        read: &dyn Fn(&Path) -> Option<String>,
    ) {
        let mut children = Vec::new();
        for declared in std::mem::take(&mut source.modules) {
            let inside = folder.join(&declared.name);
            let child = [path.as_slice(), std::slice::from_ref(&declared.name)].concat();
            let places = [folder.join(format!("{}.rs", declared.name)), inside.join("mod.rs")];
            if let Some(body) = declared.body {
                self.add(child, file.clone(), &inside, body, read);
            } else if let Some((target, text)) = places.iter().find_map(|it| Some((it.clone(), read(it)?))) {
                self.add_text(child, target, &inside, &text, read);
            } else {
                let (file, line, name) = (file.display(), declared.line, &declared.name);
                self.problems.push(format!("{file}:{line}: no file for `mod {name};`"));
                continue;
            }
            children.push(declared.name);
        }
        self.modules.insert(path, Module { file, source, children });
    }

    /// Returns every violation of the rule, as `file:line: message`.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut violations = self.problems.clone();
        // For each module: the lowest child its own code uses, and the highest child that uses its
        // own items.
        let mut downward: BTreeMap<&[String], (usize, String)> = BTreeMap::new();
        let mut upward: BTreeMap<ModulePath, (usize, String)> = BTreeMap::new();
        for (path, module) in &self.modules {
            for Reference { target, line } in self.references(path, module) {
                let shared = path.iter().zip(&target.module).take_while(|(a, b)| a == b).count();
                let here = format!("{}:{line}", module.file.display());
                let parent = &self.modules[&path[..shared]];
                match (path.get(shared), target.module.get(shared)) {
                    (None, None) => {}
                    (None, Some(child)) => {
                        let layer = position(parent, child);
                        let lowest = downward.entry(path).or_insert((layer, here.clone()));
                        if layer > lowest.0 {
                            *lowest = (layer, here);
                        }
                    }
                    (Some(_), None) if target.item.as_deref() == Some(EVERYTHING) => {
                        let above = shown(&target.module);
                        violations
                            .push(format!("{here}: imports everything of {above}: import items by name"));
                    }
                    (Some(mine), None) => {
                        let Some(item) = target.item else { continue };
                        let layer = position(parent, mine);
                        let message =
                            format!("{here}: {} uses `{item}` of {}", shown(path), shown(&target.module));
                        let highest = upward.entry(target.module).or_insert((layer, message.clone()));
                        if layer < highest.0 {
                            *highest = (layer, message);
                        }
                    }
                    (Some(mine), Some(theirs)) if position(parent, theirs) > position(parent, mine) => {
                        let (user, used, order) = (shown(path), shown(&target.module), parent.file.display());
                        violations.push(format!(
                            "{here}: {user} uses {used}, but {order} declares `{theirs}` below `{mine}`"
                        ));
                    }
                    (Some(_), Some(_)) => {}
                }
            }
        }
        for (module, (user, message)) in upward {
            if let Some((used, there)) = downward.get(module.as_slice()).filter(|(used, _)| *used >= user) {
                let child = &self.modules[&module].children[*used];
                violations.push(format!(
                    "{message}, whose own code uses `{child}`, which is not above it ({there}): \
                     move the shared items into a module above both"
                ));
            }
        }
        violations
    }

    /// Returns everything that the code of one module uses in its crate. A re-export alone does not
    /// count as a use; its name in the code does.
    fn references(&self, path: &[String], module: &Module) -> Vec<Reference> {
        let mut found = Vec::new();
        for Import { segments, name, public, line } in &module.source.imports {
            let Some(mut target) = self.resolve(path, segments) else { continue };
            if name.is_none() {
                target.item.get_or_insert(EVERYTHING.to_owned());
            }
            let exported = *public && target.module.starts_with(path);
            let named = name.as_ref().and_then(|it| module.source.names.get(it));
            match (exported, named) {
                (false, _) => found.push(Reference { target, line: *line }),
                (true, Some(&line)) => found.push(Reference { target, line }),
                (true, None) => {}
            }
        }
        for mention in &module.source.mentions {
            if let Some(target) = self.resolve(path, &mention.segments) {
                found.push(Reference { target, line: mention.line });
            }
        }
        found
    }

    /// Resolves `segments`, written in module `from`. Returns `None` for a path outside of this
    /// crate.
    fn resolve(&self, from: &[String], segments: &[String]) -> Option<Target> {
        // Imports may lead to imports. A cycle of them would not compile, so real code never
        // reaches this depth.
        self.resolve_within(from, segments, 32)
    }

    fn resolve_within(&self, from: &[String], segments: &[String], depth: usize) -> Option<Target> {
        let (first, mut rest) = segments.split_first()?;
        let mut module = from.to_vec();
        match first.as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop()?;
            }
            _ => {
                let known = &self.modules.get(from)?;
                let ours = known.children.contains(first)
                    || known.source.imports.iter().any(|it| it.name.as_ref() == Some(first));
                if !ours {
                    return None;
                }
                rest = segments;
            }
        }
        while let Some((segment, after)) = rest.split_first() {
            let known = self.modules.get(&module)?;
            if segment == "super" {
                module.pop()?;
            } else if known.children.contains(segment) {
                module.push(segment.clone());
            } else if let Some(import) =
                known.source.imports.iter().find(|it| it.name.as_ref() == Some(segment))
            {
                let onward: Vec<String> = import.segments.iter().chain(after).cloned().collect();
                // `use crate::a::b` inside `b`'s own scope names the import itself; it leads
                // nowhere new.
                return if depth == 0 { None } else { self.resolve_within(&module, &onward, depth - 1) };
            } else {
                return Some(self.item(module, segment, depth));
            }
            rest = after;
        }
        Some(Target { module, item: None })
    }

    /// Returns the module that defines `name`, seen from `module`: itself, or the first module
    /// among its `*` re-exports that defines it.
    fn item(&self, module: ModulePath, name: &str, depth: usize) -> Target {
        let item = Some(name.to_owned());
        let source = &self.modules[&module].source;
        if depth > 0 && !source.defines.contains(name) {
            for glob in source.imports.iter().filter(|it| it.name.is_none()) {
                if let Some(target) = self.resolve_within(&module, &glob.segments, depth - 1)
                    && target.item.is_none()
                    && self.modules[&target.module].source.defines.contains(name)
                {
                    return Target { module: target.module, item };
                }
            }
        }
        Target { module, item }
    }
}

/// The name of a `*` import.
const EVERYTHING: &str = "*";

/// Returns the layer of a child within its parent, counted from the top.
fn position(parent: &Module, child: &str) -> usize {
    parent.children.iter().position(|it| it == child).expect("a child is in its parent's list")
}

/// Formats a module path.
fn shown(path: &[String]) -> String {
    if path.is_empty() { "the crate root".to_owned() } else { path.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let read = |wanted: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == wanted).map(|(_, text)| (*text).to_owned())
        };
        Tree::load(Path::new("lib.rs"), &read).violations()
    }

    #[test]
    fn a_module_may_use_what_is_declared_above_it() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::a::A; fn f() -> super::a::A { crate::A }"),
        ];
        assert_eq!(violations(&files), [] as [&str; 0]);
    }

    #[test]
    fn a_module_may_not_use_what_is_declared_below_it() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "struct A;\nuse crate::b::B;"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(violations(&files), ["a.rs:2: a uses b, but lib.rs declares `b` below `a`"]);
    }

    #[test]
    fn every_form_of_a_path_is_recognised() {
        let uses = [
            "use super::b::B;",
            "use crate::{b::B};",
            "use crate::b;",
            "use crate::B;",
            "use crate::b::*;",
            "fn f() { crate::b::g() }",
            "fn f() { print!(\"{}\", super::b::g()) }",
            "struct A { #[serde(with = \"crate::b::g\")] x: u8 }",
            "mod inner { use super::super::b::B; }",
            "#[cfg(unix)] use crate::b::B;",
        ];
        for text in uses {
            let files =
                [("lib.rs", "mod a; mod b; pub use b::B;"), ("a.rs", text), ("b.rs", "pub struct B;")];
            assert_eq!(violations(&files).len(), 1, "{text}");
        }
    }

    #[test]
    fn tests_may_use_anything() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(violations(&files), [] as [&str; 0]);
    }

    #[test]
    fn directories_have_an_order_of_their_own() {
        let files = [
            ("lib.rs", "mod config; mod auth;"),
            ("config/mod.rs", "mod null;\nmod exec;\npub use exec::Exec;"),
            ("config/null.rs", "use super::exec::Exec;"),
            ("config/exec.rs", "use super::null::n; use crate::auth::token::T;"),
            ("auth/mod.rs", "mod token;"),
            ("auth/token.rs", "use crate::config::Exec;"),
        ];
        let expected = [
            "config/exec.rs:1: config::exec uses auth::token, but lib.rs declares `auth` below `config`",
            "config/null.rs:1: config::null uses config::exec, but config/mod.rs declares `exec` below `null`",
        ];
        assert_eq!(violations(&files), expected);
    }

    #[test]
    fn a_re_export_counts_as_the_child_it_comes_from() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::*;"),
            ("a.rs", "fn f(x: &crate::B) {}"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(violations(&files), ["a.rs:1: a uses b, but lib.rs declares `b` below `a`"]);
    }

    #[test]
    fn a_parent_has_a_layer_among_its_children() {
        let child = ("a.rs", "use super::Shared; pub struct A;");
        assert_eq!(
            violations(&[("lib.rs", "mod a; pub use a::A; pub struct Shared;"), child]),
            [] as [&str; 0]
        );
        for both in
            ["mod a; pub struct Shared { a: a::A }", "mod a; pub use a::A; pub struct Shared { a: A }"]
        {
            let found = violations(&[("lib.rs", both), child]);
            assert_eq!(found.len(), 1, "{both}");
            assert!(
                found[0].starts_with("a.rs:1: a uses `Shared` of the crate root, whose own code uses `a`"),
                "{found:?}"
            );
        }
        let parent = "mod a; mod b; pub struct Handle { form: a::Form }";
        let between = [("lib.rs", parent), ("a.rs", "pub struct Form;"), ("b.rs", "impl super::Handle {}")];
        assert_eq!(violations(&between), [] as [&str; 0]);
        let around = [("lib.rs", parent), ("a.rs", "pub struct Form(super::Handle);"), ("b.rs", "")];
        assert_eq!(violations(&around).len(), 1);
    }

    #[test]
    fn a_child_imports_items_of_its_parent_by_name() {
        let files = [("lib.rs", "mod a; pub struct Shared;"), ("a.rs", "use super::*;")];
        assert_eq!(
            violations(&files),
            ["a.rs:1: imports everything of the crate root: import items by name"]
        );
    }

    #[test]
    fn an_import_of_another_crate_through_our_root_has_no_layer() {
        let files =
            [("lib.rs", "mod a; mod b; pub use bytes::Bytes;"), ("a.rs", "use crate::Bytes;"), ("b.rs", "")];
        assert_eq!(violations(&files), [] as [&str; 0]);
    }

    #[test]
    fn a_missing_file_is_reported() {
        assert_eq!(violations(&[("lib.rs", "\nmod a;")]), ["lib.rs:2: no file for `mod a;`"]);
    }
}
