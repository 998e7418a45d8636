//! The input of the layer check, from the text of a source file: the modules it declares, its
//! imports, and the paths in its code.
//!
//! It reads tokens, so comments and strings never look like code, and code inside macro calls still
//! does. Items under `#[cfg(test)]` are ignored. It knows no files and resolves no names;
//! [`crate::layers`] does.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// The contents of one module, outside of its tests.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// `mod` items, in source order.
    pub(crate) modules: Vec<ModuleItem>,
    /// `use` items, one entry per imported name.
    pub(crate) imports: Vec<Import>,
    /// Paths of two or more segments in the code.
    pub(crate) mentions: Vec<Mention>,
    /// Single names in the code, with the line of the first occurrence.
    pub(crate) names: BTreeMap<String, usize>,
    /// Names of the items that this module itself defines.
    pub(crate) defines: BTreeSet<String>,
}

/// A `mod` item.
#[derive(Debug)]
pub(crate) struct ModuleItem {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// The inside of `mod name { … }`; `None` for `mod name;`.
    pub(crate) body: Option<Source>,
}

/// One name imported by a `use` item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The path as written, for example `["crate", "key", "ObjectKey"]`.
    pub(crate) segments: Vec<String>,
    /// The local name. `None` for `*`.
    pub(crate) name: Option<String>,
    /// True if the name is re-exported with `pub` or `pub(…)`.
    pub(crate) public: bool,
    pub(crate) line: usize,
}

/// A path in the code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// Parses the text of one file.
pub(crate) fn read(text: &str) -> Result<Source, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("is not Rust: {error}"))?;
    let mut source = Source::default();
    walk(stream, &mut source);
    Ok(source)
}

/// Adds everything in `stream` to `source`, groups included.
fn walk(stream: TokenStream, source: &mut Source) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        at = match &tokens[at] {
            TokenTree::Punct(it) if it.as_char() == '#' => match attribute(&tokens, at) {
                Some((group, _, true)) if is_for_tests(group) => return,
                Some((group, next, false)) if is_for_tests(group) => end_of_item(&tokens, next),
                Some((group, next, _)) => {
                    inside_attribute(group, source);
                    next
                }
                None => at + 1,
            },
            TokenTree::Punct(it) if it.as_char() == '\'' => at + 2,
            TokenTree::Punct(_) if is_separator(&tokens, at) => path(&tokens, at + 2).1.max(at + 2),
            TokenTree::Punct(it) if it.as_char() == '.' && is_name(&tokens, at + 1) => at + 2,
            TokenTree::Punct(_) | TokenTree::Literal(_) => at + 1,
            TokenTree::Group(group) => {
                walk(group.stream(), source);
                at + 1
            }
            TokenTree::Ident(_) => word(&tokens, at, source),
        };
    }
}

/// Handles the identifier at `at`. Returns the index to continue at.
fn word(tokens: &[TokenTree], at: usize, source: &mut Source) -> usize {
    let line = tokens[at].span().start().line;
    match text_of(tokens, at).as_str() {
        "pub" if matches!(tokens.get(at + 1), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Parenthesis) => {
            at + 2
        }
        "extern" if text_of(tokens, at + 1) == "crate" => at + 3,
        "use" if is_separator(tokens, at + 1) || is_name(tokens, at + 1) || is_brace(tokens, at + 1) => {
            let end = (at..tokens.len()).find(|&it| is_punct(tokens, it, ';')).unwrap_or(tokens.len());
            let public =
                at > 0 && (text_of(tokens, at - 1) == "pub" || at > 1 && text_of(tokens, at - 2) == "pub");
            use_tree(&tokens[at + 1..end], Vec::new(), public, source);
            end
        }
        "mod" if is_name(tokens, at + 1) => {
            let name = text_of(tokens, at + 1);
            let body = match tokens.get(at + 2) {
                Some(TokenTree::Group(group)) => {
                    let mut inner = Source::default();
                    walk(group.stream(), &mut inner);
                    Some(inner)
                }
                _ => None,
            };
            source.modules.push(ModuleItem { name, line, body });
            at + 3
        }
        "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static"
            if is_name(tokens, at + 1) =>
        {
            source.defines.insert(text_of(tokens, at + 1));
            at + 2
        }
        _ => {
            let (segments, next) = path(tokens, at);
            match <[String; 1]>::try_from(segments) {
                Ok([name]) => {
                    source.names.entry(name).or_insert(line);
                }
                Err(segments) => source.mentions.push(Mention { segments, line }),
            }
            next
        }
    }
}

/// Flattens a use tree: `a::{b, c::d as e}` is two imports.
fn use_tree(tokens: &[TokenTree], prefix: Vec<String>, public: bool, source: &mut Source) {
    let mut segments = prefix;
    // A leading `::` names another crate. The empty segment keeps it from looking like a module of
    // ours.
    let start = if is_separator(tokens, 0) { 2 } else { 0 };
    if start > 0 {
        segments.push(String::new());
    }
    let (tail, next) = path(tokens, start);
    segments.extend(tail);
    let line = tokens.first().map_or(0, |it| it.span().start().line);
    match tokens.get(next) {
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            for branch in inner.split(|it| matches!(it, TokenTree::Punct(comma) if comma.as_char() == ',')) {
                if !branch.is_empty() {
                    use_tree(branch, segments.clone(), public, source);
                }
            }
        }
        Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
            source.imports.push(Import { segments, name: None, public, line });
        }
        renamed => {
            // `a::{self}` imports `a` itself.
            if segments.len() > 1 && segments.last().is_some_and(|it| it == "self") {
                segments.pop();
            }
            let name =
                if renamed.is_some() { Some(text_of(tokens, next + 1)) } else { segments.last().cloned() };
            source.imports.push(Import { segments, name, public, line });
        }
    }
}

/// Returns the path that starts at `at`, and the index of the first token after it (including a
/// trailing `::`).
fn path(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut next = at;
    while is_name(tokens, next) {
        segments.push(text_of(tokens, next));
        next += 1;
        if !is_separator(tokens, next) {
            break;
        }
        next += 2;
    }
    (segments, next)
}

/// Returns the attribute whose `#` is at `at`: its brackets, the index after it, and true if it is
/// an inner one (`#!`).
pub(crate) fn attribute(tokens: &[TokenTree], at: usize) -> Option<(&Group, usize, bool)> {
    let inner = is_punct(tokens, at + 1, '!');
    let bracket = if inner { at + 2 } else { at + 1 };
    match tokens.get(bracket) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((group, bracket + 1, inner))
        }
        _ => None,
    }
}

/// Returns true for `cfg(test)` and `cfg(all(test, …))`.
pub(crate) fn is_for_tests(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Adds the paths inside an attribute, and those in the strings in which serde takes paths.
fn inside_attribute(attribute: &Group, source: &mut Source) {
    let mut tokens = attribute.stream().into_iter();
    let name = tokens.next().map(|it| it.to_string());
    if let (Some("serde"), Some(TokenTree::Group(options))) = (name.as_deref(), tokens.next()) {
        for option in options.stream() {
            if let TokenTree::Literal(literal) = option
                && let Ok(code) = literal.to_string().trim_matches('"').parse::<TokenStream>()
            {
                let mut named = Source::default();
                walk(code, &mut named);
                let line = literal.span().start().line;
                source.mentions.extend(named.mentions.into_iter().map(|it| Mention { line, ..it }));
            }
        }
    }
    walk(attribute.stream(), source);
}

/// Returns the index after the item that starts at `at`, including further attributes.
pub(crate) fn end_of_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some((_, next, _)) = is_punct(tokens, at, '#').then(|| attribute(tokens, at)).flatten() {
        at = next;
    }
    let mut head = at;
    while text_of(tokens, head) == "pub" || matches!(tokens.get(head), Some(TokenTree::Group(_))) {
        head += 1;
    }
    let keyword = text_of(tokens, head);
    let by_semicolon = ["use", "const", "static", "type", "let"].contains(&keyword.as_str())
        && text_of(tokens, head + 1) != "fn";
    let items =
        ["mod", "fn", "impl", "struct", "enum", "union", "trait", "async", "unsafe", "extern", "macro_rules"];
    // Neither an item nor a statement: a field, a variant or an argument, which ends at its comma.
    let by_comma = !by_semicolon && keyword != "const" && !items.contains(&keyword.as_str());
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Punct(it) if it.as_char() == ';' || by_comma && it.as_char() == ',' => break,
            TokenTree::Group(it) if it.delimiter() == Delimiter::Brace && !by_semicolon && !by_comma => break,
            _ => {}
        }
    }
    at
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(it)) if it.as_char() == ':' && it.spacing() == Spacing::Joint)
        && is_punct(tokens, at + 1, ':')
}

pub(crate) fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(it)) if it.as_char() == wanted)
}

fn is_brace(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Brace)
}

fn is_name(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(_)))
}

/// Returns the identifier at `at`, or an empty string.
pub(crate) fn text_of(tokens: &[TokenTree], at: usize) -> String {
    match tokens.get(at) {
        Some(TokenTree::Ident(it)) => it.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions(text: &str) -> Vec<String> {
        read(text).unwrap().mentions.into_iter().map(|it| it.segments.join("::")).collect()
    }

    fn imports(text: &str) -> Vec<(String, Option<String>)> {
        read(text).unwrap().imports.into_iter().map(|it| (it.segments.join("::"), it.name)).collect()
    }

    #[test]
    fn paths_in_code_and_in_macro_calls_are_found() {
        let text = "fn f() -> crate::a::A { info!(x = super::b::c(), \"{}\", self::d::E); }";
        assert_eq!(mentions(text), ["crate::a::A", "super::b::c", "self::d::E"]);
    }

    #[test]
    fn comments_strings_lifetimes_and_fields_are_not_code() {
        let text =
            "//! crate::a::A\n/* crate::b::B */ fn f<'c>(x: &'c X) { g(\"crate::d::D\"); x.e::<u8>(); }";
        assert_eq!(mentions(text), [] as [&str; 0]);
    }

    #[test]
    fn a_path_of_another_crate_is_not_ours() {
        assert_eq!(mentions("fn f() { ::key::g(); <T as U>::key::h(); }"), [] as [&str; 0]);
    }

    #[test]
    fn paths_in_the_strings_of_serde_are_code() {
        assert_eq!(mentions("struct A { #[serde(with = \"super::b::c\")] x: u8 }"), ["super::b::c"]);
    }

    #[test]
    fn use_trees_are_flattened() {
        let text = "use crate::{a::{self, B}, c::D as E, f::*};";
        let names = |it: &str| Some(it.to_owned());
        let expected = [
            ("crate::a".to_owned(), names("a")),
            ("crate::a::B".to_owned(), names("B")),
            ("crate::c::D".to_owned(), names("E")),
            ("crate::f".to_owned(), None),
        ];
        assert_eq!(imports(text), expected);
    }

    #[test]
    fn the_use_of_a_capture_list_is_not_an_import() {
        assert_eq!(imports("fn f<T>(t: T) -> impl Sized + use<T> { t }"), []);
    }

    #[test]
    fn only_exported_imports_are_public() {
        let source = read("pub use a::A; pub(crate) use b::B; use c::C;").unwrap();
        assert_eq!(source.imports.iter().map(|it| it.public).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn only_items_under_cfg_test_are_ignored() {
        let text = "
            #[cfg(test)] mod tests { use super::*; }
            #[cfg(test)] #[allow(dead_code)] use crate::{a::A};
            #[cfg(test)] pub(crate) fn f<A, B>() { crate::b::c(); }
            #[cfg(all(test, unix))] const X: crate::c::C = crate::c::C { y: 1 };
            struct S { #[cfg(test)] x: crate::d::D, y: crate::e::E }
            #[cfg(not(test))] fn g() { crate::f::g(); }
        ";
        let source = read(text).unwrap();
        assert!(source.modules.is_empty() && source.imports.is_empty());
        assert_eq!(mentions(text), ["crate::e::E", "crate::f::g"]);
        assert_eq!(mentions("#![cfg(test)]\nfn f() { crate::a::b(); }"), [] as [&str; 0]);
    }

    #[test]
    fn modules_keep_their_order_and_their_lines() {
        let source = read("mod b;\npub mod a { fn f() { super::b::g() } }").unwrap();
        let seen: Vec<_> =
            source.modules.iter().map(|it| (it.name.as_str(), it.line, it.body.is_some())).collect();
        assert_eq!(seen, [("b", 1, false), ("a", 2, true)]);
    }
}
