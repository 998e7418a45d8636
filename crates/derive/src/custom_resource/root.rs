//! The generated struct, and how it is serialized, deserialized and described by a schema.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Meta};

use super::options::{Options, SchemaMode};
use crate::attribute::spelled;

/// Generates the struct with its constructor and its implementations of serde's and schemars'
/// traits.
pub(crate) fn generate(options: &Options, input: &DeriveInput) -> TokenStream {
    let definition = definition(options, input);
    let constructor = constructor(options, input);
    let serialize = serialize(options, input);
    let schema = schema_with_rules(options, input);
    let default = default(options);
    quote! {
        #definition
        #constructor
        #serialize
        #schema
        #default
    }
}

/// True where schemars derives the schema of the root itself.
fn derives_schema(options: &Options) -> bool {
    options.schema == SchemaMode::Derived && options.rules.is_empty()
}

fn definition(options: &Options, input: &DeriveInput) -> TokenStream {
    let Options { root, private, derives, attributes, doc, .. } = options;
    let (visibility, fields) = (&input.vis, fields(options, input, derives_schema(options)));
    let serde = spelled(&syn::parse_quote!(#private::serde));
    let schema = derives_schema(options).then(|| {
        let schemars = spelled(&syn::parse_quote!(#private::schemars));
        quote! {
            #[derive(#private::schemars::JsonSchema)]
            #[schemars(crate = #schemars)]
        }
    });
    quote! {
        #[doc = #doc]
        #[allow(missing_docs)]
        #[derive(::core::clone::Clone, ::core::fmt::Debug, #private::serde::Deserialize, #(#derives),*)]
        #schema
        #(#[#attributes])*
        #[serde(crate = #serde)]
        #visibility struct #root {
            #fields
        }
    }
}

/// Returns the fields of the root. `described` is true where a schema is derived from them.
fn fields(options: &Options, input: &DeriveInput, described: bool) -> TokenStream {
    let (spec, visibility, private) = (&input.ident, &input.vis, &options.private);
    // The server validates the metadata itself, and a schema must not describe it.
    let skip = described.then(|| quote!(#[schemars(skip)]));
    let flatten = options.no_spec.then(|| quote!(#[serde(flatten)]));
    let status = options.status.as_ref().map(|status| {
        quote! {
            #[serde(skip_serializing_if = "::core::option::Option::is_none")]
            #visibility status: ::core::option::Option<#status>,
        }
    });
    quote! {
        #skip
        #visibility metadata: #private::ObjectMeta,
        #flatten
        #visibility spec: #spec,
        #status
    }
}

fn constructor(options: &Options, input: &DeriveInput) -> TokenStream {
    let Options { root, private, .. } = options;
    let (spec, visibility) = (&input.ident, &input.vis);
    let annotations = options.annotations.iter().map(|(key, value)| quote!((#key, #value)));
    let labels = options.labels.iter().map(|(key, value)| quote!((#key, #value)));
    let status = no_status(options);
    quote! {
        impl #root {
            /// Returns an object with this name and specification.
            #[allow(dead_code)]
            #visibility fn new(name: &str, spec: #spec) -> Self {
                let metadata = #private::ObjectMeta {
                    name: ::core::option::Option::Some(::std::string::String::from(name)),
                    annotations: #private::map(&[#(#annotations),*]),
                    labels: #private::map(&[#(#labels),*]),
                    ..::core::default::Default::default()
                };
                Self { metadata, spec, #status }
            }
        }
    }
}

fn default(options: &Options) -> Option<TokenStream> {
    let root = &options.root;
    let status = no_status(options);
    options.default.then(|| {
        quote! {
            #[automatically_derived]
            impl ::core::default::Default for #root {
                fn default() -> Self {
                    let metadata = ::core::default::Default::default();
                    Self { metadata, spec: ::core::default::Default::default(), #status }
                }
            }
        }
    })
}

fn no_status(options: &Options) -> Option<TokenStream> {
    options.status.as_ref().map(|_| quote!(status: ::core::option::Option::None,))
}

/// Generates `Serialize`, by way of a borrowed struct that also has `apiVersion` and `kind`.
fn serialize(options: &Options, input: &DeriveInput) -> TokenStream {
    let Options { root, private, kind, .. } = options;
    let spec = &input.ident;
    let api_version = format!("{}/{}", options.group, options.version);
    let serde = spelled(&syn::parse_quote!(#private::serde));
    let flatten = options.no_spec.then(|| quote!(#[serde(flatten)]));
    let (status, status_value) = match &options.status {
        Some(status) => (
            quote! {
                #[serde(skip_serializing_if = "::core::option::Option::is_none")]
                status: ::core::option::Option<&'a #status>,
            },
            quote!(status: ::core::option::Option::as_ref(&self.status),),
        ),
        None => (TokenStream::new(), TokenStream::new()),
    };
    quote! {
        #[automatically_derived]
        impl #private::serde::Serialize for #root {
            fn serialize<S>(&self, serializer: S) -> ::core::result::Result<S::Ok, S::Error>
            where
                S: #private::serde::Serializer,
            {
                #[derive(#private::serde::Serialize)]
                #[serde(crate = #serde, rename = #kind)]
                struct Document<'a> {
                    #[serde(rename = "apiVersion")]
                    api_version: &'static str,
                    kind: &'static str,
                    metadata: &'a #private::ObjectMeta,
                    #flatten
                    spec: &'a #spec,
                    #status
                }

                let document = Document {
                    api_version: #api_version,
                    kind: #kind,
                    metadata: &self.metadata,
                    spec: &self.spec,
                    #status_value
                };
                #private::serde::Serialize::serialize(&document, serializer)
            }
        }
    }
}

/// Generates `JsonSchema` where rules are added to the derived schema, by way of a struct without
/// them.
fn schema_with_rules(options: &Options, input: &DeriveInput) -> Option<TokenStream> {
    if options.schema != SchemaMode::Derived || options.rules.is_empty() {
        return None;
    }
    let Options { root, private, rules, doc, .. } = options;
    let (name, plain) = (root.to_string(), format_ident!("{root}WithoutRules"));
    let fields = fields(options, input, true);
    let schemars = spelled(&syn::parse_quote!(#private::schemars));
    // Of the attributes of the root, a schema reads the documentation.
    let is_doc = |it: &&Meta| it.path().is_ident("doc");
    let docs = options.attributes.iter().filter(is_doc);
    Some(quote! {
        #[automatically_derived]
        impl #private::schemars::JsonSchema for #root {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }

            fn json_schema(
                generator: &mut #private::schemars::SchemaGenerator,
            ) -> #private::schemars::Schema {
                #[doc = #doc]
                #(#[#docs])*
                #[allow(dead_code)]
                #[derive(#private::schemars::JsonSchema)]
                #[schemars(crate = #schemars)]
                struct #plain {
                    #fields
                }

                let mut schema = <#plain as #private::schemars::JsonSchema>::json_schema(generator);
                {
                    // Rules are written with these names, as in kube-derive.
                    #[allow(unused_imports)]
                    use #private::kube_core::{Message, Reason, Rule};
                    #(#private::add_rule(&mut schema, #rules);)*
                }
                schema
            }
        }
    })
}
