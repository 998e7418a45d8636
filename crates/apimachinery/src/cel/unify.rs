//! Assignability of types, with the substitutions of type parameters that it needs.
//!
//! Mirrors cel-go v0.26.0 checker/types.go.

use std::sync::Arc;

use super::types::Type;

/// The substitutions of type parameters, with a log to undo a failed attempt.
#[derive(Debug, Default)]
pub(crate) struct Substitutions {
    known: Vec<Option<Type>>,
    log: Vec<(usize, Option<Type>)>,
}

impl Substitutions {
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
            _ => one.is_same(two),
        }
    }

    /// Returns whether a type can be substituted for a parameter, and whether that has one already.
    fn substitute_with(&mut self, of: &Type, parameter: u32) -> (bool, bool) {
        if matches!(of, Type::Parameter(same) if *same == parameter) {
            return (true, true);
        }
        if let Some(known) = self.find(parameter).cloned() {
            if of.is_same(&known) {
                return (true, true);
            }
            if self.unify(of, &known) {
                let general = if is_less_specific(of, &known) { of.clone() } else { known };
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
        match within {
            Type::Parameter(same) if *same == parameter => false,
            Type::Parameter(other) => self.find(*other).is_none_or(|it| self.is_free(parameter, it)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.is_free(parameter, inner),
            Type::Map(key, value) => self.is_free(parameter, key) && self.is_free(parameter, value),
            _ => true,
        }
    }

    /// Replaces the parameters in a type; free ones with `dyn` if that is wanted.
    pub(crate) fn apply(&self, of: &Type, free_is_dyn: bool) -> Type {
        let inner = |it: &Arc<Type>| Arc::new(self.apply(it, free_is_dyn));
        match of {
            Type::Parameter(parameter) => match self.find(*parameter) {
                Some(known) => self.apply(known, free_is_dyn),
                None if free_is_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(item) => Type::List(inner(item)),
            Type::Optional(value) => Type::Optional(inner(value)),
            Type::Type(value) => Type::Type(inner(value)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            other => other.clone(),
        }
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

/// Returns true if the first type equals the second, or has `dyn` where that has a type.
pub(crate) fn is_less_specific(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::Dyn | Type::Parameter(_), _) => true,
        (_, Type::Dyn | Type::Parameter(_)) => false,
        (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => {
            is_less_specific(one, two)
        }
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_less_specific(key, other_key) && is_less_specific(value, other_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one.is_same(two),
    }
}
