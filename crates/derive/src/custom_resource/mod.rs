//! `#[derive(CustomResource)]`: the struct of a custom resource, generated from its specification.
//!
//! [`options`] reads and checks what `#[kube(…)]` says; [`root`] generates the struct with its
//! serde and schema implementations, and [`traits`] the implementations of kube-core's traits. What
//! the generated code calls at run time is in `dogwatch::__private`.

mod names;
mod columns;
mod options;
mod root;
mod traits;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Result};

use self::options::Options;

/// Expands the derive, into compile errors where the input does not fit.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    syn::parse2(input).and_then(|input| expand(&input)).unwrap_or_else(Error::into_compile_error)
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = Options::read(input)?;
    let root = root::generate(&options, input);
    let traits = traits::generate(&options, input);
    Ok(quote! {
        #root
        #traits
    })
}

#[cfg(test)]
mod tests;
