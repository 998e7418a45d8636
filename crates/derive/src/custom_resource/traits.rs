//! The implementations of kube-core's traits for the generated struct.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use super::columns::optional;
use super::options::{Deprecation, Options, SchemaMode};

/// Generates `Resource`, `CustomResourceExt`, `HasSpec` and, where there is a status, `HasStatus`.
pub(crate) fn generate(options: &Options, input: &DeriveInput) -> TokenStream {
    [resource(options), definition(options), has_spec(options, input), has_status(options)]
        .into_iter()
        .collect()
}

fn resource(options: &Options) -> TokenStream {
    let Options { root, private, group, version, kind, plural, .. } = options;
    let api_version = format!("{group}/{version}");
    let scope = if options.namespaced {
        quote!(#private::kube_core::NamespaceResourceScope)
    } else {
        quote!(#private::kube_core::ClusterResourceScope)
    };
    let names = [
        (quote!(group), group),
        (quote!(version), version),
        (quote!(kind), kind),
        (quote!(plural), plural),
        (quote!(api_version), &api_version),
    ];
    let functions = names.map(|(function, name)| {
        quote! {
            fn #function(_: &()) -> ::std::borrow::Cow<'_, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #private::kube_core::Resource for #root {
            type DynamicType = ();
            type Scope = #scope;

            #(#functions)*

            fn meta(&self) -> &#private::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut #private::ObjectMeta {
                &mut self.metadata
            }
        }
    }
}

/// Generates `CustomResourceExt`. What the options say becomes one value, which builds the
/// definition.
fn definition(options: &Options) -> TokenStream {
    let Options { root, private, group, version, kind, singular, plural, namespaced, .. } = options;
    let Options { short_names, categories, selectable, served, storage, .. } = options;
    let definition_name = format!("{plural}.{group}");
    let columns = options.columns.iter().map(|it| it.tokens(private));
    let has_status = options.status.is_some();
    let scale = optional(options.scale.as_ref().map(|it| it.tokens(private)));
    let (deprecated, warning) = match &options.deprecated {
        Deprecation::Current => (false, None),
        Deprecation::Deprecated(warning) => (true, warning.as_ref()),
    };
    let warning = optional(warning);
    let annotations = options.annotations.iter().map(|(key, value)| quote!((#key, #value)));
    let labels = options.labels.iter().map(|(key, value)| quote!((#key, #value)));
    let schema = match options.schema {
        SchemaMode::Disabled => quote!(::core::option::Option::None),
        SchemaMode::Derived | SchemaMode::Manual => {
            quote!(::core::option::Option::Some(#private::structural_schema::<Self>()))
        }
    };
    quote! {
        #[automatically_derived]
        impl #private::kube_core::CustomResourceExt for #root {
            fn crd() -> #private::CustomResourceDefinition {
                let definition = #private::Definition {
                    name: #definition_name,
                    group: #group,
                    version: #version,
                    kind: #kind,
                    singular: #singular,
                    plural: #plural,
                    short_names: &[#(#short_names),*],
                    categories: &[#(#categories),*],
                    namespaced: #namespaced,
                    columns: &[#(#columns),*],
                    selectable: &[#(#selectable),*],
                    has_status: #has_status,
                    scale: #scale,
                    served: #served,
                    storage: #storage,
                    deprecated: #deprecated,
                    deprecation_warning: #warning,
                    annotations: &[#(#annotations),*],
                    labels: &[#(#labels),*],
                };
                definition.build(#schema)
            }

            fn crd_name() -> &'static str {
                #definition_name
            }

            fn api_resource() -> #private::kube_core::ApiResource {
                #private::kube_core::ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                &[#(#short_names),*]
            }
        }
    }
}

fn has_spec(options: &Options, input: &DeriveInput) -> TokenStream {
    let Options { root, private, .. } = options;
    let spec = &input.ident;
    quote! {
        #[automatically_derived]
        impl #private::kube_core::object::HasSpec for #root {
            type Spec = #spec;

            fn spec(&self) -> &#spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut #spec {
                &mut self.spec
            }
        }
    }
}

fn has_status(options: &Options) -> TokenStream {
    let Options { root, private, status, .. } = options;
    let Some(status) = status else { return TokenStream::new() };
    quote! {
        #[automatically_derived]
        impl #private::kube_core::object::HasStatus for #root {
            type Status = #status;

            fn status(&self) -> ::core::option::Option<&#status> {
                ::core::option::Option::as_ref(&self.status)
            }

            fn status_mut(&mut self) -> &mut ::core::option::Option<#status> {
                &mut self.status
            }
        }
    }
}
