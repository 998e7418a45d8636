//! The options of `#[kube(…)]`, read and checked.
//!
//! Nothing is accepted and then ignored: an option that is unknown, that is given twice or that
//! would have no effect is an error at its own place.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::{Data, DeriveInput, Error, Expr, Fields, Ident, LitStr, Meta, Path, Result, parse_quote};

use super::columns::{Column, Scale};
use super::names;
use crate::attribute::{flag, identifier, module_path, name, once, pair, syntax, text};

/// Everything that the expansion needs to know, with defaults filled in.
pub(crate) struct Options {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The name of the generated struct.
    pub(crate) root: Ident,
    pub(crate) singular: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// True where the specification is flattened into the root.
    pub(crate) no_spec: bool,
    pub(crate) status: Option<Path>,
    /// Further traits to derive, without `Default`.
    pub(crate) derives: Vec<Path>,
    /// True where `Default` is derived; that is written out, because a status starts as `None`.
    pub(crate) default: bool,
    pub(crate) attributes: Vec<Meta>,
    pub(crate) doc: String,
    pub(crate) schema: SchemaMode,
    pub(crate) rules: Vec<Expr>,
    pub(crate) short_names: Vec<LitStr>,
    pub(crate) categories: Vec<LitStr>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<LitStr>,
    pub(crate) scale: Option<Scale>,
    pub(crate) annotations: Vec<(LitStr, LitStr)>,
    pub(crate) labels: Vec<(LitStr, LitStr)>,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) deprecated: Deprecation,
    /// The path of the run-time half: `::dogwatch::__private`.
    pub(crate) private: Path,
}

/// The origin of the schema in the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaMode {
    /// Derived from the specification and the status.
    Derived,
    /// Implemented for the root by the user.
    Manual,
    /// Absent.
    Disabled,
}

/// The deprecation of a version.
pub(crate) enum Deprecation {
    Current,
    /// With a warning for clients; the server has its own where there is none.
    Deprecated(Option<LitStr>),
}

/// The options as they are written.
#[derive(Default)]
struct Written {
    group: Option<LitStr>,
    version: Option<LitStr>,
    kind: Option<LitStr>,
    root: Option<LitStr>,
    singular: Option<LitStr>,
    plural: Option<LitStr>,
    namespaced: Option<bool>,
    no_spec: Option<bool>,
    status: Option<Path>,
    derives: Vec<Path>,
    attributes: Vec<Meta>,
    doc: Option<LitStr>,
    schema: Option<SchemaMode>,
    rules: Vec<Expr>,
    short_names: Vec<LitStr>,
    categories: Vec<LitStr>,
    columns: Vec<Column>,
    selectable: Vec<LitStr>,
    scale: Option<Scale>,
    scale_span: Option<Span>,
    annotations: Vec<(LitStr, LitStr)>,
    labels: Vec<(LitStr, LitStr)>,
    served: Option<bool>,
    storage: Option<bool>,
    deprecated: Option<Deprecation>,
    dogwatch: Option<Path>,
}

impl Options {
    /// Reads the options of a type.
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        if let Data::Union(_) = input.data {
            return Err(Error::new_spanned(&input.ident, "a specification is a struct or an enum"));
        }
        if !input.generics.params.is_empty() {
            let message = "a specification cannot be generic: one kind has one schema";
            return Err(Error::new_spanned(&input.generics, message));
        }
        let mut written = Written::default();
        for attribute in input.attrs.iter().filter(|it| it.path().is_ident("kube")) {
            attribute.parse_nested_meta(|meta| written.add(&meta))?;
        }
        written.check(input)
    }
}

impl Written {
    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match name(meta).as_str() {
            "group" => once(&mut self.group, meta, text(meta)?),
            "version" => once(&mut self.version, meta, text(meta)?),
            "kind" => once(&mut self.kind, meta, text(meta)?),
            "root" => once(&mut self.root, meta, text(meta)?),
            "singular" => once(&mut self.singular, meta, text(meta)?),
            "plural" => once(&mut self.plural, meta, text(meta)?),
            "namespaced" => once(&mut self.namespaced, meta, flag(meta)?),
            "no_spec" => once(&mut self.no_spec, meta, flag(meta)?),
            "status" => once(&mut self.status, meta, syntax(meta)?),
            "derive" => push(&mut self.derives, syntax(meta)?),
            "attr" => push(&mut self.attributes, root_attribute(meta)?),
            "doc" => once(&mut self.doc, meta, text(meta)?),
            "schema" => once(&mut self.schema, meta, SchemaMode::read(meta)?),
            "validation" => push(&mut self.rules, meta.value()?.parse()?),
            "shortname" => push(&mut self.short_names, text(meta)?),
            "category" => push(&mut self.categories, text(meta)?),
            "printcolumn" => push(&mut self.columns, Column::read(meta)?),
            "selectable" => push(&mut self.selectable, text(meta)?),
            "scale" => {
                self.scale_span = meta.path.get_ident().map(Ident::span);
                once(&mut self.scale, meta, Scale::read(meta)?)
            }
            "annotation" => push(&mut self.annotations, pair(meta)?),
            "label" => push(&mut self.labels, pair(meta)?),
            "served" => once(&mut self.served, meta, flag(meta)?),
            "storage" => once(&mut self.storage, meta, flag(meta)?),
            "deprecated" => once(&mut self.deprecated, meta, Deprecation::read(meta)?),
            "crate" => once(&mut self.dogwatch, meta, module_path(meta)?),
            "crates" => Err(meta.error(
                "`crates` is not needed here: the generated code finds its crates through dogwatch; \
                 where dogwatch has another name, use `crate = \"name\"`",
            )),
            other => Err(meta.error(format!(
                "`{other}` is not supported by the `CustomResource` of dogwatch; where kube-derive \
                 supports it, use kube-derive's own derive with `#[kube(crates(kube_core = \
                 \"::dogwatch::kube_core\", k8s_openapi = \"::dogwatch::k8s_openapi\"))]`"
            ))),
        }
    }

    /// Fills in the defaults and refuses what does not fit together.
    fn check(self, input: &DeriveInput) -> Result<Options> {
        let missing = [("group", &self.group), ("version", &self.version), ("kind", &self.kind)]
            .into_iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| format!("`{name} = \"…\"`"))
            .collect::<Vec<_>>();
        let (Some(group), Some(version), Some(kind)) = (self.group, self.version, self.kind) else {
            let message = format!("a custom resource needs `#[kube(…)]` with {}", missing.join(" and "));
            return Err(Error::new_spanned(&input.ident, message));
        };
        let root = identifier(self.root.as_ref().unwrap_or(&kind))?;
        if root == input.ident {
            let message = format!("`{root}` is the name of the generated struct; rename the specification");
            return Err(Error::new(root.span(), message));
        }
        let schema = self.schema.unwrap_or(SchemaMode::Derived);
        if let (Some(rule), true) = (self.rules.first(), schema != SchemaMode::Derived) {
            let message = "`validation` needs a derived schema; put the rule into your own schema";
            return Err(Error::new_spanned(rule, message));
        }
        if let (Some(span), None) = (self.scale_span, &self.status) {
            return Err(Error::new(span, "`scale` needs `status = \"…\"`: its replicas are in the status"));
        }
        let no_spec = self.no_spec.unwrap_or_default();
        if no_spec {
            check_flattened(input)?;
        }
        let singular = self.singular.map_or_else(|| kind.value().to_ascii_lowercase(), |it| it.value());
        let plural = self.plural.map_or_else(|| names::plural(&singular), |it| it.value());
        // Written out by kube-derive too. It is the description of the schema, so the two have to
        // be equal.
        let doc = || format!(" Auto-generated derived type for {} via `CustomResource`", input.ident);
        let dogwatch = self.dogwatch.unwrap_or_else(|| parse_quote!(::dogwatch));
        let (defaults, derives) =
            self.derives.into_iter().partition::<Vec<_>, _>(|it| it.is_ident("Default"));
        Ok(Options {
            group: group.value(),
            version: version.value(),
            kind: kind.value(),
            root,
            singular,
            plural,
            namespaced: self.namespaced.unwrap_or_default(),
            no_spec,
            status: self.status,
            derives,
            default: !defaults.is_empty(),
            attributes: self.attributes,
            doc: self.doc.map_or_else(doc, |it| it.value()),
            schema,
            rules: self.rules,
            short_names: self.short_names,
            categories: self.categories,
            columns: self.columns,
            selectable: self.selectable,
            scale: self.scale,
            annotations: self.annotations,
            labels: self.labels,
            served: self.served.unwrap_or(true),
            storage: self.storage.unwrap_or(true),
            deprecated: self.deprecated.unwrap_or(Deprecation::Current),
            private: parse_quote!(#dogwatch::__private),
        })
    }
}

impl SchemaMode {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mode = text(meta)?;
        match mode.value().as_str() {
            "derived" => Ok(Self::Derived),
            "manual" => Ok(Self::Manual),
            "disabled" => Ok(Self::Disabled),
            _ => Err(Error::new(mode.span(), "expected \"derived\", \"manual\" or \"disabled\"")),
        }
    }
}

impl Deprecation {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let has_warning = meta.input.peek(syn::Token![=]);
        Ok(Self::Deprecated(if has_warning { Some(text(meta)?) } else { None }))
    }
}

fn push<T>(values: &mut Vec<T>, value: T) -> Result<()> {
    values.push(value);
    Ok(())
}

/// Reads an attribute for the root. Some belong to the generated code alone.
fn root_attribute(meta: &ParseNestedMeta<'_>) -> Result<Meta> {
    let literal = text(meta)?;
    let attribute: Meta = literal.parse()?;
    let refused = |why: &str| Err(Error::new(literal.span(), why));
    match attribute.path().get_ident().map(ToString::to_string).as_deref() {
        Some("derive") => refused("use `derive = \"Trait\"` for each trait to derive"),
        Some("serde" | "schemars") => {
            refused("attributes of serde and schemars on the root are set by the generated code")
        }
        _ => Ok(attribute),
    }
}

/// Checks that the fields of a specification can be at the root of the object.
fn check_flattened(input: &DeriveInput) -> Result<()> {
    let named = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            _ => None,
        },
        _ => None,
    };
    let message = "`no_spec` needs a struct with named fields, which become fields of the object";
    let fields = named.ok_or_else(|| Error::new_spanned(&input.ident, message))?;
    for ident in fields.iter().filter_map(|it| it.ident.as_ref()) {
        let name = ident.unraw().to_string();
        if ["apiVersion", "api_version", "kind", "metadata", "status"].contains(&name.as_str()) {
            let message = format!("with `no_spec` this is a field of the object, which has its own `{name}`");
            return Err(Error::new_spanned(ident, message));
        }
    }
    Ok(())
}
