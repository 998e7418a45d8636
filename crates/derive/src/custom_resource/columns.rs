//! Print columns and the scale subresource: options with named values.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{LitStr, Path, Result};

use crate::entries::Entries;

/// A column that kubectl prints.
pub(crate) struct Column {
    name: LitStr,
    type_: LitStr,
    json_path: LitStr,
    description: Option<LitStr>,
    format: Option<LitStr>,
    priority: Option<i32>,
}

/// The paths of the scale subresource.
pub(crate) struct Scale {
    spec_replicas_path: LitStr,
    status_replicas_path: LitStr,
    label_selector_path: Option<LitStr>,
}

impl Column {
    /// Reads the value of `printcolumn`.
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut entries = Entries::read(meta)?;
        let column = Self {
            name: entries.required("name")?,
            type_: entries.required("type_")?,
            json_path: entries.required("json_path")?,
            description: entries.text("description")?,
            format: entries.text("format")?,
            priority: entries.number("priority")?,
        };
        entries.finish()?;
        Ok(column)
    }

    /// Returns a `Column` of the run-time half, which is at `private`.
    pub(crate) fn tokens(&self, private: &Path) -> TokenStream {
        let Self { name, type_, json_path, .. } = self;
        let description = optional(self.description.as_ref());
        let format = optional(self.format.as_ref());
        let priority = optional(self.priority.as_ref());
        quote! {
            #private::Column {
                name: #name,
                type_: #type_,
                json_path: #json_path,
                description: #description,
                format: #format,
                priority: #priority,
            }
        }
    }
}

impl Scale {
    /// Reads the value of `scale`.
    pub(crate) fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut entries = Entries::read(meta)?;
        let scale = Self {
            spec_replicas_path: entries.required("spec_replicas_path")?,
            status_replicas_path: entries.required("status_replicas_path")?,
            label_selector_path: entries.text("label_selector_path")?,
        };
        entries.finish()?;
        Ok(scale)
    }

    /// Returns a `Scale` of the run-time half, which is at `private`.
    pub(crate) fn tokens(&self, private: &Path) -> TokenStream {
        let Self { spec_replicas_path, status_replicas_path, .. } = self;
        let label_selector_path = optional(self.label_selector_path.as_ref());
        quote! {
            #private::Scale {
                spec_replicas_path: #spec_replicas_path,
                status_replicas_path: #status_replicas_path,
                label_selector_path: #label_selector_path,
            }
        }
    }
}

/// Returns an expression of type `Option`.
pub(crate) fn optional(value: Option<impl quote::ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
