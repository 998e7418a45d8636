//! Readers for the values of options in `#[kube(…)]` and `#[view(…)]`.
//!
//! Every error has the span of the token that is wrong. Which options exist is decided by the
//! callers.

use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Lit, LitStr, Path, Result, Token, parenthesized};

/// Returns the name of the option, as it is written.
pub(crate) fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.to_token_stream().to_string().replace(' ', "")
}

/// Stores the value of an option that may be given once.
pub(crate) fn once<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(meta.error(format!("`{}` is given more than once", name(meta))));
    }
    Ok(())
}

/// Reads `= "text"`.
pub(crate) fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

/// Reads nothing, `= true`, `= false`, or one of the two as a string.
pub(crate) fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    let value: Lit = meta.value()?.parse()?;
    let parsed = match &value {
        Lit::Bool(it) => Some(it.value),
        Lit::Str(it) => it.value().parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| Error::new(value.span(), "expected `true` or `false`"))
}

/// Reads `= "syntax"` or `= syntax`.
pub(crate) fn syntax<T: Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    let value = meta.value()?;
    if value.peek(LitStr) { value.parse::<LitStr>()?.parse() } else { value.parse() }
}

/// Reads `= "path"` or `= path`, of a module: `crate`, `self` and `::name` included.
pub(crate) fn module_path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        value.parse::<LitStr>()?.parse_with(Path::parse_mod_style)
    } else {
        Path::parse_mod_style(value)
    }
}

/// Reads `("key", "value")`.
pub(crate) fn pair(meta: &ParseNestedMeta<'_>) -> Result<(LitStr, LitStr)> {
    let content;
    parenthesized!(content in meta.input);
    let items = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?;
    let mut items = items.into_iter();
    match (items.next(), items.next(), items.next()) {
        (Some(key), Some(value), None) => Ok((key, value)),
        _ => Err(meta.error(format!("expected `{}(\"key\", \"value\")`", name(meta)))),
    }
}

/// Parses the text of a literal as the name of a type, with the literal's span.
pub(crate) fn identifier(literal: &LitStr) -> Result<Ident> {
    let message = || format!("`{}` is not the name of a type", literal.value());
    literal.parse().map_err(|_| Error::new(literal.span(), message()))
}

/// Returns a path as text without spaces, for attributes such as `#[serde(crate = "…")]`.
pub(crate) fn spelled(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}
