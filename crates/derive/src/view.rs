//! `#[derive(View)]`: the implementations of `Object` and `View` for a struct that holds its
//! metadata.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{
    Data, DeriveInput, Error, Field, Fields, Generics, Ident, LitStr, Path, Result, Type, WherePredicate,
    parse_quote,
};

use crate::attribute::{module_path, name, once};

/// Expands the derive, into compile errors where the input does not fit.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    syn::parse2(input).and_then(|input| expand(&input)).unwrap_or_else(Error::into_compile_error)
}

/// The options of the struct.
struct Options {
    /// The resource that is viewed.
    of: Type,
    /// The path of the facade.
    dogwatch: Path,
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let metadata = metadata_field(input)?;
    let Options { of, dogwatch } = Options::read(input)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a view owns its fields: it cannot have a lifetime parameter";
        return Err(Error::new_spanned(lifetime, message));
    }
    let (ident, field) = (&input.ident, &metadata.ident);
    // The call has the span of the field's type, so that an error about the method points to the
    // type.
    let header = Ident::new("header", metadata.ty.span());
    let object_bounds = parse_quote!(Self: ::core::marker::Send + ::core::marker::Sync + 'static);
    let object_generics = with_bounds(&input.generics, object_bounds);
    let decoded = quote!(#dogwatch::__private::serde::de::DeserializeOwned);
    let view_generics = with_bounds(&input.generics, parse_quote!(Self: #dogwatch::Object + #decoded));
    let (impl_generics, type_generics, object_where) = object_generics.split_for_impl();
    let (_, _, view_where) = view_generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #dogwatch::Object for #ident #type_generics #object_where {
            fn header(&self) -> #dogwatch::api::Header<'_> {
                self.#field.#header()
            }
        }

        #[automatically_derived]
        impl #impl_generics #dogwatch::View for #ident #type_generics #view_where {
            type Of = #of;
        }
    })
}

impl Options {
    fn read(input: &DeriveInput) -> Result<Self> {
        let (mut of, mut dogwatch) = (None, None);
        for attribute in input.attrs.iter().filter(|it| it.path().is_ident("view")) {
            attribute.parse_nested_meta(|meta| match name(&meta).as_str() {
                "of" => {
                    let value = meta.value()?;
                    if value.peek(LitStr) {
                        let quoted: LitStr = value.parse()?;
                        let message = format!("write the type without quotes: `of = {}`", quoted.value());
                        return Err(Error::new(quoted.span(), message));
                    }
                    once(&mut of, &meta, value.parse()?)
                }
                "crate" => once(&mut dogwatch, &meta, module_path(&meta)?),
                "metadata" => Err(meta.error("`metadata` is an option of the field that holds the metadata")),
                other => Err(meta.error(format!("`view` has no option `{other}`; it has `of` and `crate`"))),
            })?;
        }
        let message = "the derive has to know which resource this is a view of: add `#[view(of = Pod)]`";
        let of = of.ok_or_else(|| Error::new_spanned(&input.ident, message))?;
        Ok(Self { of, dogwatch: dogwatch.unwrap_or_else(|| parse_quote!(::dogwatch)) })
    }
}

/// Finds the field that holds the metadata.
fn metadata_field(input: &DeriveInput) -> Result<&Field> {
    let message = "a view is a struct with named fields";
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, message));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, message));
    };
    let mut marked = None;
    for field in &fields.named {
        for attribute in field.attrs.iter().filter(|it| it.path().is_ident("view")) {
            attribute.parse_nested_meta(|meta| match name(&meta).as_str() {
                "metadata" => once(&mut marked, &meta, field),
                "of" | "crate" => Err(meta.error(format!("`{}` is an option of the struct", name(&meta)))),
                other => Err(meta.error(format!("a field has no option `{other}`; it has `metadata`"))),
            })?;
        }
    }
    let named = || fields.named.iter().find(|it| it.ident.as_ref().is_some_and(|it| it == "metadata"));
    marked.or_else(named).ok_or_else(|| {
        let message = "a view holds the metadata of the object: add a field `metadata: Meta`, \
                       or mark the one that holds it with `#[view(metadata)]`";
        Error::new_spanned(&input.ident, message)
    })
}

/// Adds a bound to generic types. Others need none: there the compiler's own error is clearer.
fn with_bounds(generics: &Generics, predicate: WherePredicate) -> Generics {
    let mut generics = generics.clone();
    if !generics.params.is_empty() {
        generics.make_where_clause().predicates.push(predicate);
    }
    generics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: &str) -> String {
        let input = syn::parse_str(input).expect("a type");
        expand(&input).expect("an expansion").to_string()
    }

    /// The error of an input, and the source text that it points to.
    fn refused(input: &str) -> (String, String) {
        let parsed = syn::parse_str(input).expect("a type");
        let error = expand(&parsed).expect_err(input);
        (error.to_string(), error.span().source_text().unwrap_or_default())
    }

    #[test]
    fn both_traits_are_implemented() {
        let expected = quote! {
            #[automatically_derived]
            impl ::dogwatch::Object for Placed {
                fn header(&self) -> ::dogwatch::api::Header<'_> { self.metadata.header() }
            }
            #[automatically_derived]
            impl ::dogwatch::View for Placed { type Of = v1::Pod; }
        };
        let input = "#[view(of = v1::Pod)] struct Placed { spec: Place, metadata: Meta }";
        assert_eq!(expanded(input), expected.to_string());
    }

    #[test]
    fn the_field_and_the_path_of_the_facade_can_be_chosen() {
        let code = expanded(
            "#[view(of = Pod, crate = other::dogwatch)]
             struct Placed { metadata: Extra, #[view(metadata)] meta: Meta }",
        );
        assert!(code.contains("self . meta . header ()"), "{code}");
        assert!(code.contains("impl other :: dogwatch :: View for Placed"), "{code}");
        assert!(!code.contains(":: dogwatch :: Object for Placed where"), "{code}");
    }

    #[test]
    fn a_generic_view_gets_the_bounds_that_the_traits_need() {
        let code = expanded("#[view(of = Pod)] struct Placed<T: Clone> { metadata: Meta, spec: T }");
        assert!(
            code.contains("impl < T : Clone > :: dogwatch :: Object for Placed < T > where Self"),
            "{code}"
        );
        assert!(code.contains("DeserializeOwned"), "{code}");
    }

    #[test]
    fn an_error_points_to_what_is_wrong() {
        let of = "the derive has to know which resource this is a view of: add `#[view(of = Pod)]`";
        let refusals = [
            ("struct Placed { metadata: Meta }", of, "Placed"),
            ("#[view(of = Pod)] enum Placed { A }", "a view is a struct with named fields", "Placed"),
            ("#[view(of = Pod)] struct Placed(Meta);", "a view is a struct with named fields", "Placed"),
            (
                "#[view(of = Pod)] struct Placed { meta: Meta }",
                "a view holds the metadata of the object: add a field `metadata: Meta`, \
                 or mark the one that holds it with `#[view(metadata)]`",
                "Placed",
            ),
            (
                "#[view(of = \"Pod\")] struct Placed { metadata: Meta }",
                "write the type without quotes: `of = Pod`",
                "\"Pod\"",
            ),
            (
                "#[view(off = Pod)] struct Placed { metadata: Meta }",
                "`view` has no option `off`; it has `of` and `crate`",
                "off",
            ),
            (
                "#[view(of = Pod, of = Node)] struct Placed { metadata: Meta }",
                "`of` is given more than once",
                "of = Node",
            ),
            (
                "#[view(of = Pod)] struct Placed { #[view(metadata)] a: Meta, #[view(metadata)] b: Meta }",
                "`metadata` is given more than once",
                "metadata",
            ),
            (
                "#[view(of = Pod)] struct Placed<'a> { metadata: Meta, name: &'a str }",
                "a view owns its fields: it cannot have a lifetime parameter",
                "'a",
            ),
        ];
        for (input, message, place) in refusals {
            assert_eq!(refused(input), (message.to_owned(), place.to_owned()), "{input}");
        }
    }

    #[test]
    fn an_error_is_expanded_to_a_compile_error() {
        let code = derive(quote!(
            enum Placed {}
        ))
        .to_string();
        assert!(code.contains("compile_error !"), "{code}");
    }
}
