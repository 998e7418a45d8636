//! The public items of a library, read from its source, and compared with their record in
//! docs/public-api.
//!
//! A line of the record is an item with the names of its fields, variants, methods and other
//! members. What is in the record but not in the source was removed or renamed, which breaks
//! programs. Signatures and implementations of traits are left to `cargo xtask semver`. The source
//! is read instead of the documentation, because that takes seconds and covers every feature.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

/// The items by kind and path, each with the names of its members.
pub(crate) type Items = BTreeMap<String, BTreeSet<String>>;

/// A definition anywhere in the crate: its kind, and the names of its public members.
#[derive(Debug, Default)]
struct Definition {
    kind: &'static str,
    members: BTreeSet<String>,
}

/// The source of a crate, as far as it was read.
struct Scan<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    /// By name: the names of public types are unique in a crate.
    definitions: BTreeMap<String, Definition>,
    /// The paths of public items, and the names of their definitions.
    exports: Vec<(String, String)>,
}

/// Reads the public items of the crate whose root is `root`. `read` returns the text of a file.
///
/// # Errors
/// If a file is missing or cannot be parsed.
pub(crate) fn of_crate(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Items, String> {
    let mut scan = Scan { read, definitions: BTreeMap::new(), exports: Vec::new() };
    let folder = root.parent().unwrap_or(Path::new(""));
    scan.file(root, folder, "", true)?;
    let mut items = Items::new();
    for (path, name) in &scan.exports {
        match scan.definitions.get(name) {
            Some(it) if !it.kind.is_empty() => {
                items.insert(format!("{} {path}", it.kind), it.members.clone());
            }
            // Of another crate, or a module.
            _ => drop(items.insert(format!("use {path}"), BTreeSet::new())),
        }
    }
    Ok(items)
}

impl Scan<'_> {
    fn file(&mut self, file: &Path, folder: &Path, module: &str, is_public: bool) -> Result<(), String> {
        let text = (self.read)(file).ok_or_else(|| format!("{}: cannot read the file", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|it| format!("{}: {it}", file.display()))?;
        self.items(&parsed.items, folder, module, is_public)
    }

    fn items(&mut self, items: &[Item], folder: &Path, module: &str, is_public: bool) -> Result<(), String> {
        for item in items {
            match item {
                Item::Mod(it) if !is_hidden(&it.attrs) => {
                    let (name, is_public) = (it.ident.to_string(), is_public && is_pub(&it.vis));
                    let (inside, path) = (folder.join(&name), format!("{module}{name}::"));
                    match &it.content {
                        Some((_, items)) => self.items(items, &inside, &path, is_public)?,
                        None => {
                            let places = [folder.join(format!("{name}.rs")), inside.join("mod.rs")];
                            let file = places.iter().find(|it| (self.read)(it).is_some());
                            let file = file.ok_or_else(|| format!("no file for the module {path}"))?;
                            self.file(file, &inside, &path, is_public)?;
                        }
                    }
                }
                Item::Use(it) if is_public && is_pub(&it.vis) && !is_hidden(&it.attrs) => {
                    self.export(&it.tree, module);
                }
                Item::Impl(it) if it.trait_.is_none() => {
                    let Type::Path(of) = &*it.self_ty else { continue };
                    let Some(name) = of.path.segments.last() else { continue };
                    let members = it.items.iter().filter_map(impl_member);
                    self.definitions.entry(name.ident.to_string()).or_default().members.extend(members);
                }
                other => {
                    let Some((kind, name, members)) = definition(other) else { continue };
                    let known = self.definitions.entry(name.clone()).or_default();
                    known.kind = kind;
                    known.members.extend(members);
                    if kind == "macro" {
                        self.exports.push((name.clone(), name));
                    } else if is_public {
                        self.exports.push((format!("{module}{name}"), name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the names that a `pub use` makes public.
    fn export(&mut self, tree: &UseTree, module: &str) {
        let mut export = |name: String, of: String| self.exports.push((format!("{module}{name}"), of));
        match tree {
            UseTree::Name(it) => export(it.ident.to_string(), it.ident.to_string()),
            UseTree::Rename(it) => export(it.rename.to_string(), it.ident.to_string()),
            UseTree::Glob(_) => export("*".to_owned(), String::new()),
            UseTree::Path(it) => self.export(&it.tree, module),
            UseTree::Group(it) => it.items.iter().for_each(|it| self.export(it, module)),
        }
    }
}

/// Returns a public definition: its kind, its name, and its public members.
fn definition(item: &Item) -> Option<(&'static str, String, Vec<String>)> {
    let fields = |fields: &Fields| -> Vec<String> {
        let named = fields.iter().filter(|it| is_pub(&it.vis));
        named.filter_map(|it| Some(it.ident.as_ref()?.to_string())).collect()
    };
    let (kind, name, vis, attributes, members) = match item {
        Item::Const(it) => ("const", &it.ident, &it.vis, &it.attrs, Vec::new()),
        Item::Enum(it) => {
            let variants = it.variants.iter().map(|it| it.ident.to_string()).collect();
            ("enum", &it.ident, &it.vis, &it.attrs, variants)
        }
        Item::Fn(it) => ("fn", &it.sig.ident, &it.vis, &it.attrs, Vec::new()),
        Item::Static(it) => ("static", &it.ident, &it.vis, &it.attrs, Vec::new()),
        Item::Struct(it) => ("struct", &it.ident, &it.vis, &it.attrs, fields(&it.fields)),
        Item::Trait(it) => {
            let members = it.items.iter().filter_map(trait_member).collect();
            ("trait", &it.ident, &it.vis, &it.attrs, members)
        }
        Item::Type(it) => ("type", &it.ident, &it.vis, &it.attrs, Vec::new()),
        Item::Macro(it) if it.attrs.iter().any(|it| it.path().is_ident("macro_export")) => {
            let is_shown = !is_hidden(&it.attrs);
            return it.ident.as_ref().filter(|_| is_shown).map(|it| ("macro", it.to_string(), Vec::new()));
        }
        _ => return None,
    };
    (is_pub(vis) && !is_hidden(attributes)).then(|| (kind, name.to_string(), members))
}

fn impl_member(item: &ImplItem) -> Option<String> {
    let (vis, attributes, name) = match item {
        ImplItem::Fn(it) => (&it.vis, &it.attrs, &it.sig.ident),
        ImplItem::Const(it) => (&it.vis, &it.attrs, &it.ident),
        _ => return None,
    };
    (is_pub(vis) && !is_hidden(attributes)).then(|| name.to_string())
}

fn trait_member(item: &TraitItem) -> Option<String> {
    let (attributes, name) = match item {
        TraitItem::Fn(it) => (&it.attrs, &it.sig.ident),
        TraitItem::Const(it) => (&it.attrs, &it.ident),
        TraitItem::Type(it) => (&it.attrs, &it.ident),
        _ => return None,
    };
    (!is_hidden(attributes)).then(|| name.to_string())
}

fn is_pub(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

/// Returns true for an item of tests, and for one that is not documented.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let is = |name: &str, word: &str| {
            it.path().is_ident(name) && it.parse_args::<syn::Ident>().is_ok_and(|it| it == word)
        };
        is("cfg", "test") || is("doc", "hidden")
    })
}

/// Formats items, one on each line.
pub(crate) fn text(items: &Items) -> String {
    let line = |(item, members): (&String, &BTreeSet<String>)| match members.is_empty() {
        true => format!("{item}\n"),
        false => format!("{item}: {}\n", members.iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
    };
    items.iter().map(line).collect()
}

/// Reads items as [`text`] formats them.
pub(crate) fn parse(text: &str) -> Items {
    let line = |line: &str| match line.split_once(": ") {
        Some((item, members)) => (item.to_owned(), members.split(' ').map(str::to_owned).collect()),
        None => (line.to_owned(), BTreeSet::new()),
    };
    text.lines().map(line).collect()
}

/// Returns the items and members of the record that are gone.
pub(crate) fn removed(record: &Items, now: &Items) -> Vec<String> {
    let mut gone = Vec::new();
    for (item, members) in record {
        match now.get(item) {
            None => gone.push(item.clone()),
            Some(now) => gone.extend(members.difference(now).map(|it| format!("{item}: {it}"))),
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(files: &[(&str, &str)]) -> String {
        let read = |path: &Path| files.iter().find(|it| Path::new(it.0) == path).map(|it| it.1.to_owned());
        text(&of_crate(Path::new("src/lib.rs"), &read).expect("it parses"))
    }

    #[test]
    fn items_are_public_by_their_modules_or_by_a_use() {
        let root = "mod inner; pub mod outer { pub fn run() {} fn not() {} }
                    pub use inner::{Store, Kind as Sort}; pub use other::Thing; mod hidden { pub struct Not; }";
        let inner =
            "pub struct Store { pub size: usize, key: u8 } impl<T> Store { pub fn get(&self) {} fn not() {} }
                     pub(crate) struct Not; pub enum Kind { A, B }
                     impl Clone for Store { fn clone(&self) -> Self { loop {} } }";
        assert_eq!(
            items(&[("src/lib.rs", root), ("src/inner.rs", inner)]),
            "enum Sort: A B\nfn outer::run\nstruct Store: get size\nuse Thing\n"
        );
    }

    #[test]
    fn tests_and_hidden_items_are_not_public() {
        let root = "#[cfg(test)] pub mod tests { pub fn a() {} } #[doc(hidden)] pub fn b() {}
                    #[cfg(feature = \"x\")] pub trait C { const D: u8; type E; fn f(&self); }
                    #[macro_export] macro_rules! g { () => {} }";
        assert_eq!(items(&[("src/lib.rs", root)]), "macro g\ntrait C: D E f\n");
    }

    #[test]
    fn removals_are_reported_and_additions_are_not() {
        let record = parse("struct X: a b\nfn run\n");
        assert_eq!(text(&record), "fn run\nstruct X: a b\n");
        assert_eq!(removed(&record, &parse("struct X: b c\nfn run\nfn more\n")), ["struct X: a"]);
        assert_eq!(removed(&record, &parse("struct X: a b\n")), ["fn run"]);
    }
}
