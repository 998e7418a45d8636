//! One resource in one version: everything that reads and writes need to know about it.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, OnceLock};

use dogwatch_core::{FieldSelector, Reason};
use serde_json::Value;

use crate::admission::quota::CountedKind;
use crate::builtin::{self, BuiltinDefinitions, ResourceDef};
use crate::custom::{self, CustomKind};
use crate::kinds::json_access::text;
use crate::kinds::rules::{Conversion, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::{self, index};
use crate::memory;
use crate::schema::{Definitions, Schema};
use crate::store::{CollectionName, Draft, Encoded, FieldName, Unstorable};
use crate::{ApiError, FieldError};

/// The collections of the built-in kinds.
pub(super) static BUILTIN_COLLECTIONS: LazyLock<HashSet<CollectionName>> = LazyLock::new(|| {
    builtin::resources().iter().map(|def| builtin_collection(def, conversion_of(def))).collect()
});

/// One resource in one version.
#[derive(Debug)]
pub struct Kind {
    /// The names, verbs and subresources.
    pub def: Arc<ResourceDef>,
    /// The collection that its objects are stored in. All versions of a resource share it.
    pub collection: CollectionName,
    /// The schema of its objects.
    pub schema: Schema,
    /// The rules for creating, updating and deleting its objects.
    pub traits: KindTraits,
    /// The conversion between stored and served objects.
    pub family: Family,
    /// The rules of the built-in kind; for custom kinds the common ones.
    pub(crate) rules: &'static KindRules,
    empty: OnceLock<Value>,
}

/// The conversion between the stored and the served form of a kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Family {
    /// A built-in kind that is stored as it is served.
    Builtin,
    /// A version of a built-in kind that is stored in another form.
    Converted(&'static Conversion),
    /// A version of a custom kind.
    Custom {
        /// The kind, as its definition declares it.
        kind: Arc<CustomKind>,
        /// The index of the version in the definition.
        version: usize,
        /// True if objects may have been stored under another schema or version. Those are
        /// converted when they are read.
        evolved: bool,
    },
}

/// An object that only the conversion webhook of its kind can convert, in its present version.
#[derive(Clone, Debug, PartialEq)]
pub struct Unconverted(pub Value);

impl From<Unconverted> for ApiError {
    fn from(Unconverted(object): Unconverted) -> Self {
        let (version, kind, name) =
            (text(&object, "/apiVersion"), text(&object, "/kind"), text(&object, "/metadata/name"));
        Self::internal(format!("{version} {kind} {name:?} was not converted by the webhook of its kind"))
    }
}

impl Kind {
    /// Creates a built-in kind.
    pub(super) fn builtin(def: &Arc<ResourceDef>) -> Self {
        let rules = index::of_kind(&def.group, &def.kind);
        let conversion = conversion_of(def);
        let schema = BuiltinDefinitions.of_kind(&def.group, &def.version, &def.kind);
        Self {
            collection: builtin_collection(def, conversion),
            schema: schema.unwrap_or(Schema::Any),
            traits: rules.traits,
            family: conversion.map_or(Family::Builtin, Family::Converted),
            rules,
            empty: OnceLock::new(),
            def: Arc::clone(def),
        }
    }

    /// Creates a built-in kind whose objects are stored as they are served, and returns it with the
    /// conversion to the form in which this server would store them.
    pub(super) fn builtin_as_served(def: &Arc<ResourceDef>) -> (Self, Option<&'static Conversion>) {
        let collection = builtin_collection(def, None);
        (Self { family: Family::Builtin, collection, ..Self::builtin(def) }, conversion_of(def))
    }

    /// Creates a version of a custom kind.
    pub(super) fn custom(
        def: Arc<ResourceDef>,
        kind: &Arc<CustomKind>,
        version: usize,
        evolved: bool,
    ) -> Self {
        let declared = &kind.versions[version];
        Self {
            collection: custom_collection(&def.group, &def.plural),
            schema: declared.schema.to_schema(),
            traits: KindTraits::custom(declared.status),
            family: Family::Custom { kind: Arc::clone(kind), version, evolved },
            rules: index::of_custom_kinds(),
            empty: OnceLock::new(),
            def,
        }
    }

    /// Returns the definitions that its schema refers to.
    pub fn definitions(&self) -> &'static dyn Definitions {
        &BuiltinDefinitions
    }

    /// Returns an object of this kind in which no field is set.
    pub fn empty(&self) -> &Value {
        self.empty.get_or_init(|| match self.family {
            Family::Custom { .. } => Value::Object(serde_json::Map::new()),
            _ => kinds::blank(&self.def.group, &self.def.version, &self.def.kind),
        })
    }

    /// Returns the kind as quotas count it.
    pub(crate) fn counted(&self) -> CountedKind<'_> {
        let accounting = self.rules.accounting;
        CountedKind { group: &self.def.group, plural: &self.def.plural, accounting }
    }

    /// Returns the version of the custom kind, or `None` for a built-in kind.
    pub fn custom_version(&self) -> Option<&custom::Version> {
        match &self.family {
            Family::Custom { kind, version, .. } => kind.versions.get(*version),
            _ => None,
        }
    }

    /// Returns the custom kind that this is a version of, or `None` for a built-in kind.
    pub(crate) fn custom_kind(&self) -> Option<&CustomKind> {
        match &self.family {
            Family::Custom { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Returns the custom kind if a webhook converts between its versions.
    pub(crate) fn converted_by_webhook(&self) -> Option<&CustomKind> {
        match &self.family {
            Family::Custom { kind, .. } if kind.webhook.is_some() => Some(kind),
            _ => None,
        }
    }

    /// Returns true if the kind has these rules, in any version.
    pub(crate) fn is(&self, rules: &'static KindRules) -> bool {
        self.rules.is(rules)
    }

    /// Returns true if the bytes of an object can be served unchanged.
    pub fn shows_bytes_of(&self, stored: &Encoded) -> bool {
        match &self.family {
            Family::Builtin | Family::Custom { evolved: false, .. } => true,
            Family::Converted(_) => false,
            Family::Custom { kind, version, .. } => stored.schema() == Some(kind.schema_id(*version)),
        }
    }

    /// Converts a stored object to this version. An object that takes a webhook stays in its stored
    /// version; see [`Self::try_show`].
    pub fn show(&self, stored: &Encoded) -> Value {
        self.try_show(stored).unwrap_or_else(|Unconverted(object)| object)
    }

    /// Converts a stored object to this version.
    ///
    /// # Errors
    /// The object, if only a webhook can convert it.
    pub fn try_show(&self, stored: &Encoded) -> Result<Value, Unconverted> {
        let value = stored.to_value();
        if self.shows_bytes_of(stored) { Ok(value) } else { self.shown(value) }
    }

    /// Converts a stored value to this version. It may have been stored under another schema.
    ///
    /// # Errors
    /// The object as its stored version shows it, if only a webhook can convert it.
    pub fn shown(&self, stored: Value) -> Result<Value, Unconverted> {
        match &self.family {
            Family::Builtin | Family::Custom { evolved: false, .. } => Ok(stored),
            Family::Converted(conversion) => Ok((conversion.from_stored)(&stored)),
            Family::Custom { kind, version, .. } => {
                in_version(as_stored(stored, kind), kind, &kind.versions[*version])
            }
        }
    }

    /// Converts an object of this version to its stored form.
    ///
    /// # Errors
    /// The object, if only a webhook can convert it.
    pub fn to_stored(&self, object: Value) -> Result<Value, Unconverted> {
        match &self.family {
            Family::Custom { kind, .. } => match kind.storage().filter(|it| it.name != self.def.version) {
                Some(storage) => Ok(as_stored(in_version(object, kind, storage)?, kind)),
                None => Ok(object),
            },
            Family::Converted(conversion) => Ok((conversion.to_stored)(&object)),
            Family::Builtin => Ok(object),
        }
    }

    /// Prepares an object of this version for storing.
    ///
    /// # Errors
    /// 422 if the object is nested too deeply, 500 if it has no name to store it under, or if only
    /// a webhook can convert it to its stored form.
    pub fn draft(&self, object: &Value) -> Result<Draft, ApiError> {
        let as_it_is = match &self.family {
            Family::Builtin => true,
            Family::Custom { kind, .. } => kind.storage().is_none_or(|it| it.name == self.def.version),
            Family::Converted(_) => false,
        };
        let storage = match &self.family {
            Family::Custom { kind, .. } => kind.storage_index(),
            _ => None,
        };
        if as_it_is {
            self.draft_in(object, storage)
        } else {
            self.draft_in(&self.to_stored(object.clone())?, storage)
        }
    }

    /// Prepares an object that a webhook has converted to the storage version for storing.
    ///
    /// # Errors
    /// As for [`Kind::draft`]; 500 if the object does not have the form of that version.
    pub(crate) fn draft_converted(&self, mut object: Value) -> Result<Draft, ApiError> {
        let storage = match &self.family {
            Family::Custom { kind, .. } => kind.storage_index().map(|it| (it, &kind.versions[it])),
            _ => None,
        };
        if let Some((_, version)) = storage {
            custom::object::decode(&mut object, version).map_err(ApiError::internal)?;
            custom::object::settle_numbers(&mut object);
        }
        self.draft_in(&object, storage.map(|(it, _)| it))
    }

    /// Encodes an object in the form of this version, which its bytes then show.
    ///
    /// # Errors
    /// As for [`Kind::draft`].
    pub(crate) fn encode_shown(&self, object: &Value, version: u64) -> Result<Encoded, ApiError> {
        let index = match &self.family {
            Family::Custom { version, .. } => Some(*version),
            _ => None,
        };
        Ok(self.draft_in(object, index)?.at(version))
    }

    /// Returns true if objects may have been stored in another form than that of this version.
    pub(crate) fn is_evolved(&self) -> bool {
        matches!(self.family, Family::Custom { evolved: true, .. })
    }

    /// Completes an object that a webhook has converted to this version.
    pub(crate) fn complete_converted(&self, object: &mut Value) {
        if let Some(version) = self.custom_version() {
            custom::convert::complete(object, version);
        }
    }

    /// Prepares an object in the form of a version of the custom kind, if it is one.
    fn draft_in(&self, object: &Value, version: Option<usize>) -> Result<Draft, ApiError> {
        let draft = self.stored_draft(object)?;
        Ok(match (&self.family, version) {
            (Family::Custom { kind, .. }, Some(version)) => draft.under(kind.schema_id(version)),
            _ => draft,
        })
    }

    /// Prepares an object that is in its stored form already, under whichever schema, for storing.
    ///
    /// # Errors
    /// As for [`Kind::draft`].
    pub(crate) fn stored_draft(&self, object: &Value) -> Result<Draft, ApiError> {
        let fields = match &self.family {
            Family::Custom { kind, .. } => {
                let values = kind.field_values(object).into_iter();
                values.map(|(name, value)| (FieldName::Shared(name), value)).collect()
            }
            _ => {
                let values = self.rules.fields.values(object);
                values.map(|(name, value)| (FieldName::Static(name), value)).collect()
            }
        };
        Draft::new(object, fields).map_err(|why| match why {
            Unstorable::TooDeep => {
                let name = text(object, "/metadata/name");
                let message = format!("{} {name:?} is invalid: {why}", self.def.kind);
                ApiError::new(Reason::Invalid, message)
            }
            _ => ApiError::internal(why.to_string()),
        })
    }

    /// Translates the fields of a selector to their stored names.
    ///
    /// # Errors
    /// 400 for a field that this kind cannot be selected by.
    pub fn field_selector(&self, selector: &FieldSelector) -> Result<FieldSelector, ApiError> {
        if selector.is_everything() {
            return Ok(FieldSelector::everything());
        }
        let stored_name = |field: &str| match self.custom_version() {
            None => self.rules.fields.resolve(field).map(str::to_owned),
            Some(_) if matches!(field, "metadata.name" | "metadata.namespace") => Ok(field.to_owned()),
            Some(version) if version.selectable.iter().any(|it| it == field) => Ok(field.to_owned()),
            Some(_) => Err(ApiError::bad_request(format!("field label not supported: {field}"))),
        };
        let mut stored = FieldSelector::everything();
        for (field, value, equal) in selector.terms() {
            let field = stored_name(field)?;
            stored = if equal { stored.equals(&field, value) } else { stored.not_equals(&field, value) };
        }
        Ok(stored)
    }

    /// Creates a 422: the object is invalid.
    pub fn invalid(&self, name: &str, problems: &[FieldError]) -> ApiError {
        // kube-apiserver validates the internal type, which events of both groups have in common
        // (`BeforeCreate` in k8s.io/apiserver v0.36.4 pkg/registry/rest/create.go).
        ApiError::invalid(self.stored_group(), &self.def.kind, name, problems)
    }

    /// Returns the group of the objects as they are stored.
    pub fn stored_group(&self) -> &str {
        match &self.family {
            Family::Converted(conversion) => conversion.stored_group,
            _ => &self.def.group,
        }
    }

    /// Creates a 404: the object does not exist.
    pub fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.def.group, &self.def.plural, name)
    }
}

/// Brings a stored custom object up to date with the version it was stored in: unknown fields are
/// pruned and defaults are set. An object that cannot be decoded, or that defaults would take
/// beyond the limit of memory, is returned unchanged.
fn as_stored(object: Value, kind: &CustomKind) -> Value {
    let (_, version) = object["apiVersion"].as_str().and_then(|it| it.split_once('/')).unwrap_or_default();
    let stored_in = kind.versions.iter().find(|it| it.name == version);
    let Some(storage) = stored_in.or_else(|| kind.storage()) else { return object };
    let mut ready = object.clone();
    let is_ready = custom::object::decode(&mut ready, storage).is_ok() && !memory::is_exceeded_by(&ready);
    if is_ready { ready } else { object }
}

/// Converts a custom object to another version. Fields unknown to that version are pruned; no
/// defaults are set.
///
/// # Errors
/// The object, if only a webhook can convert it. To change its `apiVersion` alone would lose the
/// fields that have other names in that version.
fn in_version(mut object: Value, kind: &CustomKind, version: &custom::Version) -> Result<Value, Unconverted> {
    if custom::convert::takes_webhook(&object, kind, &version.name) {
        return Err(Unconverted(object));
    }
    custom::convert::to_version(&mut object, &kind.group, &version.name);
    custom::prune::prune(&mut object, &version.schema);
    Ok(object)
}

/// Returns the conversion between the served and the stored form of a version of a built-in kind,
/// if these differ.
fn conversion_of(def: &ResourceDef) -> Option<&'static Conversion> {
    let converts = |it: &&Conversion| it.version.is_none_or(|version| version == def.version);
    index::of_kind(&def.group, &def.kind).conversion.as_ref().filter(converts)
}

/// Returns the name of the collection that stores the objects of a built-in resource.
fn builtin_collection(def: &ResourceDef, conversion: Option<&Conversion>) -> CollectionName {
    let group = conversion.map_or(def.group.as_str(), |it| it.stored_group);
    format!("{group}/{}", def.plural).into()
}

/// Returns the name of the collection that stores the objects of a custom resource.
///
/// A definition may have the group and the plural of a built-in resource, and its collection begins
/// and ends with the definition. It must not be that of the built-in resource, whose objects would
/// be lost. kube-apiserver stores the two under different prefixes, too (`ResourcePrefix` in
/// k8s.io/apiserver v0.36.4 pkg/server/storage/storage_factory.go).
pub(super) fn custom_collection(group: &str, plural: &str) -> CollectionName {
    let name: CollectionName = format!("{group}/{plural}").into();
    // Neither groups nor plurals have slashes, so no other collection has this name.
    if BUILTIN_COLLECTIONS.contains(&name) { format!("custom/{name}").into() } else { name }
}
