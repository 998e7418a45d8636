//! The evaluation of a checked expression.
//!
//! Every step is charged to a [`Meter`], so that no evaluation runs for longer than its budget.
//! `&&` and `||` absorb errors as in cel-go: `error && false` is false.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regex_automata::meta::Regex;

use super::ast::{
    ACCUMULATOR, Call, Comprehension, Expr, ExprKind, ListItem, Literal, MapEntry, StructLiteral,
};
use super::cost::{NEW_LIST, NEW_MAP, NEW_STRUCT};
use super::error::EvaluationError;
use super::meter::Meter;
use super::types::{TYPE_NAMES, Type};
use super::value::{Key, MadeObject, Text, Value};
use super::{
    authorization_functions, formatting, library_functions, list_functions, operators, regexes, runtime_cost,
    texts,
};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// The fields of the variable `variables`, which are computed when an expression selects them.
pub trait LazyVariables<'a> {
    /// Returns the value of a field, or why it has none; `None` if there is no such field.
    fn get(&self, name: &str) -> Option<Result<Value<'a>, EvaluationError>>;
}

/// One evaluation.
pub(crate) struct Interpreter<'p, 'a> {
    pub(crate) lazy: Option<&'p dyn LazyVariables<'a>>,
    /// The variables.
    pub(crate) variables: &'p [(Arc<str>, Value<'a>)],
    /// The compiled regular expressions of literal patterns.
    pub(crate) regexes: &'p HashMap<Arc<str>, Regex>,
    pub(crate) meter: &'p Meter,
    /// The variables of loops, innermost last. An accumulator can be an error, which a later item
    /// may absorb.
    pub(crate) locals: Vec<(Arc<str>, Outcome<'a>)>,
}

impl<'a> Interpreter<'_, 'a> {
    pub(crate) fn eval(&mut self, expr: &Expr) -> Outcome<'a> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(value_of(literal)),
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Select(select) => {
                let operand = self.eval(&select.operand)?;
                if select.is_test {
                    if let Value::Lazy = operand {
                        return Ok(Value::Bool(self.lazy_field(&select.field)?.is_some()));
                    }
                    return has(&operand, &select.field, self.meter).map(Value::Bool);
                }
                self.meter.charge(1)?;
                self.select(operand, &select.field)
            }
            ExprKind::Call(call) => self.call(call),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(literal) => self.object(literal),
            ExprKind::Comprehension(it) => self.comprehension(it),
        }
    }

    fn ident(&self, name: &Arc<str>) -> Outcome<'a> {
        self.meter.charge(1)?;
        if let Some((_, value)) = self.locals.iter().rev().find(|(it, _)| it == name) {
            return value.clone();
        }
        if let Some((_, value)) = self.variables.iter().find(|(it, _)| it == name) {
            return Ok(value.clone());
        }
        let of = match &**name {
            "list" => Type::Dyn.list(),
            "map" => Type::Map(Arc::new(Type::Dyn), Arc::new(Type::Dyn)),
            "type" => Type::Type(Arc::new(Type::Dyn)),
            name => match TYPE_NAMES.iter().find(|(it, _)| *it == name) {
                Some((_, of)) => of.clone(),
                None => return Err(EvaluationError::failed(format!("no such attribute(s): {name}"))),
            },
        };
        Ok(Value::Type(of))
    }

    fn lazy_field(&self, field: &str) -> Result<Option<Value<'a>>, EvaluationError> {
        self.lazy.and_then(|it| it.get(field)).transpose()
    }

    fn select(&self, operand: Value<'a>, field: &Arc<str>) -> Outcome<'a> {
        if let Value::Lazy = operand {
            let found = self.lazy_field(field)?;
            return found.ok_or_else(|| EvaluationError::failed(format!("no such key: {field}")));
        }
        if let Value::Null = operand {
            return Err(EvaluationError::failed(format!("no such key: {field}")));
        }
        let key = Value::String(Text::Shared(Arc::clone(field)));
        if let Value::Optional(inner) = &operand {
            let found = match inner {
                Some(inner) => inner.entry(&key, self.meter)?,
                None => None,
            };
            return Ok(Value::Optional(found.map(Arc::new)));
        }
        let found = operand.entry(&key, self.meter)?;
        found.ok_or_else(|| EvaluationError::failed(format!("no such key: {field}")))
    }

    #[inline(never)]
    fn list(&mut self, items: &[ListItem]) -> Outcome<'a> {
        // cel-go folds lists of constants, which then cost nothing.
        if !items.iter().all(|it| is_constant(&it.value)) {
            self.meter.charge(NEW_LIST)?;
        }
        self.meter.allocate(items.len().saturating_mul(size_of::<Value<'_>>()))?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.extend(self.present(&item.value, item.is_optional)?);
        }
        Ok(Value::list(values))
    }

    /// Returns the value of an item, unless it is optional and absent.
    fn present(&mut self, expr: &Expr, is_optional: bool) -> Result<Option<Value<'a>>, EvaluationError> {
        let value = self.eval(expr)?;
        match value {
            Value::Optional(inner) if is_optional => Ok(inner.map(|it| (*it).clone())),
            _ if is_optional => Err(EvaluationError::no_such_overload()),
            value => Ok(Some(value)),
        }
    }

    #[inline(never)]
    fn map(&mut self, entries: &[MapEntry]) -> Outcome<'a> {
        if !entries.iter().all(|it| is_constant(&it.key) && is_constant(&it.value)) {
            self.meter.charge(NEW_MAP)?;
        }
        self.meter.allocate(entries.len().saturating_mul(2 * size_of::<Value<'_>>()))?;
        let mut map = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let Some(value) = self.present(&entry.value, entry.is_optional)? else { continue };
            let key = Key::of(&key)
                .ok_or_else(|| EvaluationError::failed(format!("unsupported key type: {}", key.type_of())))?;
            if let Some((key, _)) = map.get_key_value(&key) {
                let shown = formatting::shown(&Key::clone(key).into());
                return Err(EvaluationError::failed(format!("Failed with repeated key: {shown}")));
            }
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    #[inline(never)]
    fn object(&mut self, literal: &StructLiteral) -> Outcome<'a> {
        self.meter.charge(NEW_STRUCT)?;
        let mut fields = BTreeMap::new();
        for field in &literal.fields {
            if let Some(value) = self.present(&field.value, field.is_optional)? {
                self.meter.allocate(2 * size_of::<Value<'_>>())?;
                fields.insert(Arc::clone(&field.name), value);
            }
        }
        Ok(Value::Made(Arc::new(MadeObject { name: Arc::clone(&literal.name), fields })))
    }

    #[inline(never)]
    fn call(&mut self, call: &Call) -> Outcome<'a> {
        match (&*call.function, call.args.as_slice()) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?:_" | "_?_:_", [condition, then, otherwise]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(then),
                    Value::Bool(false) => self.eval(otherwise),
                    _ => Err(EvaluationError::no_such_overload()),
                };
            }
            ("@not_strictly_false", [arg]) => {
                self.meter.charge(1)?;
                return match self.eval(arg) {
                    Err(error) if is_fatal(&error) => Err(error),
                    Ok(Value::Bool(it)) => Ok(Value::Bool(it)),
                    _ => Ok(Value::Bool(true)),
                };
            }
            ("_+_", [Expr { kind: ExprKind::Ident(name), .. }, more]) if &**name == ACCUMULATOR => {
                let more = self.eval(more)?;
                if let Value::List(_) = more {
                    return self.append(more);
                }
                let sum = self.ident(name)?;
                self.meter.charge(1)?;
                return operators::add(sum, more, self.meter);
            }
            ("cel.@mapInsert", [_, more @ ..]) => return self.insert(more),
            _ => {}
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for part in call.target.iter().chain(&call.args) {
            args.push(self.eval(part)?);
        }
        self.meter.charge(runtime_cost::of_call(&call.function, &args, self.meter)?)?;
        self.apply(&call.function, &args)
    }

    #[inline(never)]
    fn apply(&self, function: &str, args: &[Value<'a>]) -> Outcome<'a> {
        match (function, args) {
            ("_[_]", [container, index]) => return self.index(container, index),
            ("_[?_]", [container, index]) => return optional_entry(container, index, self.meter),
            ("_?._", [Value::Lazy, Value::String(field)]) => {
                return Ok(Value::Optional(self.lazy_field(field)?.map(Arc::new)));
            }
            ("_?._", [operand, field]) => return optional_entry(operand, field, self.meter),
            ("@in", [wanted, container]) => {
                if container.list_len().is_some() {
                    return list_functions::contains(container, wanted, self.meter).map(Value::Bool);
                }
                return container.entry(wanted, self.meter).map(|it| Value::Bool(it.is_some()));
            }
            ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern), more @ ..]) => {
                return self.search(function, text, pattern, more.first());
            }
            _ => {}
        }
        texts::call(function, args, self.meter)
            .or_else(|| list_functions::call(function, args, self.meter))
            .or_else(|| operators::call(function, args, self.meter))
            .or_else(|| library_functions::call(function, args, self.meter))
            .or_else(|| authorization_functions::call(function, args))
            .unwrap_or_else(|| Err(EvaluationError::no_such_overload()))
    }

    fn logical(&mut self, left: &Expr, right: &Expr, decisive: bool) -> Outcome<'a> {
        let first = self.eval(left);
        match &first {
            Ok(Value::Bool(it)) if *it == decisive => return first,
            Err(error) if is_fatal(error) => return first,
            _ => {}
        }
        let second = self.eval(right);
        match (&first, &second) {
            (_, Ok(Value::Bool(it))) if *it == decisive => second,
            (_, Err(error)) if is_fatal(error) => second,
            (Err(_), _) => first,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_)) | Err(_)) => second,
            _ => Err(EvaluationError::no_such_overload()),
        }
    }

    /// Takes the accumulator out of its variable. Only the step of a loop does this, whose result
    /// becomes the accumulator: it is not copied for each item.
    fn take_accumulator(&mut self) -> Outcome<'a> {
        self.meter.charge(1)?;
        match self.locals.iter_mut().rev().find(|(it, _)| &**it == ACCUMULATOR) {
            Some((_, value)) => std::mem::replace(value, Ok(Value::Null)),
            None => Err(EvaluationError::no_such_overload()),
        }
    }

    fn append(&mut self, more: Value<'a>) -> Outcome<'a> {
        let list = self.take_accumulator()?;
        self.meter.charge(1)?;
        let (Value::List(mut list), Value::List(more)) = (list, more) else {
            return Err(EvaluationError::no_such_overload());
        };
        match Arc::get_mut(&mut list) {
            Some(items) => items.extend(Arc::unwrap_or_clone(more)),
            None => return operators::add(Value::List(list), Value::List(more), self.meter),
        }
        Ok(Value::List(list))
    }

    fn insert(&mut self, more: &[Expr]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(more.len());
        for expr in more {
            values.push(self.eval(expr)?);
        }
        let Value::Map(mut map) = self.take_accumulator()? else {
            return Err(EvaluationError::no_such_overload());
        };
        self.meter.charge(1)?;
        let mut values = values.into_iter();
        let entries = match (values.next(), values.next()) {
            (Some(key), Some(value)) => vec![(key, value)],
            (Some(entries), None) => {
                let mut found = Vec::new();
                for key in entries.keys(self.meter)? {
                    let value = entries.entry(&key, self.meter)?;
                    found.extend(value.map(|value| (key, value)));
                }
                found
            }
            _ => return Err(EvaluationError::no_such_overload()),
        };
        let target = Arc::make_mut(&mut map);
        for (key, value) in entries {
            self.meter.allocate(2 * size_of::<Value<'_>>())?;
            let shown = formatting::shown(&key);
            let key = Key::of(&key).ok_or_else(EvaluationError::no_such_overload)?;
            if target.insert(key, value).is_some() {
                return Err(EvaluationError::failed(format!("insert failed: key {shown} already exists")));
            }
        }
        Ok(Value::Map(map))
    }

    fn index(&self, container: &Value<'a>, index: &Value<'a>) -> Outcome<'a> {
        if let Value::Optional(_) = container {
            return optional_entry(container, index, self.meter);
        }
        if container.list_len().is_some() {
            let Some(at) = list_index(index) else { return Err(EvaluationError::no_such_overload()) };
            let item = usize::try_from(at).ok().and_then(|at| container.item(at, self.meter));
            return item
                .unwrap_or_else(|| Err(EvaluationError::failed(format!("index out of bounds: {at}"))));
        }
        container
            .entry(index, self.meter)?
            .ok_or_else(|| EvaluationError::failed(format!("no such key: {}", formatting::shown(index))))
    }

    fn search(
        &self,
        function: &str,
        text: &Text<'a>,
        pattern: &str,
        limit: Option<&Value<'a>>,
    ) -> Outcome<'a> {
        let compiled;
        let regex = match self.regexes.get(pattern) {
            Some(regex) => regex,
            None => {
                self.meter.work(100_000_u64.saturating_add(pattern.len() as u64 * 1_000))?;
                compiled = regexes::compile(pattern).map_err(EvaluationError::failed)?;
                // A few bytes can become a million.
                self.meter.work(compiled.memory_usage() as u64 * 4)?;
                &compiled
            }
        };
        self.meter.work(regexes::work_of_search(regex, text))?;
        let part = |found: regex_automata::Match| {
            let range = found.range();
            match text {
                Text::Borrowed(whole) => Value::String(Text::Borrowed(whole.get(range).unwrap_or_default())),
                Text::Shared(whole) => Value::text(whole.get(range).unwrap_or_default()),
            }
        };
        match function {
            "matches" => Ok(Value::Bool(regex.is_match(&**text))),
            "find" => Ok(regex.find(&**text).map_or_else(|| Value::text(""), part)),
            _ => {
                let limit = match limit {
                    Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let mut found = Vec::new();
                for it in regex.find_iter(&**text).take(limit) {
                    self.meter.allocate(size_of::<Value<'_>>() + it.len() + 16)?;
                    self.meter.work(regexes::work_of_match(text.len().saturating_sub(it.end())))?;
                    found.push(part(it));
                }
                Ok(Value::list(found))
            }
        }
    }

    #[inline(never)]
    fn comprehension(&mut self, it: &Comprehension) -> Outcome<'a> {
        let range = self.eval(&it.range)?;
        let initial = self.eval(&it.initial);
        let is_unconditional = matches!(it.condition.kind, ExprKind::Literal(_));
        let depth = self.locals.len();
        self.locals.push((Arc::clone(&it.accumulator), initial));
        let outcome = self.run_loop(it, &range, is_unconditional, depth);
        let outcome = match outcome {
            Ok(()) => {
                self.locals.truncate(depth + 1);
                self.eval(&it.result)
            }
            Err(error) => Err(error),
        };
        self.locals.truncate(depth);
        outcome
    }

    fn run_loop(
        &mut self,
        it: &Comprehension,
        range: &Value<'a>,
        is_unconditional: bool,
        depth: usize,
    ) -> Result<(), EvaluationError> {
        let keys = match range.list_len() {
            Some(_) => None,
            None if range.map_len().is_some() => Some(range.keys(self.meter)?),
            None => return Err(EvaluationError::no_such_overload()),
        };
        let length = keys.as_ref().map_or_else(|| range.list_len().unwrap_or(0), Vec::len);
        for index in 0..length {
            self.meter.work(1)?;
            self.locals.truncate(depth + 1);
            let (first, second) = match (&keys, &it.second_variable) {
                (Some(keys), second) => {
                    let key = keys.get(index).cloned().unwrap_or(Value::Null);
                    let value = match second {
                        Some(_) => Some(range.entry(&key, self.meter)?.unwrap_or(Value::Null)),
                        None => None,
                    };
                    (Ok(key), value.map(Ok))
                }
                (None, Some(_)) => {
                    let position = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    (Ok(position), range.item(index, self.meter))
                }
                (None, None) => (range.item(index, self.meter).unwrap_or(Ok(Value::Null)), None),
            };
            self.locals.push((Arc::clone(&it.variable), first));
            if let (Some(name), Some(value)) = (&it.second_variable, second) {
                self.locals.push((Arc::clone(name), value));
            }
            if !is_unconditional && !matches!(self.eval(&it.condition)?, Value::Bool(true)) {
                break;
            }
            let step = self.eval(&it.step);
            if let Err(error) = &step
                && (is_unconditional || is_fatal(error))
            {
                return Err(error.clone());
            }
            if let Some((_, accumulator)) = self.locals.get_mut(depth) {
                *accumulator = step;
            }
        }
        Ok(())
    }
}

/// Returns true for errors that nothing absorbs.
fn is_fatal(error: &EvaluationError) -> bool {
    error.kind == super::error::EvaluationErrorKind::LimitExceeded
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(_) => true,
        ExprKind::List(items) => items.iter().all(|it| is_constant(&it.value)),
        _ => false,
    }
}

fn value_of<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(it) => Value::Bool(*it),
        Literal::Int(it) => Value::Int(*it),
        Literal::Uint(it) => Value::Uint(*it),
        Literal::Double(it) => Value::Double(*it),
        Literal::String(it) => Value::String(Text::Shared(Arc::clone(it))),
        Literal::Bytes(it) => Value::Bytes(Arc::clone(it)),
    }
}

fn has(operand: &Value<'_>, field: &Arc<str>, meter: &Meter) -> Result<bool, EvaluationError> {
    let key = Value::String(Text::Shared(Arc::clone(field)));
    match operand {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inner)) => has(inner, field, meter),
        operand => operand.entry(&key, meter).map(|it| it.is_some()),
    }
}

fn list_index(index: &Value<'_>) -> Option<i64> {
    match Key::of(index)? {
        Key::Int(at) => Some(at),
        _ => None,
    }
}

/// Returns the entry of a container that may be absent, like its entries.
fn optional_entry<'a>(container: &Value<'a>, index: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let container = match container {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    let found = if container.list_len().is_some() {
        let at = list_index(index).ok_or_else(EvaluationError::no_such_overload)?;
        usize::try_from(at).ok().and_then(|at| container.item(at, meter)).transpose()?
    } else {
        container.entry(index, meter)?
    };
    Ok(Value::Optional(found.map(Arc::new)))
}
