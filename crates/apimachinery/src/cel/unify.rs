//! Assignability of types, with the substitutions of type parameters that it needs.
//!
//! Mirrors cel-go v0.26.0 checker/types.go. There, a type that contains another one twice doubles
//! the work of each step; here, the work for the types of one expression has a limit.

use std::cell::Cell;
use std::sync::Arc;

use super::types::Type;

/// The number of types that may be visited for one expression, those in other types included. A
/// usual expression visits a few for each of its nodes.
const MAX_VISITED: u64 = 5_000_000;

/// The number of types in one type. Beyond it, an expression is refused.
const MAX_PARTS: u64 = 1_000;

/// The substitutions of type parameters, with a log to undo a failed attempt.
#[derive(Debug, Default)]
pub(crate) struct Substitutions {
    known: Vec<Option<Type>>,
    log: Vec<(usize, Option<Type>)>,
    /// The number of types that were visited.
    visited: Cell<u64>,
    is_exhausted: Cell<bool>,
}

impl Substitutions {
    /// Returns true if the types of the expression are too large. The results are not meaningful
    /// then.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Counts a type that is visited. Returns false if there were too many.
    fn visit(&self) -> bool {
        self.visited.set(self.visited.get().saturating_add(1));
        if self.visited.get() > MAX_VISITED {
            self.is_exhausted.set(true);
        }
        !self.is_exhausted()
    }

    /// Returns a new type parameter.
    pub(crate) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Parameter(u32::try_from(self.known.len() - 1).unwrap_or(u32::MAX))
    }

    fn find(&self, parameter: u32) -> Option<&Type> {
        self.known.get(parameter as usize)?.as_ref()
    }

    fn set(&mut self, parameter: u32, of: Type) {
        let index = parameter as usize;
        if let Some(slot) = self.known.get_mut(index) {
            self.log.push((index, slot.replace(of)));
        }
    }

    /// Returns true if every type can be used as the type at the same place in the other list.
    /// Parameters are substituted only then.
    pub(crate) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        let start = self.log.len();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.unify(from, to));
        if !fits {
            for (index, before) in self.log.drain(start..).rev() {
                if let Some(slot) = self.known.get_mut(index) {
                    *slot = before;
                }
            }
        }
        fits
    }

    /// Returns true if a type can be used as another one.
    pub(crate) fn is_assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn unify(&mut self, one: &Type, two: &Type) -> bool {
        if !self.visit() {
            return false;
        }
        if let Type::Parameter(parameter) = two {
            let (valid, has_substitution) = self.substitute_with(one, *parameter);
            if valid || has_substitution {
                return valid;
            }
        }
        if let Type::Parameter(parameter) = one {
            return self.substitute_with(two, *parameter).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        match (one, two) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Opaque(_)
                    | Type::Object(_)
                    | Type::Record(_)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => {
                self.unify(one, two)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.unify(key, other_key) && self.unify(value, other_value)
            }
            _ => self.is_same(one, two),
        }
    }

    /// Returns whether a type can be substituted for a parameter, and whether that has one already.
    fn substitute_with(&mut self, of: &Type, parameter: u32) -> (bool, bool) {
        if matches!(of, Type::Parameter(same) if *same == parameter) {
            return (true, true);
        }
        if let Some(known) = self.find(parameter).cloned() {
            if self.is_same(of, &known) {
                return (true, true);
            }
            if self.unify(of, &known) {
                let general = if self.is_less_specific(of, &known) { of.clone() } else { known };
                if self.is_free(parameter, &general) {
                    self.set(parameter, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.is_free(parameter, of) {
            self.set(parameter, of.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Returns true if a parameter does not occur within a type.
    fn is_free(&self, parameter: u32, within: &Type) -> bool {
        if !self.visit() {
            return false;
        }
        match within {
            Type::Parameter(same) if *same == parameter => false,
            Type::Parameter(other) => self.find(*other).is_none_or(|it| self.is_free(parameter, it)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.is_free(parameter, inner),
            Type::Map(key, value) => self.is_free(parameter, key) && self.is_free(parameter, value),
            _ => true,
        }
    }

    /// Returns true if both are the same type, as [`Type::is_same`] does.
    pub(crate) fn is_same(&self, one: &Type, two: &Type) -> bool {
        if !self.visit() {
            return false;
        }
        match (one, two) {
            (Type::List(one), Type::List(two))
            | (Type::Optional(one), Type::Optional(two))
            | (Type::Type(one), Type::Type(two)) => self.is_same(one, two),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.is_same(key, other_key) && self.is_same(value, other_value)
            }
            (one, two) => one.is_same(two),
        }
    }

    /// Returns true if the first type equals the second, or has `dyn` where that has a type.
    pub(crate) fn is_less_specific(&self, one: &Type, two: &Type) -> bool {
        if !self.visit() {
            return false;
        }
        match (one, two) {
            (Type::Dyn | Type::Parameter(_), _) => true,
            (_, Type::Dyn | Type::Parameter(_)) => false,
            (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => {
                self.is_less_specific(one, two)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.is_less_specific(key, other_key) && self.is_less_specific(value, other_value)
            }
            (Type::Type(_), Type::Type(_)) => true,
            _ => self.is_same(one, two),
        }
    }

    /// Replaces the parameters in a type; free ones with `dyn` if that is wanted. A type that is
    /// too large becomes `dyn`.
    pub(crate) fn apply(&self, of: &Type, free_is_dyn: bool) -> Type {
        let mut parts = 0;
        match self.applied(of, free_is_dyn, &mut parts) {
            _ if self.is_exhausted() => Type::Dyn,
            Some(applied) => applied,
            // Parts that do not change are shared.
            None => of.clone(),
        }
    }

    /// Returns the type after [`Self::apply`], or `None` if that does not change it.
    fn applied(&self, of: &Type, free_is_dyn: bool, parts: &mut u64) -> Option<Type> {
        *parts += 1;
        if *parts > MAX_PARTS {
            self.is_exhausted.set(true);
        }
        if !self.visit() {
            return None;
        }
        let mut inner = |it: &Arc<Type>| self.applied(it, free_is_dyn, parts).map(Arc::new);
        Some(match of {
            Type::Parameter(parameter) => match self.find(*parameter) {
                Some(known) => {
                    let applied = self.applied(known, free_is_dyn, parts);
                    applied.unwrap_or_else(|| known.clone())
                }
                None if free_is_dyn => Type::Dyn,
                None => return None,
            },
            Type::List(item) => Type::List(inner(item)?),
            Type::Optional(value) => Type::Optional(inner(value)?),
            Type::Type(value) => Type::Type(inner(value)?),
            Type::Map(key, value) => match (inner(key), inner(value)) {
                (None, None) => return None,
                (new_key, new_value) => Type::Map(
                    new_key.unwrap_or_else(|| Arc::clone(key)),
                    new_value.unwrap_or_else(|| Arc::clone(value)),
                ),
            },
            _ => return None,
        })
    }
}

/// Replaces the parameters of a signature, which are numbered from zero, with new ones.
pub(crate) fn instantiate(of: &Type, fresh: &[Type]) -> Type {
    let inner = |it: &Arc<Type>| Arc::new(instantiate(it, fresh));
    match of {
        Type::Parameter(index) => fresh.get(*index as usize).cloned().unwrap_or(Type::Dyn),
        Type::List(item) => Type::List(inner(item)),
        Type::Optional(value) => Type::Optional(inner(value)),
        Type::Type(value) => Type::Type(inner(value)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        other => other.clone(),
    }
}
