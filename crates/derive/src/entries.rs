//! The two forms of options with named values: a list, `scale(spec_replicas_path = "…")`, and a
//! string with a JSON object, `scale = r#"{"specReplicasPath": "…"}"#`.
//!
//! Both become [`Entries`]: names in the form of the list, with their values. The JSON objects are
//! flat and small, so they are read with the Rust lexer; an escape that only JSON has is an error.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Error, Ident, LitInt, LitStr, Result, Token, braced, token};

use crate::attribute;

/// The named values of one option.
pub(crate) struct Entries {
    /// The name of the option, for errors.
    option: String,
    span: Span,
    items: Vec<Entry>,
}

struct Entry {
    /// The name in the form of the list.
    name: String,
    span: Span,
    value: Value,
}

enum Value {
    Text(LitStr),
    Number(i32),
    Null,
}

impl Entries {
    /// Reads the value of an option in either form.
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut entries = Self {
            option: attribute::name(meta),
            span: meta.path.segments.first().map_or_else(Span::call_site, |it| it.ident.span()),
            items: Vec::new(),
        };
        if meta.input.peek(token::Paren) {
            meta.parse_nested_meta(|item| {
                let name = attribute::name(&item);
                let span = item.path.segments.first().map_or(entries.span, |it| it.ident.span());
                let value = Value::read(item.value()?)?;
                entries.push(Entry { name, span, value })
            })?;
        } else {
            let json = attribute::text(meta)?;
            json.parse_with(|input: ParseStream<'_>| entries.read_json(input))?;
        }
        Ok(entries)
    }

    fn read_json(&mut self, input: ParseStream<'_>) -> Result<()> {
        let content;
        braced!(content in input);
        while !content.is_empty() {
            let key: LitStr = content.parse()?;
            content.parse::<Token![:]>()?;
            let value = Value::read(&content)?;
            self.push(Entry { name: list_name(&key.value()), span: key.span(), value })?;
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        if self.items.iter().any(|it| it.name == entry.name) {
            return Err(Error::new(entry.span, format!("`{}` is given more than once", entry.name)));
        }
        self.items.push(entry);
        Ok(())
    }

    /// Takes the text under a name, which has to be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<LitStr> {
        let missing = Error::new(self.span, format!("`{}` needs `{name} = \"…\"`", self.option));
        self.text(name)?.ok_or(missing)
    }

    /// Takes the text under a name.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<LitStr>> {
        match self.take(name) {
            Some(Entry { value: Value::Text(text), .. }) => Ok(Some(text)),
            Some(Entry { value: Value::Number(_), span, .. }) => {
                Err(Error::new(span, format!("`{name}` has to be a string")))
            }
            Some(Entry { value: Value::Null, .. }) | None => Ok(None),
        }
    }

    /// Takes the number under a name; it may be written as a string.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<i32>> {
        let wrong = |span| Error::new(span, format!("`{name}` has to be a 32-bit integer"));
        match self.take(name) {
            Some(Entry { value: Value::Number(number), .. }) => Ok(Some(number)),
            Some(Entry { value: Value::Text(text), .. }) => {
                text.value().parse().map(Some).map_err(|_| wrong(text.span()))
            }
            Some(Entry { value: Value::Null, .. }) | None => Ok(None),
        }
    }

    /// Fails if an entry was not taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.items.first() {
            Some(it) => {
                let message = format!("`{}` has no `{}`", self.option, it.name);
                Err(Error::new(it.span, message))
            }
            None => Ok(()),
        }
    }

    fn take(&mut self, name: &str) -> Option<Entry> {
        let at = self.items.iter().position(|it| it.name == name)?;
        Some(self.items.remove(at))
    }
}

impl Value {
    fn read(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Text(input.parse()?));
        }
        if input.peek(Ident::peek_any) {
            let word = Ident::parse_any(input)?;
            if word == "null" {
                return Ok(Self::Null);
            }
            return Err(Error::new(word.span(), "expected a string or an integer"));
        }
        let minus = input.parse::<Option<Token![-]>>()?;
        let digits: LitInt =
            input.parse().map_err(|error| Error::new(error.span(), "expected a string or an integer"))?;
        let number = format!("{}{}", if minus.is_some() { "-" } else { "" }, digits.base10_digits());
        let wrong = |_| Error::new(digits.span(), "expected a 32-bit integer");
        number.parse().map(Self::Number).map_err(wrong)
    }
}

/// Returns the name that a key of JSON has in a list: `jsonPath` is `json_path` there, `type` is
/// `type_`.
fn list_name(key: &str) -> String {
    if key == "type" {
        return "type_".to_owned();
    }
    let mut name = String::new();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use syn::parse::Parser as _;

    use super::*;

    /// Reads the first option of a list of options.
    fn read(options: &str) -> Result<Entries> {
        let mut read = None;
        let parser = syn::meta::parser(|meta| {
            read = Some(Entries::read(&meta)?);
            Ok(())
        });
        parser.parse_str(options)?;
        Ok(read.expect("an option"))
    }

    fn text(entries: &mut Entries, name: &str) -> Option<String> {
        entries.text(name).expect("a text").map(|it| it.value())
    }

    #[test]
    fn a_list_and_a_json_object_give_the_same_entries() {
        let list = r#"column(name = "A", type_ = "string", json_path = ".a", priority = -1)"#;
        let json = r##"column = r#"
            { "name": "A", "type": "string", "jsonPath": ".a", "priority": -1, "x": null }
        "#"##;
        for options in [list, json] {
            let mut entries = read(options).expect(options);
            assert_eq!(text(&mut entries, "name").as_deref(), Some("A"));
            assert_eq!(text(&mut entries, "type_").as_deref(), Some("string"));
            assert_eq!(text(&mut entries, "json_path").as_deref(), Some(".a"));
            assert_eq!(entries.number("priority").expect("a number"), Some(-1));
            assert_eq!(text(&mut entries, "x"), None);
            entries.finish().expect(options);
        }
    }

    #[test]
    fn a_number_may_be_a_string() {
        let mut entries = read(r#"column(priority = "3")"#).expect("entries");
        assert_eq!(entries.number("priority").expect("a number"), Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let refused = |options: &str| {
            let read = |options: &str| -> Result<()> {
                let mut entries = read(options)?;
                entries.required("name")?;
                entries.number("priority")?;
                entries.finish()
            };
            read(options).expect_err(options).to_string()
        };
        assert_eq!(refused("column(priority = 1)"), "`column` needs `name = \"…\"`");
        assert_eq!(refused(r#"column(name = "a", name = "b")"#), "`name` is given more than once");
        assert_eq!(refused(r#"column(name = "a", colour = "b")"#), "`column` has no `colour`");
        assert_eq!(refused("column(name = 1)"), "`name` has to be a string");
        assert_eq!(refused(r#"column(name = "a", priority = "b")"#), "`priority` has to be a 32-bit integer");
        assert_eq!(refused(r#"column(name = "a", priority = 5000000000)"#), "expected a 32-bit integer");
        assert_eq!(refused("column(name = true)"), "expected a string or an integer");
        assert_eq!(refused(r##"column = r#"["name"]"#"##), "expected curly braces");
    }
}
