//! The type checker: finds the type of every part of an expression and the overloads of its calls.
//!
//! Mirrors cel-go v0.26.0 checker/checker.go.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Call, Comprehension, Expr, ExprKind, ListItem, Literal, MapEntry, Select, StructLiteral};
use super::declared::{DeclaredType, Shape};
use super::error::Issue;
use super::functions::{ESCAPE_KEY, Overload, overloads_of};
use super::types::{RecordType, TYPE_NAMES, Type};
use super::unify::{Substitutions, instantiate};

/// The number of problems that are reported of one expression: the default of cel-go.
const MAX_ISSUES: usize = 100;

/// The types of the values from which patches are made.
pub(crate) const OBJECT: &str = "Object";
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The findings about a checked expression, by the ids of its nodes.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) types: Vec<Type>,
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The names of declared variables that occur.
    pub(crate) variables: Vec<Arc<str>>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn overloads_of(&self, expr: &Expr) -> &[&'static str] {
        self.overloads.get(expr.id).map_or(&[], Vec::as_slice)
    }
}

/// The names and types that an expression can use.
pub(crate) struct Declarations<'a> {
    pub(crate) variables: &'a HashMap<Arc<str>, Type>,
    /// True if patches can be made: the types `Object` and `JSONPatch`, and `jsonpatch.escapeKey`.
    pub(crate) has_patch_types: bool,
}

impl Declarations<'_> {
    /// Returns the type of a value that an expression makes by its name (k8s.io/apiserver v0.36.4
    /// pkg/cel/mutation/typeresolver.go).
    fn made_type(&self, name: &str) -> Option<Type> {
        if !self.has_patch_types {
            return None;
        }
        if name == JSON_PATCH {
            let fields =
                [("op", Type::String), ("path", Type::String), ("from", Type::String), ("value", Type::Dyn)];
            return Some(Type::record(RecordType::new(name, fields)));
        }
        let is_object = name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|it| it.starts_with('.'));
        is_object.then(|| Type::record(RecordType::dynamic(name)))
    }

    fn overloads_of(&self, function: &str) -> Option<&'static [Overload]> {
        overloads_of(function).filter(|_| self.has_patch_types || function != ESCAPE_KEY)
    }
}

/// Checks an expression; qualified names and namespaced functions are resolved in place.
///
/// # Errors
/// All problems.
pub(crate) fn check(
    expr: &mut Expr,
    ids: usize,
    declarations: &Declarations<'_>,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        declarations,
        checked: Checked {
            types: vec![Type::Error; ids],
            overloads: vec![Vec::new(); ids],
            variables: Vec::new(),
        },
        substitutions: Substitutions::default(),
        scopes: Vec::new(),
        issues: Vec::new(),
    };
    checker.check(expr);
    let substitutions = &checker.substitutions;
    if checker.issues.is_empty() {
        for of in &mut checker.checked.types {
            *of = substitutions.apply(of, true);
        }
    }
    if substitutions.is_exhausted() {
        // What was found after that is not meaningful.
        let message = "the types of the expression are too large (a limit of this server)".to_owned();
        return Err(vec![Issue { at: expr.at, message }]);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    Ok(checker.checked)
}

/// Returns the type of values with a declaration.
pub(crate) fn type_of_declared(declared: &Arc<DeclaredType>) -> Type {
    match &declared.shape {
        Shape::Any | Shape::IntOrString | Shape::Hidden => Type::Dyn,
        Shape::Bool => Type::Bool,
        Shape::Int => Type::Int,
        Shape::Double => Type::Double,
        Shape::String => Type::String,
        Shape::Bytes => Type::Bytes,
        Shape::Duration => Type::Duration,
        Shape::Date | Shape::DateTime => Type::Timestamp,
        Shape::List { item, .. } => type_of_declared(item).list(),
        Shape::Map { value } => type_of_declared(value).map(),
        Shape::Object(_) => Type::Object(Arc::clone(declared)),
    }
}

struct Checker<'a> {
    declarations: &'a Declarations<'a>,
    checked: Checked,
    substitutions: Substitutions,
    scopes: Vec<(Arc<str>, Type)>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn report(&mut self, at: usize, message: String) {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue { at, message });
        }
    }

    fn set(&mut self, id: usize, of: Type) -> Type {
        if let Some(slot) = self.checked.types.get_mut(id) {
            *slot = of.clone();
        }
        of
    }

    fn set_overloads(&mut self, id: usize, overloads: Vec<&'static str>) {
        if let Some(slot) = self.checked.overloads.get_mut(id) {
            *slot = overloads;
        }
    }

    /// Returns the type of a name, if it is declared.
    fn look_up(&mut self, name: &str) -> Option<Type> {
        if let Some((_, of)) = self.scopes.iter().rev().find(|(it, _)| &**it == name) {
            return Some(of.clone());
        }
        if let Some((name, of)) = self.declarations.variables.get_key_value(name) {
            if !self.checked.variables.contains(name) {
                self.checked.variables.push(Arc::clone(name));
            }
            return Some(of.clone());
        }
        match name {
            "list" => return Some(Type::Type(Arc::new(Type::Dyn.list()))),
            "map" => {
                let map = Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn));
                return Some(Type::Type(Arc::new(map)));
            }
            "type" => return Some(Type::Type(Arc::new(Type::Type(Arc::new(Type::Dyn))))),
            _ => {}
        }
        let known = TYPE_NAMES.iter().find(|(it, _)| *it == name);
        known.map(|(_, of)| Type::Type(Arc::new(of.clone())))
    }

    fn check(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let of = match &mut expr.kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => {
                let name = Arc::clone(name);
                self.look_up(&name).unwrap_or_else(|| {
                    self.undeclared(at, &name);
                    Type::Error
                })
            }
            ExprKind::Select(_) => return self.check_select(expr),
            ExprKind::Call(_) => return self.check_call(expr),
            ExprKind::List(items) => self.check_list(items),
            ExprKind::Map(entries) => self.check_map(entries),
            ExprKind::Struct(literal) => self.check_struct(literal, at),
            ExprKind::Comprehension(it) => self.check_comprehension(it),
        };
        self.set(id, of)
    }

    fn undeclared(&mut self, at: usize, name: &str) {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn check_select(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        if let Some(name) = expr.qualified_name()
            && let Some(of) = self.look_up(&name)
        {
            expr.kind = ExprKind::Ident(name.into());
            return self.set(id, of);
        }
        let ExprKind::Select(select) = &mut expr.kind else { return Type::Error };
        let Select { operand, field, is_test } = select.as_mut();
        let is_test = *is_test;
        let field = Arc::clone(field);
        let of = self.check_field(operand, &field, at, false);
        let of = if is_test { Type::Bool } else { self.substitutions.apply(&of, false) };
        self.set(id, of)
    }

    /// Returns the type of a field of an operand.
    fn check_field(&mut self, operand: &mut Expr, field: &str, at: usize, optional: bool) -> Type {
        let of = self.check(operand);
        let of = self.substitutions.apply(&of, false);
        let (target, was_optional) = unwrap_optional(of);
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.selected(field) {
                Some(declared) => type_of_declared(declared),
                None => {
                    self.report(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Record(record) => record.field(field).unwrap_or_else(|| {
                let name = record.name();
                // The types of the authorizer are names without a structure.
                self.report(
                    at,
                    match name.starts_with("kubernetes.authorization.") {
                        true => format!("unexpected failed resolution of '{name}'"),
                        false => format!("undefined field '{field}'"),
                    },
                );
                Type::Error
            }),
            Type::Parameter(_) => {
                self.substitutions.is_assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { result.optional() } else { result }
    }

    fn check_call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let ExprKind::Call(call) = &mut expr.kind else { return Type::Error };
        if &*call.function == "_?._" {
            return self.check_optional_select(id, at, call);
        }
        let arg_types: Vec<Type> = call.args.iter_mut().map(|it| self.check(it)).collect();
        let namespaced =
            call.target.as_ref().and_then(Expr::qualified_name).map(|it| format!("{it}.{}", call.function));
        if let Some(name) = namespaced
            && let Some(overloads) = self.declarations.overloads_of(&name)
        {
            call.function = name.into();
            call.target = None;
            let function = Arc::clone(&call.function);
            let places = places(call);
            return self.resolve(id, at, &function, overloads, false, arg_types, &places);
        }
        let is_member = call.target.is_some();
        let mut types = Vec::with_capacity(arg_types.len() + 1);
        if let Some(target) = &mut call.target {
            types.push(self.check(target));
        }
        types.extend(arg_types);
        let function = Arc::clone(&call.function);
        let Some(overloads) = self.declarations.overloads_of(&function) else {
            self.undeclared(at, &function);
            return self.set(id, Type::Error);
        };
        let places = places(call);
        self.resolve(id, at, &function, overloads, is_member, types, &places)
    }

    fn check_optional_select(&mut self, id: usize, at: usize, call: &mut Call) -> Type {
        let [operand, field] = call.args.as_mut_slice() else { return Type::Error };
        let name = field.literal_text().cloned().unwrap_or_default();
        self.set(field.id, Type::String);
        let of = self.check_field(operand, &name, at, true);
        self.set_overloads(id, vec!["select_optional_field"]);
        let of = self.substitutions.apply(&of, false);
        self.set(id, of)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one call")]
    fn resolve(
        &mut self,
        id: usize,
        at: usize,
        function: &str,
        overloads: &'static [Overload],
        is_member: bool,
        types: Vec<Type>,
        places: &[usize],
    ) -> Type {
        if matches!(function, "_&&_" | "_||_") {
            let mut fits = true;
            for (index, of) in types.iter().enumerate() {
                if !self.substitutions.is_assignable(of, &Type::Bool) {
                    fits = false;
                    let shown = self.substitutions.apply(of, false);
                    let at = places.get(index).copied().unwrap_or(at);
                    self.report(at, format!("expected type 'bool' but found '{shown}'"));
                }
            }
            self.set_overloads(id, overloads.iter().map(|it| it.id).collect());
            return self.set(id, if fits { Type::Bool } else { Type::Error });
        }
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in overloads.iter().filter(|it| it.is_member == is_member) {
            if overload.args.len() != types.len() {
                continue;
            }
            let fresh: Vec<Type> = (0..overload.parameters).map(|_| self.substitutions.fresh()).collect();
            let args: Vec<Type> = overload.args.iter().map(|it| instantiate(it, &fresh)).collect();
            if !self.substitutions.all_assignable(&types, &args) {
                continue;
            }
            fitting.push(overload.id);
            let of = self.substitutions.apply(&instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => of,
                Some(before) if matches!(before, Type::Dyn) || self.substitutions.is_same(&of, &before) => {
                    before
                }
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let mut shown: Vec<String> =
                types.iter().map(|it| self.substitutions.apply(it, true).to_string()).collect();
            let target =
                if is_member && !shown.is_empty() { format!("{}.", shown.remove(0)) } else { String::new() };
            let message = format!(
                "found no matching overload for '{function}' applied to '{target}({})'",
                shown.join(", ")
            );
            self.report(at, message);
            return self.set(id, Type::Error);
        };
        self.set_overloads(id, fitting);
        self.set(id, result)
    }

    /// Returns the type of items that are of both types.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if self.substitutions.is_assignable(&before, &next) {
            let is_general = self.substitutions.is_less_specific(&before, &next);
            return if is_general { before } else { next };
        }
        Type::Dyn
    }

    /// Returns the type of a value that is left out if it is absent.
    fn optional_item(&mut self, value: &mut Expr, is_optional: bool) -> Type {
        let of = self.check(value);
        if !is_optional {
            return of;
        }
        let of = self.substitutions.apply(&of, false);
        let (inner, was_optional) = unwrap_optional(of);
        if !was_optional && !inner.is_dyn_or_error() {
            self.report(value.at, format!("expected type 'optional_type({inner})' but found '{inner}'"));
        }
        inner
    }

    fn check_list(&mut self, items: &mut [ListItem]) -> Type {
        let mut item_type = None;
        for item in items {
            let of = self.optional_item(&mut item.value, item.is_optional);
            item_type = Some(self.join(item_type, of));
        }
        item_type.unwrap_or_else(|| self.substitutions.fresh()).list()
    }

    fn check_map(&mut self, entries: &mut [MapEntry]) -> Type {
        let (mut key_type, mut value_type) = (None, None);
        for entry in entries {
            let key = self.check(&mut entry.key);
            key_type = Some(self.join(key_type, key));
            let value = self.optional_item(&mut entry.value, entry.is_optional);
            value_type = Some(self.join(value_type, value));
        }
        let key = key_type.unwrap_or_else(|| self.substitutions.fresh());
        let value = value_type.unwrap_or_else(|| self.substitutions.fresh());
        Type::Map(Arc::new(key), Arc::new(value))
    }

    fn check_struct(&mut self, literal: &mut StructLiteral, at: usize) -> Type {
        let known = self.declarations.made_type(&literal.name);
        if known.is_none() {
            let name = Arc::clone(&literal.name);
            self.undeclared(at, &name);
        }
        for field in &mut literal.fields {
            let of = self.optional_item(&mut field.value, field.is_optional);
            let Some(Type::Record(record)) = &known else { continue };
            match record.field(&field.name) {
                None => self.report(field.at, format!("undefined field '{}'", field.name)),
                Some(declared) if !self.substitutions.is_assignable(&of, &declared) => {
                    let found = self.substitutions.apply(&of, false);
                    let message = format!(
                        "expected type of field '{}' is '{declared}' but provided type is '{found}'",
                        field.name
                    );
                    self.report(field.at, message);
                }
                Some(_) => {}
            }
        }
        known.unwrap_or(Type::Error)
    }

    fn check_comprehension(&mut self, it: &mut Comprehension) -> Type {
        let range = self.check(&mut it.range);
        let initial = self.check(&mut it.initial);
        let range = self.substitutions.apply(&range, false);
        let has_two = it.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(item) if has_two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Parameter(_) => {
                self.substitutions.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(it.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let depth = self.scopes.len();
        self.scopes.push((Arc::clone(&it.accumulator), initial.clone()));
        self.scopes.push((Arc::clone(&it.variable), first));
        if let Some(name) = &it.second_variable {
            self.scopes.push((Arc::clone(name), second));
        }
        let condition = self.check(&mut it.condition);
        self.expect(&Type::Bool, &condition, it.condition.at);
        let step = self.check(&mut it.step);
        self.expect(&initial, &step, it.step.at);
        // The result sees the accumulator, and no longer the variables of the loop.
        self.scopes.truncate(depth + 1);
        let result = self.check(&mut it.result);
        self.scopes.truncate(depth);
        self.substitutions.apply(&result, false)
    }

    fn expect(&mut self, expected: &Type, found: &Type, at: usize) {
        if !self.substitutions.is_assignable(found, expected) {
            let (expected, found) =
                (self.substitutions.apply(expected, false), self.substitutions.apply(found, false));
            self.report(at, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}

fn places(call: &Call) -> Vec<usize> {
    call.args.iter().map(|it| it.at).collect()
}

fn unwrap_optional(of: Type) -> (Type, bool) {
    match of {
        Type::Optional(inner) => ((*inner).clone(), true),
        other => (other, false),
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
