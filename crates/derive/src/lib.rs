//! The derive macros of dogwatch: `CustomResource` and `View`.
//!
//! Depend on `dogwatch` with the feature `derive` instead of on this crate: the generated code
//! names everything that it needs through `::dogwatch`, so that a program needs no other crate of
//! the Kubernetes ecosystem among its dependencies.
//!
//! A derive is a function from tokens to tokens. The modules `attribute` and `entries` read
//! options, `custom_resource` and `view` expand one derive each. The run-time half of the generated
//! code is in `dogwatch::__private`.
//!
//! # Examples
//!
// The facade tests this text, since `dogwatch` does not exist here.
#![cfg_attr(not(doctest), doc = include_str!("example.md"))]

mod attribute;
mod entries;
mod custom_resource;
mod view;

use proc_macro::TokenStream;

/// Derives a custom resource from its specification.
///
/// From a struct or enum `BuoySpec` and a `kind` it generates the struct `Buoy` with the fields
/// `metadata`, `spec` and, where `status` is given, `status`; a constructor
/// `Buoy::new(name, spec)`; and implementations of `Serialize`, `Deserialize`, `JsonSchema`,
/// `Clone`, `Debug` and of kube-core's `Resource`, `CustomResourceExt`, `HasSpec` and `HasStatus`.
/// `Buoy::crd()` is the definition to apply to a cluster.
///
/// The options are those of kube-derive 5, with the same meaning and the same definition as the
/// result.
///
/// # Dependencies
///
/// A program needs `dogwatch` with the feature `derive`. The derives of serde and schemars, for the
/// structs of the program, generate code that names their own crates, which no macro of ours can
/// change: the program depends on `serde` and `schemars` 1 as well, or writes
/// `#[serde(crate = "dogwatch::serde")]` and `#[schemars(crate = "dogwatch::schemars")]` on each
/// struct. Types of `k8s-openapi` inside a specification need the feature `schemars` of
/// `k8s-openapi`.
///
/// # Options
///
/// Required are `group = "…"`, `version = "…"` and `kind = "…"`. Everything else is optional.
///
/// Names:
///
/// - `root = "Name"`: the name of the generated struct. Defaults to `kind`.
/// - `singular = "…"`, `plural = "…"`: the names in URLs and for kubectl. They default to the kind
///   in lower case, and to its regular plural.
/// - `shortname = "…"`, `category = "…"`: further names for kubectl. Repeatable.
///
/// The generated struct:
///
/// - `namespaced`: objects are in namespaces. Defaults to cluster scope.
/// - `status = "Type"`: adds the field `status: Option<Type>` and the status subresource.
/// - `no_spec`: the fields of the specification are at the root of the object instead of under
///   `spec`.
/// - `derive = "Trait"`: a trait that the struct derives as well. Repeatable.
/// - `attr = "…"`: an attribute of the struct, except `derive`, `serde` and `schemars`. Repeatable.
/// - `doc = "…"`: the documentation of the struct and the description of its schema.
/// - `crate = "path"`: the path of dogwatch, where a program renames or re-exports it. Defaults to
///   `::dogwatch`.
///
/// The definition:
///
/// - `schema = "derived"` is the default. `"manual"` uses a `JsonSchema` that you implement for the
///   generated struct, `"disabled"` leaves the schema out.
/// - `validation = Rule::new("…").message("…")`: a CEL rule for the whole object. A string is a
///   rule without a message. Repeatable.
/// - `printcolumn(name = "…", type_ = "…", json_path = "…")`: a column of `kubectl get`, with
///   optional `description`, `format` and `priority`. Repeatable.
/// - `selectable = ".spec.field"`: a field for field selectors. Repeatable.
/// - `scale(spec_replicas_path = "…", status_replicas_path = "…")`: the scale subresource, with an
///   optional `label_selector_path`. Needs `status`.
/// - `annotation("key", "value")`, `label("key", "value")`: metadata of the definition and of
///   objects from `new`. Repeatable.
/// - `served = false`, `storage = false`: both default to `true`.
/// - `deprecated`, `deprecated = "warning"`: marks the version as deprecated.
///
/// `printcolumn` and `scale` also take a string with a JSON object, as in kube-derive.
///
/// Two options of kube-derive are not supported: `crates(…)`, which is not needed, and `cel`, which
/// evaluates rules in the client. A program that needs them uses kube-derive's own derive; the two
/// are interchangeable. Rules for single fields are written with
/// `#[schemars(extend("x-kubernetes-validations" = […]))]`.
///
/// # Differences from kube-derive
///
/// An option that would have no effect is an error: `scale` without `status`, and `validation`
/// without a derived schema.
#[proc_macro_derive(CustomResource, attributes(kube))]
pub fn derive_custom_resource(input: TokenStream) -> TokenStream {
    custom_resource::derive(input.into()).into()
}

/// Derives `Object` and `View` for a struct with some of the fields of a resource.
///
/// The struct derives serde's `Deserialize`. Only the fields that it names are decoded and kept;
/// everything else is skipped on the wire. It can be used wherever the whole type can be read: in
/// `Api<PodNode>`, in informers, stores and controllers.
///
/// # Options
///
/// - `#[view(of = Pod)]` on the struct names the resource that it is read from. Required. It is any
///   type that implements `kube_core::Resource` with `DynamicType = ()`, also a custom resource.
/// - `#[view(metadata)]` on a field says that it holds the metadata. Without it that is the field
///   with the name `metadata`. Its type is `dogwatch::api::Meta`, or a type of your own with a
///   method `header(&self) -> dogwatch::api::Header<'_>`. A field with another name needs
///   `#[serde(rename = "metadata")]` as well.
/// - `#[view(crate = path)]` on the struct is the path of dogwatch, where a program renames or
///   re-exports it. Defaults to `::dogwatch`.
#[proc_macro_derive(View, attributes(view))]
pub fn derive_view(input: TokenStream) -> TokenStream {
    view::derive(input.into()).into()
}
